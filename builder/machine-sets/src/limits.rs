//! What all sets of a decision share. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::machine_set::MachineSet;
use mosb_cluster::secret_ref::SecretRef;

/// What all sets of a decision share.
#[derive(Debug)]
pub(super) struct Limits {
    /// Why no image is changed now.
    pub cluster_wait: Option<String>,
    /// The MachineDeployment of each Cluster whose machines are being replaced.
    pub rolling: BTreeMap<String, String>,
    pub sharing: Sharing,
    /// Stubs that another set of this decision writes.
    pub stubs_in_work: BTreeSet<SecretRef>,
    /// Stubs to read.
    pub lookups: BTreeSet<SecretRef>,
}

/// The sets that keep an image that may need the old spec.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// By namespace and name of their stub.
    by_stub: BTreeMap<(String, String), String>,
    /// By namespace: sets too large to be read, which may use any stub.
    unread: BTreeMap<String, String>,
}

impl Sharing {
    pub fn new<'s>(sets: impl Iterator<Item = MachineSet<'s>>) -> Self {
        let mut sharing = Self::default();
        for set in sets {
            if set.object.is_too_large {
                sharing.unread.insert(set.object.namespace.clone(), set.to_string());
            } else if let Ok(Some((namespace, name))) = set.stub() {
                let stub = (namespace.to_owned(), name.to_owned());
                sharing.by_stub.insert(stub, set.to_string());
            }
        }
        sharing
    }

    /// Why a stub is not converted.
    pub fn reason(&self, namespace: &str, name: &str) -> Option<String> {
        let keeper = self.by_stub.get(&(namespace.to_owned(), name.to_owned()));
        let keeper = keeper.map(|set| {
            format!("{set} keeps an image that may not read the new spec; give one of them its own Secret, or have both managed")
        });
        let unread = || {
            let set = self.unread.get(namespace)?;
            Some(format!("{set}, which is too large to be read, may use it, too; make it smaller"))
        };
        keeper.or_else(unread)
    }
}
