//! Reads credentials when they are needed. They are not cached here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::GetParams;

use super::{Resolver, invalid_input};
use mosb_api::ClusterSettings;
use mosb_api::cluster_settings::Proxy;
use mosb_build::{DockerConfigJson, NamedSecret, pull_permission};
use mosb_reconcile::error::{code, is_not_found};
use mosb_reconcile::{Error, Problem};

impl Resolver {
    /// Reads a Secret in our namespace.
    pub async fn read_own_secret(&self, name: &str) -> Result<Option<Secret>, Problem> {
        let cache = &self.cache;
        // With the version that the watch showed, the API server answers from its cache.
        let seen = cache.secrets.get(name);
        let version = seen.and_then(|seen| seen.resource_version.clone());
        self.read_secret_in(&cache.namespace, name, version).await
    }

    /// Reads a Secret in our namespace, else in the operator's.
    pub async fn read_secret(&self, name: &str) -> Result<Option<Secret>, Problem> {
        let cache = &self.cache;
        match self.read_own_secret(name).await? {
            None if cache.has_unwatched_secrets() => {
                let place = &cache.operator_namespace;
                self.read_secret_in(place, name, None).await
            }
            found => Ok(found),
        }
    }

    async fn read_secret_in(
        &self,
        namespace: &str,
        name: &str,
        version: Option<String>,
    ) -> Result<Option<Secret>, Problem> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let seen = GetParams { resource_version: version };
        match api.get_with(name, &seen).await {
            Ok(secret) => Ok(Some(secret)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) if namespace != self.cache.namespace && code(&error) == Some(403) => {
                let message = format!(
                    "secret {namespace}/{name}: there is none in {}, and mosb may not read this one; create it in {0}, or add its name to Role mosb-controller-secrets in {namespace}",
                    self.cache.namespace
                );
                Err(invalid_input("no-secret", message))
            }
            Err(error) => {
                Err(Error::api(format!("secret {namespace}/{name}"), "get")(error).into())
            }
        }
    }

    async fn required_secret(&self, name: &str) -> Result<Secret, Problem> {
        self.read_secret(name).await?.ok_or_else(|| {
            let namespace = &self.cache.namespace;
            let message = format!(
                "secret {namespace}/{name}: there is none; create it with kubectl create secret docker-registry, or name another one in the MachineOSConfig"
            );
            invalid_input("no-secret", message)
        })
    }

    /// The credentials of a registry Secret.
    pub async fn secret(&self, name: &str) -> Result<NamedSecret, Problem> {
        let secret = self.required_secret(name).await?;
        Ok(NamedSecret {
            name: name.to_owned(),
            credentials: DockerConfigJson::from_secret(&secret)?,
        })
    }

    /// Pull credentials: the MachineOSConfig's own Secret over the global one, which may be
    /// missing.
    pub async fn pull_secret(
        &self,
        own: Option<&str>,
        settings: &ClusterSettings,
    ) -> Result<NamedSecret, Problem> {
        let global = &settings.global_pull_secret;
        let logins = match self.read_secret(global).await? {
            Some(secret) => DockerConfigJson::from_secret(&secret)?,
            None => DockerConfigJson::empty(),
        };
        let Some(own) = own.filter(|own| own != global) else {
            return Ok(NamedSecret { name: global.clone(), credentials: logins });
        };
        let secret = self.required_secret(own).await?;
        let pushes = self
            .cache
            .configs
            .filter_list(|config| config.spec.rendered_image_push_secret.name == own);
        let pushes: Vec<&str> = pushes.iter().map(|config| &*config.metadata.name).collect();
        let namespace = secret.metadata.namespace.as_deref();
        let namespace = namespace.unwrap_or(&self.cache.namespace);
        pull_permission(&secret.metadata, settings, &pushes).map_err(|why| {
            let message = format!("secret {namespace}/{own}: {why}");
            invalid_input("pull-secret-not-permitted", message)
        })?;
        Ok(NamedSecret {
            credentials: DockerConfigJson::from_secret(&secret)?.over(&logins),
            name: own.to_owned(),
        })
    }

    /// The proxy settings, with the addresses (which may contain a password) from their Secret.
    pub async fn proxy(&self, settings: &ClusterSettings) -> Result<Option<Proxy>, Problem> {
        let Some(proxy) = settings.proxy.clone() else {
            return Ok(None);
        };
        let Some(name) = proxy.secret.clone() else {
            return Ok(Some(proxy));
        };
        let Some(secret) = self.read_secret(&name).await? else {
            let namespace = &self.cache.namespace;
            let message = format!(
                "secret {namespace}/{name} (proxy.secret of ConfigMap mosb-config): there is none; create it, or take the field out"
            );
            return Err(invalid_input("no-secret", message));
        };
        let data = secret.data.unwrap_or_default();
        let data: BTreeMap<String, Vec<u8>> =
            data.into_iter().map(|(key, value)| (key, value.0)).collect();
        Ok(Some(proxy.with_secret(&data)?))
    }
}
