//! Registry clients, shared by plans with the same credentials for a few seconds: after a change
//! that affects every pool, connections and tokens are not requested once per pool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mosb_api::ClusterSettings;
use mosb_api::cluster_settings::Proxy;
use mosb_build::NamedSecret;
use mosb_build::registry_client::{RegistryClient, RegistryClientError};
use mosb_registry::http::RetryPolicy;
use mosb_registry::{Options, Timeouts};

/// How long a client is shared: credentials stay in memory no longer, and changed permissions take
/// effect.
const CLIENT_TTL: Duration = Duration::from_secs(5);

/// The oldest client is dropped when there are more, because connections take memory.
const MAX_CLIENTS: usize = 16;

/// The clients that are shared now.
#[derive(Debug, Default)]
pub struct RegistryClientPool(Mutex<Vec<PooledClient>>);

#[derive(Debug)]
struct PooledClient {
    secret: NamedSecret,
    settings: ClusterSettings,
    proxy: Option<Proxy>,
    registry_client: Arc<RegistryClient>,
}

impl RegistryClientPool {
    /// Returns a client with the credentials of a Secret.
    ///
    /// # Errors
    /// As [`RegistryClient::new`].
    pub fn open(
        self: &Arc<Self>,
        secret: &NamedSecret,
        settings: &ClusterSettings,
        proxy: Option<&Proxy>,
    ) -> Result<Arc<RegistryClient>, RegistryClientError> {
        let mut opened = self.lock();
        let same = opened.iter().find(|opened| {
            opened.secret == *secret
                && opened.settings == *settings
                && opened.proxy.as_ref() == proxy
        });
        if let Some(same) = same {
            return Ok(Arc::clone(&same.registry_client));
        }
        let origin = format!("secret {}", secret.name);
        let base = client_options();
        let registry_client =
            RegistryClient::new(&origin, &secret.credentials, settings, proxy, base)?;
        let registry_client = Arc::new(registry_client);
        if opened.len() == MAX_CLIENTS {
            opened.remove(0);
        }
        opened.push(PooledClient {
            secret: secret.clone(),
            settings: settings.clone(),
            proxy: proxy.cloned(),
            registry_client: Arc::clone(&registry_client),
        });
        let (all, shared) = (Arc::downgrade(self), Arc::downgrade(&registry_client));
        tokio::spawn(async move {
            tokio::time::sleep(CLIENT_TTL).await;
            if let Some(all) = all.upgrade() {
                let old = |opened: &PooledClient| {
                    std::ptr::eq(Arc::as_ptr(&opened.registry_client), shared.as_ptr())
                };
                all.lock().retain(|opened| !old(opened));
            }
        });
        Ok(registry_client)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PooledClient>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shorter timeouts than on the command line: the queue retries, and an unavailable registry must
/// not block all workers.
fn client_options() -> Options {
    Options {
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            idle: Duration::from_secs(20),
            ..Timeouts::default()
        },
        retry: RetryPolicy { tries: 2, total: Duration::from_secs(15), ..RetryPolicy::default() },
        ..Options::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_build::DockerConfigJson;

    fn secret(name: &str) -> NamedSecret {
        NamedSecret { name: name.to_owned(), credentials: DockerConfigJson::empty() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_shared_for_seconds_by_those_with_the_same_logins() {
        let registries = Arc::<RegistryClientPool>::default();
        let settings = ClusterSettings::default();
        let open = |name: &str| registries.open(&secret(name), &settings, None).unwrap();
        let first = open("push");
        assert!(Arc::ptr_eq(&first, &open("push")), "the same");
        assert!(!Arc::ptr_eq(&first, &open("other")), "another Secret");
        let changed = ClusterSettings {
            base_os_container_image: Some("registry.example/os:2".to_owned()),
            ..ClusterSettings::default()
        };
        let changed = registries.open(&secret("push"), &changed, None).unwrap();
        assert!(!Arc::ptr_eq(&first, &changed), "other settings");
        tokio::time::sleep(CLIENT_TTL + Duration::from_millis(1)).await;
        assert!(registries.lock().is_empty(), "logins stay in memory");
        assert!(!Arc::ptr_eq(&first, &open("push")), "a new one");
    }

    #[tokio::test]
    async fn of_many_logins_the_newest_are_shared() {
        let registries = Arc::<RegistryClientPool>::default();
        let settings = ClusterSettings::default();
        for number in 0..=MAX_CLIENTS {
            let name = format!("push-{number}");
            registries.open(&secret(&name), &settings, None).unwrap();
        }
        let names: Vec<_> = registries.lock().iter().map(|o| o.secret.name.clone()).collect();
        assert_eq!((names.len(), &*names[0]), (MAX_CLIENTS, "push-1"));
    }
}
