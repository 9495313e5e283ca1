//! The decision: from a snapshot to the steps that bring the cluster nearer to what is wanted.
//!
//! | file | decides |
//! | --- | --- |
//! | `opt_in` | whether anybody asks for images |
//! | `wish` | what is wanted, and whether it can be built at all |
//! | `choose` | which build that is: the one there is, an older one, an adopted one, a new one |
//! | `create` | what a new build looks like, and which builds it puts an end to |
//! | `adopt` | whether it takes over the image in service |
//! | `drive` | what has come of its Job |
//! | `prepare` | what a Job needs before it begins |
//! | `end` | what a Job that has ended means for its build |
//! | `job` | what is read from a Job |
//! | `attempt` | whether a Job that failed gets a successor, and when |
//! | `serve` | what MachineOSConfig and pool say of it |
//!
//! Every round sees everything anew; a step that was lost is simply decided again. Whatever takes part in a decision is in an object.

mod adopt;
mod attempt;
mod choose;
mod create;
mod drive;
mod end;
mod job;
mod opt_in;
mod prepare;
mod serve;
mod wish;

use std::time::Duration;

use jiff::Timestamp;

use self::wish::Wish;
use super::because::Because;
use super::question::{Existence, Planned, Problem, Question};
use super::snapshot::Snapshot;
use super::step::{Annotate, Decision, Step};
use crate::api::{MachineConfigPool, MachineOsBuild, MachineOsConfig, Metadata, labels};
use crate::image::PinnedRef;
use crate::report::Class;
use crate::status::{Event, EventReason, Regarding};

/// After a problem that may pass.
const SOON: Duration = Duration::from_secs(15);
/// After a problem that somebody must mend where nobody may tell us that it is mended, as in a registry.
const LATER: Duration = Duration::from_secs(300);

/// Everything that should change, in order. Pure: same world, same steps.
pub fn decide(world: &Snapshot, now: Timestamp) -> Decision {
    if let Some(who) = &world.cluster.other_builder {
        return Decision::nothing(Because::OtherBuilder(who.clone()));
    }
    let Some(config) = &world.config else {
        return opt_in::without_config(world, now);
    };
    if config.metadata.is_going_away() {
        return Decision::nothing(Because::OptingOut);
    }
    if let Some(decision) = opt_in::follow_label(world, config) {
        return decision;
    }
    let blocked = |because: Because| {
        let mut steps = Vec::new();
        // What runs is for an older wish, whatever becomes of this one.
        let running = |build: &&MachineOsBuild| {
            is_ours(build, config) && !build.metadata.is_going_away() && !build.status.is_terminal()
        };
        for build in world.builds.iter().filter(running) {
            steps.extend(create::interrupted(
                build,
                "what is wanted can't be built",
                now,
            ));
        }
        serve::block(config, &because, now, &mut steps);
        Decision::of(because, steps)
    };
    let name = &config.spec.machine_config_pool.name;
    if !world.rivals.is_empty() && config.metadata.name != *name {
        return blocked(Because::Rivals(world.rivals.clone()));
    }
    let Some(pool) = &world.pool else {
        return blocked(Because::NoPool(name.clone()));
    };
    let wish = match Wish::of(world, config, pool) {
        Ok(wish) => wish,
        Err(Because::NotRendered) => return Decision::nothing(Because::NotRendered),
        Err(because) => return blocked(because),
    };
    let mut round = Round {
        world,
        now,
        config,
        pool,
        wish,
        steps: Vec::new(),
        again: None,
        is_blocked: false,
    };
    match round.run() {
        Ok(because) => Decision {
            ask: Vec::new(),
            steps: round.steps,
            because,
            again: round.again,
        },
        Err(question) => Decision {
            because: match &question {
                Question::Plan(_) => Because::Planning,
                Question::Exists { image, .. } => Because::Confirming(image.to_string()),
            },
            ask: vec![question],
            steps: Vec::new(),
            again: None,
        },
    }
}

fn is_ours(build: &MachineOsBuild, config: &MachineOsConfig) -> bool {
    let metadata = &build.metadata;
    metadata.annotation(labels::INPUTS).is_some()
        && metadata.is_controlled_by(config.metadata.uid())
}

/// What to say of a step that the cluster, or what the user wrote, does not allow: nobody would look for it in a log.
pub fn refused(world: &Snapshot, problem: Problem, now: Timestamp) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(config) = &world.config {
        serve::block(config, &Because::Problem(problem), now, &mut steps);
    }
    steps
}

/// One decision on its way. A question ends it; the steps so far are then forgotten.
struct Round<'a> {
    world: &'a Snapshot,
    now: Timestamp,
    config: &'a MachineOsConfig,
    pool: &'a MachineConfigPool,
    wish: Wish,
    steps: Vec<Step>,
    again: Option<Duration>,
    /// Whether it was told in this round that somebody must mend something.
    is_blocked: bool,
}

impl<'a> Round<'a> {
    /// Whether a build was made by us for this very MachineOSConfig.
    fn is_ours(&self, build: &MachineOsBuild) -> bool {
        is_ours(build, self.config)
    }

    /// The builds that we made and that are not going away.
    fn ours(&self) -> impl Iterator<Item = &'a MachineOsBuild> {
        let builds = self.world.builds.iter();
        builds.filter(|build| self.is_ours(build) && !build.metadata.is_going_away())
    }

    fn plan(
        &self,
        question: impl FnOnce() -> Question,
    ) -> Result<&'a Result<Planned, Problem>, Question> {
        self.world.answers.plan.as_ref().ok_or_else(question)
    }

    /// Whether a registry has an image.
    fn exists(
        &self,
        image: &PinnedRef,
        build: &MachineOsBuild,
    ) -> Result<&'a Result<Existence, Problem>, Question> {
        let secret = build
            .metadata
            .annotation(labels::RENDERED_IMAGE_PUSH_SECRET);
        let found = self.world.answers.exists.get(image);
        found.ok_or_else(|| Question::Exists {
            image: image.clone(),
            secret: secret.unwrap_or(&self.wish.push_secret).to_owned(),
        })
    }

    /// Tells of a problem if somebody must mend it.
    fn problem(&mut self, problem: &Problem) -> Because {
        let because = Because::Problem(problem.clone());
        self.again = Some(match problem.class {
            Class::Retry => SOON,
            Class::UserInput | Class::Refused | Class::Bug => {
                self.block(&because);
                LATER
            }
        });
        because
    }

    fn block(&mut self, because: &Because) {
        self.is_blocked = true;
        serve::block(self.config, because, self.now, &mut self.steps);
    }

    fn tell_build(
        &mut self,
        build: &MachineOsBuild,
        reason: EventReason,
        edge: &str,
        note: impl Into<String>,
    ) {
        let on = Regarding::new("MachineOSBuild", &build.metadata);
        self.steps
            .push(Step::Event(Event::new(on, reason, edge, note)));
    }

    fn tell_config(&mut self, reason: EventReason, edge: &str, note: impl Into<String>) {
        let on = Regarding::new("MachineOSConfig", &self.config.metadata);
        self.steps
            .push(Step::Event(Event::new(on, reason, edge, note)));
    }
}

impl Decision {
    fn nothing(because: Because) -> Self {
        Self::of(because, Vec::new())
    }

    fn of(because: Because, steps: Vec<Step>) -> Self {
        Self {
            ask: Vec::new(),
            steps,
            because,
            again: None,
        }
    }
}

impl Annotate {
    fn of(metadata: &Metadata) -> Self {
        Self {
            name: metadata.name.clone(),
            uid: metadata.uid().to_owned(),
            resource_version: metadata.resource_version().to_owned(),
            ..Self::default()
        }
    }

    fn set(&mut self, key: &str, value: impl Into<String>) {
        self.set.insert(key.to_owned(), value.into());
    }

    fn remove(&mut self, key: &str) {
        self.remove.insert(key.to_owned());
    }
}

#[cfg(test)]
mod tests;
