//! Removes the login that a command left on the machine because it was killed before the unit that
//! stages was started. That unit removes the login of its own.

use crate::error::Error;
use crate::host::Host;
use crate::placed_login;
use crate::staging_unit::StagingUnit;

/// Removes a login that nothing uses, if there is one.
///
/// # Errors
/// It is still there, or whether something uses it is not known.
pub(crate) async fn remove_leftover_login(host: &Host) -> Result<(), Error> {
    if !placed_login::is_left(host.root())? || StagingUnit::is_any_running(host).await? {
        return Ok(());
    }
    tracing::warn!("removing the login of a command that was killed");
    placed_login::remove(host.root())
}
