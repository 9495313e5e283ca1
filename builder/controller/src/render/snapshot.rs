//! What a decision about a pool's rendered config is made of.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::super::lookup::Problem;
use super::super::snapshot::EarlierProblem;
use mosb_image::Digest;
use mosb_plan::api::MachineConfigPool;
use mosb_types::canonical_json;

/// Raised when other rendered configs come of the same inputs, and all pools shall have them: never by a mere upgrade.
const FORMAT: u32 = 1;

/// One pool, and everything that decides how it is rendered.
#[derive(Debug, Clone)]
pub struct RenderSnapshot {
    /// The pool.
    pub pool: MachineConfigPool,
    /// Who else renders pools: then nothing is done.
    pub other_renderer: Option<String>,
    /// What it is rendered from, or why that can't be told.
    pub inputs: Result<Inputs, Problem>,
    /// Rendered configs of this pool, whoever made them.
    pub rendered: Vec<SeenRendered>,
    /// Rendered configs that a pool or a MachineOSBuild names.
    pub named: BTreeSet<String>,
    /// What was found out in this round.
    pub answers: RenderResults,
    /// The problem that the last reconcile reported, if nothing changed since that it depends on.
    pub earlier_problem: Option<EarlierProblem>,
}

/// What a pool is rendered from, known without reading the contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The MachineConfigs that the pool selects, by name.
    pub members: Vec<Member>,
    /// All else that gets into the result: images, the release.
    pub settings: Value,
}

/// A MachineConfig, as far as it tells that the content is another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// This very one.
    pub uid: String,
    /// Raised by the API server with each change of the content.
    pub generation: i64,
    /// Its label: where it stands in the order.
    pub role: String,
    /// Its annotation: the controller that made it.
    pub generated_by: Option<String>,
}

impl Inputs {
    /// What a pool is annotated with that has the rendered config of this name, made of these.
    pub fn stamp(&self, rendered: &str) -> String {
        let members = self.members.iter();
        let members: Vec<Value> = members
            .map(|one| json!([one.name, one.uid, one.generation, one.role, one.generated_by]))
            .collect();
        let value = json!({ "format": FORMAT, "members": members, "settings": self.settings, "rendered": rendered });
        Digest::of(&canonical_json(&value)).hex()
    }

    /// The names of the MachineConfigs, sorted.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }
}

/// A rendered MachineConfig, without its content.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenRendered {
    /// Its name.
    pub name: String,
    /// This very one.
    pub uid: String,
    /// When it was made.
    pub created: Option<Time>,
    /// Whether mosb made it for this very pool.
    pub is_ours: bool,
    /// Whether its content was changed since.
    pub is_edited: bool,
    /// Whether its deletion was asked for.
    pub deleting: bool,
}

/// What was found out in this round.
#[derive(Debug, Clone, Default)]
pub struct RenderResults {
    /// What rendering came to.
    pub made: Option<Result<Made, Problem>>,
    /// Rendered configs that nodes have or shall have.
    pub configs_on_nodes: Option<BTreeSet<String>>,
}

/// A rendered config that is ready to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its name, which is its content.
    pub name: String,
    /// The base OS image, where an administrator's MachineConfig decides it.
    pub overriding: Option<String>,
    /// Images with a tag, and what each was found to be.
    pub pins: BTreeMap<String, String>,
}
