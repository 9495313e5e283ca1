//! Processor architectures, by the names of RPM and of Kubernetes.

use std::fmt;

use mosb_types::Diagnostic;

/// The annotation of the cluster autoscaler with the labels of the nodes that a set would make.
pub const LABELS_ANNOTATION: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";
const ARCHITECTURE_LABEL: &str = "kubernetes.io/arch";

/// An architecture that streams have images for. Displayed by its RPM name, as streams spell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    X86_64,
    Aarch64,
    Ppc64le,
    S390x,
}

/// Why a text names no architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(code = "bad-architecture", class = InvalidInput)]
pub enum ArchitectureError {
    #[error(
        "annotation {LABELS_ANNOTATION} has no label {ARCHITECTURE_LABEL}; add one, such as \
         {ARCHITECTURE_LABEL}=amd64"
    )]
    NoLabel,
    #[error("{0:?} is not an architecture; want amd64, arm64, ppc64le or s390x")]
    Unknown(String),
}

impl Architecture {
    pub const ALL: [Self; 4] = [Self::X86_64, Self::Aarch64, Self::Ppc64le, Self::S390x];

    /// `x86_64`, `aarch64`, `ppc64le`, `s390x`.
    pub fn rpm_name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Ppc64le => "ppc64le",
            Self::S390x => "s390x",
        }
    }

    /// `amd64`, `arm64`, `ppc64le`, `s390x`: the values of the label `kubernetes.io/arch`.
    pub fn kubernetes_name(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
            Self::Ppc64le => "ppc64le",
            Self::S390x => "s390x",
        }
    }

    /// From the value of the label `kubernetes.io/arch`.
    ///
    /// # Errors
    /// Another name, among them the RPM names that Kubernetes does not use.
    pub fn from_kubernetes(name: &str) -> Result<Self, ArchitectureError> {
        let known = Self::ALL.into_iter().find(|one| one.kubernetes_name() == name);
        known.ok_or_else(|| ArchitectureError::Unknown(name.chars().take(64).collect()))
    }

    /// From the value of the annotation `LABELS_ANNOTATION`: labels with commas between them.
    ///
    /// # Errors
    /// No label `kubernetes.io/arch`, or an unknown value of it.
    pub fn from_labels_annotation(annotation: &str) -> Result<Self, ArchitectureError> {
        let labels = annotation.split(',').filter_map(|label| label.split_once('='));
        let mut values = labels.filter(|(key, _)| key.trim() == ARCHITECTURE_LABEL);
        let (_, value) = values.next().ok_or(ArchitectureError::NoLabel)?;
        Self::from_kubernetes(value.trim())
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rpm_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_of_the_autoscaler() {
        let unknown = |text: &str| Err(ArchitectureError::Unknown(text.to_owned()));
        let cases = [
            ("alone", "kubernetes.io/arch=amd64", Ok(Architecture::X86_64)),
            ("among others", "a=b,kubernetes.io/arch=arm64,c=d", Ok(Architecture::Aarch64)),
            ("blanks", " a=b , kubernetes.io/arch = ppc64le ", Ok(Architecture::Ppc64le)),
            ("s390x", "kubernetes.io/arch=s390x", Ok(Architecture::S390x)),
            ("empty", "", Err(ArchitectureError::NoLabel)),
            ("other labels only", "a=b,kubernetes.io/os=linux", Err(ArchitectureError::NoLabel)),
            ("no value", "kubernetes.io/arch", Err(ArchitectureError::NoLabel)),
            ("an empty value", "kubernetes.io/arch=", unknown("")),
            ("an RPM name", "kubernetes.io/arch=x86_64", unknown("x86_64")),
            ("another case", "kubernetes.io/arch=AMD64", unknown("AMD64")),
            (
                "another key that ends so",
                "x.kubernetes.io/arch=amd64",
                Err(ArchitectureError::NoLabel),
            ),
        ];
        for (what, annotation, want) in cases {
            assert_eq!(Architecture::from_labels_annotation(annotation), want, "{what}");
        }
    }

    #[test]
    fn names() {
        for one in Architecture::ALL {
            assert_eq!(Architecture::from_kubernetes(one.kubernetes_name()), Ok(one));
            assert_eq!(one.to_string(), one.rpm_name());
        }
    }
}
