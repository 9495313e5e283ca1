//! `mosb bootstrap`.

use std::path::Path;
use std::pin::pin;

use tokio::task::spawn_blocking;

use super::installation::{self, Installation};
use super::preflight::{of_installation, registry_client};
use super::render::render_error;
use crate::bootstrap::{self, Cluster, File, ValidatedInstall, kubernetes, openshift};
use crate::cli::Result;
use crate::cli::error::Error;
use crate::cli::objects::{BootstrapResult, SeededPool};
use crate::cli::output_folder;
use crate::cli::progress::Progress;
use crate::cli::resolve::{Bootstrap, Settings};
use mosb_build::fetch::{self, Fetcher};
use mosb_build::registry_client::proxy_variables;
use mosb_build::resolve::{self, RenderFailure};
use mosb_plan::render::{self, Request};
use mosb_types::{Diagnostic as _, Finding};

/// Validates the manifests of an installation, and writes what its cluster and its machines need,
/// or nothing.
///
/// # Errors
/// All problems of the manifests; a failed lookup or write.
pub async fn bootstrap(
    wanted: &Bootstrap,
    settings: &Settings,
    progress: &Progress,
) -> Result<BootstrapResult> {
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
            Err(error) if error.downcast_ref::<bootstrap::Error>().is_none() => {
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
}

impl BootstrapOutput {
    fn for_openshift(installation: &Installation) -> Self {
        Self {
            files: openshift::files(&installation.objects, &installation.checked),
            pools: Vec::new(),
            notices: Vec::new(),
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
        return Err(bootstrap::Error::Invalid { problems }.into());
    }
    let output = kubernetes::output(objects, checked, &configs, &rendered)?;
    Ok(BootstrapOutput { files: output.files, pools: output.pools, notices: output.notices })
}

/// Pins images that have a tag; the controller keeps these pins.
async fn pin(request: &mut Request, checked: &ValidatedInstall, settings: &Settings) -> Result<()> {
    let images = render::unpinned(request);
    let pull = checked.seeds.first().map(|seed| &seed.pull);
    let (Some(pull), false) = (pull, images.is_empty()) else {
        return Ok(());
    };
    let registry = registry_client(&pull.name, pull, checked, settings)?;
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
    let seeded = |seed: &bootstrap::Seed| {
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
        cluster: match installation.cluster {
            Cluster::Openshift => "openshift",
            Cluster::Kubernetes => "kubernetes",
        }
        .to_owned(),
        output: output.display().to_string(),
        pools: seeds.iter().map(seeded).collect(),
        files: files.iter().map(|file| file.path.clone()).collect(),
        notices: [installation.checked.notices.clone(), notices].concat(),
    }
}
