//! What all sets of a decision share. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::sharing::Sharing;
use crate::user_data::SecretRef;

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
