//! Reads the Secrets with stubs, each by its name.

use std::time::Instant;

use super::snapshot::BootImageSnapshot;
use crate::lookups::Resolver;
use crate::user_data::{SecretRef, read_secret};
use mosb_reconcile::driver::NoDecision;

/// The most Secrets that are read in one pass; the next pass reads the others. What is read is kept
/// for the pass, and is little: most sets share a Secret, and a Role must name each.
const MAX_STUBS: usize = 1000;

/// The Secrets to read in this pass, of which these many were read: those first that were not read
/// for the longest time. Else sets whose Secrets are of no use would keep others from being read.
pub(super) fn next(
    mut lookups: Vec<SecretRef>,
    last_read: impl Fn(&SecretRef) -> Option<Instant>,
    count: usize,
) -> Vec<SecretRef> {
    lookups.sort_by_cached_key(last_read);
    lookups.truncate(MAX_STUBS.saturating_sub(count));
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_secret_is_read_although_the_first_ones_are_needed_again_in_each_pass() {
        let all: Vec<SecretRef> =
            (0..3 * MAX_STUBS).map(|n| format!("a/s{n:04}").parse().unwrap()).collect();
        let mut last_read: BTreeMap<SecretRef, Instant> = BTreeMap::new();
        let began = Instant::now();
        for pass in 0..3 {
            let read = next(all.clone(), |one| last_read.get(one).copied(), 0);
            assert_eq!(read.len(), MAX_STUBS);
            let now = began + Duration::from_secs(pass);
            last_read.extend(read.into_iter().map(|secret| (secret, now)));
        }
        assert_eq!(last_read.len(), all.len());
        let last_read = |one: &SecretRef| last_read.get(one).copied();
        assert_eq!(next(all.clone(), last_read, 0)[0], all[0]);
        assert_eq!(next(all.clone(), last_read, MAX_STUBS - 1).len(), 1);
        assert!(next(all, last_read, MAX_STUBS).is_empty());
    }
}
