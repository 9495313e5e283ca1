//! What a build that must run something is made on: a recorded prepared base, or one that it makes.

use jiff::Timestamp;

use super::DecisionBuilder;
use super::annotations::method_of;
use crate::action::BuildEffect;
use crate::lookup::{ImageStatus, Lookup, Planned};
use crate::prepared_bases::{PreparedBase, PreparedBaseKey, PreparedUse};
use mosb_api::{MachineOsBuild, labels};
use mosb_build::JobMethod;
use mosb_build::result::PreparedImage;
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::status::EventReason;
use mosb_reconcile::Problem;
use mosb_reconcile::write::Patch;
use mosb_workload::{Workload, is_confined_to};

/// Values of annotation `mosb.dev/prepared`, beside the digest of the image.
const MAKE: &str = "make";
const MAKE_ANEW: &str = "make-anew";
const WITHOUT: &str = "without";

/// Whether a build has what its workload is made from.
pub(super) enum PreparedChoice {
    Recorded,
    /// It is recorded by this decision; the next one creates the workload.
    Changed,
    Unknown(Problem),
}

impl DecisionBuilder<'_> {
    /// Chooses what the next workload of a build is made on, and records it on the build, so that
    /// the workload and its inputs are of the same choice whatever happens between them.
    pub(super) fn choose_prepared_base(
        &mut self,
        build: &MachineOsBuild,
        planned: &Planned,
    ) -> Result<PreparedChoice, Lookup> {
        let before = build.metadata.annotation(labels::PREPARED);
        let inputs = match planned.prepared {
            Some(inputs) if before != Some(WITHOUT) => inputs,
            // Another version planned it.
            None if before.is_some() => return Ok(self.build_without(build)),
            Some(_) | None => return Ok(PreparedChoice::Recorded),
        };
        let desired = &self.desired;
        let secret = desired.pull_secret.as_deref();
        let nodes = &self.snapshot.build_nodes;
        let key = PreparedBaseKey::new(&desired.push, secret, nodes, &inputs);
        let is_anew = before == Some(MAKE_ANEW);
        let recorded = self.snapshot.cluster.prepared_bases.get(&key).copied();
        let recorded = recorded.or_else(|| made_by_build(build, &key)).filter(|_| !is_anew);
        let mut found = None;
        if let Some(base) = recorded {
            let image = desired.push.pinned(base.image);
            match self.image_status(&image, build)? {
                ImageStatus::Present(_) => {
                    // The pod may verify it, so it is signed before anything is built on it.
                    let builder = desired.builder;
                    if let Some(wait) = self.sign_prepared(build, base.image, builder)? {
                        return Ok(wait.into_choice());
                    }
                    found = Some(base);
                }
                ImageStatus::Missing => {
                    let note = format!(
                        "the prepared base {image} is not in the registry any more, so it is made again"
                    );
                    let edge = base.image.hex();
                    self.emit_build_event(build, EventReason::PreparedBaseMissing, &edge, note);
                }
                ImageStatus::Unknown(problem) => {
                    return Ok(PreparedChoice::Unknown(problem.clone()));
                }
            }
        }
        let mut patch = Patch::default();
        match found {
            Some(base) => {
                patch = made_prepared_base(&base);
                let method = if planned.has_last_part {
                    JobMethod::Containerfile
                } else {
                    JobMethod::Direct
                };
                patch.set(labels::METHOD, method.as_str());
            }
            None => {
                patch.set(labels::METHOD, JobMethod::Containerfile.as_str());
                patch.set(labels::PREPARED, if is_anew { MAKE_ANEW } else { MAKE });
                patch.remove(labels::PREPARED_AT);
            }
        }
        patch.set(labels::PREPARED_INPUTS, inputs.hex());
        patch.set(labels::PREPARED_KEY, key.as_str());
        Ok(self.record_choice(build, patch))
    }

    fn build_without(&mut self, build: &MachineOsBuild) -> PreparedChoice {
        let patch = without_prepared_base();
        self.record_choice(build, patch)
    }

    pub(super) fn record_choice(&mut self, build: &MachineOsBuild, patch: Patch) -> PreparedChoice {
        let is_same = |(key, value): (&String, &Option<String>)| {
            build.metadata.annotation(key) == value.as_deref()
        };
        if patch.annotations.iter().all(is_same) {
            return PreparedChoice::Recorded;
        }
        self.actions.push(object::patch(kinds::MACHINE_OS_BUILD, &build.metadata, patch));
        PreparedChoice::Changed
    }

    /// The value of annotation `mosb.dev/prepared` of a new build. A rebuild runs everything again,
    /// because that is how updates come in.
    pub(super) fn prepared_of_new_build(&self, planned: &Planned) -> Option<&'static str> {
        let rebuild = self.config.metadata.annotations.get(labels::REBUILD)?;
        (planned.prepared.is_some() && rebuild != labels::REBUILD_CONFIG_ONLY).then_some(MAKE_ANEW)
    }

    /// The prepared base that an ended workload of this build made or used.
    pub(super) fn prepared_base_of(
        &self,
        build: &MachineOsBuild,
        made: Option<&PreparedImage>,
    ) -> Option<(PreparedBaseKey, PreparedBase)> {
        let annotation = |key| build.metadata.annotation(key);
        let key = PreparedBaseKey::from_hex(annotation(labels::PREPARED_KEY)?)?;
        let used_at = self.now;
        match (method_of(build), made) {
            (JobMethod::Containerfile, Some(made)) => {
                // One of other inputs would bring later builds what they did not ask for.
                let is_of_build = annotation(labels::PREPARED_INPUTS) == Some(&*made.inputs.hex());
                let base = PreparedBase { image: made.image, made_at: made.made_at, used_at };
                is_of_build.then_some((key, base))
            }
            // While one is made, there is no digest.
            (JobMethod::Direct | JobMethod::Containerfile, None) => {
                let image = annotation(labels::PREPARED)?.parse().ok()?;
                let made_at = annotation(labels::PREPARED_AT)?.parse().ok()?;
                Some((key, PreparedBase { image, made_at, used_at }))
            }
            (JobMethod::Direct, Some(_)) => None,
        }
    }

    /// Names the prepared base on the build that made it.
    pub(super) fn note_prepared_base(&mut self, build: &MachineOsBuild, base: &PreparedBase) {
        let patch = made_prepared_base(base);
        self.record_choice(build, patch);
    }

    /// Records the prepared base that a build made, or that it was made on, once for each build.
    pub(super) fn record_prepared_base(
        &mut self,
        build: &MachineOsBuild,
        workload: &Workload,
        made: Option<&PreparedImage>,
    ) {
        // The pool may have become one of control-plane machines since the workload was created.
        if !is_confined_to(workload, &self.snapshot.build_nodes) {
            return;
        }
        let Some((key, base)) = self.prepared_base_of(build, made) else {
            return;
        };
        let recorded = self.snapshot.cluster.prepared_bases.get(&key);
        let created = build.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let is_recorded = match (recorded, made) {
            // What a direct build was made on counts only as used: another build may have recorded
            // a newer one, or the limit may have removed it.
            (None, None) => true,
            (Some(recorded), None) if recorded.image != base.image => true,
            (Some(recorded), None) => created.is_none_or(|created| recorded.used_at >= created),
            (Some(recorded), Some(_)) => recorded.image == base.image,
            (None, Some(_)) => false,
        };
        if !is_recorded {
            self.actions.push(BuildEffect::RecordPreparedBase { key, base }.into());
        }
    }
}

/// The day in UTC.
pub(super) fn day_of(time: Timestamp) -> String {
    time.strftime("%F").to_string()
}

/// Removes the choice of a build: all of it is run at once.
pub(super) fn without_prepared_base() -> Patch {
    let mut patch = Patch::default();
    patch.set(labels::METHOD, JobMethod::Containerfile.as_str());
    patch.set(labels::PREPARED, WITHOUT);
    for key in [labels::PREPARED_AT, labels::PREPARED_INPUTS, labels::PREPARED_KEY] {
        patch.remove(key);
    }
    patch
}

/// Names the prepared base that a build with the Containerfile is made on.
pub(super) fn made_prepared_base(base: &PreparedBase) -> Patch {
    let mut patch = Patch::default();
    patch.set(labels::PREPARED, base.image.to_string());
    patch.set(labels::PREPARED_AT, base.made_at.to_string());
    patch
}

/// The prepared base that an earlier attempt of the build made, or was to be made on. The record of it
/// may not be visible yet, or could not be written.
fn made_by_build(build: &MachineOsBuild, key: &PreparedBaseKey) -> Option<PreparedBase> {
    let annotation = |name| build.metadata.annotation(name);
    let is_of_build = annotation(labels::PREPARED_KEY) == Some(key.as_str());
    let image = annotation(labels::PREPARED).filter(|_| is_of_build)?.parse().ok()?;
    let made_at = annotation(labels::PREPARED_AT)?.parse().ok()?;
    Some(PreparedBase { image, made_at, used_at: made_at })
}

/// The recorded choice of a build.
pub(super) fn prepared_use(build: &MachineOsBuild) -> PreparedUse {
    match (method_of(build), build.metadata.annotation(labels::PREPARED)) {
        (JobMethod::Containerfile, Some(MAKE | MAKE_ANEW)) => PreparedUse::Make,
        (JobMethod::Containerfile | JobMethod::Direct, Some(image)) => match image.parse() {
            Ok(image) => PreparedUse::On(image),
            Err(_) => PreparedUse::Without,
        },
        (JobMethod::Containerfile | JobMethod::Direct, None) => PreparedUse::Without,
    }
}
