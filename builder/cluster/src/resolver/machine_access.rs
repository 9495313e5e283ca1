//! What machines pull their images with, and where their stock image is.

use super::rendered_config::get_rendered_config;
use super::{Resolver, invalid_input};
use mosb_api::{ClusterSettings, MachineOsConfig, RenderedName};
use mosb_build::{DockerConfigJson, NamedSecret, PullSettings, PushLogin, pull_only_login};
use mosb_image::{ImageRef, PinnedRef};
use mosb_plan::plan::SignatureFiles;
use mosb_reconcile::Problem;

impl Resolver {
    /// The `osImageURL` of a rendered config. A tag is resolved by the registry, so no worker may
    /// wait for it.
    pub async fn stock_image(&self, rendered: &RenderedName) -> Result<PinnedRef, Problem> {
        let config = get_rendered_config(self, rendered.as_str()).await?;
        let url = config.os_image_url.unwrap_or_default();
        if let Ok(pinned) = url.parse::<PinnedRef>() {
            return Ok(pinned);
        }
        let image: ImageRef = url.parse().map_err(|cause| {
            let message = format!("machineconfig {rendered}: osImageURL {url:?}: {cause}");
            invalid_input("bad-reference", message)
        })?;
        let _permit = self.limits.wait_for_host(image.repo().host()).await;
        let digest = self.digest_of(&image).await?;
        Ok(image.repo().pinned(digest))
    }

    /// Refuses an image that is in another repository than the `osImageURL` of a rendered config.
    pub async fn check_stock_repository(
        &self,
        image: &PinnedRef,
        rendered: &str,
    ) -> Result<(), Problem> {
        let config = get_rendered_config(self, rendered).await?;
        let url = config.os_image_url.unwrap_or_default();
        if url.parse().is_ok_and(|stock: ImageRef| stock.repo() == image.repo()) {
            return Ok(());
        }
        let message = format!(
            "{image}: not in the push repository, not a pre-built image of the pool, and not where osImageURL {url:?} of machineconfig {rendered} is, so machines get no login for it; roll out a build that `mosb builds` lists"
        );
        Err(invalid_input("image-not-ours", message))
    }

    /// What machines of a pool pull with, of which each gets a part.
    pub async fn machine_access(&self, secrets: &MachineSecrets) -> Result<MachineAccess, Problem> {
        let mut settings = self.settings()?;
        let pull = self.pull_secret(secrets.pull.as_deref(), &settings).await?;
        // Without a login there is none that pushes.
        let push = match &secrets.push {
            Some(push) if !pull.credentials.is_empty() => Some(self.secret(push).await?),
            Some(_) | None => None,
        };
        settings.proxy = self.proxy(&settings).await?;
        Ok(MachineAccess { pull, push, settings })
    }
}

/// The names of a pool's Secrets, in our namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineSecrets {
    /// Takes precedence over the global pull secret.
    pub pull: Option<String>,
    /// None after the MachineOSConfig was deleted.
    pub push: Option<String>,
}

impl MachineSecrets {
    pub fn of(config: &MachineOsConfig) -> Self {
        let spec = &config.spec;
        Self {
            pull: spec.base_image_pull_secret.as_ref().map(|secret| secret.name.clone()),
            push: Some(spec.rendered_image_push_secret.name.clone()),
        }
    }
}

/// The credentials of a pool, and the settings with the addresses of the proxy.
#[derive(Debug)]
pub struct MachineAccess {
    pub pull: NamedSecret,
    /// What no machine may have.
    push: Option<NamedSecret>,
    pub settings: ClusterSettings,
}

impl MachineAccess {
    /// The login for an image and its mirrors, and for nothing else.
    ///
    /// # Errors
    /// It is one that pushes.
    pub fn pull_only_login_for(&self, image: &PinnedRef) -> Result<DockerConfigJson, PushLogin> {
        pull_only_login(image, &self.pull.credentials, self.push.as_ref(), &self.settings)
    }

    /// Mirrors, CAs and proxy for an image, and how its signature is verified.
    pub fn settings_for(
        &self,
        image: &PinnedRef,
        signatures: SignatureFiles,
    ) -> Result<PullSettings, Problem> {
        Ok(PullSettings::new(image, &self.settings, signatures)?)
    }
}
