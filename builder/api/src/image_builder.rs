//! Which kind of object runs a build.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of workload that runs a build: `imageBuilderType` of a MachineOSBuild's `status.builder` and
/// of ConfigMap `on-cluster-build-config`, and annotation `mosb.dev/builder` of a MachineOSConfig.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize, JsonSchema,
)]
pub enum ImageBuilderType {
    /// A Kubernetes Job.
    #[default]
    Job,
    /// A Pod of its own.
    #[serde(rename = "custom-pod-builder")]
    CustomPod,
    /// A Build of OpenShift's API.
    #[serde(rename = "openshift-image-builder")]
    OpenShiftImage,
}

impl ImageBuilderType {
    pub const ALL: [Self; 3] = [Self::Job, Self::CustomPod, Self::OpenShiftImage];

    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Job => "Job",
            Self::CustomPod => "custom-pod-builder",
            Self::OpenShiftImage => "openshift-image-builder",
        }
    }
}

impl fmt::Display for ImageBuilderType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is no [`ImageBuilderType`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is {text:?}, and can be {all}", all = ImageBuilderType::ALL.map(ImageBuilderType::as_str).join(", "))]
pub struct ImageBuilderTypeError {
    text: String,
}

impl FromStr for ImageBuilderType {
    type Err = ImageBuilderTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.as_str() == text)
            .ok_or_else(|| ImageBuilderTypeError { text: text.to_owned() })
    }
}

/// The value of the annotation `mosb.dev/build-on`, and of `--build-on`.
///
/// It is an input of the image: where every config has its own image, nothing else brings files
/// below `/var` to a machine, so the image does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildOn {
    EveryConfig,
    /// Those that differ in OS image, kernel type, extensions or kernel arguments, which a
    /// machine-config-daemon can't apply. The image has nothing but what the config says.
    #[default]
    OsChange,
}

impl BuildOn {
    /// As the annotation spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EveryConfig => "every-config",
            Self::OsChange => "os-change",
        }
    }
}

impl FromStr for BuildOn {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "every-config" => Ok(Self::EveryConfig),
            "os-change" => Ok(Self::OsChange),
            _ => Err(format!("is {s:?}, and can be every-config or os-change")),
        }
    }
}

impl fmt::Display for BuildOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_spelt() {
        for one in ImageBuilderType::ALL {
            assert_eq!(one.to_string().parse(), Ok(one));
            let value = serde_json::Value::from(one.as_str());
            assert_eq!(serde_json::from_value::<ImageBuilderType>(value).unwrap(), one);
        }
        let error = "job".parse::<ImageBuilderType>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "is \"job\", and can be Job, custom-pod-builder, openshift-image-builder"
        );
    }
}
