//! The two Secrets of `deploy/ignition-server`, and why one of them can't be used. Pure.

use std::collections::BTreeMap;

use mosb_cluster::cluster_names::{IGNITION_AUTHORITY, IGNITION_NAMESPACE, IGNITION_SERVER};
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::{FoundSecret, MAX_SECRET_SIZE, Unwritable, UserDataSecret};

/// Why a Secret can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// The configs of all pools do not fit.
    pub is_too_large: bool,
    /// Object, cause and remedy.
    pub message: String,
}

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
) -> Result<&'s UserDataSecret, Unusable> {
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
    Err(Unusable { is_too_large: false, message })
}

/// Why one of them can't be written.
pub fn unusable(secret: &SecretRef, unwritable: Unwritable) -> Unusable {
    let cause = match unwritable {
        Unwritable::NotLabelled => "it is not the one of deploy/ignition-server; delete it",
        Unwritable::Immutable => "it is immutable; delete it",
        Unwritable::Deleting => "it is being deleted",
        Unwritable::TooLarge(size) => {
            let message = format!(
                "secret {secret}: its values, with the configs of all pools, would have {size} bytes, and a Secret takes {MAX_SECRET_SIZE}; move large files out of the pools' MachineConfigs"
            );
            return Unusable { is_too_large: true, message };
        }
    };
    let message = format!("secret {secret}: {cause}, and apply deploy/ignition-server");
    Unusable { is_too_large: false, message }
}
