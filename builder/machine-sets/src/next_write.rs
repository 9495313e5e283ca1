//! The next write of one set, in this order: its record, the stub, the new template, the record of
//! the attempt, the image, and the record of what was then seen. Pure.

use jiff::Timestamp;

use super::effect::{BootImageWrite, ObjectRef};
use super::judge::Judgement;
use super::limits::Limits;
use super::machine_set::{MachineSet, TEMPLATE_NAME};
use super::obstacle::{Failure, Obstacle};
use super::pin::{self, PIN};
use super::snapshot::BootImageSnapshot;
use super::stability::{cluster_api_wait, stream_wait};
use super::stub::{StubStep, StubSwitch, stub_step};
use super::{history, record, template};
use mosb_api::cluster_settings::BootImageSettings;
use mosb_boot_image::{Change, Golden, MAX_COUNT, NextWrite, Skip, Verdict};

/// Annotation of a MachineDeployment: a new image may replace its machines.
const ROLL: &str = "mosb.dev/boot-image-roll";

type Inputs<'s> = (&'s BootImageSnapshot, &'s BootImageSettings, &'s Golden);

/// The next write of a set.
#[derive(Debug, Default)]
pub(super) struct SetWrite {
    /// None: it has its image and a record of it, or an earlier write or a lookup must be seen first.
    pub write: Option<BootImageWrite>,
    /// Why it failed when it was tried last, which is reported until it is made.
    pub failed: Option<Obstacle>,
}

pub(super) fn next_write(
    set: MachineSet<'_>,
    judgement: &Judgement<'_>,
    inputs: Inputs<'_>,
    limits: &mut Limits,
    now: Timestamp,
) -> Result<SetWrite, Obstacle> {
    let (snapshot, settings, golden) = inputs;
    if snapshot.is_outdated(set.object) {
        return Ok(SetWrite::default());
    }
    let pin = pin::read(set.object)?;
    let value = set.object.annotation(PIN);
    match record::next_write(set, judgement, value, (snapshot, golden), now) {
        Ok(None) => {}
        Ok(Some(write)) => return next(snapshot, write, now),
        Err(record::Outdated) => return Ok(SetWrite::default()),
    }
    let Verdict::Change(change) = &judgement.verdict else {
        return Ok(SetWrite::default());
    };
    if let Some(pin) = pin
        && let Some(until) = pin.holds(judgement)
    {
        return Err(Skip::Pinned { until }.into());
    }
    check_roll(set)?;
    let attempt = match history::next_write(set, snapshot, &change.to) {
        NextWrite::Allowed => None,
        NextWrite::Record(attempt) => Some(attempt),
        NextWrite::Contended => return Err(contended(set, change).into()),
    };
    if let Some(wait) = &limits.cluster_wait {
        return Err(Obstacle::Wait(wait.clone()));
    }
    let stream = (judgement.stream, judgement.architecture);
    if let Some(wait) = stream_wait(set, snapshot, golden, stream.0, stream.1) {
        return Err(Obstacle::Wait(wait));
    }
    if !set.is_machine_api() {
        wait_for_cluster(set, snapshot, limits)?;
    }
    let switch = match stub_step(set, snapshot, settings, limits, now)? {
        StubStep::Ready(switch) => switch,
        StubStep::LookUp(secrets) => {
            limits.lookups.extend(secrets);
            return Ok(SetWrite::default());
        }
        StubStep::Write(write) => {
            let secret = write.secret.clone();
            let next = next(snapshot, BootImageWrite::Stub(write), now)?;
            let is_first = limits.stubs_in_work.insert(secret);
            return Ok(SetWrite { write: next.write.filter(|_| is_first), ..next });
        }
    };
    let write = change_image(set, judgement, change, (snapshot, switch))?;
    let image = next(snapshot, write, now)?;
    if !matches!(image.write, Some(BootImageWrite::Patch { .. })) {
        return Ok(image);
    }
    if set.is_deployment()
        && !set.replaces_on_delete()
        && let Some(cluster) = set.cluster()
    {
        limits.rolling.insert(cluster, set.object.name.clone());
    }
    let Some(attempt) = attempt else { return Ok(image) };
    // Before the write: whatever ends the program, or replaces the image at once, it has counted.
    let Some(record) = record::attempt(set, snapshot, &attempt) else {
        return Ok(SetWrite::default());
    };
    let record = next(snapshot, record, now)?;
    Ok(SetWrite { failed: record.failed.or(image.failed), ..record })
}

/// This write, unless the same one failed not long ago.
fn next(
    snapshot: &BootImageSnapshot,
    write: BootImageWrite,
    now: Timestamp,
) -> Result<SetWrite, Obstacle> {
    let failed = snapshot.memory.failed.get(&write.fingerprint());
    match failed.filter(|failed| !failed.is_due(now)) {
        Some(failed) => Err(failed.why.clone()),
        None => Ok(SetWrite { write: Some(write), failed: failed.map(|one| one.why.clone()) }),
    }
}

/// A new template replaces the machines of a MachineDeployment, so it needs its own yes.
fn check_roll(set: MachineSet<'_>) -> Result<(), Obstacle> {
    let may_roll = !set.is_deployment()
        || set.replaces_on_delete()
        || set.object.annotation(ROLL) == Some("true");
    if may_roll { Ok(()) } else { Err(Skip::RollsMachines.into()) }
}

fn wait_for_cluster(
    set: MachineSet<'_>,
    snapshot: &BootImageSnapshot,
    limits: &Limits,
) -> Result<(), Obstacle> {
    if let Some(wait) = cluster_api_wait(set, snapshot) {
        return Err(Obstacle::Wait(wait));
    }
    let rolling = set.cluster().and_then(|cluster| limits.rolling.get(&cluster));
    match rolling {
        Some(deployment) => Err(Obstacle::Wait(format!(
            "the machines of MachineDeployment {deployment} are being replaced"
        ))),
        None => Ok(()),
    }
}

fn contended(set: MachineSet<'_>, change: &Change) -> Failure {
    let field = match set.provider_spec() {
        Ok((pointer, _)) if set.is_machine_api() => {
            let path = change.edits.first().map(|edit| &*edit.path).unwrap_or_default();
            format!("{pointer}{path}")
        }
        _ => TEMPLATE_NAME.to_owned(),
    };
    let field = field.trim_start_matches('/').replace('/', ".");
    Failure::new(
        "contended",
        format!(
            "another writer put its boot image back {MAX_COUNT} times, so mosb stopped; let it ignore the field {field}, then run `mosb boot-images unpin {set}`"
        ),
    )
}

/// The write that brings the image: of a new template, or of the set.
fn change_image(
    set: MachineSet<'_>,
    judgement: &Judgement<'_>,
    change: &Change,
    (snapshot, switch): (&BootImageSnapshot, Option<StubSwitch>),
) -> Result<BootImageWrite, Obstacle> {
    let mut write = if let Some((reference, template)) = &judgement.template {
        template::next_write(set, (reference, template), change, snapshot)?
    } else {
        let (pointer, _) = set.provider_spec()?;
        let target = ObjectRef::of(set.object);
        BootImageWrite::Patch { target, operations: change.json_patch(pointer) }
    };
    // In one patch with the image: the machines of a MachineDeployment are replaced once.
    if let (BootImageWrite::Patch { operations, .. }, Some(switch)) = (&mut write, switch) {
        operations.extend(switch.operations(&set.stub_pointer()));
    }
    Ok(write)
}
