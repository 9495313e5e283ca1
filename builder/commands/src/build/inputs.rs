//! The inputs of an image: typed for `build` and `plan`, and read from their files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tokio::task::spawn_blocking;

use crate::arguments::{self, usage};
use crate::error::Error;
use crate::input::{self, Input};
use crate::{Failure, Result};
use mosb_api::BuildOn;
use mosb_build::buildah::Volume;
use mosb_build::resolve::{Unresolved, UnresolvedBase};
use mosb_image::{ImageRef, Platform};
use mosb_plan::plan::{BuildRequest, MethodChoice, Stage, default_build_on};
use mosb_registry::{Source, Target};

/// The inputs of an image.
#[derive(Debug, Args)]
pub struct Inputs {
    /// The rendered MachineConfig: a YAML or JSON file, or - for stdin
    #[arg(value_name = "CONFIG", value_parser = arguments::input())]
    pub config: Input,
    /// The base OS image [default: the config's spec.osImageURL]
    #[arg(long, value_name = "IMAGE", value_parser = arguments::source)]
    pub base: Option<Source>,
    /// The platform to select from an index, such as linux/amd64; the host's is never assumed
    #[arg(long, value_name = "OS/ARCH", value_parser = arguments::platform)]
    pub platform: Option<Platform>,
    /// The build method: auto (direct if possible), direct, containerfile
    #[arg(long, default_value = "auto", value_parser = |s: &str| s.parse::<MethodChoice>(), value_name = "METHOD")]
    pub method: MethodChoice,
    /// Your own Containerfile, which runs before or after the config is written
    #[arg(long, value_name = "FILE")]
    pub containerfile: Option<PathBuf>,
    /// The directory that your Containerfile copies of; what it uses of it counts as an input
    #[arg(long, value_name = "DIR", requires = "containerfile")]
    pub context: Option<PathBuf>,
    /// The image with the packages of spec.extensions
    #[arg(long, value_name = "IMAGE", value_parser = arguments::value::<ImageRef>("--extensions-image"))]
    pub extensions_image: Option<ImageRef>,
    /// Certificates (PEM) to add to the trust store
    #[arg(long, value_name = "FILE")]
    pub trust_bundle: Option<PathBuf>,
    /// An ARG of your Containerfile; may be repeated. It can be read in the image's history
    #[arg(long, value_name = "K=V", requires = "containerfile", value_parser = build_arg)]
    pub build_arg: Vec<BuildArg>,
    /// The image with what must be run, which build --prepare-only made of the same inputs: host/repo@sha256:…, or oci:DIR@sha256:…
    #[arg(long, value_name = "IMAGE", value_parser = prepared)]
    pub prepared: Option<Source>,
    /// A folder for RUN lines, such as entitlements: read-only, or a copy to write to; may be repeated. Never in a layer
    #[arg(long, value_name = "SRC:DST[:ro|copy]", value_parser = arguments::value::<Volume>("--volume"))]
    pub volume: Vec<Volume>,
    /// How buildah isolates RUN lines from this machine
    #[arg(long, value_enum)]
    pub isolation: Option<Isolation>,
    /// How buildah stores layers
    #[arg(long, value_enum, value_name = "DRIVER")]
    pub storage_driver: Option<StorageDriver>,
    /// The base may itself be built from a rendered config
    #[arg(long)]
    pub on_top: bool,
    /// As the annotation mosb.dev/build-on of the pool: with every-config, the image brings files below /var to machines that run an older one [default: os-change if the Machine Config Operator rendered the config, else every-config]
    #[arg(long, value_parser = |s: &str| s.parse::<BuildOn>(), value_name = "CONFIGS")]
    pub build_on: Option<BuildOn>,
}

/// `--isolation`, as for buildah.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Isolation {
    /// A container by an OCI runtime.
    Oci,
    /// The same, without root.
    Rootless,
    /// A chroot.
    Chroot,
}

impl Isolation {
    /// As buildah spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Oci => "oci",
            Self::Rootless => "rootless",
            Self::Chroot => "chroot",
        }
    }
}

/// `--storage-driver`, as for buildah.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StorageDriver {
    /// Layers on each other.
    Overlay,
    /// A whole copy for each layer.
    Vfs,
}

impl StorageDriver {
    /// As buildah spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overlay => "overlay",
            Self::Vfs => "vfs",
        }
    }
}

/// `--build-arg`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildArg {
    pub name: String,
    pub value: String,
}

impl Inputs {
    /// Rejects what can't be meant.
    ///
    /// # Errors
    /// A build argument is given twice.
    pub fn check(&self) -> Result<()> {
        distinct_names(&self.build_arg)
    }

    /// The request, whose files are not read yet.
    pub fn request(&self, target: Option<&Target>) -> BuildRequest<Unread> {
        let base = UnresolvedBase {
            image: self.base.clone(),
            name: None,
            platform: self.platform.clone(),
        };
        BuildRequest {
            config: ConfigFile::Input(self.config.clone()),
            base,
            extensions_image: self.extensions_image.clone(),
            containerfile: self.containerfile.clone(),
            context: self.context.clone(),
            build_args: build_args(&self.build_arg),
            trust_bundle: self.trust_bundle.clone(),
            method: self.method,
            on_top: self.on_top,
            build_on: self.build_on,
            push: target.and_then(Target::repo).cloned(),
        }
    }

    pub fn buildah(&self) -> Buildah {
        Buildah {
            volumes: self.volume.clone(),
            context: self.context.clone(),
            isolation: self.isolation,
            storage_driver: self.storage_driver,
        }
    }
}

/// One of `--build-arg`. The value may be a secret by mistake, so it is not repeated.
fn build_arg(text: &str) -> Result<BuildArg> {
    let Some((name, value)) = text.split_once('=') else {
        return usage("--build-arg: want K=V, a name and a value");
    };
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !first || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return usage(format!(
            "--build-arg {name:?}: a name has letters, digits and _, and does not begin with a digit"
        ));
    }
    Ok(BuildArg { name: name.to_owned(), value: value.to_owned() })
}

/// Rejects a name that two of `--build-arg` have.
///
/// # Errors
/// [`Error::Usage`].
fn distinct_names(given: &[BuildArg]) -> Result<()> {
    let mut names = BTreeSet::new();
    match given.iter().find(|arg| !names.insert(&arg.name)) {
        Some(BuildArg { name, .. }) => usage(format!("--build-arg {name}: given twice; keep one")),
        None => Ok(()),
    }
}

/// All of `--build-arg`, by name; [`distinct_names`] has checked them.
fn build_args(given: &[BuildArg]) -> BTreeMap<String, String> {
    given.iter().map(|arg| (arg.name.clone(), arg.value.clone())).collect()
}

/// A prepared base. Its content can't be checked, so only a digest says which one is trusted.
fn prepared(text: &str) -> Result<Source> {
    let source = arguments::source(text)?;
    if source.digest().is_none() {
        return usage(format!(
            "--prepared {text}: want the digest too, host/repository@sha256:… or oci:DIR@sha256:…, as build --prepare-only printed it"
        ));
    }
    Ok(source)
}

/// Options of buildah.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Buildah {
    pub volumes: Vec<Volume>,
    /// `--context`: the directory that the Containerfile copies of.
    pub context: Option<PathBuf>,
    pub isolation: Option<Isolation>,
    pub storage_driver: Option<StorageDriver>,
}

impl Buildah {
    /// The options that were set.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            (!self.volumes.is_empty(), "--volume"),
            (self.isolation.is_some(), "--isolation"),
            (self.storage_driver.is_some(), "--storage-driver"),
        ];
        given.into_iter().filter_map(|(is, name)| is.then_some(name))
    }
}

/// A request with paths of files, and images as in [`Unresolved`].
#[derive(Debug, Clone)]
pub struct Unread;

impl Stage for Unread {
    type Config = ConfigFile;
    type Containerfile = PathBuf;
    type Context = PathBuf;
    type TrustBundle = PathBuf;
    type Base = UnresolvedBase;
    type ExtensionsImage = ImageRef;
    type BuildOn = Option<BuildOn>;
}

/// The source of the rendered config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigFile {
    Input(Input),
    /// The folder where a pod's ConfigMaps are mounted.
    Mounted(PathBuf),
}

/// Reads the files of a request. Reading stdin may never end, so it must not delay a signal.
///
/// # Errors
/// A file can't be read or is invalid.
pub async fn read(request: &BuildRequest<Unread>) -> Result<BuildRequest<Unresolved>> {
    let request = request.clone();
    let reading = spawn_blocking(move || {
        let trust_bundle = |path: PathBuf| input::trust_bundle(&path).map(Into::into);
        let config = match &request.config {
            ConfigFile::Input(input) => input::config(input)?,
            ConfigFile::Mounted(folder) => input::mounted_config(folder)?,
        };
        Ok::<_, Failure>(BuildRequest::<Unresolved> {
            build_on: request.build_on.unwrap_or_else(|| default_build_on(&config)),
            config,
            containerfile: request
                .containerfile
                .as_deref()
                .map(input::containerfile)
                .transpose()?,
            context: request.context,
            trust_bundle: request.trust_bundle.map(trust_bundle).transpose()?,
            base: request.base,
            extensions_image: request.extensions_image,
            build_args: request.build_args,
            method: request.method,
            on_top: request.on_top,
            push: request.push,
        })
    });
    reading.await.map_err(Error::stopped("reading"))?
}
