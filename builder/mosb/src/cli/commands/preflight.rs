//! `mosb preflight`, and the same checks for `mosb bootstrap`.

use tokio::task::spawn_blocking;

use super::installation;
use crate::bootstrap::ValidatedInstall;
use crate::bootstrap::preflight::{self, Cluster, ImageToCheck, Push, Remedies, Report};
use crate::cli::Result;
use crate::cli::context::options;
use crate::cli::error::Error;
use crate::cli::resolve::{self, Preflight, Settings};
use mosb_build::NamedSecret;
use mosb_build::registry_client::RegistryClient;
use mosb_image::{ImageRef, Platform, RepoRef};
use mosb_registry::{Client, Options};

/// Checks images given as arguments or by the manifests of an installation.
///
/// # Errors
/// Invalid manifests, logins, certificates or registries.conf. A failed check is not an error.
pub async fn preflight(job: &Preflight, settings: &Settings) -> Result<Report> {
    let platform = job.platform.as_ref();
    match &job.of {
        resolve::ValidatedInstall::Images { images, push, base } => {
            let wanted = by_hand(images, push.as_ref(), base.as_ref(), platform, settings)?;
            Ok(preflight::check(wanted, Remedies::ByHand).await)
        }
        resolve::ValidatedInstall::Installation { manifests, cluster, pull_secret } => {
            let (manifests, cluster) = (manifests.clone(), *cluster);
            // Machines use the logins of the command line here.
            let pull_secret = pull_secret.clone().or_else(|| settings.authfile.clone());
            // Reading stdin may never end, so it must not delay a signal.
            let read = spawn_blocking(move || {
                installation::read(&manifests, pull_secret.as_deref(), cluster, true)
            });
            let installation = read.await.map_err(Error::stopped("reading"))??;
            for notice in &installation.checked.notices {
                let object = notice.object.as_deref().unwrap_or_default();
                tracing::info!("{object}: {}", notice.message);
            }
            of_installation(&installation.checked, platform, settings).await
        }
    }
}

fn by_hand(
    images: &[ImageRef],
    push: Option<&RepoRef>,
    base: Option<&ImageRef>,
    platform: Option<&Platform>,
    settings: &Settings,
) -> Result<Vec<ImageToCheck>> {
    let client = |authfile| {
        let hasty = preflight::options();
        Client::new(&Options {
            timeouts: hasty.timeouts,
            retry: hasty.retry,
            ..options(settings, authfile)
        })
    };
    let pull = client(settings.authfile.clone())?;
    let push = match push {
        Some(repo) => {
            Some(Push { repo: repo.clone(), client: client(settings.push_authfile.clone())? })
        }
        None => None,
    };
    let wanted = images.iter().map(|image| ImageToCheck {
        what: String::new(),
        image: image.clone(),
        pull: pull.clone(),
        push: push.clone(),
        platform: platform.cloned(),
        cluster: Cluster { base: base.cloned(), release: None },
    });
    Ok(wanted.collect())
}

/// Checks the images of an installation, with the logins, CAs, mirrors and the proxy that its
/// manifests have.
///
/// # Errors
/// Invalid logins, certificates or mirrors. A failed check is not an error.
pub async fn of_installation(
    checked: &ValidatedInstall,
    platform: Option<&Platform>,
    settings: &Settings,
) -> Result<Report> {
    let cluster = Cluster { base: base(checked), release: checked.release.clone() };
    let (mut wanted, mut clients) = (Vec::new(), Vec::new());
    for seed in &checked.seeds {
        let mut open = |origin: &str, secret: &NamedSecret| -> Result<Client> {
            let opened = registry_client(origin, secret, checked, settings)?;
            let client = opened.client().clone();
            clients.push(opened);
            Ok(client)
        };
        let push = match &seed.push_secret {
            Some(secret) => Some(Push {
                repo: seed.push.clone(),
                client: open(&format!("secret {}", secret.name), secret)?,
            }),
            None => None,
        };
        wanted.push(ImageToCheck {
            what: format!("MachineOSConfig {}", seed.config),
            image: seed.image.clone().into(),
            pull: open(&seed.pull.name, &seed.pull)?,
            push,
            platform: platform.cloned(),
            cluster: cluster.clone(),
        });
    }
    let report = preflight::check(wanted, Remedies::Manifests).await;
    drop(clients);
    Ok(report)
}

/// The cluster's own OS image; an invalid reference is reported by rendering.
fn base(checked: &ValidatedInstall) -> Option<ImageRef> {
    let text = checked.settings.base_os_container_image.as_deref();
    text.and_then(|text| text.parse().ok())
}

/// A client with the settings of an installation's manifests, and with short timeouts.
pub(super) fn registry_client(
    origin: &str,
    secret: &NamedSecret,
    checked: &ValidatedInstall,
    settings: &Settings,
) -> Result<RegistryClient> {
    let of_this_machine = options(settings, None);
    let base = Options { proxy: of_this_machine.proxy, ..preflight::options() };
    let (logins, proxy) = (&secret.credentials, checked.settings.proxy.as_ref());
    Ok(RegistryClient::new(origin, logins, &checked.settings, proxy, base)?)
}
