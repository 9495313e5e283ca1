//! Reads the Secrets with stubs, each by its name.

use super::snapshot::BootImageSnapshot;
use mosb_cluster::resolver::Resolver;
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::read_secret;
use mosb_reconcile::driver::NoDecision;

/// The most Secrets that are read in one pass; the next pass reads the others. What is read is kept
/// for the pass, and is little: most sets share a Secret, and a Role must name each.
const MAX_STUBS: usize = 1000;

/// The Secrets to read in this pass: those first that were not read
/// for the longest time. Else sets whose Secrets are of no use would keep others from being read.
pub(super) fn next(lookups: &[SecretRef], snapshot: &BootImageSnapshot) -> Vec<SecretRef> {
    let mut lookups = lookups.to_vec();
    lookups.sort_by_cached_key(|secret| snapshot.memory.last_read(secret));
    lookups.truncate(MAX_STUBS.saturating_sub(snapshot.stubs.len()));
    lookups
}

/// Adds the Secrets to the snapshot.
pub(super) async fn look_up(
    resolver: &Resolver,
    lookups: &[SecretRef],
    snapshot: &mut BootImageSnapshot,
) -> Result<(), NoDecision> {
    for secret in lookups.iter().take(MAX_STUBS) {
        let found = read_secret(resolver, secret).await?;
        snapshot.stubs.insert(secret.clone(), found);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::tests::fake_cluster::{FakeCluster, NEW};
    use jiff::Timestamp;
    use mosb_cluster::user_data_secret::FoundSecret;

    #[test]
    fn every_secret_is_read_in_its_turn() {
        let all: Vec<SecretRef> =
            (0..3 * MAX_STUBS).map(|n| format!("a/s{n:04}").parse().unwrap()).collect();
        let mut snapshot = FakeCluster::new(NEW).snapshot();
        let stubs = |of: &[SecretRef]| -> BTreeMap<SecretRef, FoundSecret> {
            of.iter().map(|secret| (secret.clone(), FoundSecret::Missing)).collect()
        };
        // The first ones are needed again in each pass.
        for pass in 0..3 {
            let read = next(&all, &snapshot);
            assert_eq!(read.len(), MAX_STUBS);
            snapshot.memory.record_stubs(&stubs(&read), Timestamp::from_second(pass).unwrap());
        }
        assert!(all.iter().all(|secret| snapshot.memory.last_read(secret).is_some()));
        assert_eq!(next(&all, &snapshot)[0], all[0]);
        for (count, left) in [(MAX_STUBS - 1, 1), (MAX_STUBS, 0)] {
            snapshot.stubs = stubs(&all[..count]);
            assert_eq!(next(&all, &snapshot).len(), left);
        }
    }
}
