//! The keys that sign images, read from their Secrets when they are needed.
//!
//! Invariant: an encrypted key is decrypted once for each version of its Secret, one key at a time, and
//! not on the async threads: that takes 65 MiB of memory and up to half a second.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::ResourceExt as _;
use mosb_cluster::resolver::Resolver;
use mosb_reconcile::Problem;
use mosb_trust::{KeyError, SigningKey};
use mosb_types::{Diagnostic, Secret};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Keys that are cached; a cluster has one, or one for each pool.
const MAX_CACHED: usize = 64;
/// The keys of a Secret that `cosign generate-key-pair k8s://NAMESPACE/NAME` makes.
const KEY: &str = "cosign.key";
const PASSWORD: &str = "cosign.password";

/// Signing keys by the names of their Secrets. `Debug` shows no key.
#[derive(Debug, Clone)]
pub struct SigningKeys {
    cached: Arc<Mutex<BTreeMap<String, CachedKey>>>,
    decrypting: Arc<Semaphore>,
}

#[derive(Debug, Clone)]
struct CachedKey {
    /// UID and resourceVersion of the Secret.
    version: (String, String),
    key: Result<Arc<SigningKey>, KeyError>,
}

/// Why a Secret has no key that signs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
pub enum SigningKeyError {
    #[error(
        "secret {namespace}/{name}: there is none, and it has to have the key that signs images; create it with `cosign generate-key-pair k8s://{namespace}/{name}`, or correct signing.secret of ConfigMap mosb-config or annotation mosb.dev/signing-secret"
    )]
    #[diagnostic(code = "no-signing-key", class = InvalidInput)]
    NoSecret { namespace: String, name: String },
    #[error(
        "secret {namespace}/{name}: it has no {KEY}; put the private key there, or name another Secret"
    )]
    #[diagnostic(code = "no-signing-key", class = InvalidInput)]
    NoKey { namespace: String, name: String },
    #[error(
        "secret {namespace}/{name}: {KEY} is encrypted, and the Secret has no {PASSWORD}; add it"
    )]
    #[diagnostic(code = "bad-signing-key", class = InvalidInput)]
    NoPassword { namespace: String, name: String },
    #[error("secret {namespace}/{name}: {KEY}: {source}")]
    #[diagnostic(code = "bad-signing-key", class = InvalidInput, remedy = source.remedy())]
    Key { namespace: String, name: String, source: KeyError },
}

impl Default for SigningKeys {
    fn default() -> Self {
        Self { cached: Arc::default(), decrypting: Arc::new(Semaphore::new(1)) }
    }
}

impl SigningKeys {
    /// The key in this Secret of our namespace.
    ///
    /// # Errors
    /// There is none, or the API server does not answer.
    pub async fn get(&self, resolver: &Resolver, name: &str) -> Result<Arc<SigningKey>, Problem> {
        let namespace = resolver.cache.namespace.clone();
        let Some(secret) = resolver.read_own_secret(name).await? else {
            return Err(SigningKeyError::NoSecret { namespace, name: name.to_owned() }.into());
        };
        Ok(self.of_secret(namespace, secret).await?)
    }

    async fn of_secret(
        &self,
        namespace: String,
        mut secret: SecretObject,
    ) -> Result<Arc<SigningKey>, SigningKeyError> {
        let name = secret.name_any();
        let version =
            (secret.uid().unwrap_or_default(), secret.resource_version().unwrap_or_default());
        let mut data = secret.data.take().unwrap_or_default();
        let Some(pem) = data.remove(KEY) else {
            return Err(SigningKeyError::NoKey { namespace, name });
        };
        let pem = Secret::new(pem.0);
        let password = data.remove(PASSWORD).map(|password| Secret::new(password.0));
        let permit = Arc::clone(&self.decrypting).acquire_owned().await;
        let permit = permit.expect("it is never closed");
        let key = match self.cached(&name, &version) {
            Some(key) => key,
            None => {
                let (keys, name) = (self.clone(), name.clone());
                // It is cached even if nobody waits for it any more.
                let reading = move || {
                    let key = SigningKey::from_pem(&pem, password.as_ref()).map(Arc::new);
                    keys.insert(name, CachedKey { version, key: key.clone() });
                    drop(permit);
                    key
                };
                spawn_blocking(reading).await.expect("reading a key does not panic")
            }
        };
        key.map_err(|source| match source {
            KeyError::NoPassword => SigningKeyError::NoPassword { namespace, name },
            source => SigningKeyError::Key { namespace, name, source },
        })
    }

    fn cached(
        &self,
        name: &str,
        version: &(String, String),
    ) -> Option<Result<Arc<SigningKey>, KeyError>> {
        let cached = self.lock();
        cached.get(name).filter(|cached| cached.version == *version).map(|one| one.key.clone())
    }

    fn insert(&self, name: String, key: CachedKey) {
        let mut cached = self.lock();
        if cached.len() >= MAX_CACHED && !cached.contains_key(&name) {
            cached.pop_first();
        }
        cached.insert(name, key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, CachedKey>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use kube::api::ObjectMeta;

    use super::*;

    fn secret(name: &str, version: &str, data: &[(&str, &str)]) -> SecretObject {
        let bytes =
            |(key, text): &(&str, &str)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec()));
        SecretObject {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                uid: Some("uid".to_owned()),
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(data.iter().map(bytes).collect()),
            ..SecretObject::default()
        }
    }

    async fn read(
        keys: &SigningKeys,
        secret: SecretObject,
    ) -> Result<Arc<SigningKey>, SigningKeyError> {
        keys.of_secret("mosb".to_owned(), secret).await
    }

    #[tokio::test]
    async fn a_key_is_read_once_for_each_version() {
        let keys = SigningKeys::default();
        let (made, pem) = SigningKey::generate().unwrap();
        let (_, other) = SigningKey::generate().unwrap();
        let first = read(&keys, secret("os-key", "1", &[(KEY, pem.expose())])).await.unwrap();
        assert_eq!(first.verifying_key(), made.verifying_key());
        let again = read(&keys, secret("os-key", "1", &[(KEY, pem.expose())])).await.unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let rotated = read(&keys, secret("os-key", "2", &[(KEY, other.expose())])).await.unwrap();
        assert_ne!(rotated.verifying_key(), made.verifying_key());
        for number in 0..2 * MAX_CACHED {
            let name = format!("key-{number}");
            read(&keys, secret(&name, "1", &[(KEY, pem.expose())])).await.unwrap();
        }
        assert_eq!(keys.lock().len(), MAX_CACHED);
        assert!(!format!("{keys:?}").contains("PRIVATE"));
    }

    #[tokio::test]
    async fn other_secrets_are_named_with_a_remedy() {
        const ENCRYPTED: &str = "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\neyJrZGYiOnsibmFtZSI6InNjcnlwdCIsInBhcmFtcyI6eyJOIjoxNiwiciI6OCwicCI6MX0sInNhbHQiOiJBQUFBIn0sImNpcGhlciI6eyJuYW1lIjoibmFjbC9zZWNyZXRib3giLCJub25jZSI6IkFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBIn0sImNpcGhlcnRleHQiOiJBQUFBIn0=\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n";
        for (what, data, want) in [
            (
                "nothing",
                &[][..],
                &["no-signing-key", "it has no cosign.key", "put the private"][..],
            ),
            ("no key", &[(KEY, "hello")], &["bad-signing-key", "no key in PEM"]),
            ("no password", &[(KEY, ENCRYPTED)], &["bad-signing-key", "cosign.password; add it"]),
            (
                "a wrong one",
                &[(KEY, ENCRYPTED), (PASSWORD, "hunter2")],
                &["bad-signing-key", "the password is wrong"],
            ),
        ] {
            let found = read(&SigningKeys::default(), secret("os-key", "1", data)).await;
            let problem = Problem::from(found.unwrap_err());
            let text = format!("{} {}", problem.reason, problem.message);
            for part in want.iter().chain(&["secret mosb/os-key"]) {
                assert!(text.contains(part), "{what}: {text}");
            }
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
