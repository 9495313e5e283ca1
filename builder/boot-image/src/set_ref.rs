//! How a machine set is named: by commands, statuses and messages.

use std::fmt;
use std::str::FromStr;

use mosb_types::Diagnostic;

/// The longest name of an object.
const MAX_NAME_LEN: usize = 253;

/// A kind of machine set. Both APIs have a MachineSet, so the group is always part of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetKind {
    MachineApiMachineSet,
    ControlPlaneMachineSet,
    MachineDeployment,
    ClusterApiMachineSet,
}

/// One machine set. Displayed as `[NAMESPACE/]KIND.GROUP/NAME`, which a [`SetQuery`] reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetRef {
    pub namespace: Option<String>,
    pub kind: SetKind,
    pub name: String,
}

/// What a user types for a machine set: a [`SetRef`], or less of it, as long as one set has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetQuery {
    text: String,
    namespace: Option<String>,
    /// All kinds that the word can mean.
    kinds: Vec<SetKind>,
    name: String,
}

/// Why a text names no machine set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
#[non_exhaustive]
pub enum SetRefError {
    #[error("{0:?} names no machine set; write [NAMESPACE/]KIND.GROUP/NAME, as in {EXAMPLE}")]
    #[diagnostic(code = "bad-set-name")]
    Form(String),
    #[error("there is no machine set {0}; `mosb boot-images status` lists them")]
    #[diagnostic(code = "no-such-set")]
    Missing(String),
    #[error("{text} is more than one machine set; name one of {candidates}")]
    #[diagnostic(code = "ambiguous-set")]
    Ambiguous { text: String, candidates: String },
}

const EXAMPLE: &str = "openshift-machine-api/machineset.machine.openshift.io/worker-a";

impl SetKind {
    pub const ALL: [Self; 4] = [
        Self::MachineApiMachineSet,
        Self::ControlPlaneMachineSet,
        Self::MachineDeployment,
        Self::ClusterApiMachineSet,
    ];

    pub fn group(self) -> &'static str {
        match self {
            Self::MachineApiMachineSet | Self::ControlPlaneMachineSet => "machine.openshift.io",
            Self::MachineDeployment | Self::ClusterApiMachineSet => "cluster.x-k8s.io",
        }
    }

    /// `kind` of its objects.
    pub fn kind(self) -> &'static str {
        match self {
            Self::MachineApiMachineSet | Self::ClusterApiMachineSet => "MachineSet",
            Self::ControlPlaneMachineSet => "ControlPlaneMachineSet",
            Self::MachineDeployment => "MachineDeployment",
        }
    }

    pub fn singular(self) -> &'static str {
        match self {
            Self::MachineApiMachineSet | Self::ClusterApiMachineSet => "machineset",
            Self::ControlPlaneMachineSet => "controlplanemachineset",
            Self::MachineDeployment => "machinedeployment",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::MachineApiMachineSet | Self::ClusterApiMachineSet => "machinesets",
            Self::ControlPlaneMachineSet => "controlplanemachinesets",
            Self::MachineDeployment => "machinedeployments",
        }
    }

    /// All kinds that a word means: singular, plural or kind, with or without the group.
    fn named(word: &str) -> Vec<Self> {
        let word = word.to_ascii_lowercase();
        let (name, group) = match word.split_once('.') {
            Some((name, group)) => (name, Some(group)),
            None => (&*word, None),
        };
        let is_it = |kind: &Self| {
            [kind.singular(), kind.plural()].contains(&name)
                && group.is_none_or(|group| group == kind.group())
        };
        Self::ALL.into_iter().filter(is_it).collect()
    }
}

impl fmt::Display for SetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.singular(), self.group())
    }
}

impl fmt::Display for SetRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{}/{}", self.kind, self.name)
    }
}

impl FromStr for SetQuery {
    type Err = SetRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.splitn(4, '/').collect();
        let (namespace, kinds, name) = match *parts.as_slice() {
            [name] => (None, SetKind::ALL.to_vec(), name),
            // A namespace may have the name of a kind, but is then followed by the kind.
            [first, name] => match SetKind::named(first) {
                kinds if kinds.is_empty() => (Some(first), SetKind::ALL.to_vec(), name),
                kinds => (None, kinds, name),
            },
            [namespace, kind, name] => (Some(namespace), SetKind::named(kind), name),
            _ => return Err(SetRefError::Form(shown(text))),
        };
        if kinds.is_empty() || !namespace.is_none_or(is_name) || !is_name(name) {
            return Err(SetRefError::Form(shown(text)));
        }
        let (namespace, name) = (namespace.map(str::to_owned), name.to_owned());
        Ok(Self { text: text.to_owned(), namespace, kinds, name })
    }
}

impl SetQuery {
    /// The one set that is meant.
    ///
    /// # Errors
    /// None of `sets` is, or several are.
    pub fn find<'a>(
        &self,
        sets: impl IntoIterator<Item = &'a SetRef>,
    ) -> Result<&'a SetRef, SetRefError> {
        let is_meant = |set: &&SetRef| {
            set.name == self.name
                && self.kinds.contains(&set.kind)
                && (self.namespace.is_none() || self.namespace == set.namespace)
        };
        let mut found: Vec<&SetRef> = sets.into_iter().filter(is_meant).collect();
        found.sort();
        match found.as_slice() {
            [] => Err(SetRefError::Missing(self.text.clone())),
            [one] => Ok(one),
            more => {
                let names: Vec<String> = more.iter().map(ToString::to_string).collect();
                let candidates = names.join(", ");
                Err(SetRefError::Ambiguous { text: self.text.clone(), candidates })
            }
        }
    }
}

/// A DNS subdomain, as names of objects and namespaces are.
fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty()
            && label.bytes().all(fine)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= MAX_NAME_LEN && text.split('.').all(label)
}

fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(namespace: &str, kind: SetKind, name: &str) -> SetRef {
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        SetRef { namespace, kind, name: name.to_owned() }
    }

    #[test]
    fn a_set_is_read_as_it_is_printed() {
        for kind in SetKind::ALL {
            for namespace in ["", "ns", "machineset"] {
                let one = set(namespace, kind, "worker.a-1");
                let others = SetKind::ALL.map(|kind| set(namespace, kind, "worker.a-1"));
                let query: SetQuery = one.to_string().parse().unwrap();
                assert_eq!(query.find(&others), Ok(&one), "{one}");
            }
        }
        for text in [
            "",
            "/a",
            "machineset.cluster.x-k8s.io/",
            "machineset.cluster.x-k8s.io/A",
            "machineset.cluster.x-k8s.io/-a",
            "/machineset.cluster.x-k8s.io/a",
            "ns/x/machineset.cluster.x-k8s.io/a",
            "ns/pod/a",
        ] {
            assert_eq!(text.parse::<SetQuery>(), Err(SetRefError::Form(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn ambiguous_short_name_is_error_that_lists_all() {
        use SetKind::{
            ClusterApiMachineSet as Capi, MachineApiMachineSet as Mapi, MachineDeployment,
        };
        let sets = [
            set("mapi", Mapi, "a"),
            set("capi", Capi, "a"),
            set("capi", MachineDeployment, "a"),
            set("capi", MachineDeployment, "b"),
            set("machineset", Capi, "c"),
        ];
        for (text, want) in [
            ("b", Ok("capi/machinedeployment.cluster.x-k8s.io/b")),
            ("capi/b", Ok("capi/machinedeployment.cluster.x-k8s.io/b")),
            ("mapi/a", Ok("mapi/machineset.machine.openshift.io/a")),
            ("machinedeployment/a", Ok("capi/machinedeployment.cluster.x-k8s.io/a")),
            (
                "machinedeployments.cluster.x-k8s.io/b",
                Ok("capi/machinedeployment.cluster.x-k8s.io/b"),
            ),
            (
                "capi/MachineDeployment.cluster.x-k8s.io/b",
                Ok("capi/machinedeployment.cluster.x-k8s.io/b"),
            ),
            ("machineset.cluster.x-k8s.io/a", Ok("capi/machineset.cluster.x-k8s.io/a")),
            ("machineset/machineset/c", Ok("machineset/machineset.cluster.x-k8s.io/c")),
            (
                "machineset/a",
                Err(
                    "name one of capi/machineset.cluster.x-k8s.io/a, mapi/machineset.machine.openshift.io/a",
                ),
            ),
            (
                "capi/a",
                Err(
                    "capi/machinedeployment.cluster.x-k8s.io/a, capi/machineset.cluster.x-k8s.io/a",
                ),
            ),
            ("d", Err("no machine set d")),
            ("mapi/b", Err("no machine set mapi/b")),
            ("a/b/c/d", Err("names no machine set")),
        ] {
            let found = text.parse::<SetQuery>().and_then(|query| query.find(&sets).cloned());
            match (found.map(|set| set.to_string()), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{text}"),
                (Err(error), Err(want)) => {
                    assert!(error.to_string().contains(want), "{text}: {error}");
                }
                (got, want) => panic!("{text}: {got:?}, want {want:?}"),
            }
        }
    }
}
