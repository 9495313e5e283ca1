//! The two Secrets of `deploy/ignition-server`, and why one of them can't be used. Pure.

use std::collections::BTreeMap;

use crate::evaluation::Refusal;
use mosb_cluster::cluster_names::{IGNITION_AUTHORITY, IGNITION_NAMESPACE, IGNITION_SERVER};
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::{FoundSecret, MAX_SECRET_SIZE, Unwritable, UserDataSecret};

/// Reason of a refusal: nothing can be served.
pub const NO_SERVER: &str = "NoServer";
/// Reason of a refusal: the configs of all pools do not fit.
pub const TOO_LARGE: &str = "TooLarge";

/// The Secret with the CA and the token key.
pub fn authority_secret(namespace: &str) -> SecretRef {
    SecretRef::new(namespace, IGNITION_AUTHORITY)
}

/// The Secret that the server mounts.
pub fn server_secret() -> SecretRef {
    SecretRef::new(IGNITION_NAMESPACE, IGNITION_SERVER)
}

/// One of them as it was read, if mosb may write it.
///
/// # Errors
/// There is none, or it is not ours.
pub fn usable<'s>(
    secret: &SecretRef,
    secrets: &'s BTreeMap<SecretRef, FoundSecret>,
) -> Result<&'s UserDataSecret, Refusal> {
    let cause = match secrets.get(secret) {
        Some(FoundSecret::Found(found)) => {
            let found = found.expose();
            found.check().map_err(|unwritable| unusable(secret, unwritable))?;
            return Ok(found);
        }
        Some(FoundSecret::Forbidden(cause)) => cause.as_str(),
        Some(FoundSecret::Missing) | None => "there is none",
    };
    let message = format!(
        "secret {secret}: {cause}; apply deploy/ignition-server, or take userData.endpoint out of ConfigMap mosb-config"
    );
    Err(Refusal::new(NO_SERVER, message))
}

/// Why one of them can't be written.
pub fn unusable(secret: &SecretRef, unwritable: Unwritable) -> Refusal {
    let cause = match unwritable {
        Unwritable::NotLabelled => "it is not the one of deploy/ignition-server; delete it",
        Unwritable::Immutable => "it is immutable; delete it",
        Unwritable::Deleting => "it is being deleted",
        Unwritable::TooLarge(size) => {
            let message = format!(
                "secret {secret}: its values, with the configs of all pools, would have {size} bytes, and a Secret takes {MAX_SECRET_SIZE}; move large files out of the pools' MachineConfigs"
            );
            return Refusal::new(TOO_LARGE, message);
        }
    };
    let message = format!("secret {secret}: {cause}, and apply deploy/ignition-server");
    Refusal::new(NO_SERVER, message)
}
