//! Writes that the API server refused, and what becomes of the rest of their pass: the other
//! machines don't wait for the one whose write was refused, or whose object somebody else changed
//! meanwhile, and the pool's status is always written. Pure.

use std::time::Duration;

use super::effect::{Action, RolloutEffect};
use super::snapshot::{RefusedWrites, RolloutSnapshot};
use mosb_cluster::kinds;
use mosb_reconcile::Error;
use mosb_reconcile::waits::{CONFLICT, ROLLOUT_PROBLEM};
use mosb_reconcile::write::ApplyError;

/// How long after its begin a pass writes nothing more but the status, well before its deadline.
const WRITES: Duration = Duration::from_secs(180);

/// What an action is for.
enum Subject<'a> {
    Machine(&'a str),
    /// The object of the action before.
    Same,
    Status,
    Pool,
}

/// Which actions of a pass are applied.
#[derive(Debug)]
pub(super) struct PassWrites<'a> {
    snapshot: &'a RolloutSnapshot,
    refused: RefusedWrites,
    was_applied: bool,
    is_cut: bool,
}

impl<'a> PassWrites<'a> {
    pub fn new(snapshot: &'a RolloutSnapshot) -> Self {
        let refused = RefusedWrites::default();
        Self { snapshot, refused, was_applied: true, is_cut: false }
    }

    /// Whether an action is applied this long after the begin of the pass.
    pub fn admits(&mut self, action: &Action, elapsed: Duration) -> bool {
        let subject = subject(self.snapshot, action);
        let is_late = elapsed >= WRITES && !matches!(subject, Subject::Status);
        self.is_cut |= is_late;
        let may = match subject {
            Subject::Status => true,
            Subject::Same => self.was_applied,
            Subject::Machine(name) => {
                let refused = &self.refused;
                refused.pool.is_none()
                    && !refused.machines.contains_key(name)
                    && !refused.conflicts.contains_key(name)
            }
            Subject::Pool => self.refused.pool.is_none(),
        };
        let is_applied = may && !is_late;
        if !matches!(subject, Subject::Same) {
            self.was_applied = is_applied;
        }
        is_applied
    }

    /// Records why an admitted action was not applied.
    ///
    /// # Errors
    /// The pass ends: the view of the pool is outdated, or the API server can't be written to at
    /// all.
    pub fn record(&mut self, action: &Action, error: ApplyError) -> Result<(), ApplyError> {
        let subject = subject(self.snapshot, action);
        if let (ApplyError::Conflict(object), Subject::Machine(name)) = (&error, &subject) {
            // Only the view of this machine is outdated: it is its turn in the next pass.
            let before = self.snapshot.refused_writes.conflicts.get(*name);
            let count = before.map_or(0, |(_, count)| *count).saturating_add(1);
            self.was_applied = false;
            self.refused.conflicts.insert((*name).to_owned(), (object.clone(), count));
            return Ok(());
        }
        if matches!(subject, Subject::Status) || !is_of_object(action, &error) {
            return Err(error);
        }
        self.was_applied = false;
        let text = error.to_string();
        match subject {
            Subject::Machine(name) => drop(self.refused.machines.insert(name.to_owned(), text)),
            Subject::Same | Subject::Status | Subject::Pool => self.refused.pool = Some(text),
        }
        Ok(())
    }

    /// What was refused, and when the next pass is due because of what was not applied.
    pub fn finish(self) -> (RefusedWrites, Option<Duration>) {
        let refused = &self.refused;
        let is_refused = refused.pool.is_some() || !refused.machines.is_empty();
        let again = (is_refused || self.is_cut).then_some(ROLLOUT_PROBLEM);
        let conflicts = refused.conflicts.values().map(|(_, count)| CONFLICT.wait(*count));
        let again = conflicts.chain(again).min();
        (self.refused, again)
    }
}

fn subject<'a>(snapshot: &'a RolloutSnapshot, action: &'a Action) -> Subject<'a> {
    let of_job = |job: &str| {
        let mut machines = snapshot.machines.iter();
        let machine = machines.find(|machine| machine.jobs.iter().any(|one| one.name == job));
        machine.map_or(Subject::Pool, |machine| Subject::Machine(machine.name()))
    };
    match action {
        Action::Effect(RolloutEffect::CreateJob(request)) => Subject::Machine(&request.node),
        Action::Effect(RolloutEffect::Evict(eviction)) => Subject::Machine(&eviction.node),
        Action::Effect(RolloutEffect::CreateLogin(login)) => of_job(&login.job),
        Action::Patch(target, _) if target.kind == kinds::NODE => Subject::Machine(&target.name),
        Action::Delete(target) => of_job(&target.name),
        Action::ReplaceStatus(..) => Subject::Status,
        Action::Event(_) => Subject::Same,
        Action::Create(_) | Action::Patch(..) => Subject::Pool,
    }
}

/// Whether the cause is this object, rather than our view or the API server.
fn is_of_object(action: &Action, error: &ApplyError) -> bool {
    match error {
        ApplyError::Conflict(_) => false,
        ApplyError::Problem(_) | ApplyError::Api(Error::NotOurs { .. }) => true,
        ApplyError::Api(error @ Error::Api { .. }) => match error.status_code() {
            Some(code) => ![401, 409, 429].contains(&code),
            // Webhooks that don't answer hold evictions of some pods.
            None => matches!(action, Action::Effect(RolloutEffect::Evict(_))),
        },
        ApplyError::Api(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::Blocked;
    use crate::effect::Eviction;
    use crate::job_request::{LoginGrant, NodeJobRequest, NodeLogin, NodeVerb};
    use crate::snapshot::{JobPhase, Machine, MachineJob};
    use mosb_api::rollout::NodeTarget;
    use mosb_reconcile::Kind;
    use mosb_reconcile::write::{NewStatus, Patch, Target};

    fn target(kind: Kind, name: &str) -> Target {
        Target { kind, name: name.to_owned(), uid: String::new(), version: None }
    }

    fn patch(node: &str) -> Action {
        Action::Patch(target(kinds::NODE, node), Patch::default())
    }

    fn evict(node: &str) -> Action {
        Action::from(Eviction {
            namespace: "n".to_owned(),
            pod: "p".to_owned(),
            uid: "u".to_owned(),
            node: node.to_owned(),
        })
    }

    fn status() -> Action {
        let fields = NewStatus::Fields(serde_json::Value::Null);
        Action::ReplaceStatus(target(kinds::MACHINE_CONFIG_POOL, "p"), fields)
    }

    fn config() -> Action {
        Action::Patch(target(kinds::MACHINE_OS_CONFIG, "p"), Patch::default())
    }

    fn answer(code: u16) -> ApplyError {
        let status = Status::failure("by policy", "Reason").with_code(code).boxed();
        Error::api("object x", "create")(kube::Error::Api(status)).into()
    }

    fn no_answer() -> ApplyError {
        Error::api("object x", "create")(kube::Error::LinesCodecMaxLineLengthExceeded).into()
    }

    fn snapshot() -> RolloutSnapshot {
        let machine = |name: &str| {
            let mut machine = Machine::default();
            machine.node.metadata.name = name.to_owned();
            machine
        };
        let machines = vec![machine("a"), machine("b")];
        RolloutSnapshot { machines, ..RolloutSnapshot::default() }
    }

    #[test]
    fn a_refused_write_ends_what_one_machine_gets_and_no_more() {
        let snapshot = snapshot();
        for (what, first, error, others, of_it) in [
            ("a machine", patch("a"), answer(403), true, false),
            ("an eviction", evict("a"), answer(400), true, false),
            ("no answer to an eviction", evict("a"), no_answer(), true, false),
            ("a server error", patch("a"), answer(500), true, false),
            ("the history, which comes before any slot", config(), answer(422), false, false),
        ] {
            let mut writes = PassWrites::new(&snapshot);
            assert!(writes.admits(&first, Duration::ZERO), "{what}");
            writes.record(&first, error).unwrap();
            assert_eq!(writes.admits(&evict("a"), Duration::ZERO), of_it, "{what}");
            assert_eq!(writes.admits(&patch("b"), Duration::ZERO), others, "{what}");
            assert!(writes.admits(&status(), Duration::ZERO), "{what}");
            let (refused, again) = writes.finish();
            let message = Blocked::by_refused(&refused).unwrap().message;
            assert!(message.contains("object x"), "{what}: {message}");
            assert_eq!(again, Some(ROLLOUT_PROBLEM), "{what}");
            assert_eq!(message.contains("a: "), others, "{what}: {message}");
        }
    }

    #[test]
    fn a_job_that_changed_costs_its_machine_alone() {
        let mut snapshot = snapshot();
        let image = format!("reg.example/os@{}", mosb_image::Digest::of(b"os"));
        let of_login: NodeTarget =
            serde_json::from_value(serde_json::json!({ "image": image })).unwrap();
        let request =
            NodeJobRequest::new(&snapshot, &snapshot.machines[0], NodeVerb::Stage, None, 1);
        let job = MachineJob {
            name: request.name.clone(),
            uid: "uid".to_owned(),
            resource_version: String::new(),
            verb: request.verb,
            node_uid: String::new(),
            target: None,
            number: 1,
            pulls: true,
            has_login: false,
            created: None,
            seen_created: None,
            seen_ended: None,
            deadline: None,
            phase: JobPhase::Running,
            awaits_pod: None,
            waiting: None,
            deleting: false,
        };
        let login = NodeLogin {
            job: job.name.clone(),
            job_uid: job.uid.clone(),
            target: of_login,
            grant: LoginGrant::OwnImage,
            secrets: Default::default(),
        };
        snapshot.machines[0].jobs.push(job);
        for action in [
            Action::Delete(target(kinds::NODE_JOB, &request.name)),
            Action::Effect(RolloutEffect::CreateLogin(Box::new(login))),
            Action::from(request),
        ] {
            let mut writes = PassWrites::new(&snapshot);
            assert!(writes.admits(&action, Duration::ZERO), "{action:?}");
            writes.record(&action, ApplyError::Conflict("job x".to_owned())).unwrap();
            assert!(!writes.admits(&patch("a"), Duration::ZERO), "{action:?}");
            assert!(writes.admits(&patch("b"), Duration::ZERO), "{action:?}");
        }
    }

    #[test]
    fn an_outdated_view_or_a_dead_api_server_ends_the_pass() {
        let snapshot = snapshot();
        for (action, error) in [
            (config(), ApplyError::Conflict("machineosconfig p".to_owned())),
            (status(), ApplyError::Conflict("machineconfigpool p".to_owned())),
            (patch("a"), answer(401)),
            (patch("a"), answer(429)),
            (patch("a"), no_answer()),
            (status(), answer(403)),
        ] {
            let mut writes = PassWrites::new(&snapshot);
            let text = error.to_string();
            assert_eq!(writes.record(&action, error).unwrap_err().to_string(), text);
            assert_eq!(writes.finish(), (RefusedWrites::default(), None));
        }
    }

    #[test]
    fn a_conflict_costs_a_machine_its_turn_and_many_are_named() {
        let mut snapshot = snapshot();
        for pass in 1..10 {
            let mut writes = PassWrites::new(&snapshot);
            assert!(writes.admits(&patch("a"), Duration::ZERO));
            writes.record(&patch("a"), ApplyError::Conflict("node a".to_owned())).unwrap();
            assert!(!writes.admits(&evict("a"), Duration::ZERO), "it was decided on an older view");
            assert!(writes.admits(&patch("b"), Duration::ZERO), "the others go on");
            assert!(writes.admits(&status(), Duration::ZERO));
            let (refused, again) = writes.finish();
            assert!(again.is_some_and(|again| again <= Duration::from_secs(10)), "{again:?}");
            let named = Blocked::by_refused(&refused).map(|blocked| blocked.message);
            assert_eq!(named.is_some(), pass > 5, "{pass}: {named:?}");
            assert!(named.is_none_or(|text| text.contains("a: node a: changed")));
            snapshot.refused_writes = refused;
        }
        let mut writes = PassWrites::new(&snapshot);
        assert!(writes.admits(&patch("a"), Duration::ZERO));
        assert_eq!(writes.finish(), (RefusedWrites::default(), None), "it was written");
    }

    #[test]
    fn writes_have_a_time_limit_and_the_status_has_none() {
        let snapshot = snapshot();
        for (elapsed, writes) in [(WRITES - Duration::from_secs(1), true), (WRITES, false)] {
            let mut pass = PassWrites::new(&snapshot);
            assert_eq!(pass.admits(&patch("b"), elapsed), writes, "{elapsed:?}");
            assert!(pass.admits(&status(), elapsed), "{elapsed:?}");
            assert_eq!(pass.finish().1.is_some(), !writes, "{elapsed:?}");
        }
    }
}
