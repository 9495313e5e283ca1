//! Whether the image of a build comes into service, and how far it is.
//!
//! Order: the checks are recorded on the build, then the status of the MachineOSConfig has the image in
//! service, then the stage of the build follows from that. So nothing is in service without its gate,
//! and a restart checks nothing again.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::DecisionBuilder;
use super::own_checks::is_made_again;
use crate::lookup::{ChecksLookup, Lookup};
use crate::pool_reason::PoolReason;
use mosb_api::image_checks::{
    CheckMode, CheckModes, CheckName, CheckOverrides, CheckRecord, CheckResult, CheckVerdict,
    ImageCheckSettings,
};
use mosb_api::promotion::Stage;
use mosb_api::rollout::PinnedBuild;
use mosb_api::{
    AnnotationError, MachineOsBuild, MachineOsBuildStatus, OwnCheck, condition, labels,
};
use mosb_cluster::gate::Gate;
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::status::{
    ConditionUpdate, EventReason, IMAGE_CHECKED, IMAGE_IN_SERVICE, camel_case,
};
use mosb_image::{Digest, PinnedRef};
use mosb_plan::image_checks::Verdict;
use mosb_reconcile::waits::IMAGE_RECHECK;
use mosb_reconcile::write::Patch;
use mosb_types::canonical_json;

/// Hex digits of the fingerprint of settings.
const FINGERPRINT: usize = 12;

/// The way of one image to service.
pub(super) struct Promotion {
    gate: Gate,
    /// What the gate says, and what to do.
    message: String,
    in_service_reason: String,
    /// What its checks found, if that is known.
    checked: Option<CheckedCondition>,
}

/// Contents of the condition `ImageChecked`.
struct CheckedCondition {
    status: &'static str,
    reason: &'static str,
    message: String,
}

/// How a pool's images are checked.
pub(super) struct CheckPolicy<'a> {
    settings: &'a ImageCheckSettings,
    modes: CheckModes,
    overrides: CheckOverrides,
}

impl Promotion {
    fn new(pool: &str, pin: &PinnedBuild, gate: Gate, checks: Option<&CheckRecord>) -> Self {
        let checked = checks.map(|checks| CheckedCondition::of(pin, checks));
        let checked = checked.or_else(|| {
            (gate == Gate::NotChecked).then(|| CheckedCondition {
                status: "Unknown",
                reason: "NotChecked",
                message: gate.message(pool, pin),
            })
        });
        Self {
            message: gate.message(pool, pin),
            in_service_reason: camel_case(gate.word()),
            gate,
            checked,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.gate.is_open()
    }

    /// Why the pool's newest image is not in service; none if it is.
    pub(super) fn held(self) -> Option<PoolReason> {
        let Self { gate, message, .. } = self;
        (!gate.is_open()).then_some(PoolReason::NotInService { gate, message })
    }

    /// The conditions `ImageChecked` and `ImageInService`.
    pub(super) fn conditions(&self) -> impl Iterator<Item = ConditionUpdate<'_>> {
        let checked = self.checked.as_ref().map(|checked| ConditionUpdate {
            kind: IMAGE_CHECKED,
            status: checked.status,
            reason: checked.reason,
            message: &checked.message,
        });
        checked.into_iter().chain([self.in_service()])
    }

    fn in_service(&self) -> ConditionUpdate<'_> {
        ConditionUpdate {
            kind: IMAGE_IN_SERVICE,
            status: if self.is_open() { "True" } else { "False" },
            reason: &self.in_service_reason,
            message: &self.message,
        }
    }
}

impl CheckedCondition {
    fn of(pin: &PinnedBuild, checks: &CheckRecord) -> Self {
        let is = |what: fn(&CheckResult) -> bool| checks.results.iter().any(what);
        let (status, reason) = if is(|one| one.is_blocking() && !one.overridden) {
            ("False", "ChecksFailed")
        } else if is(|one| one.verdict == CheckVerdict::Outstanding) {
            ("Unknown", "Checking")
        } else if is(|one| one.overridden) {
            ("True", "Overridden")
        } else if is(|one| one.verdict == CheckVerdict::Failed) {
            ("True", "Warnings")
        } else if is(CheckResult::is_notable) {
            ("True", "NotAllKnown")
        } else {
            ("True", "Passed")
        };
        let notable = checks.results.iter().filter(|one| one.is_notable());
        let notable = notable.map(|one| {
            let overridden = if one.overridden { " (overridden)" } else { "" };
            format!("{}{overridden}: {}", one.check, one.message)
        });
        let notable: Vec<String> = notable.collect();
        let found =
            if notable.is_empty() { "all checks passed".to_owned() } else { notable.join("; ") };
        Self { status, reason, message: format!("{pin}: {found}") }
    }
}

impl CheckPolicy<'_> {
    fn checks(&self) -> BTreeSet<CheckName> {
        CheckName::ALL.into_iter().filter(|check| self.modes.is_on(check.as_str())).collect()
    }

    /// The own checks that are made.
    pub(super) fn own_checks(&self) -> impl Iterator<Item = (&str, &OwnCheck)> {
        let own = self.settings.own.iter().map(|(name, check)| (&**name, check));
        own.filter(|(name, _)| self.modes.is_on(name))
    }

    /// Whether failed checks keep the image out of service.
    pub(super) fn is_held(&self, record: &CheckRecord) -> bool {
        record.blocking(&self.overrides).next().is_some()
    }

    /// The record with the modes and overrides of now.
    fn apply(&self, mut record: CheckRecord) -> CheckRecord {
        for result in &mut record.results {
            if let Some(mode) = self.modes.get(&result.check) {
                result.mode = mode;
            }
            result.overridden =
                result.is_blocking() && self.overrides.covers(&result.check, record.digest);
        }
        record
    }
}

impl<'a> DecisionBuilder<'a> {
    /// Whether the image of a build may be in service; none without an image that has a digest. Its
    /// checks are made if that depends on them.
    pub(super) fn promotion(
        &mut self,
        build: &MachineOsBuild,
        status: &MachineOsBuildStatus,
    ) -> Result<Option<Promotion>, Lookup> {
        let pinned = status.image().and_then(|text| Some((text, text.parse::<PinnedRef>().ok()?)));
        let Some((text, image)) = pinned else {
            return Ok(None);
        };
        let pool = self.desired.pool.clone();
        let digest = image.digest();
        let pin = PinnedBuild { name: build.metadata.name.clone(), digest };
        let mut checks = CheckRecord::of(&build.metadata, digest);
        let mut gate = Gate::of(self.config, build, text, None);
        if gate == Gate::NotChecked {
            let policy = self.check_policy();
            gate = match policy {
                Err(cause) => Gate::Invalid(cause),
                Ok(policy) => {
                    checks = self.checked(build, &image, &policy, checks)?;
                    Gate::of(self.config, build, text, checks.as_ref())
                }
            };
        }
        if gate != Gate::NotChecked {
            self.needed_checks.get_or_insert_default();
        }
        Ok(Some(Promotion::new(pool.as_str(), &pin, gate, checks.as_ref())))
    }

    /// How the images of the pool are checked, or what is wrong with the settings.
    fn check_policy(&self) -> Result<CheckPolicy<'a>, String> {
        let settings = self.snapshot.cluster.checks.as_ref().ok_or_else(|| {
            "the settings in ConfigMap mosb-config can't be read; correct them".to_owned()
        })?;
        let metadata = &self.config.metadata;
        let text = |error: AnnotationError| error.to_string();
        Ok(CheckPolicy {
            modes: CheckModes::of(metadata, settings).map_err(text)?,
            overrides: CheckOverrides::of(metadata).map_err(text)?,
            settings,
        })
    }

    /// What the checks of an image found, recorded on its build; none if they can't be made now.
    fn checked(
        &mut self,
        build: &MachineOsBuild,
        image: &PinnedRef,
        policy: &CheckPolicy<'_>,
        recorded: Option<CheckRecord>,
    ) -> Result<Option<CheckRecord>, Lookup> {
        let fingerprint = self.check_fingerprint(policy);
        let recorded = recorded.map(|record| policy.apply(record));
        let results = recorded.iter().flat_map(|record| &record.results);
        let own = results.filter(|result| result.job.is_some() && !is_made_again(result));
        let own: Vec<CheckResult> = own.cloned().collect();
        let recorded = recorded.filter(|record| record.settings == fingerprint);
        let again = |record: &CheckRecord| {
            record.at.0 + SignedDuration::try_from(IMAGE_RECHECK).unwrap_or_default()
        };
        let mut record = match recorded {
            Some(record) if !policy.is_held(&record) || self.now < again(&record) => record,
            before => match (self.verdicts(build, image, policy)?, before) {
                (Some(results), _) => {
                    let at = Time(self.now);
                    let results = results.into_iter().chain(own).collect();
                    policy.apply(CheckRecord::new(image.digest(), fingerprint, at, results))
                }
                (None, Some(before)) => before,
                (None, None) => return Ok(None),
            },
        };
        self.add_own_checks(build, image, policy, &mut record);
        let record = policy.apply(record);
        if policy.is_held(&record) && self.now < again(&record) {
            self.requeue_within(again(&record).duration_since(self.now).unsigned_abs());
        }
        let text = record.to_json();
        if build.metadata.annotation(labels::CHECKED) != Some(&*text) {
            let mut patch = Patch::default();
            patch.set(labels::CHECKED, text);
            self.actions.push(object::patch(kinds::MACHINE_OS_BUILD, &build.metadata, patch));
        }
        Ok(Some(record))
    }

    /// What the checks of an image find now; none if they can't be made.
    fn verdicts(
        &mut self,
        build: &MachineOsBuild,
        image: &PinnedRef,
        policy: &CheckPolicy<'_>,
    ) -> Result<Option<Vec<CheckResult>>, Lookup> {
        let checks = policy.checks();
        if checks.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let found = self.snapshot.lookup_results.checks.get(image);
        let found = found.ok_or_else(|| self.checks_lookup(build, image, checks))?;
        Ok(match found {
            Ok(found) => {
                let result = |(name, verdict): &(CheckName, Verdict)| {
                    verdict.result(name.as_str(), CheckMode::Warn)
                };
                Some(found.iter().map(result).collect())
            }
            Err(problem) => {
                self.problem(problem);
                None
            }
        })
    }

    fn checks_lookup(
        &self,
        build: &MachineOsBuild,
        image: &PinnedRef,
        checks: BTreeSet<CheckName>,
    ) -> Lookup {
        let desired = &self.desired;
        let base = build.metadata.annotation(labels::BASE).and_then(|base| base.parse().ok());
        let (lower, tree) = self.lower_of(build);
        let secret = build.metadata.annotation(labels::RENDERED_IMAGE_PUSH_SECRET);
        Lookup::Checks(Box::new(ChecksLookup {
            image: image.clone(),
            push: desired.push.clone(),
            push_secret: secret.unwrap_or(&desired.push_secret).to_owned(),
            pull_secret: desired.pull_secret.clone(),
            base,
            lower,
            tree: tree.map(|tree| desired.push.pinned(tree)),
            platform: desired.platform.clone(),
            rendered: build.spec.machine_config.name.parse().ok(),
            checks,
        }))
    }

    /// A fingerprint of what the results of checks depend on, beside the image and the API server.
    fn check_fingerprint(&self, policy: &CheckPolicy<'_>) -> String {
        let ImageCheckSettings { modes: _, max_size_mib, held_packages, own: _ } = policy.settings;
        let platform = self.desired.platform.as_ref().map(ToString::to_string);
        let cluster = &self.snapshot.cluster;
        let value = json!({
            "checks": policy.checks(), "maxSize": max_size_mib, "held": held_packages,
            "platform": platform, "stock": cluster.stock_base, "policy": cluster.signature_policy,
        });
        Digest::of(&canonical_json(&value)).hex()[..FINGERPRINT].to_owned()
    }

    /// Emits an event if an image begins to be kept out of service, or for another reason.
    pub(super) fn emit_held_event(&mut self, build: &MachineOsBuild, promotion: &Promotion) {
        let before = condition(&self.config.status.conditions, IMAGE_IN_SERVICE);
        let update = promotion.in_service();
        let is_same = before
            .is_some_and(|before| before.matches(update.status, update.reason, update.message));
        // Checks that are under way soon have a result.
        let is_made = !matches!(promotion.gate, Gate::NotChecked | Gate::Checking(_));
        if !promotion.is_open() && is_made && !is_same {
            let edge = format!("{} {}", build.metadata.uid(), update.reason);
            self.emit_config_event(EventReason::ImageHeld, &edge, update.message);
        }
    }

    /// Records how far a build is, and that others were in service.
    pub(super) fn record_stages(&mut self, build: &MachineOsBuild, promotion: Option<&Promotion>) {
        let gate = promotion.map(|promotion| &promotion.gate);
        let current = &*self.config.status.current_image_pull_spec;
        let is_in_service = |other: &&MachineOsBuild| match Stage::of(&other.metadata) {
            Some(stage) if stage.is_served() => stage == Stage::InService,
            // A controller that was killed did not record it, and the pool moved on.
            _ => !current.is_empty() && other.status.image() == Some(current),
        };
        let others = self.ours().filter(|other| other.metadata.uid() != build.metadata.uid());
        let in_service: Vec<_> = others.filter(is_in_service).collect();
        let stage = match gate {
            Some(Gate::InService) => Stage::Replaced,
            _ => Stage::InService,
        };
        for other in in_service {
            self.record_stage(other, stage);
        }
        if let Some(stage) = gate.and_then(Gate::stage).filter(|_| self.is_ours(build)) {
            self.record_stage(build, stage);
        }
    }

    fn record_stage(&mut self, build: &MachineOsBuild, stage: Stage) {
        if Stage::of(&build.metadata) != Some(stage) {
            let mut patch = Patch::default();
            patch.set(labels::STAGE, stage.as_str());
            self.actions.push(object::patch(kinds::MACHINE_OS_BUILD, &build.metadata, patch));
        }
    }
}
