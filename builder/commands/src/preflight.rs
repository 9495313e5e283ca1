//! `mosb preflight`, and the same checks for `mosb bootstrap`.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "in help texts, brackets mean what may be left out"
)]

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use tempfile::NamedTempFile;
use tokio::task::spawn_blocking;

use super::arguments::{self, one_stdin, usage};
use super::context::{Session, options};
use super::error::Error;
use super::failure_bundle::FailureBundle;
use super::input::Input;
use super::output::Object;
use super::page::{Align, Page};
use super::settings::Settings;
use super::{ExitCode, Result, installation, settings_file};
use mosb_api::ClusterSettings;
use mosb_bootstrap::ValidatedInstall;
use mosb_bootstrap::preflight::{
    self, CheckedImage, Cluster, ImageToCheck, Outcome, Push, Remedies, Report,
};
use mosb_build::NamedSecret;
use mosb_build::registry_client::RegistryClient;
use mosb_image::{ImageRef, Platform, RepoRef};
use mosb_registry::{self as registry, Client, Destination, Options, Target};

/// Checks images and registries before an installation relies on them
///
/// For each image: does the registry respond; may the image be pulled (manifest, config and a layer are read); would the
/// checks of a cluster bring it into service (docs/checks.md), as far as they need no cluster; may later images be pushed
/// (an upload is started and cancelled)? The log on stderr has a line with a timestamp for each check.
///
/// Exit codes: 0 all passed; 1 a check failed; 2 wrong use; 3 a check could not be made, try again.
///
/// Examples:
///
///   mosb preflight registry.example.com/os/worker@sha256:… --authfile pull-secret.json
///   mosb preflight --manifests install/manifests --pull-secret pull-secret.json
///   mosb preflight quay.io/acme/os:v1 --push quay.io/acme/os --platform linux/amd64 -o json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Preflight {
    /// host/repo[:tag][@digest]
    #[arg(value_name = "IMAGE", required_unless_present = "manifests", value_parser = image)]
    pub images: Vec<ImageRef>,
    /// Check the images of an installation: the cluster's first manifests, as for `mosb bootstrap`
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["images", "push", "base"], value_parser = arguments::input())]
    pub manifests: Vec<Input>,
    /// The kind of cluster, as for `mosb bootstrap`
    #[arg(long = "for", value_name = "CLUSTER", value_enum, conflicts_with = "images")]
    pub cluster: Option<mosb_bootstrap::Cluster>,
    /// Credentials that machines pull their image with, instead of a Secret among the manifests
    #[arg(long, value_name = "FILE", conflicts_with = "images")]
    pub pull_secret: Option<PathBuf>,
    /// The repository for later images
    #[arg(long, value_name = "REPO", value_parser = repository)]
    pub push: Option<RepoRef>,
    /// The platform of the machines, such as linux/amd64 [default: that of the cluster's own OS image]
    #[arg(long, value_name = "OS/ARCH", value_parser = arguments::platform)]
    pub platform: Option<Platform>,
    /// The cluster's own OS image, whose release and architecture the images must have
    #[arg(long, value_name = "IMAGE", value_parser = arguments::value::<ImageRef>("--base"))]
    pub base: Option<ImageRef>,
    /// Check with the settings of a cluster in this file: ConfigMap mosb-config, or its config.yaml
    #[arg(long, value_name = "FILE", conflicts_with = "manifests")]
    pub checks: Option<PathBuf>,
    /// A directory for a support bundle, which is written if a check does not pass
    #[arg(long, value_name = "DIR")]
    pub bundle: Option<PathBuf>,
}

fn image(text: &str) -> Result<ImageRef> {
    Ok(text.parse().map_err(registry::Error::from)?)
}

fn repository(text: &str) -> Result<RepoRef> {
    match text.parse::<Target>()?.destination() {
        Destination::Registry(repo) => Ok(repo.clone()),
        Destination::Layout(_) => usage(format!("--push {text}: want host/repository")),
    }
}

impl Preflight {
    /// Rejects what can't be meant.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check(&self, settings: &Settings) -> Result<()> {
        if !self.manifests.is_empty() {
            installation::only_machines_options(settings, false)?;
        }
        installation::bundle_folder(self.bundle.as_deref())?;
        one_stdin(&self.manifests, "--manifests: stdin can be read once; give - once")
    }

    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        let report = self.report(&session.settings).await;
        let is_failure = report
            .as_ref()
            .map_or(true, |report| matches!(report.outcome, Outcome::Failed | Outcome::Unknown));
        if let (true, Some(folder)) = (is_failure, &self.bundle) {
            let images = self.images.iter().map(ToString::to_string);
            let inputs = self.manifests.iter().map(ToString::to_string).chain(images).collect();
            let pull_secret =
                self.pull_secret.clone().or_else(|| session.settings.authfile.clone());
            let bundle = FailureBundle { folder, command: "preflight", inputs, pull_secret };
            bundle.write(report.as_ref().err(), report.as_ref().ok()).await;
        }
        let report = report?;
        session.print(&report)?;
        Ok(match report.outcome {
            Outcome::Passed | Outcome::Skipped => 0,
            Outcome::Failed => 1,
            Outcome::Unknown => 3,
        })
    }

    /// Checks images given as arguments or by the manifests of an installation.
    ///
    /// # Errors
    /// Invalid manifests, logins, certificates or registries.conf. A failed check is not an error.
    async fn report(&self, settings: &Settings) -> Result<Report> {
        if self.manifests.is_empty() {
            let cluster = match &self.checks {
                Some(file) => settings_file::read(file).await?,
                None => ClusterSettings::default(),
            };
            let images = by_hand(self, &cluster, settings)?;
            return Ok(preflight::check(images, Remedies::ByHand).await);
        }
        let (manifests, cluster) = (self.manifests.clone(), self.cluster);
        // Machines use the logins of the command line here.
        let pull_secret = self.pull_secret.clone().or_else(|| settings.authfile.clone());
        // Reading stdin may never end, so it must not delay a signal.
        let read = spawn_blocking(move || {
            installation::read(&manifests, pull_secret.as_deref(), cluster, true)
        });
        let installation = read.await.map_err(Error::stopped("reading"))??;
        for notice in &installation.checked.notices {
            let object = notice.object.as_deref().unwrap_or_default();
            tracing::info!("{object}: {}", notice.message);
        }
        of_installation(&installation.checked, self.platform.as_ref(), settings).await
    }
}

/// `cluster`: the settings of a cluster, or the defaults. Its policy counts unless one is given.
fn by_hand(
    typed: &Preflight,
    cluster: &ClusterSettings,
    settings: &Settings,
) -> Result<Vec<ImageToCheck>> {
    let policy = cluster.pull_policy().filter(|_| settings.signature_policy.is_none());
    let policy = policy.map(|policy| temporary(policy.with_signatures().as_bytes())).transpose()?;
    let client = |authfile| {
        let (mut options, hasty) = (options(settings, authfile), preflight::options());
        if let (Some(policy), Some(checks)) = (&policy, &typed.checks) {
            let name = format!("in signaturePolicy of {}", checks.display());
            options.names.files.insert(policy.path().to_owned(), name);
            options.signature_policy = Some((policy.path().to_owned(), true));
        }
        // It reads the policy now.
        Client::new(&Options { timeouts: hasty.timeouts, retry: hasty.retry, ..options })
    };
    let pull = client(settings.authfile.clone())?;
    let push = match &typed.push {
        Some(repo) => {
            Some(Push { repo: repo.clone(), client: client(settings.push_logins().cloned())? })
        }
        None => None,
    };
    let mut images: Vec<&ImageRef> = Vec::new();
    for image in &typed.images {
        if !images.contains(&image) {
            images.push(image);
        }
    }
    let base = typed.base.clone().or_else(|| base(cluster));
    let wanted = images.into_iter().map(|image| ImageToCheck {
        object: None,
        image: image.clone(),
        pull: pull.clone(),
        push: push.clone(),
        platform: typed.platform.clone(),
        cluster: Cluster { base: base.clone(), release: None },
        checks: cluster.checks.clone(),
    });
    Ok(wanted.collect())
}

/// A client reads its policy from a file.
fn temporary(text: &[u8]) -> Result<NamedTempFile, Error> {
    let write = || {
        let mut file = NamedTempFile::new()?;
        file.write_all(text)?;
        Ok(file)
    };
    write().map_err(|source| Error::Write { file: "a temporary file".to_owned(), source })
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
    let cluster = Cluster { base: base(&checked.settings), release: checked.release.clone() };
    let (mut wanted, mut clients) = (Vec::new(), Vec::new());
    for seed in &checked.seeds {
        let mut open = |origin: &str, secret: &NamedSecret| -> Result<Client> {
            let opened = registry_client(origin, secret, &checked.settings, settings)?;
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
            object: Some(format!("MachineOSConfig {}", seed.config)),
            image: seed.image.clone().into(),
            pull: open(&seed.pull.name, &seed.pull)?,
            push,
            platform: platform.cloned(),
            cluster: cluster.clone(),
            checks: checked.settings.checks.clone(),
        });
    }
    let report = preflight::check(wanted, Remedies::Manifests).await;
    drop(clients);
    Ok(report)
}

/// The cluster's own OS image; an invalid reference is reported by rendering.
fn base(settings: &ClusterSettings) -> Option<ImageRef> {
    let text = settings.base_os_container_image.as_deref();
    text.and_then(|text| text.parse().ok())
}

/// A client with the settings of an installation's manifests, and with short timeouts.
pub fn registry_client(
    origin: &str,
    secret: &NamedSecret,
    cluster: &ClusterSettings,
    settings: &Settings,
) -> Result<RegistryClient> {
    let of_this_machine = options(settings, None);
    let base = Options { proxy: of_this_machine.proxy, ..preflight::options() };
    let (logins, proxy) = (&secret.credentials, cluster.proxy.as_ref());
    Ok(RegistryClient::new(origin, logins, cluster, proxy, base)?)
}

impl Object for Report {
    const KIND: &'static str = "Preflight";

    fn text(&self) -> String {
        let mut page = Page::default();
        for image in &self.images {
            of_image(&mut page, image);
        }
        let verdict = match self.outcome {
            Outcome::Passed => "all checks passed",
            Outcome::Failed => "a check failed",
            Outcome::Skipped | Outcome::Unknown => "a check could not be made; try again",
        };
        page.section(&format!("{verdict} ({} ms)", self.took.as_millis()));
        page.into_text()
    }
}

fn of_image(page: &mut Page, image: &CheckedImage) {
    match &image.object {
        Some(object) => page.section(&format!("{object}: {}", image.image)),
        None => page.section(&image.image),
    }
    let rows: Vec<_> = image
        .checks
        .iter()
        .map(|check| {
            let millis = format!("{} ms", check.took.as_millis());
            vec![
                check.outcome.as_str().to_owned(),
                check.kind.as_str().to_owned(),
                millis,
                check.message.clone(),
            ]
        })
        .collect();
    page.table(&[Align::Left, Align::Left, Align::Right], &rows);
    for check in &image.checks {
        if let Some(remedy) = &check.remedy {
            page.line(&format!("  {}: {remedy}", check.kind.as_str()));
        }
    }
}
