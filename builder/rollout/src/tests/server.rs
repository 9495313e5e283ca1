//! The fake API server, and the observer that checks every write.

use super::fleet::*;
use super::machine::FakeJob;
use crate::decide::{RolloutEvaluation, evaluate};
use crate::drain_records::after_pass;
use crate::effect::Action;
use crate::ended_phases::ended_phases;
use crate::job_request::LoginGrant;
use crate::node_job::node_job;
use crate::observe::{NO_POOL, deadline};
use crate::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_api::{Metadata, labels};
use mosb_cluster::cluster_cache::SeenMachine;
use mosb_cluster::kinds;
use mosb_reconcile::write::{NewStatus, Patch, Target};
use std::collections::BTreeSet;
use std::time::Duration;

impl Fleet {
    pub fn decide(&mut self, pool: &str) -> RolloutDecision {
        self.evaluate(pool).decision
    }

    /// A decision with the status of its pool, after all lookups.
    pub fn evaluate(&mut self, pool: &str) -> RolloutEvaluation {
        self.looked_up(pool).0
    }

    /// A decision, and the snapshot with all lookups.
    fn looked_up(&mut self, pool: &str) -> (RolloutEvaluation, RolloutSnapshot) {
        self.record_readiness();
        let mut snapshot = self.snapshot(pool);
        self.times.entry(pool.to_owned()).or_default().fill(&mut snapshot, self.now);
        for _ in 0..mosb_reconcile::driver::MAX_LOOKUP_ROUNDS {
            let evaluation = evaluate(&snapshot, self.now);
            let decision = &evaluation.decision;
            if decision.lookups.is_empty() {
                return (evaluation, snapshot);
            }
            assert!(decision.actions.is_empty());
            let mut results = std::mem::take(&mut snapshot.lookup_results);
            for lookup in &decision.lookups {
                self.look_up(lookup, &mut results);
            }
            snapshot.lookup_results = results;
        }
        panic!("too many lookups");
    }

    /// A pass of which at most this many actions are applied. Returns the decision.
    pub fn pass(&mut self, pool: &str, most: usize) -> RolloutDecision {
        let (evaluation, snapshot) = self.looked_up(pool);
        let decision = evaluation.decision;
        for action in decision.actions.iter().take(most) {
            if self.apply(action).is_none() {
                break;
            }
            self.ended.extend(ended_phases(&snapshot, action, self.now));
        }
        let evictions = std::mem::take(&mut self.evicted);
        let earlier = self.drains.remove(pool).unwrap_or_default();
        // A process that was killed remembers nothing.
        if most >= decision.actions.len() {
            let records = after_pass(earlier, &snapshot, &evictions, self.now);
            self.drains.insert(pool.to_owned(), records);
        } else {
            self.times.clear();
        }
        decision
    }

    /// `None`: the API server rejects it, and the pass ends.
    pub fn apply(&mut self, action: &Action) -> Option<()> {
        match action {
            Action::Effect(RolloutEffect::CreateJob(request)) => {
                assert!(request.name.len() <= 63, "{}", request.name);
                // As the admission policy of `deploy/rollout`.
                assert!(request.image.contains("@sha256:"), "a Job without a digest is refused");
                if self.jobs.contains_key(&request.name) {
                    return None;
                }
                match request.verb {
                    NodeVerb::Apply => self.check_apply(&request.node),
                    NodeVerb::Part => self.check_part(request),
                    NodeVerb::Stage => self.check_stage(),
                    NodeVerb::Report => {}
                }
                let image = request.target.as_ref().map(|target| target.image.digest());
                let (node, name) = (&self.nodes[&request.node], &request.name);
                match request.verb {
                    NodeVerb::Report | NodeVerb::Part => assert!(!request.pulls, "{name}"),
                    NodeVerb::Apply => assert!(request.pulls, "{name}"),
                    // It fell back since the decision.
                    NodeVerb::Stage if !node.has_current_report() => {}
                    NodeVerb::Stage if request.pulls => {
                        assert_ne!(Some(node.booted), image, "{name}")
                    }
                    NodeVerb::Stage => assert!(node.has(image.unwrap()), "{name}"),
                }
                let version = self.next_version();
                let seen = MachineJob {
                    name: request.name.clone(),
                    uid: format!("uid-{version}"),
                    resource_version: version,
                    verb: request.verb,
                    node_uid: request.node_uid.clone(),
                    target: request.target.clone(),
                    number: request.number,
                    pulls: request.pulls,
                    has_login: request.verb == NodeVerb::Report,
                    created: Some(Time(self.dated())),
                    seen_created: None,
                    seen_ended: None,
                    deadline: deadline(&node_job(request)),
                    phase: JobPhase::Running,
                    awaits_pod: None,
                    waiting: None,
                    deleting: false,
                };
                let job = FakeJob {
                    node: request.node.clone(),
                    seen,
                    may_be_soft: request.may_be_soft,
                    confirms: request.confirms,
                    has_changed: false,
                };
                self.jobs.insert(request.name.clone(), job);
            }
            Action::Effect(RolloutEffect::CreateLogin(login)) => {
                let job = self.jobs.get_mut(&login.job)?;
                assert_eq!(job.seen.uid, login.job_uid);
                let has_none = login.grant == LoginGrant::NothingToPull;
                assert_eq!(has_none, !job.seen.pulls, "{}", login.job);
                job.seen.has_login = true;
            }
            Action::Delete(target) => {
                assert_eq!(target.kind, kinds::NODE_JOB);
                let uid = self.jobs.get(&target.name).map(|job| job.seen.uid.clone());
                if uid.as_ref() == Some(&target.uid) {
                    self.jobs.remove(&target.name);
                    self.version += 1;
                }
            }
            Action::Effect(RolloutEffect::Evict(Eviction { pod, node, uid, .. })) => {
                self.evict(pod, uid, node);
            }
            Action::Patch(target, patch) => self.patch(target, patch)?,
            Action::ReplaceStatus(target, NewStatus::Fields(update)) => {
                assert_eq!(target.kind, kinds::MACHINE_CONFIG_POOL);
                let version = self.next_version();
                let pool = self.pools.get_mut(&target.name)?;
                if pool.metadata.resource_version != target.version {
                    return None;
                }
                pool.metadata.resource_version = Some(version);
                let mut status = update.clone();
                if status.get("configuration").is_none() {
                    status["configuration"] =
                        serde_json::json!({ "name": pool.status.configuration.name });
                }
                pool.status = serde_json::from_value(status).unwrap();
            }
            Action::Event(event) => {
                if self.event_names.insert(event.name.clone()) {
                    let on = (event.on.kind.to_owned(), event.on.name.clone());
                    self.regarding.push((on, event.reason.to_owned()));
                    self.events.push((event.reason.to_owned(), event.note.clone()));
                }
            }
            other => panic!("{other}"),
        }
        Some(())
    }

    fn evict(&mut self, name: &str, uid: &str, node: &str) {
        let held = self.nodes[node].held.contains(name);
        assert!(self.nodes[node].slot().is_some(), "an eviction without a slot");
        let evictions = self.evicted.entry(node.to_owned()).or_default();
        let pods = &mut self.nodes.get_mut(node).unwrap().pods;
        let Some(pod) = pods.iter_mut().find(|pod| pod.uid == uid) else {
            return;
        };
        assert!(!pod.stays() && !pod.deleting);
        if held {
            evictions.refused.push(Refusal {
                namespace: "default".to_owned(),
                pod: name.to_owned(),
                message: "Cannot evict pod: the disruption budget db needs 1".to_owned(),
            });
        } else {
            evictions.accepted.push(uid.to_owned());
            *self.evictions.entry(name.to_owned()).or_default() += 1;
            pod.deleting = true;
        }
    }

    fn patch(&mut self, target: &Target, patch: &Patch) -> Option<()> {
        let version = self.next_version();
        let is_node = target.kind == kinds::NODE;
        let metadata = if is_node {
            &mut self.nodes.get_mut(&target.name)?.machine.metadata
        } else {
            assert_eq!(target.kind, kinds::MACHINE_OS_CONFIG);
            &mut self.configs.get_mut(&target.name)?.metadata
        };
        if metadata.resource_version != target.version {
            return None;
        }
        metadata.resource_version = Some(version);
        let had_slot = metadata.annotations.contains_key(labels::NODE_SLOT);
        merge(metadata, patch);
        if !is_node {
            if metadata.is_being_deleted() && metadata.finalizers.is_empty() {
                self.configs.remove(&target.name);
            }
            return Some(());
        }
        self.node_writes += 1;
        let has_slot = metadata.annotations.contains_key(labels::NODE_SLOT);
        let node = self.node(&target.name);
        if let Some(unschedulable) = patch.spec.get("unschedulable") {
            let unschedulable = unschedulable.as_bool().unwrap();
            assert!(!node.is_cordoned_by_hand, "a cordon of others is untouched");
            assert_eq!(unschedulable, has_slot, "cordoned with the slot, uncordoned with its end");
            node.machine.unschedulable = unschedulable;
            if !unschedulable {
                node.schedule_pods();
            }
        }
        if has_slot && !had_slot {
            self.check_slot(&target.name);
        }
        Some(())
    }

    /// A node has just got a slot.
    fn check_slot(&self, name: &str) {
        let node = &self.nodes[name];
        let (slot, pool) = (node.slot().unwrap(), &self.pools[&node.pool]);
        assert!(!pool.spec.paused, "a slot of a paused pool");
        assert!(node.machine.ready && node.machine.unschedulable);
        assert_eq!(node.staged, Some(slot.target.image.digest()), "{name} has staged the target");
        let members: Vec<_> = self.nodes.values().filter(|one| one.pool == node.pool).collect();
        let is_unavailable = |machine: &SeenMachine| {
            !machine.ready
                || machine.unschedulable
                || machine.disk_pressure
                || machine.metadata.annotation(labels::NODE_SLOT).is_some()
        };
        let unavailable = members.iter().filter(|one| is_unavailable(&one.machine)).count();
        let max = allowed(pool.spec.max_unavailable.as_ref(), members.len());
        assert!(unavailable <= max, "{unavailable} of at most {max} are unavailable");
        if node.is_control_plane() {
            let others = self.nodes.values().filter(|one| one.is_control_plane());
            for other in others.filter(|other| other.machine.metadata.name != name) {
                assert!(other.slot().is_none() && other.machine.ready, "one control-plane node");
            }
        }
    }

    /// The Job that reboots a machine is created.
    fn check_apply(&self, name: &str) {
        let node = &self.nodes[name];
        let slot = node.slot().expect("only in a slot");
        let record = slot.applying.expect("recorded before");
        assert_eq!(record.attempt, slot.attempt);
        if node.is_control_plane() {
            assert_eq!(self.unhealthy, None, "the control plane is healthy");
            let mut others = self.nodes.values().filter(|one| one.is_control_plane());
            assert!(others.all(|one| one.machine.metadata.name == name || one.machine.ready));
        }
    }

    /// A Job stages an image, and all images are in one registry. One on a machine that is away, or
    /// that is too old, does not count.
    fn check_stage(&self) {
        let is_staging = |job: &&FakeJob| {
            let is_ready = self.nodes.get(&job.node).is_some_and(|node| node.machine.ready);
            job.seen.verb == NodeVerb::Stage && job.seen.takes_place(is_ready, self.now)
        };
        let staging = self.jobs.values().filter(is_staging).count();
        assert!(staging < self.settings.staging_per_registry, "over all pools");
    }

    /// A Job changes a machine without a reboot.
    fn check_part(&self, request: &NodeJobRequest) {
        let node = &self.nodes[&request.node];
        assert!(node.slot().is_none(), "without a slot");
        assert!(!self.pools[&node.pool].spec.paused, "a part in a paused pool");
        let is_running = |job: &&FakeJob| {
            let other = self.nodes.get(&job.node).filter(|other| other.pool == node.pool);
            let is_ready = other.is_some_and(|other| other.machine.ready);
            job.seen.verb == NodeVerb::Part && job.seen.takes_place(is_ready, self.now)
        };
        let running = self.jobs.values().filter(is_running).count();
        let target = request.target.as_ref().unwrap();
        let has_it = self.nodes.values().filter(|other| {
            other.pool == node.pool
                && other.machine.ready
                && other.files == target.image.digest()
                && target.accepts_part(other.part)
        });
        assert!(running < has_it.count().clamp(1, 10), "one, then as many as have it, ten at most");
    }

    /// An `apply` Job reboots its machine.
    pub fn check_reboot(&mut self, name: &str, job: &MachineJob) {
        let node = &self.nodes[name];
        let slot = node.slot().expect("a reboot only in a slot");
        assert_eq!((Some(&slot.target), slot.attempt), (job.target.as_ref(), job.number));
        assert!(node.machine.unschedulable, "{name} is cordoned");
        let control_plane = self.nodes.values().filter(|one| one.is_control_plane()).count();
        let is_alone = self.nodes.len() == 1 || (node.is_control_plane() && control_plane == 1);
        assert!(node.is_drained() || is_alone, "{name} is drained");
        // After a soft reboot that did not boot the image, the kernel boots.
        let (target, soft) = (slot.target.to_json(), node.is_soft);
        let key = format!("{} {target} {} {soft}", job.node_uid, job.number);
        let count = self.reboots.entry(format!("{key} {}", slot.since.0)).or_default();
        *count += 1;
        assert_eq!(*count, 1, "{name} rebooted twice for one attempt");
    }

    /// As [`settle`](Self::settle), with a controller that is killed after a few writes of each pass.
    /// Each pass ends after one write more than the one before: all writes are the last one once.
    pub fn settle_with_kills(&mut self, first: usize) {
        let mut left = first;
        for _ in 0..60 {
            let most = left % 7;
            let decision = self.pass("worker", most);
            left += decision.actions.len().min(most) + 1;
            self.run_jobs();
            self.end_pods();
            self.boot_all();
        }
        self.settle();
    }

    /// Lets everything happen until nothing changes any more. Returns the last decisions.
    pub fn settle(&mut self) -> Vec<RolloutDecision> {
        let pools = self.pools.keys().chain(self.configs.keys()).cloned();
        let pools: BTreeSet<String> = pools.chain([NO_POOL.to_owned()]).collect();
        if self.drains.values().any(|records| !records.is_empty()) {
            // What a test changed is seen by the next list of pods.
            self.wait(Duration::from_secs(60));
        }
        for _ in 0..400 {
            let before = self.version;
            let last: Vec<_> = pools.iter().map(|pool| self.pass(pool, usize::MAX)).collect();
            let is_running = self.jobs.values().any(|job| {
                let node = self.nodes.get(&job.node);
                job.seen.phase == JobPhase::Running
                    && job.seen.has_login
                    && node.is_some_and(|node| !node.is_lost)
            });
            self.run_jobs();
            self.end_pods();
            self.boot_all();
            if self.version == before && !is_running {
                return last;
            }
            self.wait(Duration::from_secs(10));
        }
        let next: Vec<_> = pools.iter().map(|pool| self.decide(pool)).collect();
        panic!("no end: {next:#?}");
    }
}

/// How many machines of so many may be unavailable, computed a second time.
fn allowed(most: Option<&IntOrString>, machines: usize) -> usize {
    let most = match most {
        None => 1,
        Some(IntOrString::Int(number)) => usize::try_from(*number).unwrap(),
        Some(IntOrString::String(percent)) => {
            let percent: usize = percent.trim_end_matches('%').parse().unwrap();
            (0..machines).filter(|machine| (machine + 1) * 100 <= percent * machines).count()
        }
    };
    most.max(1)
}

fn merge(metadata: &mut Metadata, patch: &Patch) {
    for (key, value) in &patch.annotations {
        match value {
            Some(value) => metadata.annotations.insert(key.clone(), value.clone()),
            None => metadata.annotations.remove(key),
        };
    }
    if let Some(finalizers) = &patch.finalizers {
        metadata.finalizers.clone_from(finalizers);
    }
}
