//! Start, pause, resume and undo: which annotations and fields a request changes. Pure.
//!
//! Invariant: a request that was carried out already changes nothing.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::builds::{BuildView, build_views};
use super::question::{Missing, missing, question};
use super::request_error::RolloutRequestError;
use super::retry::{Retry, retries};
use super::target::TargetView;
use crate::adopts;
use crate::desired_target::{Desired, rival_names, served};
use crate::machine_state::MachineState;
use crate::snapshot::RolloutSnapshot;
use mosb_api::rollout::{FailedTarget, History, HistoryEntry, PinnedBuild, RolloutMode, STOCK};
use mosb_api::{MachineOsConfig, labels};
use mosb_cluster::gate::Gate;
use mosb_cluster::name_list::name_list;
use mosb_image::{Digest, ImageRef};

/// What a person asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutRequest {
    /// Rolls out what is in service, once; takes a pin away; lets machines that failed try again.
    Start,
    Pause,
    Resume,
    /// Pins the pool to another build: without one, to what the machines ran before.
    Undo(Option<UndoTo>),
    /// Lets images bring what the first config of each machine wrote, from the next reboot on.
    Adopt,
}

/// The value of `--to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoTo {
    /// Name of a MachineOSBuild, or `stock`.
    name: String,
    digest: Option<Digest>,
}

/// What a request changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutChange {
    /// Annotations of the MachineOSConfig; without a value they are removed.
    pub annotations: BTreeMap<&'static str, Option<String>>,
    /// `spec.paused` of the pool.
    pub paused: Option<bool>,
    /// Slots that are rewritten.
    pub retries: Vec<Retry>,
    /// What the machines get, if the request decides it.
    pub build: Option<PinnedBuild>,
    /// Sentences for the person.
    pub notes: Vec<String>,
    /// Machines may reboot. None if this is harmless.
    pub question: Option<String>,
}

/// The most machines that a question names.
const MAX_NAMES: usize = 10;

type Checked<T> = Result<T, RolloutRequestError>;

impl FromStr for UndoTo {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((name, _)) = text.split_once('@') else {
            // The digest is only there to let the same rules check the name.
            let whole = PinnedBuild::from_str(&format!("{text}@{}", Digest::of(b"")))?;
            return Ok(Self { name: whole.name, digest: None });
        };
        let pin = PinnedBuild::from_str(text)?;
        Ok(Self { name: name.to_owned(), digest: Some(pin.digest) })
    }
}

impl UndoTo {
    pub fn is_stock(&self) -> bool {
        self.name == STOCK
    }
}

impl RolloutRequest {
    /// The change. `is_enabled`: whether a controller rolls out, as far as that is known; `os_image`:
    /// `osImageURL` of the pool's rendered config, only read for `--to stock`.
    ///
    /// # Errors
    /// The request is refused.
    pub fn change(
        &self,
        snapshot: &RolloutSnapshot,
        is_enabled: bool,
        os_image: Option<&str>,
    ) -> Checked<RolloutChange> {
        let pool = snapshot.pool.metadata.name.clone();
        if let Some(who) = snapshot.other_controller.clone() {
            return Err(RolloutRequestError::OtherController { pool, who });
        }
        if !snapshot.rivals.is_empty() {
            return Err(RolloutRequestError::Rivals { pool, names: rival_names(&snapshot.rivals) });
        }
        let Some(config) = &snapshot.config else {
            return Err(RolloutRequestError::NotOptedIn { pool });
        };
        if !is_enabled {
            return Err(RolloutRequestError::NotEnabled { pool });
        }
        match self {
            Self::Start => start(snapshot, config),
            Self::Pause => Ok(paused(snapshot, true)),
            Self::Resume => Ok(paused(snapshot, false)),
            Self::Adopt => Ok(adopt(snapshot)),
            Self::Undo(to) => {
                let build = match to {
                    None => earlier(snapshot, config)?,
                    Some(to) if to.is_stock() => stock(&pool, to.digest, os_image)?,
                    Some(to) => of_builds(snapshot, to)?,
                };
                let mut change = undo(snapshot, config, build)?;
                if to.is_none() {
                    ask_about_others(&mut change, snapshot);
                }
                Ok(change)
            }
        }
    }
}

impl RolloutChange {
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.paused.is_none() && self.retries.is_empty()
    }

    /// Sets or removes an annotation, unless that is done.
    fn set(&mut self, config: &MachineOsConfig, key: &'static str, value: Option<&PinnedBuild>) {
        let value = value.map(ToString::to_string);
        if config.metadata.annotations.get(key) != value.as_ref() {
            self.annotations.insert(key, value);
        }
    }
}

fn start(snapshot: &RolloutSnapshot, config: &MachineOsConfig) -> Checked<RolloutChange> {
    let pool = &snapshot.pool.metadata.name;
    let Some((build, _)) = served(snapshot) else {
        return Err(RolloutRequestError::NothingInService { pool: pool.clone() });
    };
    let mut change = RolloutChange { build: Some(build.clone()), ..RolloutChange::default() };
    if let Some(pin) = config.metadata.annotation(labels::ROLLOUT_BUILD) {
        change.notes.push(format!("the pool is no longer pinned to {pin}"));
    }
    change.set(config, labels::ROLLOUT_BUILD, None);
    let once = match RolloutMode::of(&config.metadata)? {
        // What is in service is rolled out anyway.
        RolloutMode::Automatic => None,
        RolloutMode::None | RolloutMode::Stage => Some(&build),
    };
    change.set(config, labels::ROLLOUT_ONCE, once);
    let failed = FailedTarget::of(&config.metadata);
    if failed.is_some_and(|failed| failed.target.image.digest() == build.digest) {
        change.set(config, labels::FAILED_TARGET, None);
        change.notes.push(format!("{build} failed on machines before, and is tried again"));
    }
    change.retries = retries(snapshot, build.digest);
    for Retry { node, slot, .. } in &change.retries {
        let attempt = slot.as_ref().map(|slot| format!(": attempt {}", slot.attempt));
        change.notes.push(format!("{node} tries again{}", attempt.unwrap_or_default()));
    }
    if change.is_empty() {
        change.notes.push(match once {
            None => "nothing is needed: mosb.dev/rollout is automatic".to_owned(),
            Some(build) => format!("{build} is being rolled out already"),
        });
    } else {
        to_build(&mut change, snapshot, &build);
    }
    Ok(change)
}

fn undo(
    snapshot: &RolloutSnapshot,
    config: &MachineOsConfig,
    build: PinnedBuild,
) -> Checked<RolloutChange> {
    let pool = &snapshot.pool.metadata.name;
    let mut change = RolloutChange { build: Some(build.clone()), ..RolloutChange::default() };
    change.set(config, labels::ROLLOUT_BUILD, Some(&build));
    let is_updated = target(snapshot).is_some_and(|target| target.build == build)
        && missing(snapshot, &build) == Missing::default();
    match RolloutMode::of(&config.metadata)? {
        RolloutMode::Automatic => change.set(config, labels::ROLLOUT_ONCE, None),
        // The controller removes the annotation, or has done so.
        RolloutMode::None | RolloutMode::Stage if is_updated => {}
        RolloutMode::None | RolloutMode::Stage => {
            change.set(config, labels::ROLLOUT_ONCE, Some(&build));
        }
    }
    if change.is_empty() {
        change.notes.push(format!(
            "the pool is pinned to {build} already; choose another one of mosb builds {pool} with --to"
        ));
        return Ok(change);
    }
    to_build(&mut change, snapshot, &build);
    change.notes.push(format!("the pool stays pinned to {build} until mosb rollout start {pool}"));
    Ok(change)
}

/// Asks if machines report images that are neither what they should run nor what `undo` chose by what
/// was brought to them.
fn ask_about_others(change: &mut RolloutChange, snapshot: &RolloutSnapshot) {
    let Some(build) = change.build.as_ref().filter(|_| !change.annotations.is_empty()) else {
        return;
    };
    let target = target(snapshot);
    let expected = |image: Digest| {
        target.as_ref().is_some_and(|target| {
            target.build.digest == image || target.live_images.contains(&image)
        }) || build.digest == image
    };
    let machines = snapshot.machines.iter().map(MachineState::of);
    let others = machines.filter(|state| state.effective_image().is_some_and(|it| !expected(it)));
    let others: Vec<String> = others.map(|state| state.name().to_owned()).collect();
    if !others.is_empty() {
        let asked = change.question.take().map(|question| format!("{question}; "));
        let pool = &snapshot.pool.metadata.name;
        change.question = Some(format!(
            "{}{build} is what the machines ran before by what was brought to them, and these report another image: {}; compare mosb builds {pool}, or choose with --to",
            asked.unwrap_or_default(),
            name_list(&others, MAX_NAMES)
        ));
    }
}

fn adopt(snapshot: &RolloutSnapshot) -> RolloutChange {
    let mut change = RolloutChange::default();
    if adopts(snapshot) {
        change.notes.push("the machines of the pool do so already".to_owned());
    } else {
        change.annotations.insert(labels::ADOPT, Some("true".to_owned()));
    }
    change
}

fn paused(snapshot: &RolloutSnapshot, paused: bool) -> RolloutChange {
    let mut change = RolloutChange::default();
    if snapshot.pool.spec.paused == paused {
        let state = if paused { "paused" } else { "not paused" };
        change.notes.push(format!("the pool is {state} already"));
        return change;
    }
    change.paused = Some(paused);
    let Some(TargetView { build, is_once, .. }) = target(snapshot) else {
        return change;
    };
    let mode = snapshot.config.as_ref().map(|config| RolloutMode::of(&config.metadata));
    if paused {
        change.notes.push(
            "a machine whose reboot has begun is finished; drains are cancelled, and no other machine begins"
                .to_owned(),
        );
    } else if mode == Some(Ok(RolloutMode::Automatic)) || is_once {
        change.question = question(snapshot, &build);
    }
    change
}

/// What the machines of the pool should run now.
fn target(snapshot: &RolloutSnapshot) -> Option<TargetView> {
    TargetView::of(snapshot, &Desired::of(snapshot))
}

/// What is said and asked about machines that get this build.
fn to_build(change: &mut RolloutChange, snapshot: &RolloutSnapshot, build: &PinnedBuild) {
    if snapshot.pool.spec.paused {
        let pool = &snapshot.pool.metadata.name;
        let note = format!("the pool is paused: nothing happens before mosb rollout resume {pool}");
        change.notes.push(note);
    } else {
        change.question = question(snapshot, build);
    }
}

/// The last image that the machines ran, other than the one that they should run. In a pool that is
/// pinned, that one: it was taken back already, and what was run before may be the bad image.
fn earlier(snapshot: &RolloutSnapshot, config: &MachineOsConfig) -> Checked<PinnedBuild> {
    if let Some(pin) = PinnedBuild::in_annotation(&config.metadata, labels::ROLLOUT_BUILD)? {
        return Ok(pin);
    }
    let view = target(snapshot);
    let digest = view.as_ref().map(|view| view.build.digest);
    let target = view.and_then(|view| view.target);
    let target = target.or_else(|| served(snapshot).map(|(_, target)| target));
    // Of several builds with one image, those with one machine part are the same to machines.
    let is_it = |one: &HistoryEntry| match &target {
        Some(target) => {
            one.image.digest() == target.image.digest()
                && (target.config.is_none() || one.machine_part == target.machine_part)
        }
        None => Some(one.image.digest()) == digest,
    };
    let history = History::of(&config.metadata);
    let earlier = history.last_ran().into_iter().find(|one| !is_it(one)).map(HistoryEntry::pin);
    earlier.ok_or_else(|| RolloutRequestError::NothingEarlier {
        pool: snapshot.pool.metadata.name.clone(),
    })
}

/// The image that `--to` names.
fn of_builds(snapshot: &RolloutSnapshot, to: &UndoTo) -> Checked<PinnedBuild> {
    let pool = snapshot.pool.metadata.name.clone();
    let views = build_views(snapshot);
    let pins = views.iter().filter_map(BuildView::pin);
    let mut pins: Vec<PinnedBuild> = pins
        .filter(|pin| pin.name == to.name && to.digest.is_none_or(|digest| digest == pin.digest))
        .collect();
    pins.dedup();
    match pins.as_slice() {
        [only] => match held(snapshot, only) {
            Some(message) => Err(RolloutRequestError::NotInService { pool, message }),
            None => Ok(only.clone()),
        },
        [] => {
            let digest = to.digest.map(|digest| format!("@{digest}")).unwrap_or_default();
            let build = format!("{}{digest}", to.name);
            Err(RolloutRequestError::NoSuchBuild { pool, build })
        }
        several => {
            let choices = several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            Err(RolloutRequestError::SeveralImages { pool, build: to.name.clone(), choices })
        }
    }
}

/// What keeps the image of a build out of service, and what to do; none of one that was in service.
fn held(snapshot: &RolloutSnapshot, build: &PinnedBuild) -> Option<String> {
    let config = snapshot.config.as_ref()?;
    if History::of(&config.metadata).find(build).is_some() {
        return None;
    }
    let object = snapshot.builds.iter().find(|object| object.metadata.name == build.name)?;
    let gate = Gate::recorded(config, object, object.status.image()?);
    (!gate.is_open()).then(|| gate.message(&snapshot.pool.metadata.name, build))
}

/// The stock image, which only the rendered config names. A tag may move, so a digest is needed.
fn stock(pool: &str, given: Option<Digest>, os_image: Option<&str>) -> Checked<PinnedBuild> {
    let refused = |cause: String, remedy: &str| {
        let (pool, remedy) = (pool.to_owned(), remedy.to_owned());
        RolloutRequestError::NoStockDigest { pool, cause, remedy }
    };
    let Some(text) = os_image.filter(|text| !text.is_empty()) else {
        return Err(refused(
            "the pool's rendered config has no osImageURL".to_owned(),
            "wait for a rendered config that has one, or choose a build with --to",
        ));
    };
    let image: ImageRef = text
        .parse()
        .map_err(|_| refused(format!("osImageURL {text:?} is not an image"), "correct it"))?;
    let digest = match (image.digest(), given) {
        (Some(digest), None) => digest,
        (Some(digest), Some(given)) if digest == given => digest,
        (Some(digest), Some(given)) => {
            let remedy = format!("give --to stock@{digest}");
            return Err(refused(format!("{text} is not {given}"), &remedy));
        }
        (None, given) => given.ok_or_else(|| {
            let remedy = format!(
                "give --to stock@sha256:…, with the digest that `mosb inspect {text}` prints"
            );
            refused(format!("osImageURL {text} has a tag only"), &remedy)
        })?,
    };
    Ok(PinnedBuild { name: STOCK.to_owned(), digest })
}
