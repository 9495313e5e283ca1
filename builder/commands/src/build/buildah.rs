//! Builds with buildah: its options, and its output as progress.

use std::path::PathBuf;
use std::time::Duration;

use super::inputs::{Buildah, StorageDriver};
use crate::Result;
use crate::context::{CliContext, policy_for_tools};
use crate::settings::Settings;
use mosb_build::buildah::{self, ConfigsImage, ContainerBuild};
use mosb_build::exec::Stream;
use mosb_build::{Built, Signing};
use mosb_plan::containerfile;
use mosb_plan::plan::{BuildPlan, Method};
use mosb_registry::{Resolved, Target};

/// Timeout of a build: packages of a kernel take minutes on slow machines.
const LIMIT: Duration = Duration::from_secs(3 * 3600);

/// Builds with buildah and pushes the image.
///
/// # Errors
/// buildah is missing or fails; errors of the target.
pub async fn run(
    context: &CliContext,
    made: &ContainerBuild,
    base: &Resolved,
    target: &Target,
    signing: Option<Signing<'_>>,
    wanted: &Buildah,
    settings: &Settings,
) -> Result<Built> {
    let options = options(wanted, settings)?;
    let progress = context.progress.clone();
    let on_line = move |_: Stream, line: &str| match step(line) {
        Some(step) => progress.step(&step),
        None => tracing::debug!("{line}"),
    };
    let client = &context.push;
    Ok(buildah::build(client, made, base, target, signing, &options, on_line).await?)
}

/// What buildah builds for a plan: its last part on its prepared base, or everything at once.
///
/// # Errors
/// A Containerfile that can't be rendered, a layer that can't be written.
pub fn container_build(plan: &BuildPlan, prepared: Option<&Resolved>) -> Result<ContainerBuild> {
    let build = match (&plan.method, prepared) {
        (Method::LastPart(_), Some(prepared)) => {
            let configs = ConfigsImage::new(plan, prepared)?;
            let text = containerfile::render_last(plan, &configs.id())?;
            ContainerBuild::of_last(plan, configs, text)
        }
        (
            Method::LastPart(_) | Method::Direct | Method::Prepared(_) | Method::Containerfile(_),
            _,
        ) => ContainerBuild::of_plan(plan, containerfile::render(plan)?),
    };
    Ok(build.map_err(mosb_build::Error::from)?)
}

/// The beginning of a line with which buildah announces a step: `STEP 1/4: …`, of several stages
/// `[1/2] STEP 1/4: …`.
fn step(line: &str) -> Option<String> {
    const SHOWN: usize = 100;
    let (before, _) = line.split_once("STEP ")?;
    let announces = before.is_empty() || before.starts_with('[') && before.ends_with("] ");
    announces.then(|| line.chars().take(SHOWN).collect())
}

/// Rejects a build for which this machine has too little space.
///
/// # Errors
/// Too little space, or the file system can't be queried.
pub fn check_space(
    plan: &BuildPlan,
    wanted: &Buildah,
    settings: &Settings,
) -> Result<(), mosb_build::Error> {
    // Without a storage folder the build fails anyway, and a plan is for another machine.
    let Ok(cache_dir) = settings.cache_dir() else {
        return Ok(());
    };
    let driver = wanted.storage_driver.map(StorageDriver::as_str);
    let free = buildah::FreeSpace::of(&cache_dir, driver)?;
    Ok(buildah::check_space(&plan.request.base, driver, &free)?)
}

/// Returns the command lines that a build would run.
///
/// # Errors
/// buildah is missing.
pub async fn command_lines(
    made: &ContainerBuild,
    base: &Resolved,
    wanted: &Buildah,
    settings: &Settings,
) -> Result<Vec<String>> {
    let options = options(wanted, settings)?;
    let version = buildah::version().await.map_err(mosb_build::Error::from)?;
    let base = buildah::BaseSource::of(base);
    Ok(buildah::command_lines(made, version, &base, &options))
}

/// buildah runs in a directory of its own. A path that can't be made absolute is reported by buildah.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

pub fn options(wanted: &Buildah, settings: &Settings) -> Result<buildah::Options> {
    let environment = &settings.environment;
    let authfile = settings.authfile.clone().or_else(|| environment.registry_auth_file.clone());
    let named = settings.registries_confs().into_iter().find(|(_, is_required)| *is_required);
    Ok(buildah::Options {
        cache_dir: settings.cache_dir()?,
        storage_driver: wanted.storage_driver.map(|driver| driver.as_str().to_owned()),
        isolation: wanted.isolation.map(|isolation| isolation.as_str().to_owned()),
        volumes: wanted.volumes.clone(),
        context: wanted.context.clone(),
        authfile: authfile.map(absolute),
        cert_dir: settings.cert_dir.clone().map(absolute),
        tls_verify: settings.tls_verify,
        registries_conf: named.map(|(file, _)| absolute(file)),
        signature_policy: policy_for_tools(settings)?,
        limit: LIMIT,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_steps_are_reported() {
        let long = format!("[2/2] STEP 2/4: RUN {}", "x".repeat(200));
        for (line, want) in [
            ("STEP 1/2: FROM a", Some("STEP 1/2: FROM a")),
            ("[1/2] STEP 1/2: FROM a", Some("[1/2] STEP 1/2: FROM a")),
            (&long, Some(&long[..100])),
            ("Error: building at STEP \"RUN x\"", None),
            ("hello", None),
        ] {
            assert_eq!(step(line).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn paths_for_buildah_are_absolute() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            settings: Settings,
        }
        let words = ["", "--authfile", "a", "--cert-dir", "/c", "--registries-conf", "r/r"];
        let mut line = <Line as clap::Parser>::parse_from(words);
        line.settings.cache_dir = Some("/cache".into());
        let options = options(&Buildah::default(), &line.settings).unwrap();
        let here = |name: &str| Some(std::env::current_dir().unwrap().join(name));
        assert_eq!(options.authfile, here("a"));
        assert_eq!(options.cert_dir, Some("/c".into()));
        assert_eq!(options.registries_conf, here("r/r"));
    }
}
