//! From a snapshot of a pool to the steps that bring it to the rendered config of its MachineConfigs.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use super::super::lookup::Problem;
use super::collect;
use super::snapshot::{Inputs, Made, Snapshot};
use crate::status::{Event, EventReason, RENDER_DEGRADED, Regarding, render_conditions};
use mosb_plan::api::{Condition, condition, labels};

/// What to do about a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What must be known first: put the answer into the snapshot, and decide again; there are no steps.
    pub ask: Option<Question>,
    /// What to change, in this order; the first error ends the round, but for events, which hinder nothing.
    pub steps: Vec<Step>,
    /// How far the pool is.
    pub reason: RenderReason,
}

/// What is not known from metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// What the pool's MachineConfigs come to.
    Render,
    /// Which rendered configs nodes have or shall have.
    Nodes,
}

/// One change. Done twice it ends where once does.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Tell something, once.
    Tell(Event),
    /// Create the rendered config that was just made; one that is there with the same content is fine.
    Create {
        /// Its name.
        name: String,
    },
    /// Let the pool name it: `spec.configuration`, and the annotation `mosb.dev/rendered-from`.
    Move {
        /// Name of the rendered config.
        name: String,
        /// Names of the MachineConfigs, sorted.
        sources: Vec<String>,
        /// The annotation's value.
        stamp: String,
        /// Images with a tag, and what each was found to be: the annotation `mosb.dev/pins`.
        pins: BTreeMap<String, String>,
    },
    /// Replace the pool's list of conditions, in which only our entry is another.
    Say {
        /// All of them.
        conditions: Vec<Condition>,
    },
    /// Delete a rendered config.
    Delete {
        /// Its name.
        name: String,
        /// This very one.
        uid: String,
    },
}

/// How far a pool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenderReason {
    /// Somebody else renders it.
    OtherRenderer(String),
    /// It has no selector: whoever names its rendered config does so by himself.
    ByHand,
    /// It is being deleted.
    Deleting,
    /// It is being found out what its MachineConfigs come to.
    Rendering,
    /// It can't be rendered.
    Degraded(Problem),
    /// It has the rendered config of its MachineConfigs, or gets it now.
    Rendered(String),
}

impl fmt::Display for RenderReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherRenderer(who) => write!(
                f,
                "not rendered by mosb: {who} renders pools; take --render away from mosb, or scale it to 0"
            ),
            Self::ByHand => write!(
                f,
                "not rendered by mosb: the pool has no machineConfigSelector; its spec.configuration is whoever's who wrote it"
            ),
            Self::Deleting => write!(f, "the pool is being deleted"),
            Self::Rendering => write!(f, "its MachineConfigs are read and merged"),
            Self::Degraded(problem) => write!(f, "not rendered: {}", problem.message),
            Self::Rendered(name) => write!(f, "rendered: {name}"),
        }
    }
}

/// Everything that should change, in order. Pure: same world, same steps.
///
/// A pool that is paused is rendered too: what waits then are its machines.
pub fn decide(world: &Snapshot, now: Timestamp) -> Decision {
    if let Some(who) = &world.other_renderer {
        return Decision::of(RenderReason::OtherRenderer(who.clone()), Vec::new());
    }
    if world.pool.metadata.is_being_deleted() {
        return Decision::of(RenderReason::Deleting, Vec::new());
    }
    if world.pool.spec.machine_config_selector.is_none() {
        return Decision::of(RenderReason::ByHand, Vec::new());
    }
    let inputs = match &world.inputs {
        Ok(inputs) => inputs,
        Err(problem) => return degraded(world, problem, now),
    };
    if is_settled(world, inputs) {
        return settled(world, now);
    }
    match &world.answers.made {
        None => Decision::asking(Question::Render, RenderReason::Rendering),
        Some(Err(problem)) => degraded(world, problem, now),
        Some(Ok(made)) => moved(world, inputs, made, now),
    }
}

/// Whether the pool has what its MachineConfigs come to, as far as that is known without reading them.
fn is_settled(world: &Snapshot, inputs: &Inputs) -> bool {
    let configuration = &world.pool.spec.configuration;
    let mut rendered = world.rendered.iter();
    let is_there =
        rendered.any(|one| one.name == configuration.name && !one.is_edited && !one.deleting);
    is_there && has_stamp(world, inputs, &configuration.name) && has_sources(world, inputs)
}

fn has_stamp(world: &Snapshot, inputs: &Inputs, name: &str) -> bool {
    world.pool.metadata.annotation(labels::RENDERED_FROM) == Some(&inputs.stamp(name))
}

fn has_sources(world: &Snapshot, inputs: &Inputs) -> bool {
    let sources = world.pool.spec.configuration.source.iter();
    sources.map(|source| source.name.as_str()).eq(inputs.sources())
}

/// Nothing is to be rendered; what nobody needs any more goes.
fn settled(world: &Snapshot, now: Timestamp) -> Decision {
    let reason = RenderReason::Rendered(world.pool.spec.configuration.name.clone());
    let steps: Vec<Step> = said(world, None, now).into_iter().collect();
    let superfluous = collect::superfluous(world);
    if !steps.is_empty() || superfluous.is_empty() {
        return Decision::of(reason, steps);
    }
    match &world.answers.on_nodes {
        None => Decision::asking(Question::Nodes, reason),
        Some(on_nodes) => {
            let unused = superfluous.into_iter().filter(|one| !on_nodes.contains(&one.name));
            let steps =
                unused.map(|one| Step::Delete { name: one.name.clone(), uid: one.uid.clone() });
            Decision::of(reason, steps.collect())
        }
    }
}

/// The pool stays as it is, and says why.
fn degraded(world: &Snapshot, problem: &Problem, now: Timestamp) -> Decision {
    let steps = said(world, Some(problem), now).into_iter().collect();
    Decision::of(RenderReason::Degraded(problem.clone()), steps)
}

/// The pool gets what was made.
fn moved(world: &Snapshot, inputs: &Inputs, made: &Made, now: Timestamp) -> Decision {
    let name = &made.name;
    let mut steps = Vec::new();
    let is_there = |one: &super::SeenRendered| one.name == *name && !one.deleting;
    if !world.rendered.iter().any(is_there) {
        let on = || Regarding::new("MachineConfigPool", &world.pool.metadata);
        let note = format!("{name} of {} MachineConfigs", inputs.members.len());
        let reason = EventReason::RenderedConfigGenerated;
        steps.push(Step::Tell(Event::new(on(), reason, name, note)));
        if let Some(image) = &made.overriding {
            let note = format!(
                "a MachineConfig decides on the base OS image of {name}: {image}; updates of the cluster don't change it any more"
            );
            let reason = EventReason::OsImageUrlOverridden;
            steps.push(Step::Tell(Event::new(on(), reason, image, note)));
        }
        steps.push(Step::Create { name: name.clone() });
    }
    let is_named = world.pool.spec.configuration.name == *name;
    if !is_named || !has_stamp(world, inputs, name) || !has_sources(world, inputs) {
        steps.push(Step::Move {
            name: name.clone(),
            sources: inputs.sources().map(str::to_owned).collect(),
            stamp: inputs.stamp(name),
            pins: made.pins.clone(),
        });
    }
    steps.extend(said(world, None, now));
    Decision::of(RenderReason::Rendered(name.clone()), steps)
}

/// The message of a problem that was reported before stays, as the same problem may be told in other words each time.
fn said(world: &Snapshot, wrong: Option<&Problem>, now: Timestamp) -> Option<Step> {
    let earlier = world.earlier_problem.as_ref().map(|earlier| &earlier.cause);
    let is_same = wrong.is_some_and(|wrong| earlier == Some(&wrong.cause()));
    let old = condition(&world.pool.status.conditions, RENDER_DEGRADED);
    if is_same && old.is_some_and(Condition::is_true) {
        return None;
    }
    let wrong = wrong.map(|problem| (&*problem.reason, &*problem.message));
    let conditions = render_conditions(&world.pool.status.conditions, wrong, now)?;
    Some(Step::Say { conditions })
}

impl Decision {
    /// Why the pool can't be rendered, if it can't.
    pub(super) fn problem(&self) -> Option<&Problem> {
        match &self.reason {
            RenderReason::Degraded(problem) => Some(problem),
            RenderReason::OtherRenderer(_)
            | RenderReason::ByHand
            | RenderReason::Deleting
            | RenderReason::Rendering
            | RenderReason::Rendered(_) => None,
        }
    }

    fn of(reason: RenderReason, steps: Vec<Step>) -> Self {
        Self { ask: None, steps, reason }
    }

    fn asking(question: Question, reason: RenderReason) -> Self {
        Self { ask: Some(question), ..Self::of(reason, Vec::new()) }
    }
}
