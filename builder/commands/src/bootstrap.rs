//! `mosb bootstrap`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::pin;

use clap::{ArgAction, Args};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::spawn_blocking;

use super::arguments::{self, one_stdin, usage};
use super::context::Session;
use super::error::Error;
use super::failure_bundle::FailureBundle;
use super::input::Input;
use super::installation::{self, Installation};
use super::output::Object;
use super::page::{Page, count};
use super::preflight::{of_installation, registry_client};
use super::progress::Progress;
use super::render::render_error;
use super::settings::Settings;
use super::{ExitCode, Result, output_folder};
use mosb_api::{PoolName, RenderedConfig};
use mosb_bootstrap::{Cluster, File, ValidatedInstall, kubernetes, openshift};
use mosb_build::fetch::{self, Fetcher};
use mosb_build::registry_client::proxy_variables;
use mosb_build::resolve::{self, RenderFailure};
use mosb_build::with_policy_of;
use mosb_merge::{self as render, Request};
use mosb_types::{Diagnostic as _, Finding};

/// Checks the manifests of a new cluster whose machines run images that exist already
///
/// Each MachineOSConfig names its image in the annotation machineconfiguration.openshift.io/pre-built-image. For openshift,
/// MachineOSConfigs for the installer's manifests are written; for kubernetes all first manifests, and for each pool the
/// Ignition config of new machines. All problems are reported at once, and then nothing is written.
///
/// Exit codes: 0 done; 1 a registry rejected a request; 2 wrong use, invalid manifests; 3 a registry
/// could not be reached.
///
/// Examples:
///
///   mosb bootstrap --manifests install/manifests --output seeded --pull-secret pull-secret.json
///   mosb bootstrap --manifests cluster/ --output out && kubectl apply -f out/
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Bootstrap {
    /// The cluster's first manifests: files, directories (their *.yaml, *.yml and *.json), or - for stdin
    #[arg(long, value_name = "DIR", required = true, num_args = 1.., value_parser = arguments::input())]
    pub manifests: Vec<Input>,
    /// The directory for the result: a new or empty one, or that of an earlier run, which is replaced
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
    /// The kind of cluster [default: openshift if a ControllerConfig is among the manifests, else kubernetes]
    #[arg(long = "for", value_name = "CLUSTER", value_enum)]
    pub cluster: Option<Cluster>,
    /// Credentials that machines pull their image with, instead of a Secret among the manifests
    #[arg(long, value_name = "FILE")]
    pub pull_secret: Option<PathBuf>,
    /// With =false, no registry is contacted
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", hide_possible_values = true)]
    pub check_registry: bool,
    /// A directory for a support bundle, which is written if this fails
    #[arg(long, value_name = "DIR")]
    pub bundle: Option<PathBuf>,
}

impl Bootstrap {
    /// Rejects what can't be meant.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check(&self, settings: &Settings) -> Result<()> {
        installation::only_machines_options(settings, true)?;
        one_stdin(&self.manifests, "--manifests: stdin can be read once; give - once")?;
        if self.output.file_name().is_none() {
            let output = self.output.display();
            return usage(format!(
                "--output {output}: a directory with a name is replaced as a whole; write it without . or .. at its end"
            ));
        }
        installation::bundle_folder(self.bundle.as_deref())
    }

    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        let result = bootstrap(self, session).await;
        if let (Err(failure), Some(folder)) = (&result, &self.bundle) {
            let inputs = self.manifests.iter().map(ToString::to_string).collect();
            let pull_secret = self.pull_secret.clone();
            let bundle = FailureBundle { folder, command: "bootstrap", inputs, pull_secret };
            bundle.write(Some(failure), None).await;
        }
        session.print(&result?)
    }
}

/// Validates the manifests of an installation, and writes what its cluster and its machines need,
/// or nothing.
///
/// # Errors
/// All problems of the manifests; a failed lookup or write.
async fn bootstrap(wanted: &Bootstrap, session: &Session) -> Result<BootstrapResult> {
    let Session { settings, progress } = session;
    progress.step("reading the manifests");
    let installation = read(wanted).await?;
    output_folder::check(&wanted.output)?;
    let made = async {
        match installation.cluster {
            Cluster::Openshift => Ok(BootstrapOutput::for_openshift(&installation)),
            Cluster::Kubernetes => for_kubernetes(&installation, wanted, settings, progress).await,
        }
    };
    let asked = async {
        if wanted.check_registry {
            at_registries(&installation.checked, settings).await
        } else {
            Ok(())
        }
    };
    let (mut made, mut asked) = (pin!(made), pin!(asked));
    let made = tokio::select! {
        biased;
        made = &mut made => match made {
            // Problems of the manifests are reported first, then those of all checks, and last the
            // one image that rendering lacks.
            Err(error) if error.downcast_ref::<mosb_bootstrap::Error>().is_none() => {
                asked.await?;
                return Err(error);
            }
            made => {
                let made = made?;
                asked.await?;
                made
            }
        },
        asked = &mut asked => {
            asked?;
            made.await?
        }
    };
    if wanted.check_registry {
        verify_as_machines(&made, &installation.checked, settings).await?;
    }
    progress.step("writing the result");
    let (folder, files) = (wanted.output.clone(), made.files);
    let written = spawn_blocking(move || {
        output_folder::write(&folder, &files)?;
        Ok::<_, Error>(files)
    });
    let files = written.await.map_err(Error::stopped("writing"))??;
    Ok(result(&wanted.output, &installation, &files, made.pools, made.notices))
}

/// Makes the output files and the report.
struct BootstrapOutput {
    files: Vec<File>,
    pools: Vec<kubernetes::PoolOutput>,
    notices: Vec<Finding>,
    /// By pool, if they are rendered here.
    configs: BTreeMap<PoolName, RenderedConfig>,
}

impl BootstrapOutput {
    fn for_openshift(installation: &Installation) -> Self {
        Self {
            files: openshift::files(&installation.objects, &installation.checked),
            pools: Vec::new(),
            notices: Vec::new(),
            configs: BTreeMap::new(),
        }
    }
}

async fn read(wanted: &Bootstrap) -> Result<Installation> {
    let (manifests, pull_secret) = (wanted.manifests.clone(), wanted.pull_secret.clone());
    let (cluster, registries) = (wanted.cluster, wanted.check_registry);
    // Reading stdin may never end, so it must not delay a signal.
    let read = spawn_blocking(move || {
        installation::read(&manifests, pull_secret.as_deref(), cluster, registries)
    });
    read.await.map_err(Error::stopped("reading"))?
}

/// Asks the registries about the images.
async fn at_registries(checked: &ValidatedInstall, settings: &Settings) -> Result<()> {
    let report = of_installation(checked, None, settings).await?;
    Ok(report.verdict()?)
}

/// Checks the image of each pool by the policy that its rendered config brings to machines, too.
///
/// # Errors
/// Machines would reject an image, or it is not known.
async fn verify_as_machines(
    made: &BootstrapOutput,
    checked: &ValidatedInstall,
    settings: &Settings,
) -> Result<()> {
    for seed in &checked.seeds {
        let Some(config) = made.configs.get(&seed.pool) else {
            continue;
        };
        let cluster = with_policy_of(checked.settings.clone(), config)?;
        let registry = registry_client(&seed.pull.name, &seed.pull, &cluster, settings)?;
        registry.client().check_image(&seed.image.clone().into()).await?;
    }
    Ok(())
}

async fn for_kubernetes(
    installation: &Installation,
    wanted: &Bootstrap,
    settings: &Settings,
    progress: &Progress,
) -> Result<BootstrapOutput> {
    let (objects, checked) = (&installation.objects, &installation.checked);
    let configs = kubernetes::configs(objects, checked);
    let mut rendered = Vec::new();
    let mut problems: Vec<Finding> = Vec::new();
    for mut request in kubernetes::requests(objects, checked, &configs)? {
        progress.step(&format!("rendering pool {}", request.pool));
        if wanted.check_registry {
            pin(&mut request, checked, settings).await?;
        }
        let pins = request.pins.clone();
        let fetcher = Some(async { fetcher(checked) });
        match resolve::render(request, fetcher, resolve::admit_all, &|step| progress.step(step))
            .await
        {
            Ok(done) => rendered.push(kubernetes::RenderedPool { rendered: done, pins }),
            // A problem of a MachineConfig appears in each of its pools.
            Err(RenderFailure::Invalid(invalid)) if !invalid.findings().is_empty() => {
                let mut findings = invalid.findings();
                findings.retain(|finding| !problems.contains(finding));
                problems.extend(findings);
            }
            Err(error) => return Err(render_error(error)),
        }
    }
    if !problems.is_empty() {
        return Err(mosb_bootstrap::Error::Invalid { problems }.into());
    }
    let kubernetes::Output { files, pools, notices } =
        kubernetes::output(objects, checked, &configs, &rendered)?;
    let configs = rendered.into_iter().map(|one| one.rendered.config);
    let configs = configs.map(|config| (config.pool().clone(), config)).collect();
    Ok(BootstrapOutput { files, pools, notices, configs })
}

/// Pins images that have a tag; the controller keeps these pins.
async fn pin(request: &mut Request, checked: &ValidatedInstall, settings: &Settings) -> Result<()> {
    let images = render::unpinned(request);
    let pull = checked.seeds.first().map(|seed| &seed.pull);
    let (Some(pull), false) = (pull, images.is_empty()) else {
        return Ok(());
    };
    let registry = registry_client(&pull.name, pull, &checked.settings, settings)?;
    for unpinned in images {
        let digest = registry.client().digest_of(&unpinned.reference).await?;
        let place = match &*unpinned.place {
            render::GIVEN => "ConfigMap mosb-config",
            place => place,
        };
        let (place, image) = (place.to_owned(), unpinned.image.clone());
        request.pin(unpinned, digest.ok_or(Error::NoTag { place, image })?);
    }
    Ok(())
}

/// The fetcher for remote resources of MachineConfigs.
fn fetcher(checked: &ValidatedInstall) -> Result<Fetcher> {
    let bundle = checked.settings.additional_trust_bundle.clone();
    let proxy = checked.settings.proxy.as_ref();
    Ok(Fetcher::new(fetch::Options {
        authorities: bundle.map(|pem| pem.into_bytes().into()),
        proxy: proxy.map(proxy_variables).unwrap_or_default(),
        ..fetch::Options::default()
    })?)
}

fn result(
    output: &Path,
    installation: &Installation,
    files: &[File],
    made: Vec<kubernetes::PoolOutput>,
    notices: Vec<Finding>,
) -> BootstrapResult {
    let seeds = &installation.checked.seeds;
    let seeded = |seed: &mosb_bootstrap::Seed| {
        let made = made.iter().find(|one| one.pool == seed.pool);
        SeededPool {
            pool: seed.pool.to_string(),
            image: seed.image.to_string(),
            rendered_config: made.map(|one| one.rendered.clone()),
            ignition: made.and_then(|one| one.ignition.clone()),
            holds_credentials: made.is_some_and(|one| one.has_logins),
        }
    };
    BootstrapResult {
        cluster: installation.cluster.as_str().to_owned(),
        output: output.display().to_string(),
        pools: seeds.iter().map(seeded).collect(),
        files: files.iter().map(|file| file.path.clone()).collect(),
        notices: [installation.checked.notices.clone(), notices].concat(),
    }
}

/// The files for a new cluster whose machines run images that exist already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapResult {
    /// `openshift` or `kubernetes`.
    #[serde(rename = "for")]
    pub cluster: String,
    /// The directory.
    pub output: String,
    /// The pools whose first image exists already, by name.
    pub pools: Vec<SeededPool>,
    /// All files, below `output`.
    pub files: Vec<String>,
    /// Notices for the administrator.
    pub notices: Vec<Finding>,
}

/// A pool whose first image exists already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeededPool {
    /// Its name, and that of its MachineOSConfig.
    pub pool: String,
    /// `repo@digest`.
    pub image: String,
    /// The rendered config that the image names; none if the cluster renders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_config: Option<String>,
    /// The file with the Ignition config of new machines; none if the cluster serves them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition: Option<String>,
    /// Whether that file contains credentials.
    pub holds_credentials: bool,
}

impl Object for BootstrapResult {
    const KIND: &'static str = "BootstrapResult";

    fn text(&self) -> String {
        let mut page = Page::default();
        let files = count(self.files.len(), "file");
        page.line(&format!("{}: {files} for {}", self.output, self.cluster));
        for pool in &self.pools {
            page.section(&format!("Pool {}", pool.pool));
            let credentials = if pool.holds_credentials {
                " (holds credentials: keep it from others)"
            } else {
                ""
            };
            let ignition = pool.ignition.as_ref();
            let ignition = ignition.map(|file| format!("{file}{credentials}"));
            page.pairs(&[
                ("image", Some(&pool.image)),
                ("rendered config", pool.rendered_config.as_deref()),
                ("new machines", ignition.as_deref()),
            ]);
        }
        if !self.notices.is_empty() {
            page.section("Notices");
            page.findings(&self.notices);
        }
        page.into_text()
    }
}
