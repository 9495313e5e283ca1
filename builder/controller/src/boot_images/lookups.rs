//! Reads the Secrets with stubs, each by its name.

use super::snapshot::BootImageSnapshot;
use crate::lookups::Resolver;
use crate::reconciler::NoDecision;
use crate::user_data::{SecretRef, read_secret};

/// The most Secrets that are read in one pass; the next pass reads the others.
pub(super) const MAX_STUBS: usize = 64;

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
