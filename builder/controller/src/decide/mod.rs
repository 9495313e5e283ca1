//! The decision: from a snapshot to the steps that bring the cluster nearer to what is wanted.
//!
//! | file | decides |
//! | --- | --- |
//! | `opt_in` | whether anybody asks for images |
//! | `component` | which MachineConfig brings the pool its pre-built image |
//! | `wish` | what is wanted, and whether it can be built at all |
//! | `seed` | how a pre-built image is put in service, before anything else is thought of |
//! | `seeded` | what is said and left of it afterwards |
//! | `choose` | which build that is: the one there is, an older one, an adopted one, a new one |
//! | `create` | what a new build looks like, and which builds it puts an end to |
//! | `adopt` | whether it takes over the image in service |
//! | `drive` | what has come of its Job |
//! | `prepare` | what a Job needs before it begins |
//! | `end` | what a Job that has ended means for its build |
//! | `keep` | what is kept of its pod |
//! | `runner` | what is read from a Job, or whatever else runs a build |
//! | `attempt` | whether a Job that failed gets a successor, and when |
//! | `serve` | what MachineOSConfig and pool say of it |
//!
//! Every round sees everything anew; a step that was lost is simply decided again. Whatever takes part in a decision is in an object.

mod adopt;
mod attempt;
mod choose;
mod component;
mod create;
mod drive;
mod end;
mod keep;
mod opt_in;
mod prepare;
mod runner;
mod seed;
mod seeded;
mod serve;
mod wish;

use std::time::Duration;

use jiff::Timestamp;

use self::seed::Seed;
use self::wish::Wish;
use super::pool_reason::PoolReason;
use super::question::{
    ImageStatus, LOOKUP_TIMEOUT, NO_RENDERED_CONFIG, Planned, Problem, Pull, Question,
};
use super::snapshot::Snapshot;
use super::step::{Annotate, Decision, Step};
use crate::status::{Event, EventReason, Regarding};
use mosb_image::PinnedRef;
use mosb_plan::api::{MachineConfigPool, MachineOsBuild, MachineOsConfig, Metadata, labels};
use mosb_types::ErrorClass;

/// Objects that are applied together are seen within this time.
const TOGETHER: Duration = Duration::from_secs(5);

/// A problem that may pass by itself is reported once it has lasted this long.
const LASTING: Duration = Duration::from_secs(60);

/// Everything that should change, in order. Pure: same world, same steps.
pub fn decide(world: &Snapshot, now: Timestamp) -> Decision {
    if let Some(who) = &world.cluster.other_builder {
        return Decision::nothing(PoolReason::OtherBuilder(who.clone()));
    }
    let unwanted = component::unwanted(world);
    if !unwanted.is_empty() {
        return Decision::of(PoolReason::OptingOut, unwanted);
    }
    let Some(config) = &world.config else {
        return opt_in::without_config(world, now);
    };
    if config.metadata.is_going_away() {
        return Decision::nothing(PoolReason::OptingOut);
    }
    if let Some(decision) = opt_in::follow_label(world, config) {
        return decision;
    }
    let blocked = |reason: PoolReason| {
        let mut steps = Vec::new();
        // What runs is for an older wish, whatever becomes of this one. Not so where only the nodes went or others came.
        let is_older = !matches!(reason, PoolReason::NoNode | PoolReason::MixedPlatforms(_));
        let running = |build: &&MachineOsBuild| {
            is_older
                && is_ours(build, config)
                && !build.metadata.is_going_away()
                && !build.status.is_terminal()
        };
        for build in world.builds.iter().filter(running) {
            steps.extend(create::interrupted(build, "what is wanted can't be built", now));
        }
        serve::block(world, config, &reason, now, &mut steps);
        Decision::of(reason, steps)
    };
    let name = &config.spec.machine_config_pool.name;
    if !world.rivals.is_empty() && config.metadata.name != *name {
        return blocked(PoolReason::Rivals(world.rivals.clone()));
    }
    let Some(pool) = &world.pool else {
        let reason = PoolReason::NoPool(name.clone());
        return match still_new(config, now) {
            Some(again) => Decision { again: Some(again), ..Decision::nothing(reason) },
            None => blocked(reason),
        };
    };
    let wish = match Wish::of(world, config, pool) {
        Ok(wish) => Some(wish),
        Err(PoolReason::NotRendered) => None,
        Err(reason) => return blocked(reason),
    };
    let seed = match Seed::of(world, config, wish.as_ref()) {
        Ok(seed) => seed,
        Err(reason) => return blocked(reason),
    };
    let Some(wish) = wish else {
        return match seed {
            Some(seed) => seed.before_there_is_a_config(world, config, now),
            None => {
                let mut steps = Vec::new();
                serve::unblock(config, now, &mut steps);
                Decision::of(PoolReason::NotRendered, steps)
            }
        };
    };
    let mut round = Round {
        world,
        now,
        config,
        pool,
        wish,
        seed,
        steps: Vec::new(),
        again: None,
        is_blocked: false,
    };
    match round.run() {
        Ok(reason) => {
            round.after_seeding();
            Decision { ask: Vec::new(), steps: round.steps, reason, again: round.again }
        }
        Err(question) => Decision::asking(question),
    }
}

/// How long a MachineOSConfig may still lack its pool: who applies both at once may be seen to have applied it first.
fn still_new(config: &MachineOsConfig, now: Timestamp) -> Option<Duration> {
    let created = config.metadata.creation_timestamp.as_ref()?.0;
    let age = now.duration_since(created);
    let age = match age.is_negative() {
        // The API server's clock may be a little ahead.
        true if age.unsigned_abs() <= TOGETHER => Duration::ZERO,
        // A clock that was set back makes nothing new.
        true => return None,
        false => age.unsigned_abs(),
    };
    TOGETHER.checked_sub(age)
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
        serve::block(world, config, &PoolReason::Problem(problem), now, &mut steps);
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
    /// The image that must be put in service first; none once it is.
    seed: Option<Seed>,
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
    ) -> Result<&'a ImageStatus, Question> {
        let secret = build.metadata.annotation(labels::RENDERED_IMAGE_PUSH_SECRET);
        let found = self.world.answers.exists.get(image);
        found.ok_or_else(|| Question::Exists {
            image: image.clone(),
            secret: secret.unwrap_or(&self.wish.push_secret).to_owned(),
            // An image that came from elsewhere may be where nothing is pushed to.
            pull: match *image.repo() == self.wish.push {
                true => Pull::Not,
                false => pull_of(self.config),
            },
        })
    }

    /// Tells of a problem if somebody must mend it, or if it does not pass.
    fn problem(&mut self, problem: &Problem) -> PoolReason {
        let reason = PoolReason::Problem(problem.clone());
        if is_told(self.world, problem) {
            self.block(&reason);
        }
        reason
    }

    fn block(&mut self, reason: &PoolReason) {
        self.is_blocked = true;
        serve::block(self.world, self.config, reason, self.now, &mut self.steps);
    }

    fn tell_build(
        &mut self,
        build: &MachineOsBuild,
        reason: EventReason,
        edge: &str,
        note: impl Into<String>,
    ) {
        let on = Regarding::new("MachineOSBuild", &build.metadata);
        self.steps.push(Step::Event(Event::new(on, reason, edge, note)));
    }

    fn tell_config(&mut self, reason: EventReason, edge: &str, note: impl Into<String>) {
        let on = Regarding::new("MachineOSConfig", &self.config.metadata);
        self.steps.push(Step::Event(Event::new(on, reason, edge, note)));
    }
}

/// Whether a problem is told: somebody must mend it, or it does not pass. When it is looked at again is the queue's to say.
fn is_told(world: &Snapshot, problem: &Problem) -> bool {
    let earlier = world.earlier_problem.as_ref();
    let lasts = earlier.is_some_and(|earlier| earlier.lasted >= LASTING);
    let at_once = [NO_RENDERED_CONFIG, LOOKUP_TIMEOUT].contains(&&*problem.reason);
    problem.class != ErrorClass::Transient || at_once || lasts
}

/// What the images of a MachineOSConfig are pulled with.
fn pull_of(config: &MachineOsConfig) -> Pull {
    match &config.spec.base_image_pull_secret {
        Some(own) => Pull::Own(own.name.clone()),
        None => Pull::Global,
    }
}

impl Decision {
    fn asking(question: Question) -> Self {
        Self {
            ask: vec![question.clone()],
            ..Self::nothing(match question {
                Question::Plan(_) | Question::OsImage { .. } => PoolReason::Planning,
                Question::Exists { image, .. } => PoolReason::Confirming(image.to_string()),
                Question::Result { build } => PoolReason::Preparing(build.to_string()),
            })
        }
    }

    fn nothing(reason: PoolReason) -> Self {
        Self::of(reason, Vec::new())
    }

    fn of(reason: PoolReason, steps: Vec<Step>) -> Self {
        Self { ask: Vec::new(), steps, reason, again: None }
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
