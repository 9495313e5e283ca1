//! A roll-out is asked for, and the controller runs without `--rollout`.

use super::fake_cluster::*;
use mosb_api::{Condition, condition, labels};
use mosb_cluster::status::ROLLOUT_DEGRADED;

fn reported(fake: &FakeCluster) -> Option<Condition> {
    let pool = fake.snapshot.pool.as_ref().unwrap();
    condition(&pool.status.conditions, ROLLOUT_DEGRADED).cloned()
}

#[test]
fn a_roll_out_that_the_controller_does_not_do_is_reported_on_the_pool() {
    for rolling_out in [false, true] {
        let mut fake = FakeCluster::built();
        fake.snapshot.cluster.rolling_out = rolling_out;
        fake.settle();
        assert_eq!(reported(&fake), None);
        fake.annotate(labels::ROLLOUT, "automatic");
        fake.settle();
        let found = reported(&fake);
        assert_eq!(found.is_some_and(|one| one.is_true()), !rolling_out);
        fake.annotate(labels::ROLLOUT, "none");
        fake.settle();
        assert!(reported(&fake).is_none_or(|one| !one.is_true()));
    }
    let mut fake = FakeCluster::built();
    fake.snapshot.cluster.machine_config_operator = true;
    fake.annotate(labels::ROLLOUT, "automatic");
    fake.settle();
    assert_eq!(reported(&fake), None, "the operator brings the image to machines");
}

#[test]
fn the_condition_is_written_together_with_that_of_the_build() {
    let mut fake = FakeCluster::opted_in();
    fake.annotate(labels::ROLLOUT, "stage");
    fake.build();
    assert!(reported(&fake).unwrap().message.contains("deploy/rollout"));
}
