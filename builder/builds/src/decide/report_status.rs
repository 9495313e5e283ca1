//! Reports the state of the desired build on MachineOSConfig and pool.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::DecisionBuilder;
use super::promotion::Promotion;
use super::signing::SignedCondition;
use crate::action::Action;
use crate::pool_reason::PoolReason;
use crate::snapshot::{Snapshot, Support};
use mosb_api::{
    BuildCondition, Condition, MachineOsBuild, MachineOsBuildStatus, MachineOsConfig,
    MachineOsConfigStatus, condition, labels,
};
use mosb_build::JobMethod;
use mosb_cluster::kinds;
use mosb_cluster::name_list::name_list;
use mosb_cluster::object;
use mosb_cluster::status::{
    BLOCKED, ConditionUpdate, CurrentImage, EventReason, IMAGE_BUILD_DEGRADED, MIXED_PLATFORMS,
    PoolBuild, USER_NAMESPACES, WARNINGS, camel_case, config_status, new_event, pool_conditions,
    regarding,
};
use mosb_reconcile::write::Patch;
use mosb_types::Finding;

/// Maximum characters of a message; well below the API's limit, above which it rejects the status.
const MAX_MESSAGE_CHARS: usize = 4096;
/// Nodes that a message names.
const MAX_NODES: usize = 5;
/// Code of the warning that machines require signatures of the images that are built.
const REQUIRE_SIGNATURE: &str = "machines-require-signature";
/// `mosb plan` shows all.
const MAX_WARNINGS: usize = 10;

/// Sets the condition `Blocked`. If the same problem was reported before, its message stays,
/// because the text of a problem may differ each time.
pub(super) fn block(
    snapshot: &Snapshot,
    config: &MachineOsConfig,
    reason: &PoolReason,
    now: Timestamp,
    actions: &mut Vec<Action>,
) {
    let condition_reason = reason.condition_reason();
    let blocked = condition(&config.status.conditions, BLOCKED).filter(|blocked| blocked.is_true());
    let cause = match reason {
        PoolReason::Problem(problem) => problem.cause(),
        _ => reason.code().to_owned(),
    };
    let earlier = snapshot.earlier_problem.as_ref();
    let is_same = earlier.is_some_and(|earlier| earlier.cause == cause);
    if is_same && blocked.is_some_and(|blocked| blocked.reason == condition_reason) {
        return;
    }
    // It may quote user input of any length.
    let message: String = reason.to_string().chars().take(MAX_MESSAGE_CHARS).collect();
    let update = ConditionUpdate {
        kind: BLOCKED,
        status: "True",
        reason: condition_reason,
        message: &message,
    };
    if let Some(status) = config_status(config, None, &[update], now) {
        let on = regarding("MachineOSConfig", &config.metadata);
        // While it stays blocked, the same cause gives the same event.
        let update = condition(&status.conditions, BLOCKED);
        let since = update.and_then(|update| update.last_transition_time.as_ref());
        let since = since.map_or(String::new(), |since| since.0.to_string());
        let generation = config.metadata.generation.unwrap_or_default();
        let edge = format!("{since} {generation} {cause}");
        actions.push(Action::Event(new_event(
            on,
            EventReason::ConfigReconcileFailed,
            &edge,
            message,
        )));
        push_config_status(config, &status, actions);
    }
}

/// Clears the condition `Blocked`.
pub(super) fn unblock(config: &MachineOsConfig, now: Timestamp, actions: &mut Vec<Action>) {
    let conditions = &config.status.conditions;
    if condition(conditions, BLOCKED).is_some_and(Condition::is_true)
        && let Some(status) = config_status(config, None, &[NOT_BLOCKED], now)
    {
        push_config_status(config, &status, actions);
    }
}

const NOT_BLOCKED: ConditionUpdate<'_> =
    ConditionUpdate { kind: BLOCKED, status: "False", reason: "AsExpected", message: "" };

/// Contents of the condition `Warnings`.
struct WarningsCondition {
    reason: String,
    message: String,
}

impl WarningsCondition {
    fn of(findings: &[Finding]) -> Self {
        let codes: BTreeSet<&str> = findings.iter().map(|finding| &*finding.code).collect();
        let reason = match (codes.first(), codes.len()) {
            (None, _) => "None".to_owned(),
            (Some(code), 1) => camel_case(code),
            _ => "Several".to_owned(),
        };
        let shown = findings.iter().take(MAX_WARNINGS);
        let mut message: Vec<_> = shown.map(|finding| finding.message.clone()).collect();
        if findings.len() > MAX_WARNINGS {
            message.push(format!("and {} more", findings.len() - MAX_WARNINGS));
        }
        Self { reason, message: message.join("; ") }
    }

    fn condition_update(&self) -> ConditionUpdate<'_> {
        ConditionUpdate {
            kind: WARNINGS,
            status: match &*self.message {
                "" => "False",
                _ => "True",
            },
            reason: &self.reason,
            message: &self.message,
        }
    }
}

fn push_config_status(
    config: &MachineOsConfig,
    status: &MachineOsConfigStatus,
    actions: &mut Vec<Action>,
) {
    actions.push(object::replace_status(kinds::MACHINE_OS_CONFIG, &config.metadata, status));
}

impl DecisionBuilder<'_> {
    /// Updates the status of MachineOSConfig and pool for the desired build. `promotion`: of
    /// its image, if it has one.
    pub(super) fn report_status(
        &mut self,
        build: &MachineOsBuild,
        status: &MachineOsBuildStatus,
        promotion: Option<&Promotion>,
    ) {
        // First: once the statuses say that an image is in service, the pool may move on.
        self.record_stages(build, promotion);
        self.annotate_config(build);
        let before = self.actions.len();
        self.update_pool_status(build, status, promotion);
        let pool = self.actions.split_off(before);
        if !self.is_blocked {
            // `Blocked` may be set because the pool can't be written, so clear it only after that
            // write.
            self.update_config_status(build, status, promotion, pool.is_empty());
        }
        self.actions.extend(pool);
    }

    /// The same for a pre-built image. The annotation comes last: it marks the image as in service.
    pub(super) fn report_seeded_status(
        &mut self,
        build: &MachineOsBuild,
        status: &MachineOsBuildStatus,
        promotion: Option<&Promotion>,
    ) {
        self.record_stages(build, promotion);
        self.update_config_status(build, status, promotion, true);
        if promotion.is_some_and(Promotion::is_open) {
            self.annotate_config(build);
            self.update_pool_status(build, status, promotion);
        }
    }

    /// Clears `Blocked` before an image is in service.
    pub(super) fn unblock(&mut self) {
        unblock(self.config, self.now, &mut self.actions);
    }

    /// Updates the annotations of the MachineOSConfig: names the build, and removes a rebuild
    /// request that is done.
    fn annotate_config(&mut self, build: &MachineOsBuild) {
        let metadata = &self.config.metadata;
        let name = &build.metadata.name;
        let mut patch = Patch::default();
        let is_named = metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD) == Some(name);
        if !is_named {
            patch.set(labels::CURRENT_MACHINE_OS_BUILD, name.clone());
        }
        let noted = metadata.annotation(labels::REBUILD_OF);
        let rebuilt = noted.is_some_and(|noted| noted != build.metadata.uid());
        if metadata.annotations.contains_key(labels::REBUILD) && (rebuilt || !is_named) {
            patch.remove(labels::REBUILD);
        }
        let asked = metadata.annotations.contains_key(labels::REBUILD)
            && !patch.annotations.contains_key(labels::REBUILD);
        if noted.is_some() && !asked {
            patch.remove(labels::REBUILD_OF);
        }
        if patch.annotations.is_empty() {
            return;
        }
        if !is_named {
            let note = format!("{name} is the build of this config");
            let edge = build.metadata.uid().to_owned() + metadata.resource_version();
            self.emit_config_event(EventReason::ConfigReconciled, &edge, note);
        }
        self.actions.push(object::patch(kinds::MACHINE_OS_CONFIG, metadata, patch));
    }

    /// Updates the condition `Warnings` without changing anything else.
    pub(super) fn update_warnings(&mut self) {
        let plan_warnings = self.plan_warnings();
        let update: Vec<_> =
            plan_warnings.iter().map(WarningsCondition::condition_update).collect();
        if let Some(status) = config_status(self.config, None, &update, self.now) {
            push_config_status(self.config, &status, &mut self.actions);
        }
    }

    /// The warnings of the plan, if there is a plan.
    fn plan_warnings(&self) -> Option<WarningsCondition> {
        let planned = self.snapshot.lookup_results.plan.as_ref()?.as_ref().ok()?;
        let update = condition(&self.config.status.conditions, WARNINGS);
        let findings: Vec<Finding> =
            planned.warnings.iter().filter(|one| !self.is_void(one)).cloned().collect();
        (!findings.is_empty() || update.is_some()).then(|| WarningsCondition::of(&findings))
    }

    /// Whether a warning of the plan is not one here: machines require signatures, and get them.
    fn is_void(&self, warning: &Finding) -> bool {
        let signing = self.snapshot.cluster.signing.as_ref();
        let secret = signing.map(|signing| signing.secret_of(&self.config.metadata));
        warning.code == REQUIRE_SIGNATURE && matches!(secret, Some(Ok(Some(_))))
    }

    /// The nodes that the pool's image is not for, and what to do; none if it is for all.
    fn left_out(&self) -> Option<String> {
        let platform = self.desired.platform.as_ref()?;
        let others = self.snapshot.pool_platforms.iter().filter(|(other, _)| *other != platform);
        let names = others
            .flat_map(|(other, nodes)| nodes.iter().map(move |node| format!("{node} ({other})")));
        let names: Vec<String> = names.collect();
        (!names.is_empty()).then(|| {
            format!(
                "the pool's image is for {platform}, and these nodes get none: {}; take them out of the pool, or create a pool for their platform",
                name_list(&names, MAX_NODES)
            )
        })
    }

    fn update_config_status(
        &mut self,
        build: &MachineOsBuild,
        status: &MachineOsBuildStatus,
        promotion: Option<&Promotion>,
        is_over: bool,
    ) {
        let conditions = &self.config.status.conditions;
        let plan_warnings = self.plan_warnings();
        let mut update: Vec<_> =
            plan_warnings.iter().map(WarningsCondition::condition_update).collect();
        if is_over && condition(conditions, BLOCKED).is_some_and(Condition::is_true) {
            update.push(NOT_BLOCKED);
        }
        update.extend(self.seeded_condition(build, status));
        if let Some(promotion) = promotion {
            self.emit_held_event(build, promotion);
        }
        update.extend(promotion.into_iter().flat_map(Promotion::conditions));
        let signed = promotion.and_then(|_| self.signed_condition(build, status));
        update.extend(signed.as_ref().map(SignedCondition::condition_update));
        let left_out = self.left_out();
        match &left_out {
            Some(message) => update.push(ConditionUpdate {
                kind: MIXED_PLATFORMS,
                status: "True",
                reason: "NodesLeftOut",
                message,
            }),
            None if condition(conditions, MIXED_PLATFORMS).is_some() => {
                update.push(ConditionUpdate {
                    kind: MIXED_PLATFORMS,
                    status: "False",
                    reason: "AsExpected",
                    message: "",
                });
            }
            None => {}
        }
        let runs = build.metadata.annotation(labels::METHOD)
            == Some(JobMethod::Containerfile.as_str())
            && status.image().is_none();
        let without = condition(conditions, USER_NAMESPACES).is_some();
        match self.snapshot.cluster.user_namespaces {
            Support::No if runs => update.push(ConditionUpdate {
                kind: USER_NAMESPACES,
                status: "False",
                reason: "NotSupported",
                message: "the cluster's nodes have no user namespaces for pods, so a Containerfile's instructions run with default capabilities of the node's root",
            }),
            Support::Forbidden if runs => update.push(ConditionUpdate {
                kind: USER_NAMESPACES,
                status: "False",
                reason: "Forbidden",
                message: "job.userNamespaces of ConfigMap mosb-config is never, so a Containerfile's instructions run with default capabilities of the node's root",
            }),
            Support::Yes if without => update.push(ConditionUpdate {
                kind: USER_NAMESPACES,
                status: "True",
                reason: "Supported",
                message: "a Containerfile's instructions run in a user namespace of their own",
            }),
            Support::Yes | Support::No | Support::Forbidden | Support::Unknown => {}
        }
        let image = status.image().filter(|_| promotion.is_some_and(Promotion::is_open));
        let service = image.map(|image| CurrentImage { image, build: &build.metadata.name });
        if let Some(status) = config_status(self.config, service, &update, self.now) {
            push_config_status(self.config, &status, &mut self.actions);
        }
    }

    fn update_pool_status(
        &mut self,
        build: &MachineOsBuild,
        status: &MachineOsBuildStatus,
        promotion: Option<&Promotion>,
    ) {
        let name = &build.metadata.name;
        let failed = condition(&status.conditions, BuildCondition::Failed.as_str());
        let state = match status.state() {
            Some(BuildCondition::Succeeded) => PoolBuild::Succeeded,
            Some(BuildCondition::Failed) => PoolBuild::Failed {
                build: name,
                message: failed.map_or("", |failed| &failed.message),
            },
            Some(BuildCondition::Interrupted) => return,
            Some(BuildCondition::Prepared | BuildCondition::Building) | None => PoolBuild::Building,
        };
        let metadata = &self.pool.metadata;
        let old = &self.pool.status.conditions;
        let was = condition(old, IMAGE_BUILD_DEGRADED).is_some_and(Condition::is_true);
        let new = pool_conditions(&metadata.name, old, state, self.now);
        if let Some(conditions) = new {
            let is = matches!(state, PoolBuild::Failed { .. });
            let edge = build.metadata.uid();
            if is && !was {
                let note = format!("{name} failed; the pool keeps its current image");
                self.emit_config_event(EventReason::BuildDegraded, edge, note);
            } else if was && state == PoolBuild::Succeeded {
                let note = format!("{name} succeeded");
                self.emit_config_event(EventReason::BuildRecovered, edge, note);
            }
            self.actions.push(object::replace_conditions(metadata, &conditions));
        }
        let key = labels::NEWEST_IMAGE_EQUIVALENT_CONFIG;
        if let Some(image) = status.image().filter(|_| promotion.is_some_and(Promotion::is_open))
            && metadata.annotation(key) != Some(image)
        {
            let mut patch = Patch::default();
            patch.set(key, image);
            self.actions.push(object::patch(kinds::MACHINE_CONFIG_POOL, metadata, patch));
        }
    }
}
