//! Turns parsed arguments into a command and its settings, or into an error with the remedy.

#[cfg(feature = "cluster")]
mod boot_images;
mod bootstrap;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "cluster")]
mod in_pod;
mod job;
#[cfg(feature = "cluster")]
mod node;
mod preflight;
mod render;

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::args::{self, Cache, Cli, Command, Common, Format, LogFormat};
use super::environment::Environment;
use super::error::Error;
use super::input::Input;
use super::unread::{ConfigFile, Unread};
use crate::cli::Result;
#[cfg(feature = "cluster")]
pub use boot_images::BootImagesJob;
pub use bootstrap::Bootstrap;
#[cfg(feature = "cluster")]
pub use cluster::{ClusterJob, Controller, Ignition, InCluster, Rollout};
#[cfg(feature = "cluster")]
pub use in_pod::{InPod, LeftImage, PodInputs, PodPrepared, ResultDirArg};
pub use job::{Build, Buildah, Diff, Job, Operand, Plan};
use mosb_build::buildah::Volume;
use mosb_build::resolve::UnresolvedBase;
use mosb_image::{ImageRef, Platform};
use mosb_plan::plan::BuildRequest;
use mosb_registry::{Source, Target};
#[cfg(feature = "cluster")]
pub use node::{NodeCommand, NodeInput, NodeWork};
pub use preflight::{Preflight, ValidatedInstall};
pub use render::Render;

/// A command and its settings.
#[derive(Debug)]
pub struct Invocation {
    pub job: Job,
    pub settings: Settings,
}

/// Settings of all commands.
#[derive(Debug)]
pub struct Settings {
    /// `-o`.
    pub format: Format,
    pub log_format: LogFormat,
    /// `-q`.
    pub quiet: bool,
    /// `-v`.
    pub verbose: bool,
    pub authfile: Option<PathBuf>,
    /// `--push-authfile`, else `--authfile`.
    pub push_authfile: Option<PathBuf>,
    pub cert_dir: Option<PathBuf>,
    pub tls_verify: bool,
    /// Candidate paths of registries.conf, in order, and whether the file must exist.
    pub registries_confs: Vec<(PathBuf, bool)>,
    /// Candidate paths of policy.json, in order, and whether the file must exist.
    pub signature_policies: Vec<(PathBuf, bool)>,
    /// The cache of base trees; `None` without a home directory.
    pub cache_dir: Option<PathBuf>,
    pub environment: Environment,
}

/// Validates the arguments.
///
/// # Errors
/// [`Error::Usage`]; an invalid reference.
pub fn resolve(cli: Cli, environment: Environment) -> Result<Invocation> {
    let Cli { common, command } = cli;
    let plan_only = matches!(common.format, Format::Containerfile | Format::Configmap);
    let planned = match &command {
        Command::Plan(plan) => Some(&plan.inputs),
        Command::Build(build) if build.dry_run => Some(&build.inputs),
        _ => None,
    };
    match planned {
        None if plan_only => {
            return usage(
                "-o containerfile and -o configmap belong to `mosb plan`; want -o text, json or yaml here",
            );
        }
        Some(inputs) if plan_only && inputs.prepared.is_some() => {
            return usage(
                "-o containerfile and -o configmap print a build without a prepared base; leave out --prepared",
            );
        }
        Some(inputs) if common.format == Format::Configmap && inputs.context.is_some() => {
            return usage(
                "-o configmap prints a build of a cluster, which has no build context; leave out --context",
            );
        }
        _ => {}
    }
    if common.format == Format::Name && !matches!(command, Command::Render(_)) {
        return usage("-o name belongs to `mosb render`; want -o text, json or yaml here");
    }
    match &command {
        Command::Bootstrap(_) => bootstrap::machines_own(&common, true)?,
        Command::Preflight(typed) if !typed.manifests.is_empty() => {
            bootstrap::machines_own(&common, false)?;
        }
        _ => {}
    }
    let job = match command {
        Command::Build(build) => {
            let mut request = build_request(&build.inputs)?;
            let prepared = prepared(build.inputs.prepared.as_deref())?;
            let buildah = buildah(&build.inputs)?;
            let target: Target = build.output.parse()?;
            request.push = target.repo().cloned();
            if build.dry_run {
                let (target, previous) = (Some(target), None);
                Job::Plan(Plan { request, prepared, buildah, target, previous, dry_run: true })
            } else {
                let digestfile = build.digestfile;
                let wanted = Build { request, prepared, buildah, target, digestfile };
                if build.prepare_only { Job::Prepare(wanted) } else { Job::Build(wanted) }
            }
        }
        Command::Plan(plan) => {
            let target = plan.output.as_deref().map(str::parse::<Target>).transpose()?;
            let mut request = build_request(&plan.inputs)?;
            request.push = target.as_ref().and_then(Target::repo).cloned();
            let prepared = prepared(plan.inputs.prepared.as_deref())?;
            let buildah = buildah(&plan.inputs)?;
            let previous = plan.previous.as_deref().map(operand).transpose()?;
            Job::Plan(Plan { request, prepared, buildah, target, previous, dry_run: false })
        }
        Command::Render(typed) => Job::Render(Box::new(render::render(typed, common.format)?)),
        Command::Bootstrap(typed) => Job::Bootstrap(bootstrap::bootstrap(typed)?),
        Command::Seed { command: args::Seed::New(typed) } => Job::SeedNew(typed),
        Command::BootImages { command: args::BootImages::Golden(typed) } => Job::Golden(typed),
        Command::Diff(typed) => Job::Diff(diff(typed)?),
        Command::Inspect(inspect) => {
            Job::Inspect(source(&inspect.image)?, platform(inspect.platform)?)
        }
        Command::Files(files) => {
            Job::Files(source(&files.image)?, files.layer, platform(files.platform)?)
        }
        Command::Cache { command: Cache::List } => Job::CacheList,
        Command::Cache { command: Cache::Prune } => Job::CachePrune,
        #[cfg(feature = "cluster")]
        Command::Controller(typed) => {
            Job::InCluster(Box::new(cluster::controller(typed, &environment)?))
        }
        #[cfg(feature = "cluster")]
        Command::Status(typed) => Job::InCluster(Box::new(cluster::status(typed))),
        #[cfg(feature = "cluster")]
        Command::Rebuild(typed) => Job::InCluster(Box::new(cluster::rebuild(typed))),
        #[cfg(feature = "cluster")]
        Command::Logs(typed) => Job::InCluster(Box::new(cluster::logs(typed))),
        #[cfg(feature = "cluster")]
        Command::Wait(typed) => Job::InCluster(Box::new(cluster::wait(typed)?)),
        #[cfg(feature = "cluster")]
        Command::Builds(typed) => Job::InCluster(Box::new(cluster::builds(typed))),
        #[cfg(feature = "cluster")]
        Command::Nodes(typed) => Job::InCluster(Box::new(cluster::nodes(typed))),
        #[cfg(feature = "cluster")]
        Command::Ignition(typed) => Job::InCluster(Box::new(cluster::ignition(typed))),
        #[cfg(feature = "cluster")]
        Command::Rollout { command } => Job::InCluster(Box::new(cluster::rollout(command)?)),
        #[cfg(feature = "cluster")]
        Command::BootImages { command: args::BootImages::InCluster(command) } => {
            Job::InCluster(Box::new(cluster::boot_images(command)?))
        }
        #[cfg(feature = "cluster")]
        Command::Job { command } => Job::InPod(Box::new(in_pod::in_pod(command)?)),
        #[cfg(feature = "cluster")]
        Command::Node { command } => node::node(command)?,
        #[cfg(feature = "cluster")]
        Command::ServeIgnition(typed) => Job::ServeIgnition(typed),
        Command::Preflight(typed) => Job::Preflight(preflight::preflight(typed)?),
        Command::Version => Job::Version,
        Command::Completion { shell } => Job::Completion(shell),
    };
    let mut settings = settings(common, environment);
    if matches!(job, Job::Preflight(_) | Job::Bootstrap(_))
        && settings.log_format == LogFormat::Text
    {
        settings.log_format = LogFormat::Timed;
    }
    Ok(Invocation { job, settings })
}

fn usage<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Usage(message.into()).into())
}

fn settings(common: Common, environment: Environment) -> Settings {
    let registries_confs = match common.registries_conf {
        Some(file) => vec![(file, true)],
        None => environment.registries_confs(),
    };
    let signature_policies = match common.signature_policy {
        Some(file) => vec![(file, true)],
        None => environment.signature_policies(),
    };
    Settings {
        format: common.format,
        log_format: common.log_format,
        quiet: common.quiet,
        verbose: common.verbose,
        push_authfile: common.push_authfile.or_else(|| common.authfile.clone()),
        authfile: common.authfile,
        cert_dir: common.cert_dir,
        tls_verify: common.tls_verify,
        registries_confs,
        signature_policies,
        cache_dir: common.cache_dir.or_else(|| environment.cache_dir()),
        environment,
    }
}

fn build_request(inputs: &args::Inputs) -> Result<BuildRequest<Unread>> {
    let base = UnresolvedBase {
        image: inputs.base.as_deref().map(source).transpose()?,
        name: None,
        platform: platform(inputs.platform.clone())?,
    };
    let extensions_image = inputs.extensions_image.as_deref().map(str::parse::<ImageRef>);
    Ok(BuildRequest {
        config: ConfigFile::Input(Input::new(&inputs.config)),
        base,
        extensions_image: extensions_image
            .transpose()
            .map_err(|e| Error::Usage(format!("--extensions-image {e}")))?,
        containerfile: inputs.containerfile.clone(),
        context: inputs.context.clone(),
        build_args: build_args(&inputs.build_arg)?,
        trust_bundle: inputs.trust_bundle.clone(),
        method: inputs.method,
        on_top: inputs.on_top,
        build_on: inputs.build_on,
        push: None,
    })
}

fn buildah(inputs: &args::Inputs) -> Result<Buildah, Error> {
    Ok(Buildah {
        volumes: volumes(&inputs.volume)?,
        context: inputs.context.clone(),
        isolation: inputs.isolation,
        storage_driver: inputs.storage_driver,
    })
}

fn diff(typed: args::Diff) -> Result<Diff> {
    let (from, to) = (operand(&typed.from)?, operand(&typed.to)?);
    let stdin = Operand::Config(Input::Stdin);
    if from == stdin && to == stdin {
        return usage("diff - -: stdin can be read once; give a file for one of them");
    }
    let base = typed.base.as_deref().map(source).transpose()?;
    if let (Some(base), Operand::Image(_), Operand::Image(_)) = (&base, &from, &to) {
        return usage(format!(
            "diff --base {base}: is for a config, and both sides are images, which know their bases; leave it out"
        ));
    }
    Ok(Diff { from, to, base, platform: platform(typed.platform)? })
}

fn platform(text: Option<String>) -> Result<Option<Platform>> {
    let parsed = text.as_deref().map(str::parse::<Platform>).transpose();
    parsed.map_err(|e| Error::Usage(format!("--platform {e}")).into())
}

/// An image in a registry or a layout.
fn source(text: &str) -> Result<Source> {
    match text.parse()? {
        Source::Dir(_) => usage(format!(
            "{text:?}: a dir: folder is not read here; write oci:DIR or host/repository"
        )),
        source => Ok(source),
    }
}

/// A prepared base. Its content can't be checked, so only a digest says which one is trusted.
fn prepared(text: Option<&str>) -> Result<Option<Source>> {
    let Some(text) = text else {
        return Ok(None);
    };
    let source = source(text)?;
    if source.digest().is_none() {
        return usage(format!(
            "--prepared {text}: want the digest too, host/repository@sha256:… or oci:DIR@sha256:…, as build --prepare-only printed it"
        ));
    }
    Ok(Some(source))
}

fn operand(text: &str) -> Result<Operand> {
    let path = ["./", "../", "/"].iter().any(|start| text.starts_with(start));
    let name = [".yaml", ".yml", ".json"].iter().any(|end| text.ends_with(end));
    Ok(if text == "-" || path || name {
        Operand::Config(Input::new(text.as_ref()))
    } else {
        Operand::Image(source(text)?)
    })
}

fn volumes(texts: &[String]) -> Result<Vec<Volume>, Error> {
    let volumes = texts.iter().map(|text| text.parse());
    volumes.collect::<Result<_, _>>().map_err(|error| Error::Usage(format!("--volume {error}")))
}

fn build_args(texts: &[String]) -> Result<BTreeMap<String, String>, Error> {
    let mut args = BTreeMap::new();
    for text in texts {
        // The value may be a secret by mistake, so it is not repeated.
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| Error::Usage("--build-arg: want K=V, a name and a value".to_owned()))?;
        let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !first || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(Error::Usage(format!(
                "--build-arg {name:?}: a name has letters, digits and _, and does not begin with a digit"
            )));
        }
        if args.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(Error::Usage(format!("--build-arg {name}: given twice; keep one")));
        }
    }
    Ok(args)
}

#[cfg(test)]
mod tests;
