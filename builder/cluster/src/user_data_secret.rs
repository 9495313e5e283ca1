//! A Secret with user data: as it was read, and as it should be.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1;
use kube::Api;

use crate::resolver::Resolver;
use crate::secret_ref::SecretRef;
use mosb_api::{Metadata, labels};
use mosb_build::SecretObject;
use mosb_reconcile::Error;
use mosb_reconcile::driver::NoDecision;
use mosb_reconcile::error::{describe, is_forbidden, is_not_found};
use mosb_types::{Secret, Wipe};

/// The most bytes that the values of a Secret may have together (Kubernetes: `MaxSecretSize`).
pub const MAX_SECRET_SIZE: usize = 1024 * 1024;
/// The keys with the config: those of Cluster API and of machine sets.
const CONFIG_KEYS: [&str; 2] = ["value", "userData"];
/// Cluster API takes `value` for cloud-config without it.
const FORMAT: (&str, &str) = ("format", "ignition");

/// The values of a Secret.
pub type SecretData = BTreeMap<String, ByteString>;

/// The Secret as it was read.
#[derive(Clone, PartialEq)]
pub struct UserDataSecret(pub SecretObject);

/// The MachineOSConfig for which a Secret is written: `NAME/UID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretOwner(String);

impl SecretOwner {
    pub fn of(config: &Metadata) -> Self {
        Self(format!("{}/{}", config.name, config.uid()))
    }

    /// Whether it is this MachineOSConfig, or an earlier one of its name, which is gone.
    pub fn is(&self, config: &Metadata) -> bool {
        self.name() == config.name
    }

    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(name, _)| name)
    }
}

/// Why mosb does not write a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwritable {
    NotLabelled,
    Immutable,
    Deleting,
    /// The bytes that its values would have.
    TooLarge(usize),
}

/// A Secret that was asked for.
#[derive(Debug, Clone)]
pub enum FoundSecret {
    Found(Box<Secret<UserDataSecret>>),
    Missing,
    /// The controller may not read it; the API server's message.
    Forbidden(String),
}

/// The Secret, read from etcd: a cache may show it as it was before our last write.
pub async fn read_secret(
    resolver: &Resolver,
    secret: &SecretRef,
) -> Result<FoundSecret, NoDecision> {
    let api: Api<v1::Secret> = Api::namespaced(resolver.client.clone(), secret.namespace());
    match api.get(secret.name()).await {
        Ok(found) => Ok(FoundSecret::Found(Box::new(Secret::new(found.into())))),
        Err(error) if is_not_found(&error) => Ok(FoundSecret::Missing),
        Err(error) if is_forbidden(&error) => Ok(FoundSecret::Forbidden(describe(&error))),
        Err(error) => Err(Error::api(format!("secret {secret}"), "get")(error).into()),
    }
}

impl UserDataSecret {
    /// Whether mosb may write it, whatever the config is.
    pub fn check(&self) -> Result<(), Unwritable> {
        let metadata = &self.0.0.metadata;
        let mut all_labels = metadata.labels.iter().flatten();
        if !all_labels.any(|(key, _)| key == labels::USER_DATA) {
            return Err(Unwritable::NotLabelled);
        }
        if metadata.deletion_timestamp.is_some() {
            return Err(Unwritable::Deleting);
        }
        Ok(())
    }

    /// A value of it that is not empty.
    pub fn value(&self, key: &str) -> Option<&[u8]> {
        let value = self.0.0.data.as_ref()?.get(key)?;
        (!value.0.is_empty()).then_some(&value.0)
    }

    /// The Secret with this config of `owner`; `None` if it has it.
    pub fn with(
        &self,
        config: &Secret<Vec<u8>>,
        owner: &SecretOwner,
    ) -> Result<Option<SecretObject>, Unwritable> {
        self.with_change(|object| {
            let annotations = object.metadata.annotations.get_or_insert_default();
            annotations.insert(labels::USER_DATA_OWNER.to_owned(), owner.0.clone());
            let data = object.data.get_or_insert_default();
            for key in CONFIG_KEYS {
                data.insert(key.to_owned(), ByteString(config.expose().clone()));
            }
            data.insert(FORMAT.0.to_owned(), ByteString(FORMAT.1.as_bytes().to_vec()));
        })
    }

    /// The MachineOSConfig that the Secret is of, since mosb wrote it first.
    pub fn owner(&self) -> Option<SecretOwner> {
        let annotations = self.0.0.metadata.annotations.as_ref()?;
        annotations.get(labels::USER_DATA_OWNER).cloned().map(SecretOwner)
    }

    /// The Secret with a change of its values; `None` if the change has no effect.
    pub fn changed(
        &self,
        change: impl FnOnce(&mut SecretData),
    ) -> Result<Option<SecretObject>, Unwritable> {
        self.with_change(|object| change(object.data.get_or_insert_default()))
    }

    fn with_change(
        &self,
        change: impl FnOnce(&mut v1::Secret),
    ) -> Result<Option<SecretObject>, Unwritable> {
        self.check()?;
        let SecretObject(object) = &self.0;
        let mut newer = object.clone();
        change(&mut newer);
        let is_same = newer.data.iter().flatten().eq(object.data.iter().flatten());
        if is_same && newer.metadata.annotations == object.metadata.annotations {
            return Ok(None);
        }
        let size = newer.data.iter().flatten().map(|(_, value)| value.0.len()).sum();
        if size > MAX_SECRET_SIZE {
            return Err(Unwritable::TooLarge(size));
        }
        if object.immutable == Some(true) {
            return Err(Unwritable::Immutable);
        }
        Ok(Some(SecretObject(newer)))
    }
}

impl From<v1::Secret> for UserDataSecret {
    fn from(object: v1::Secret) -> Self {
        Self(SecretObject(object))
    }
}

impl fmt::Debug for UserDataSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl Wipe for UserDataSecret {
    fn wipe(&mut self) {
        self.0.wipe();
    }
}
