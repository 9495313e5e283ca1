//! The input of a decision about a pool's rendered config.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use mosb_api::{MachineConfigPool, RecordedBase};
use mosb_cluster::kinds;
use mosb_image::Digest;
use mosb_reconcile::driver::InputsHash;
use mosb_reconcile::write::Target;
use mosb_reconcile::{EarlierProblem, Problem};
use mosb_types::canonical_json;

/// Raised when the same inputs give another rendered config and all pools should get it; never by a
/// mere upgrade.
const FORMAT: u32 = 1;

/// A pool, and everything that its rendering depends on.
#[derive(Debug, Clone)]
pub struct RenderSnapshot {
    pub pool: MachineConfigPool,
    /// Another controller that renders pools: then mosb renders none.
    pub other_renderer: Option<String>,
    /// The inputs of rendering, or the reason why they are unknown.
    pub inputs: Result<Inputs, Problem>,
    /// Rendered configs of this pool, regardless of their creator.
    pub rendered: Vec<SeenRendered>,
    pub named: BTreeSet<String>,
    /// A watch of pools or builds that failed lately: they may name more.
    pub broken_watch: Option<String>,
    /// Of everything that the result of rendering depends on, also of what only lookups read.
    pub inputs_hash: InputsHash,
    pub lookup_results: RenderLookupResults,
    /// The problem that the last pass reported, if nothing that it depends on has changed.
    pub earlier_problem: Option<EarlierProblem>,
}

/// What a pool is rendered from, as far as it is known without reading the contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Inputs {
    /// The MachineConfigs that the pool selects, by name.
    pub members: Vec<Member>,
    /// Everything else: images, the release.
    pub settings: Value,
    /// The base that was recorded for the pool.
    pub recorded: Option<RecordedBase>,
}

/// Metadata of a MachineConfig that changes whenever its content does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Member {
    pub name: String,
    pub uid: String,
    /// Raised by the API server with each change of the content.
    pub generation: i64,
    /// Its role label, which decides its place in the order.
    pub role: String,
    /// Its annotation: the controller that created it.
    pub generated_by: Option<String>,
}

impl Inputs {
    /// The value of `mosb.dev/rendered-from` of a pool that has the rendered config of this name,
    /// made of these inputs.
    pub fn stamp(&self, rendered: &str) -> String {
        let members = self.members.iter();
        let members: Vec<Value> = members
            .map(|one| json!([one.name, one.uid, one.generation, one.role, one.generated_by]))
            .collect();
        let mut value = json!({ "format": FORMAT, "members": members, "settings": self.settings, "rendered": rendered });
        if let Some(recorded) = &self.recorded {
            value["base"] = json!(recorded.to_string());
        }
        Digest::of(&canonical_json(&value)).hex()
    }

    /// Names of the MachineConfigs, sorted.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }
}

/// A rendered MachineConfig, metadata only.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenRendered {
    pub name: String,
    pub uid: String,
    pub created: Option<Time>,
    /// Whether mosb created it for this pool.
    pub is_ours: bool,
    /// Whether its content was changed afterwards.
    pub is_edited: bool,
    pub deleting: bool,
}

/// By hand, because `Time` has none.
impl Hash for SeenRendered {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { name, uid, created, is_ours, is_edited, deleting } = self;
        let created = created.as_ref().map(|time| time.0);
        (name, uid, created, is_ours, is_edited, deleting).hash(state);
    }
}

/// A rendered config is deleted in whatever version.
impl From<&SeenRendered> for Target {
    fn from(rendered: &SeenRendered) -> Self {
        Self {
            kind: kinds::MACHINE_CONFIG,
            name: rendered.name.clone(),
            uid: rendered.uid.clone(),
            version: None,
        }
    }
}

/// Results of the lookups of this pass.
#[derive(Debug, Clone, Default)]
pub struct RenderLookupResults {
    pub output: Option<Result<RenderOutput, Problem>>,
    /// Rendered configs that nodes have or are about to get.
    pub configs_on_nodes: Option<BTreeSet<String>>,
}

/// A rendered config that can be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderOutput {
    /// Contains a hash of the content.
    pub name: String,
    pub object: Arc<Value>,
    /// The base OS image, if an administrator's MachineConfig sets it.
    pub overriding: Option<OverridingImage>,
    /// Images with a tag, and the digest of each.
    pub pins: BTreeMap<String, String>,
}

/// A base OS image that an administrator's MachineConfig sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverridingImage {
    pub image: String,
    /// The MachineConfig and its field.
    pub place: String,
}
