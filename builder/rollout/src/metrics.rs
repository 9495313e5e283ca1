//! Metrics of the roll-out of one pool: gauges from a decision, durations from the writes that end a
//! phase of a machine.
//!
//! Labels are the pool and words of fixed sets, never a node. All series of a pool disappear with
//! it.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::ended_phases::{EndedPhase, MachinePhase};
use super::machine_status::MachineProgress;
use super::pool_status::PoolStatus;
use super::reason::RolloutPhase;
use mosb_cluster::metrics::{Durations, Pool, PoolReasons, PoolState};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseOfPool {
    pool: String,
    phase: &'static str,
}

#[derive(Debug)]
pub struct RolloutMetrics {
    state: Family<PoolState, Gauge>,
    machines: Family<PoolState, Gauge>,
    oldest_slot: Family<PoolState, Gauge>,
    blocked: PoolReasons,
    hidden_files: Family<Pool, Gauge>,
    ring: Family<Pool, Gauge>,
    next_window: Family<Pool, Gauge>,
    durations: Durations<PhaseOfPool>,
}

impl Default for RolloutMetrics {
    fn default() -> Self {
        fn phases() -> Histogram {
            // An image is staged in seconds, a machine reboots in minutes, and a
            // PodDisruptionBudget may hold a drain for days.
            Histogram::new([
                5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 14400.0,
                86400.0,
            ])
        }
        Self {
            state: Family::default(),
            machines: Family::default(),
            oldest_slot: Family::default(),
            blocked: PoolReasons::default(),
            hidden_files: Family::default(),
            ring: Family::default(),
            next_window: Family::default(),
            durations: Family::new_with_constructor(phases),
        }
    }
}

impl RolloutMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "mosb_rollout_state",
            "The state of the pool's roll-out: 1 for the one that it is in",
            self.state.clone(),
        );
        registry.register(
            "mosb_rollout_machines",
            "Machines of the pool in this state; each is in exactly one",
            self.machines.clone(),
        );
        registry.register(
            "mosb_rollout_oldest_slot_timestamp_seconds",
            "When the machine in this state that has had its slot the longest got it",
            self.oldest_slot.clone(),
        );
        registry.register(
            "mosb_rollout_blocked",
            "1 for the reason why no other machine of the pool begins",
            self.blocked.family.clone(),
        );
        registry.register(
            "mosb_rollout_hidden_files",
            "Files of their images that machines of the pool have otherwise in /etc, all together",
            self.hidden_files.clone(),
        );
        registry.register(
            "mosb_rollout_ring",
            "The first ring of the pool's policy, from 1, that is not done",
            self.ring.clone(),
        );
        registry.register(
            "mosb_rollout_next_window_timestamp_seconds",
            "When the next window of the pool's policy begins, while none is open",
            self.next_window.clone(),
        );
        registry.register(
            "mosb_rollout_phase_duration_seconds",
            "How long a phase of the update of one machine took",
            self.durations.clone(),
        );
    }

    /// Sets the gauges of a pool.
    pub fn set(&self, pool: &str, status: &PoolStatus) {
        let of = |state| PoolState { pool: pool.to_owned(), state };
        let int = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for phase in RolloutPhase::ALL {
            let value = i64::from(phase == status.reason.phase());
            self.state.get_or_create(&of(phase.as_str())).set(value);
        }
        for progress in MachineProgress::ALL {
            let label = of(progress.as_str());
            let count = status.count(|machine| machine.progress == progress);
            self.machines.get_or_create(&label).set(int(count));
            match status.oldest_slot(progress) {
                Some(since) => {
                    self.oldest_slot.get_or_create(&label).set(since.as_second());
                }
                None => drop(self.oldest_slot.remove(&label)),
            }
        }
        self.blocked.set(pool, pool, status.reason.blocked().map(|blocked| blocked.reason));
        let hidden = int(status.hidden_files());
        let label = Pool { pool: pool.to_owned() };
        self.hidden_files.get_or_create(&label).set(hidden);
        let ring = status.ring.map(|(ring, _)| int(ring));
        let next_window = status.next_window.map(Timestamp::as_second);
        for (gauge, value) in [(&self.ring, ring), (&self.next_window, next_window)] {
            match value {
                Some(value) => {
                    gauge.get_or_create(&label).set(value);
                }
                None => drop(gauge.remove(&label)),
            }
        }
    }

    /// Records a phase of a machine of the pool that a write ended.
    pub fn record_phase(&self, pool: &str, ended: &EndedPhase) {
        let label = PhaseOfPool { pool: pool.to_owned(), phase: ended.phase.as_str() };
        self.durations.get_or_create(&label).observe(ended.took.as_secs_f64());
    }

    /// Removes the gauges of a pool that is not rolled out.
    pub fn clear(&self, pool: &str) {
        let of = |state| PoolState { pool: pool.to_owned(), state };
        for phase in RolloutPhase::ALL {
            self.state.remove(&of(phase.as_str()));
        }
        for progress in MachineProgress::ALL {
            self.machines.remove(&of(progress.as_str()));
            self.oldest_slot.remove(&of(progress.as_str()));
        }
        self.blocked.forget(pool);
        for gauge in [&self.hidden_files, &self.ring, &self.next_window] {
            gauge.remove(&Pool { pool: pool.to_owned() });
        }
    }

    /// Removes all series of a pool that does not exist any more.
    pub fn forget(&self, pool: &str) {
        self.clear(pool);
        for phase in MachinePhase::ALL {
            let label = PhaseOfPool { pool: pool.to_owned(), phase: phase.as_str() };
            self.durations.remove(&label);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::{Blocked, MachineStatus, RolloutReason};

    fn pool_status(progress: MachineProgress, blocked: Option<&'static str>) -> PoolStatus {
        let of_machine = |hidden_files| MachineStatus {
            progress,
            slot_since: Some("1970-01-01T00:01:00Z".parse().unwrap()),
            hidden_files: Some(hidden_files),
            ..MachineStatus::default()
        };
        let rolling_out =
            RolloutReason::RollingOut { build: String::new(), updated: 0, machines: 2 };
        let by = |reason| RolloutReason::Blocked(Blocked { reason, message: String::new() });
        let reason = blocked.map_or(rolling_out, by);
        let machines = vec![of_machine(1), of_machine(2)];
        let next_window = Some("1970-01-01T00:02:00Z".parse().unwrap());
        PoolStatus { reason, machines, ring: Some((2, 3)), next_window }
    }

    fn exposition(metrics: &RolloutMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    fn series(metrics: &RolloutMetrics) -> Vec<String> {
        let text = exposition(metrics);
        let is_of_pool = |line: &&str| line.contains("pool=\"worker\"") && !line.ends_with(" 0");
        let is_detail = |line: &&str| !line.contains("_bucket");
        text.lines().filter(is_of_pool).filter(is_detail).map(str::to_owned).collect()
    }

    #[test]
    fn series_follow_the_decision_and_disappear_with_the_pool() {
        let metrics = RolloutMetrics::default();
        let state = "mosb_rollout_state{pool=\"worker\",state=\"failed\"} 1";
        metrics.set("worker", &pool_status(MachineProgress::Lost, Some("MachineLost")));
        let mut found = series(&metrics);
        found.sort();
        let want = [
            "mosb_rollout_blocked{pool=\"worker\",reason=\"MachineLost\"} 1",
            "mosb_rollout_hidden_files{pool=\"worker\"} 3",
            "mosb_rollout_machines{pool=\"worker\",state=\"lost\"} 2",
            "mosb_rollout_next_window_timestamp_seconds{pool=\"worker\"} 120",
            "mosb_rollout_oldest_slot_timestamp_seconds{pool=\"worker\",state=\"lost\"} 60",
            "mosb_rollout_ring{pool=\"worker\"} 2",
            state,
        ];
        assert_eq!(found, want);
        metrics.set("worker", &pool_status(MachineProgress::Draining, Some("SharedNodes")));
        let text = series(&metrics).join("\n");
        assert!(text.contains("SharedNodes") && !text.contains("MachineLost"), "{text}");
        assert!(text.contains("state=\"draining\"} 60") && !text.contains("lost"), "{text}");
        metrics.set("worker", &pool_status(MachineProgress::Draining, None));
        assert!(
            !exposition(&metrics).contains("mosb_rollout_blocked{"),
            "{}",
            exposition(&metrics)
        );
        let ended = EndedPhase { phase: MachinePhase::Stage, took: Duration::from_secs(7) };
        metrics.record_phase("worker", &ended);
        metrics.clear("worker");
        let sums = [
            "mosb_rollout_phase_duration_seconds_sum{pool=\"worker\",phase=\"stage\"} 7.0",
            "mosb_rollout_phase_duration_seconds_count{pool=\"worker\",phase=\"stage\"} 1",
        ];
        assert_eq!(series(&metrics), sums);
        metrics.forget("worker");
        assert!(!exposition(&metrics).contains("pool=\"worker\""), "{}", exposition(&metrics));
    }
}
