//! Images that machines are to run: whether a registry has them, and what machines pull them with.

use std::collections::BTreeSet;

use super::rendered_config::get_rendered_config;
use super::{LookupError, LookupPermit, Resolver, invalid_input};
use crate::lookup::Problem;
use crate::rollout::TargetImage;
use mosb_build::{DockerConfigJson, PullSettings, pull_repositories, registries_conf};
use mosb_image::{ImageRef, PinnedRef, Platform};
use mosb_plan::api::{ClusterSettings, RenderedName};
use mosb_registry::registries_conf::By;
use mosb_registry::{Client, Error, Source};

impl Resolver {
    /// Whether the registry itself has an image now, and for which of these platforms. `own`: the
    /// pull secret of the MachineOSConfig.
    pub(crate) async fn machine_image(
        &self,
        image: &PinnedRef,
        own: Option<&str>,
        wanted: &BTreeSet<Platform>,
    ) -> Result<TargetImage, LookupError> {
        let host = image.repo().host().to_owned();
        let _permit = self.limits.hosts(LookupPermit::default(), [host].into()).await?;
        let settings = self.settings()?;
        let proxy = self.proxy(&settings).await?;
        let pull = self.pull_secret(own, &settings).await?;
        let registry_client = self.registries.open(&pull, &settings, proxy.as_ref())?;
        let client = registry_client.client();
        let Some(confirmed) = client.confirm(image).await? else {
            return Ok(TargetImage::Missing);
        };
        let mut platforms = BTreeSet::new();
        for platform in wanted {
            if is_for(client, image, platform).await? {
                platforms.insert(platform.clone());
            }
        }
        Ok(TargetImage::Present { image: confirmed, platforms })
    }

    /// The `osImageURL` of a rendered config. A tag is resolved by the registry.
    pub(crate) async fn stock_image(&self, rendered: &RenderedName) -> Result<PinnedRef, Problem> {
        let config = get_rendered_config(self, rendered.as_str()).await?;
        let url = config.os_image_url.unwrap_or_default();
        if let Ok(pinned) = url.parse::<PinnedRef>() {
            return Ok(pinned);
        }
        let image: ImageRef = url.parse().map_err(|cause| {
            let message = format!("machineconfig {rendered}: osImageURL {url:?}: {cause}");
            invalid_input("bad-reference", message)
        })?;
        let digest = self.digest_of(&image).await?;
        Ok(image.repo().pinned(digest))
    }

    /// What machines of a pool pull with, of which each gets a part. `own`: the pull secret of the
    /// MachineOSConfig.
    pub(crate) async fn machine_access(&self, own: Option<&str>) -> Result<MachineAccess, Problem> {
        let mut settings = self.settings()?;
        let credentials = self.pull_secret(own, &settings).await?.credentials;
        settings.proxy = self.proxy(&settings).await?;
        Ok(MachineAccess { credentials, settings })
    }
}

/// The pull credentials of a pool, and the settings with the addresses of the proxy.
#[derive(Debug)]
pub(crate) struct MachineAccess {
    credentials: DockerConfigJson,
    pub settings: ClusterSettings,
}

impl MachineAccess {
    /// The login for an image and its mirrors, and for nothing else.
    pub fn login_for(&self, image: &PinnedRef) -> DockerConfigJson {
        let conf = registries_conf(&self.settings);
        let pulled = pull_repositories(image.repo(), conf.as_deref(), &[By::Digest]);
        self.credentials.used_for(&pulled)
    }

    /// Mirrors, CAs and proxy for an image.
    pub fn settings_for(&self, image: &PinnedRef) -> Result<PullSettings, Problem> {
        Ok(PullSettings::new(image, &self.settings)?)
    }
}

/// Whether an image, or one of an index, is for this platform.
async fn is_for(client: &Client, image: &PinnedRef, platform: &Platform) -> Result<bool, Error> {
    let source = Source::Registry(image.clone().into());
    match client.resolve(&source, Some(platform)).await {
        Ok(_) => Ok(true),
        Err(Error::PlatformMissing { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
