//! Decides about the base of a pool. Pure: a snapshot gives the actions.

use jiff::Timestamp;

use super::snapshot::{BaseSnapshot, FollowedBase};
use super::state::{BaseState, NEWER_BASE, Next};
use super::streams::StreamLookup;
use mosb_api::{Condition, FollowBase, RecordedBase, condition, labels};
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::status::{ConditionUpdate, EventReason, config_status, new_event, regarding};
use mosb_plan::plan::TagState;
use mosb_reconcile::driver::Decision;
use mosb_reconcile::write::{NoEffect, Patch};
use mosb_types::ErrorClass;

pub type Action = mosb_reconcile::write::Action<NoEffect>;

/// What to do about the base of a pool.
pub type BaseDecision = Decision<StreamLookup, BaseState, NoEffect>;

/// Whether somebody asked for the newest base once.
pub fn is_update_wanted(snapshot: &BaseSnapshot) -> bool {
    snapshot.config.metadata.annotations.contains_key(labels::UPDATE_BASE)
}

/// The lookup of a pool; none if it follows no stream.
pub fn lookup(snapshot: &BaseSnapshot) -> Option<StreamLookup> {
    let FollowedBase { base, stream } = snapshot.followed.as_ref().ok()?;
    let pull_secret = snapshot.config.spec.base_image_pull_secret.as_ref();
    Some(StreamLookup {
        stream: stream.clone(),
        platform: base.platform.clone(),
        pull_secret: pull_secret.map(|secret| secret.name.clone()),
        interval: snapshot.interval,
    })
}

/// Where the pool stands. Pure.
fn state(snapshot: &BaseSnapshot) -> BaseState {
    let metadata = &snapshot.config.metadata;
    let is_wanted = is_update_wanted(snapshot);
    let mode = match FollowBase::of(metadata) {
        Ok(mode) => mode,
        Err(error) => return BaseState::BadAnnotation(error),
    };
    if mode == FollowBase::None && !is_wanted {
        return BaseState::Off;
    }
    let FollowedBase { base, stream } = match &snapshot.followed {
        Ok(followed) => followed.clone(),
        Err(not_followed) => return BaseState::NotFollowed(not_followed.clone()),
    };
    let (newest, base) = match &snapshot.newest {
        None => return BaseState::LookingUp,
        Some(Err(problem)) => return BaseState::Unknown(problem.clone()),
        Some(Ok(newest)) => (Box::new(newest.clone()), Box::new(base)),
    };
    let digests = (base.image.digest(), newest.image.digest());
    match TagState::of((&digests.0, &base.release), (&digests.1, &newest.release)) {
        TagState::Current => return BaseState::Current { stream, base },
        TagState::MovedBack => return BaseState::MovedBack { stream, base, newest },
        TagState::Newer => {}
    }
    let next = match mode {
        _ if snapshot.is_release => Next::Release,
        _ if is_wanted => Next::Built,
        _ if metadata.annotations.contains_key(labels::HOLD_BASE) => Next::Held,
        FollowBase::Build => Next::Built,
        FollowBase::None | FollowBase::Notify => Next::Reported,
    };
    BaseState::Newer { stream, base, newest, next }
}

pub fn decide(snapshot: &BaseSnapshot, now: Timestamp) -> BaseDecision {
    let state = state(snapshot);
    if state == BaseState::LookingUp {
        let lookup = lookup(snapshot).expect("there is a tag");
        return BaseDecision::looking_up(lookup, state);
    }
    let mut actions = record(snapshot, &state);
    actions.extend(report(snapshot, &state, now));
    let requeue_after = match &state {
        BaseState::Unknown(_)
        | BaseState::Current { .. }
        | BaseState::MovedBack { .. }
        | BaseState::Newer { .. } => snapshot.due,
        // For the age of the base.
        BaseState::Off | BaseState::BadAnnotation(_) | BaseState::NotFollowed(_) => {
            Some(snapshot.interval)
        }
        BaseState::LookingUp => None,
    };
    BaseDecision { requeue_after, ..BaseDecision::of(state, actions) }
}

/// Records a newer base, and ends a request that was carried out, or can't be.
fn record(snapshot: &BaseSnapshot, state: &BaseState) -> Vec<Action> {
    let metadata = &snapshot.config.metadata;
    let mut patch = Patch::default();
    let mut actions = Vec::new();
    if let BaseState::Newer { stream, newest, next: Next::Built, .. } = state
        && let Some(recorded) = RecordedBase::new(stream.tag.clone(), newest.digest)
        && metadata.annotation(labels::BASE) != Some(&*recorded.to_string())
    {
        let note = format!("{recorded} is the base from now on");
        let on = regarding("MachineOSConfig", metadata);
        let edge = newest.digest.to_string();
        actions.push(Action::Event(new_event(on, EventReason::BaseRecorded, &edge, note)));
        patch.set(labels::BASE, recorded.to_string());
    }
    let is_answered = match state {
        BaseState::Unknown(problem) => problem.class != ErrorClass::Transient,
        BaseState::Off | BaseState::LookingUp => false,
        BaseState::BadAnnotation(_)
        | BaseState::NotFollowed(_)
        | BaseState::Current { .. }
        | BaseState::MovedBack { .. }
        | BaseState::Newer { .. } => true,
    };
    if is_update_wanted(snapshot) && is_answered {
        patch.remove(labels::UPDATE_BASE);
        if metadata.annotations.contains_key(labels::HOLD_BASE)
            && matches!(state, BaseState::Newer { next: Next::Built, .. })
        {
            patch.remove(labels::HOLD_BASE);
        }
    }
    if !patch.annotations.is_empty() {
        actions.push(object::patch(kinds::MACHINE_OS_CONFIG, metadata, patch));
    }
    actions
}

/// The condition. What a registry does not answer for a moment changes nothing.
fn report(snapshot: &BaseSnapshot, state: &BaseState, now: Timestamp) -> Vec<Action> {
    let config = &snapshot.config;
    let before = condition(&config.status.conditions, NEWER_BASE);
    if let BaseState::Unknown(problem) = state
        && problem.class == ErrorClass::Transient
        && before.is_some_and(|before| before.status != "Unknown" || before.reason == camel(state))
    {
        return Vec::new();
    }
    let Some((status, reason, message)) = state.condition() else {
        return match before {
            Some(_) if *state == BaseState::Off => {
                let mut status = config.status.clone();
                status.conditions.retain(|condition| condition.kind != NEWER_BASE);
                vec![object::replace_status(kinds::MACHINE_OS_CONFIG, &config.metadata, &status)]
            }
            _ => Vec::new(),
        };
    };
    let update = ConditionUpdate { kind: NEWER_BASE, status, reason: &reason, message: &message };
    let Some(status) = config_status(config, None, &[update], now) else {
        return Vec::new();
    };
    let mut actions = Vec::new();
    if let BaseState::Newer { newest, .. } = state
        && !before.is_some_and(Condition::is_true)
    {
        let on = regarding("MachineOSConfig", &config.metadata);
        let edge = newest.digest.to_string();
        actions.push(Action::Event(new_event(on, EventReason::NewerBase, &edge, message)));
    }
    actions.push(object::replace_status(kinds::MACHINE_OS_CONFIG, &config.metadata, &status));
    actions
}

fn camel(state: &BaseState) -> String {
    state.condition().map(|(_, reason, _)| reason).unwrap_or_default()
}
