//! When the sets are decided again without a change. Pure.

use std::time::{Duration, Instant};

use super::plan::BootImagePlan;
use super::snapshot::BootImageSnapshot;
use mosb_reconcile::waits::{BOOT_IMAGE_RECHECK, BOOT_IMAGE_RIGHTS};

pub(super) fn recheck(plan: &BootImagePlan, snapshot: &BootImageSnapshot) -> Option<Duration> {
    let needs_rights = !snapshot.stubs.is_empty()
        || !snapshot.unread.is_empty()
        || !snapshot.doubtful.is_empty()
        || snapshot.golden_doubt.is_some();
    let recheck = if needs_rights { BOOT_IMAGE_RIGHTS } else { BOOT_IMAGE_RECHECK };
    (plan.is_on || needs_rights).then_some(recheck)
}

/// How long until the first of these times, at which writes that failed are tried again.
pub(super) fn next_retry(times: impl Iterator<Item = Instant>, now: Instant) -> Option<Duration> {
    times.min().map(|time| time.saturating_duration_since(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot_images::decide::decide;
    use crate::boot_images::tests::fake_cluster::{FakeCluster, NEW};
    use crate::cluster_cache::BootImageKind;
    use crate::user_data::FoundSecret;

    #[test]
    fn a_right_that_no_watch_shows_is_looked_for_each_minute() {
        let snapshot = FakeCluster::new(NEW).snapshot();
        let on = decide(&snapshot, jiff::Timestamp::UNIX_EPOCH);
        let off = BootImagePlan::default();
        assert_eq!(recheck(&off, &snapshot), None);
        assert_eq!(recheck(&on, &snapshot), Some(Duration::from_secs(600)));
        let mut with_stub = snapshot.clone();
        with_stub.stubs.insert("a/b".parse().unwrap(), FoundSecret::Missing);
        let mut unread = snapshot;
        unread.unread.insert(BootImageKind::MachineDeployment, "forbidden".to_owned());
        for snapshot in [with_stub, unread] {
            assert_eq!(recheck(&on, &snapshot), Some(Duration::from_secs(60)));
        }
    }

    #[test]
    fn the_first_retry_is_waited_for_however_many_passes_come_before_it() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(next_retry([].into_iter(), now), None);
        let times = [now + 30 * second, now + 300 * second];
        assert_eq!(next_retry(times.into_iter(), now), Some(30 * second));
        assert_eq!(next_retry(times.into_iter(), now + 20 * second), Some(10 * second));
        assert_eq!(next_retry(times.into_iter(), now + 40 * second), Some(Duration::ZERO));
    }
}
