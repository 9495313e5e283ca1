//! When things that other clocks date began and ended, by the clock of this process. Pure.
//!
//! Kubernetes dates Jobs and conditions of Nodes by the clocks of control-plane machines, which may be
//! wrong. What this process saw itself counts from then. What was there before it began counts from the
//! time in the object, and from the start of this process at the latest.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::snapshot::{JobPhase, MachineJob, RolloutSnapshot};

/// What this process saw of the machines of a pool and of the Jobs that it reads.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenTimes {
    /// By UID.
    jobs: BTreeMap<String, JobTimes>,
    /// Whether a Node is Ready, and since when, by UID.
    nodes: BTreeMap<String, (bool, Timestamp)>,
    /// What comes from now on was not there before this process began.
    has_begun: bool,
}

#[derive(Debug, Clone, Copy)]
struct JobTimes {
    created: Timestamp,
    ended: Option<Timestamp>,
}

impl SeenTimes {
    /// Sets the times of a snapshot that was taken now, and forgets what is not in it.
    pub fn fill(&mut self, snapshot: &mut RolloutSnapshot, now: Timestamp) {
        for machine in &mut snapshot.machines {
            let reported = machine.node.ready_since.as_ref().map(|since| since.0);
            let began = self.begin(reported, now);
            let ready = machine.node.ready;
            let seen =
                self.nodes.entry(machine.node.metadata.uid().to_owned()).or_insert((ready, began));
            if seen.0 != ready {
                *seen = (ready, now);
            }
            machine.node.ready_since = reported.map(|_| Time(seen.1));
        }
        let of_machines = snapshot.machines.iter_mut().flat_map(|machine| &mut machine.jobs);
        let mut uids = BTreeSet::new();
        for job in of_machines.chain(&mut snapshot.cluster.jobs_elsewhere) {
            self.fill_job(job, now);
            uids.insert(job.uid.clone());
        }
        self.jobs.retain(|uid, _| uids.contains(uid));
        let nodes: BTreeSet<&str> =
            snapshot.machines.iter().map(|one| one.node.metadata.uid()).collect();
        self.nodes.retain(|uid, _| nodes.contains(uid.as_str()));
        self.has_begun = true;
    }

    fn fill_job(&mut self, job: &mut MachineJob, now: Timestamp) {
        let created = job.created.as_ref().map(|time| time.0);
        let reported_end = match &job.phase {
            JobPhase::Running => None,
            JobPhase::Succeeded(_) => Some(created),
            JobPhase::Failed { at, .. } => Some(at.as_ref().map(|time| time.0).or(created)),
        };
        let new = JobTimes {
            created: self.begin(created, now),
            ended: reported_end.map(|at| self.begin(at, now)),
        };
        let seen = match self.jobs.entry(job.uid.clone()) {
            Entry::Vacant(entry) => entry.insert(new),
            Entry::Occupied(entry) => {
                let seen = entry.into_mut();
                // It ran when it was seen last.
                seen.ended = seen.ended.or(new.ended.map(|_| now));
                seen
            }
        };
        (job.seen_created, job.seen_ended) = (Some(seen.created), seen.ended);
    }

    /// Since when something that is seen first now is there.
    fn begin(&self, reported: Option<Timestamp>, now: Timestamp) -> Timestamp {
        reported.filter(|reported| !self.has_begun && *reported < now).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::job_of_machine;
    use crate::{ClusterMachines, Machine};
    use mosb_cluster::cluster_cache::SeenMachine;

    const DAY: i64 = 24 * 60 * 60;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A machine that became Ready, or not, and its Job, as another clock dates them.
    fn snapshot(ready: bool, job: Option<JobPhase>, dated: i64) -> RolloutSnapshot {
        let dated = Some(Time(at(dated)));
        let jobs = job.map(|phase| MachineJob { created: dated.clone(), ..job_of_machine(phase) });
        let ready_since = dated.clone();
        let jobs: Vec<MachineJob> = jobs.into_iter().collect();
        let cluster =
            ClusterMachines { jobs_elsewhere: jobs.clone(), ..ClusterMachines::default() };
        let node = SeenMachine { ready, ready_since, ..SeenMachine::default() };
        let machine = Machine { node, jobs, ..Machine::default() };
        RolloutSnapshot { machines: vec![machine], cluster, ..RolloutSnapshot::default() }
    }

    /// What is seen: since when the machine is what it is, and the Job's begin and end.
    fn seen(times: &mut SeenTimes, mut snapshot: RolloutSnapshot, now: i64) -> [Option<i64>; 3] {
        times.fill(&mut snapshot, at(now));
        let machine = &snapshot.machines[0];
        assert_eq!(snapshot.cluster.jobs_elsewhere, machine.jobs);
        let ready_since = machine.node.ready_since.as_ref().map(|since| since.0);
        let job = machine.jobs.first();
        let of_job = [job.and_then(|job| job.seen_created), job.and_then(|job| job.seen_ended)];
        [ready_since, of_job[0], of_job[1]].map(|time| time.map(Timestamp::as_second))
    }

    #[test]
    fn what_was_seen_counts_by_the_clock_of_this_process() {
        let failed = |dated| JobPhase::Failed {
            exit_code: None,
            report: None,
            message: String::new(),
            at: Some(Time(at(dated))),
        };
        let now = 10 * DAY;
        for skew in [-DAY, 0, DAY] {
            let mut times = SeenTimes::default();
            seen(&mut times, snapshot(true, None, now - 5 * DAY), now);
            let dated = now + 10 + skew;
            let new = snapshot(false, Some(JobPhase::Running), dated);
            let want = [Some(now + 10), Some(now + 10), None];
            assert_eq!(seen(&mut times, new.clone(), now + 10), want, "{skew}");
            assert_eq!(seen(&mut times, new, now + 20), want, "{skew}: later");
            let ended = snapshot(false, Some(failed(dated + 30)), dated);
            let want = [Some(now + 10), Some(now + 10), Some(now + 30)];
            assert_eq!(seen(&mut times, ended.clone(), now + 30), want, "{skew}: ended");
            assert_eq!(seen(&mut times, ended, now + 40), want, "{skew}: ended, later");
        }
        // It was there before this process began.
        for (what, dated, want) in [("past", now - 100, now - 100), ("future", now + DAY, now)] {
            let ended = snapshot(false, Some(failed(dated)), dated);
            let want = [Some(want); 3];
            let mut times = SeenTimes::default();
            assert_eq!(seen(&mut times, ended.clone(), now), want, "{what}");
            assert_eq!(seen(&mut times, ended, now + 50), want, "{what}: later");
        }
    }
}
