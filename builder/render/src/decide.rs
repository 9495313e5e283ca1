//! Decides what to do about a pool's rendered config. Pure: a snapshot gives the actions.

use std::fmt;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::garbage;
use super::rendered_object::rendered_object;
use super::snapshot::{Inputs, OverridingImage, RenderOutput, RenderSnapshot};
use mosb_api::{API_VERSION, Condition, condition, labels};
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::status::{EventReason, RENDER_DEGRADED, new_event, regarding, render_conditions};
use mosb_reconcile::Problem;
use mosb_reconcile::driver::Decision;
use mosb_reconcile::watch::RECOVERED_AFTER;
use mosb_reconcile::write::{NoEffect, Patch};

pub type Action = mosb_reconcile::write::Action<NoEffect>;

/// What to do about a pool.
pub type RenderDecision = Decision<RenderLookup, RenderReason, NoEffect>;

/// Something that metadata doesn't show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenderLookup {
    /// The result of rendering the pool's MachineConfigs.
    Render,
    /// Which rendered configs nodes have or are about to get.
    Nodes,
}

/// Why a pool is or isn't rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenderReason {
    /// Another controller renders it.
    OtherRenderer(String),
    /// It has no selector: its rendered config is set by hand.
    ByHand,
    Deleting,
    /// Its MachineConfigs are being read and merged.
    Rendering,
    Degraded(Problem),
    /// It has the rendered config of its MachineConfigs, or gets it now.
    Rendered(String),
    /// The same, and rendered configs that seem to be unused are not deleted, because a watch failed.
    DeletionsHeld {
        name: String,
        watch: String,
    },
}

impl fmt::Display for RenderReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherRenderer(who) => write!(
                f,
                "not rendered by mosb: {who} renders pools; remove --render from mosb, or scale the other one to 0"
            ),
            Self::ByHand => write!(
                f,
                "not rendered by mosb: the pool has no machineConfigSelector, so its spec.configuration is set by hand"
            ),
            Self::Deleting => write!(f, "the pool is being deleted"),
            Self::Rendering => write!(f, "reading and merging its MachineConfigs"),
            Self::Degraded(problem) => write!(f, "not rendered: {}", problem.message),
            Self::Rendered(name) => write!(f, "rendered: {name}"),
            Self::DeletionsHeld { name, watch } => {
                write!(f, "rendered: {name}; {}", deletions_held(watch))
            }
        }
    }
}

/// All changes, in order. Pure: the same snapshot gives the same actions.
///
/// A paused pool is rendered too: only its machines wait.
pub fn decide(snapshot: &RenderSnapshot, now: Timestamp) -> RenderDecision {
    if let Some(who) = &snapshot.other_renderer {
        return RenderDecision::unchanged(RenderReason::OtherRenderer(who.clone()));
    }
    if snapshot.pool.metadata.is_being_deleted() {
        return RenderDecision::unchanged(RenderReason::Deleting);
    }
    if snapshot.pool.spec.machine_config_selector.is_none() {
        return RenderDecision::unchanged(RenderReason::ByHand);
    }
    let inputs = match &snapshot.inputs {
        Ok(inputs) => inputs,
        Err(problem) => return degraded(snapshot, problem, now),
    };
    if is_settled(snapshot, inputs) {
        return settled(snapshot, now);
    }
    match &snapshot.lookup_results.output {
        None => RenderDecision::looking_up(RenderLookup::Render, RenderReason::Rendering),
        Some(Err(problem)) => degraded(snapshot, problem, now),
        Some(Ok(output)) => set_configuration(snapshot, inputs, output, now),
    }
}

/// Whether the pool has the rendered config of its MachineConfigs, as far as metadata shows.
fn is_settled(snapshot: &RenderSnapshot, inputs: &Inputs) -> bool {
    let configuration = &snapshot.pool.spec.configuration;
    let mut rendered = snapshot.rendered.iter();
    let is_there =
        rendered.any(|one| one.name == configuration.name && !one.is_edited && !one.deleting);
    is_there && has_stamp(snapshot, inputs, &configuration.name) && has_sources(snapshot, inputs)
}

fn has_stamp(snapshot: &RenderSnapshot, inputs: &Inputs, name: &str) -> bool {
    snapshot.pool.metadata.annotation(labels::RENDERED_FROM) == Some(&inputs.stamp(name))
}

fn has_sources(snapshot: &RenderSnapshot, inputs: &Inputs) -> bool {
    let sources = snapshot.pool.spec.configuration.source.iter();
    sources.map(|source| source.name.as_str()).eq(inputs.sources())
}

/// Nothing to render: delete rendered configs that are not used any more.
fn settled(snapshot: &RenderSnapshot, now: Timestamp) -> RenderDecision {
    let name = snapshot.pool.spec.configuration.name.clone();
    let unused_configs = garbage::unused_configs(snapshot);
    // A pool or build that names one may be unseen.
    if let Some(watch) = snapshot.broken_watch.clone().filter(|_| !unused_configs.is_empty()) {
        let condition = rendered_condition(snapshot, &deletions_held(&watch), now);
        let actions = condition.into_iter().collect();
        return RenderDecision {
            // No event says that a watch has recovered.
            requeue_after: Some(RECOVERED_AFTER),
            ..RenderDecision::of(RenderReason::DeletionsHeld { name, watch }, actions)
        };
    }
    let reason = RenderReason::Rendered(name);
    let actions: Vec<Action> = rendered_condition(snapshot, "", now).into_iter().collect();
    if !actions.is_empty() || unused_configs.is_empty() {
        return RenderDecision::of(reason, actions);
    }
    match &snapshot.lookup_results.configs_on_nodes {
        None => RenderDecision::looking_up(RenderLookup::Nodes, reason),
        Some(configs_on_nodes) => {
            let unused =
                unused_configs.into_iter().filter(|one| !configs_on_nodes.contains(&one.name));
            let actions = unused.map(|one| Action::Delete(one.into()));
            RenderDecision::of(reason, actions.collect())
        }
    }
}

/// Keep the rendered config and report the problem.
fn degraded(snapshot: &RenderSnapshot, problem: &Problem, now: Timestamp) -> RenderDecision {
    let actions = degraded_condition(snapshot, problem, now).into_iter().collect();
    RenderDecision::of(RenderReason::Degraded(problem.clone()), actions)
}

/// Create the rendered config and set it on the pool.
fn set_configuration(
    snapshot: &RenderSnapshot,
    inputs: &Inputs,
    output: &RenderOutput,
    now: Timestamp,
) -> RenderDecision {
    let name = &output.name;
    let mut actions = Vec::new();
    let is_there = |one: &super::SeenRendered| one.name == *name && !one.deleting;
    if !snapshot.rendered.iter().any(is_there) {
        let on = || regarding("MachineConfigPool", &snapshot.pool.metadata);
        let note = format!("{name} of {} MachineConfigs", inputs.members.len());
        let reason = EventReason::RenderedConfigGenerated;
        actions.push(Action::Event(new_event(on(), reason, name, note)));
        if let Some(OverridingImage { image, place }) = &output.overriding {
            let note = format!(
                "{place} sets the base OS image of {name}: {image}; cluster updates don't change it any more"
            );
            let reason = EventReason::OsImageUrlOverridden;
            actions.push(Action::Event(new_event(on(), reason, image, note)));
        }
        actions.push(Action::Create(rendered_object(&output.object)));
    }
    let is_named = snapshot.pool.spec.configuration.name == *name;
    if !is_named || !has_stamp(snapshot, inputs, name) || !has_sources(snapshot, inputs) {
        let patch = configuration(inputs, output);
        actions.push(object::patch(kinds::MACHINE_CONFIG_POOL, &snapshot.pool.metadata, patch));
    }
    actions.extend(rendered_condition(snapshot, "", now));
    RenderDecision::of(RenderReason::Rendered(name.clone()), actions)
}

/// Sets `spec.configuration` of the pool, and the annotations with its inputs.
fn configuration(inputs: &Inputs, output: &RenderOutput) -> Patch {
    let reference =
        |name: &str| json!({ "apiVersion": API_VERSION, "kind": "MachineConfig", "name": name });
    let mut configuration = reference(&output.name);
    configuration["source"] = inputs.sources().map(reference).collect();
    // The old reference may have more fields, which a merge would retain.
    for field in ["fieldPath", "namespace", "resourceVersion", "uid"] {
        configuration[field] = Value::Null;
    }
    let mut patch = Patch { spec: json!({ "configuration": configuration }), ..Patch::default() };
    patch.set(labels::RENDERED_FROM, inputs.stamp(&output.name));
    if output.pins.is_empty() {
        patch.remove(labels::PINS);
    } else {
        patch.set(labels::PINS, json!(output.pins).to_string());
    }
    patch
}

/// A problem that was reported before keeps its message, because its wording may differ each time.
fn degraded_condition(
    snapshot: &RenderSnapshot,
    wrong: &Problem,
    now: Timestamp,
) -> Option<Action> {
    let earlier = snapshot.earlier_problem.as_ref().map(|earlier| &earlier.cause);
    let old = condition(&snapshot.pool.status.conditions, RENDER_DEGRADED);
    if earlier == Some(&wrong.cause()) && old.is_some_and(Condition::is_true) {
        return None;
    }
    replace_condition(snapshot, Err((&wrong.reason, &wrong.message)), now)
}

/// `note`: what waits although the pool is rendered.
fn rendered_condition(snapshot: &RenderSnapshot, note: &str, now: Timestamp) -> Option<Action> {
    replace_condition(snapshot, Ok(note), now)
}

fn replace_condition(
    snapshot: &RenderSnapshot,
    state: Result<&str, (&str, &str)>,
    now: Timestamp,
) -> Option<Action> {
    let conditions = render_conditions(&snapshot.pool.status.conditions, state, now)?;
    Some(object::replace_conditions(&snapshot.pool.metadata, &conditions))
}

fn deletions_held(watch: &str) -> String {
    let why = Problem::of_watch(watch).message;
    format!("rendered configs that seem to be unused are not deleted now: {why}")
}
