//! When the CA of each stub in use expires: a new machine can't fetch its config after that. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::machine_set::MachineSet;
use super::snapshot::BootImageSnapshot;
use super::stub::{stub_of, stub_secret};
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::FoundSecret;

/// The Unix times at which the CAs of these sets' stubs expire, as far as they are known. Stubs
/// that were not read lately are added to the lookups.
pub(super) fn expiries<'s>(
    sets: impl Iterator<Item = MachineSet<'s>>,
    snapshot: &BootImageSnapshot,
    lookups: &mut BTreeSet<SecretRef>,
    now: Timestamp,
) -> BTreeMap<SecretRef, i64> {
    let secrets: BTreeSet<SecretRef> = sets.filter_map(|set| stub_secret(set).ok()?).collect();
    let mut known = BTreeMap::new();
    for secret in secrets {
        let remembered = snapshot.memory.stub_expiry(&secret, now);
        match snapshot.stubs.get(&secret).map(expiry).or(remembered) {
            None => {
                lookups.insert(secret);
            }
            Some(Some(time)) => {
                known.insert(secret, time);
            }
            // It can't be read, or has no CA of its own.
            Some(None) => {}
        }
    }
    known
}

/// When the CA of a stub expires.
pub(super) fn expiry(found: &FoundSecret) -> Option<i64> {
    let FoundSecret::Found(object) = found else { return None };
    let (_, stub) = stub_of(object.expose())?;
    Some(stub.ok()?.authority().ok()??.not_after())
}
