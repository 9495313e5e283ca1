//! What was typed becomes what it means, or an error that says what would be right.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap_complete::Shell;

use super::args::{
    self, Cache, Cli, Command, Common, Format, Isolation, LayerChoice, LogFormat, StorageDriver,
};
use super::environment::Environment;
use super::error::Error;
use super::input::Input;
use crate::backend::buildah::Volume;
use crate::image::{ImageRef, Platform};
use crate::plan::MethodChoice;
use crate::registry::{Source, Target};

/// What is to be done, and how.
#[derive(Debug)]
pub struct Invocation {
    /// What.
    pub job: Job,
    /// How.
    pub settings: Settings,
}

/// One command with its operands, understood.
#[derive(Debug)]
pub enum Job {
    /// `build`.
    Build(Build),
    /// `plan`, and `build --dry-run`.
    Plan(Plan),
    /// `diff`.
    Diff(Diff),
    /// `inspect`.
    Inspect(Source, Option<Platform>),
    /// `files`.
    Files(Source, Option<LayerChoice>, Option<Platform>),
    /// `cache list`.
    CacheList,
    /// `cache prune`.
    CachePrune,
    /// `version`.
    Version,
    /// `completion`.
    Completion(Shell),
}

/// What to build, and where to put it.
#[derive(Debug)]
pub struct Build {
    /// What.
    pub wanted: Wanted,
    /// Where to.
    pub target: Target,
    /// Where the digest is written.
    pub digestfile: Option<PathBuf>,
}

/// What to plan.
#[derive(Debug)]
pub struct Plan {
    /// What.
    pub wanted: Wanted,
    /// Where the image would go.
    pub target: Option<Target>,
    /// `build --dry-run`: with the command lines that a build would run.
    pub dry_run: bool,
}

/// The inputs of an image as they are named.
#[derive(Debug)]
pub struct Wanted {
    /// The rendered config.
    pub config: Input,
    /// `--base`.
    pub base: Option<Source>,
    /// `--platform`.
    pub platform: Option<Platform>,
    /// `--method`.
    pub method: MethodChoice,
    /// `--containerfile`.
    pub containerfile: Option<PathBuf>,
    /// `--extensions-image`.
    pub extensions_image: Option<ImageRef>,
    /// `--trust-bundle`.
    pub trust_bundle: Option<PathBuf>,
    /// `--build-arg`.
    pub build_args: BTreeMap<String, String>,
    /// `--on-top`.
    pub on_top: bool,
    /// What only buildah needs.
    pub buildah: Buildah,
}

/// What to compare.
#[derive(Debug)]
pub struct Diff {
    /// The side before.
    pub from: Operand,
    /// The side after.
    pub to: Operand,
    /// `--base`: what the configs among them would be built on.
    pub base: Option<Source>,
    /// `--platform`.
    pub platform: Option<Platform>,
}

impl Diff {
    /// Whether any image must be looked at.
    pub fn needs_images(&self) -> bool {
        let images = [&self.from, &self.to].map(|side| matches!(side, Operand::Image(_)));
        self.base.is_some() || images.contains(&true)
    }
}

/// How buildah is run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Buildah {
    /// `--volume`.
    pub volumes: Vec<Volume>,
    /// `--isolation`.
    pub isolation: Option<Isolation>,
    /// `--storage-driver`.
    pub storage_driver: Option<StorageDriver>,
}

impl Buildah {
    /// The options that were given.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            (!self.volumes.is_empty(), "--volume"),
            (self.isolation.is_some(), "--isolation"),
            (self.storage_driver.is_some(), "--storage-driver"),
        ];
        given
            .into_iter()
            .filter_map(|(is, name)| is.then_some(name))
    }
}

/// One side of a `diff`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// A rendered config.
    Config(Input),
    /// An image.
    Image(Source),
}

/// How things are done, for all commands.
#[derive(Debug)]
pub struct Settings {
    /// `-o`.
    pub format: Format,
    /// `--log-format`.
    pub log_format: LogFormat,
    /// `-q`.
    pub quiet: bool,
    /// `-v`.
    pub verbose: bool,
    /// `--authfile`.
    pub authfile: Option<PathBuf>,
    /// `--push-authfile`, else `--authfile`.
    pub push_authfile: Option<PathBuf>,
    /// `--cert-dir`.
    pub cert_dir: Option<PathBuf>,
    /// `--tls-verify`.
    pub tls_verify: bool,
    /// Where registries.conf may be, in order, and whether it must exist.
    pub registries_confs: Vec<(PathBuf, bool)>,
    /// Where base trees are kept; none without any home.
    pub cache_dir: Option<PathBuf>,
    /// What the rooms below need of the environment.
    pub environment: Environment,
}

/// Decides what was meant.
///
/// # Errors
/// [`Error::Usage`] and what an image's name can have wrong.
pub fn resolve(cli: Cli, environment: Environment) -> anyhow::Result<Invocation> {
    let Cli { common, command } = cli;
    let plan_only = matches!(common.format, Format::Containerfile | Format::Configmap);
    let plans = match &command {
        Command::Plan(_) => true,
        Command::Build(build) => build.dry_run,
        _ => false,
    };
    if plan_only && !plans {
        return usage(
            "-o containerfile and -o configmap belong to `mosb plan`; want -o text, json or yaml here",
        );
    }
    let job = match command {
        Command::Build(build) => {
            let wanted = wanted(build.inputs)?;
            let target: Target = build.output.parse()?;
            match build.dry_run {
                true => Job::Plan(Plan {
                    wanted,
                    target: Some(target),
                    dry_run: true,
                }),
                false => Job::Build(Build {
                    wanted,
                    target,
                    digestfile: build.digestfile,
                }),
            }
        }
        Command::Plan(plan) => {
            let target = plan.output.as_deref().map(str::parse).transpose()?;
            Job::Plan(Plan {
                wanted: wanted(plan.inputs)?,
                target,
                dry_run: false,
            })
        }
        Command::Diff(typed) => Job::Diff(diff(typed)?),
        Command::Inspect(inspect) => {
            Job::Inspect(source(&inspect.image)?, platform(inspect.platform)?)
        }
        Command::Files(files) => Job::Files(
            source(&files.image)?,
            files.layer,
            platform(files.platform)?,
        ),
        Command::Cache {
            command: Cache::List,
        } => Job::CacheList,
        Command::Cache {
            command: Cache::Prune,
        } => Job::CachePrune,
        Command::Version => Job::Version,
        Command::Completion { shell } => Job::Completion(shell),
    };
    let settings = settings(common, environment);
    Ok(Invocation { job, settings })
}

fn usage<T>(message: impl Into<String>) -> anyhow::Result<T> {
    Err(Error::Usage(message.into()).into())
}

fn settings(common: Common, environment: Environment) -> Settings {
    let registries_confs = match common.registries_conf {
        Some(file) => vec![(file, true)],
        None => environment.registries_confs(),
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
        cache_dir: common.cache_dir.or_else(|| environment.cache_dir()),
        environment,
    }
}

fn wanted(inputs: args::Inputs) -> anyhow::Result<Wanted> {
    let extensions_image = inputs
        .extensions_image
        .as_deref()
        .map(str::parse::<ImageRef>);
    Ok(Wanted {
        config: Input::new(&inputs.config),
        base: inputs.base.as_deref().map(source).transpose()?,
        platform: platform(inputs.platform)?,
        method: inputs.method,
        containerfile: inputs.containerfile,
        extensions_image: extensions_image
            .transpose()
            .map_err(|e| Error::Usage(format!("--extensions-image {e}")))?,
        trust_bundle: inputs.trust_bundle,
        build_args: build_args(&inputs.build_arg)?,
        on_top: inputs.on_top,
        buildah: Buildah {
            volumes: volumes(&inputs.volume)?,
            isolation: inputs.isolation,
            storage_driver: inputs.storage_driver,
        },
    })
}

fn diff(typed: args::Diff) -> anyhow::Result<Diff> {
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
    Ok(Diff {
        from,
        to,
        base,
        platform: platform(typed.platform)?,
    })
}

fn platform(text: Option<String>) -> anyhow::Result<Option<Platform>> {
    let parsed = text.as_deref().map(str::parse::<Platform>).transpose();
    parsed.map_err(|e| Error::Usage(format!("--platform {e}")).into())
}

/// An image in a registry or a layout: what people name.
fn source(text: &str) -> anyhow::Result<Source> {
    match text.parse()? {
        Source::Dir(_) => usage(format!(
            "{text:?}: a dir: folder is not read here; write oci:DIR or host/repository"
        )),
        source => Ok(source),
    }
}

fn operand(text: &str) -> anyhow::Result<Operand> {
    let path = ["./", "../", "/"]
        .iter()
        .any(|start| text.starts_with(start));
    let name = [".yaml", ".yml", ".json"]
        .iter()
        .any(|end| text.ends_with(end));
    Ok(match text == "-" || path || name {
        true => Operand::Config(Input::new(text.as_ref())),
        false => Operand::Image(source(text)?),
    })
}

fn volumes(texts: &[String]) -> Result<Vec<Volume>, Error> {
    let volumes = texts.iter().map(|text| text.parse());
    volumes
        .collect::<Result<_, _>>()
        .map_err(|error| Error::Usage(format!("--volume {error}")))
}

fn build_args(texts: &[String]) -> Result<BTreeMap<String, String>, Error> {
    let mut args = BTreeMap::new();
    for text in texts {
        // The value may be a secret by mistake, so it is not repeated.
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| Error::Usage("--build-arg: want K=V, a name and a value".to_owned()))?;
        let first = name
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !first || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(Error::Usage(format!(
                "--build-arg {name:?}: a name has letters, digits and _, and does not begin with a digit"
            )));
        }
        if args.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(Error::Usage(format!(
                "--build-arg {name}: given twice; keep one"
            )));
        }
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn resolved(line: &str) -> Result<Invocation, String> {
        let cli = Cli::try_parse_from(["mosb"].into_iter().chain(line.split_whitespace()));
        let cli = cli.map_err(|e| e.kind().to_string())?;
        let home = |name: &str| (name == "HOME").then(|| "/h".into());
        resolve(cli, Environment::of(home)).map_err(|e| e.to_string())
    }

    fn build(line: &str) -> Build {
        match resolved(line).unwrap().job {
            Job::Build(build) => build,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clap_finds_no_fault_with_the_arguments() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn a_build_is_understood() {
        let build = build(
            "build - --base oci:b:t --output quay.io/a/b:tag --platform linux/arm64 --method direct --digestfile d --containerfile f --build-arg A=b=c --build-arg _B= \
             --volume /e:/e:ro --volume /k:/k --isolation chroot --storage-driver vfs --on-top --extensions-image quay.io/e:1",
        );
        let wanted = &build.wanted;
        assert_eq!(wanted.config, Input::Stdin);
        assert_eq!(wanted.base.as_ref().unwrap().to_string(), "oci:b:t");
        assert_eq!(wanted.platform.as_ref().unwrap().to_string(), "linux/arm64");
        assert_eq!(wanted.method, MethodChoice::Direct);
        let args: Vec<_> = wanted
            .build_args
            .iter()
            .map(|(k, v)| format!("{k}:{v}"))
            .collect();
        assert_eq!(args, ["A:b=c", "_B:"]);
        assert_eq!(build.target.to_string(), "quay.io/a/b");
        assert!(build.target.notice().is_some());
        assert!(wanted.on_top);
        let buildah = Buildah {
            volumes: ["/e:/e:ro", "/k:/k"]
                .map(|text| text.parse().unwrap())
                .to_vec(),
            isolation: Some(Isolation::Chroot),
            storage_driver: Some(StorageDriver::Vfs),
        };
        assert_eq!(wanted.buildah, buildah);
        let given: Vec<_> = buildah.given().collect();
        assert_eq!(given, ["--volume", "--isolation", "--storage-driver"]);
        assert_eq!(Buildah::default().given().count(), 0);
        assert!(matches!(
            resolved("build a --output oci:o --dry-run").unwrap().job,
            Job::Plan(Plan { dry_run: true, .. })
        ));
        assert!(matches!(
            resolved("plan a").unwrap().job,
            Job::Plan(Plan { target: None, .. })
        ));
    }

    #[test]
    fn wrong_use_is_refused_with_what_would_be_right() {
        for (line, want) in [
            ("", ""),
            ("build", "required"),
            ("build a", "required"),
            ("build a --output dir:x", "\"dir:x\""),
            ("build a --output foo", "for a folder write oci:DIR"),
            ("build a --output=", "for a folder write oci:DIR"),
            ("build a --output oci:o --base dir:x", "oci:DIR"),
            (
                "build a --output oci:o --base fedora",
                "registry host is missing",
            ),
            (
                "build a --output oci:o --platform amd64",
                "--platform \"amd64\"",
            ),
            ("build a --output oci:o --method fast", "invalid value"),
            ("build a --output oci:o --build-arg A=b", "required"),
            (
                "build a --output oci:o --containerfile f --build-arg A",
                "want K=V",
            ),
            (
                "build a --output oci:o --containerfile f --build-arg 1A=b",
                "\"1A\"",
            ),
            (
                "build a --output oci:o --containerfile f --build-arg A=b --build-arg A=c",
                "given twice",
            ),
            (
                "build a --output oci:o --volume /a",
                "--volume \"/a\" is no volume",
            ),
            ("build a --output oci:o --volume /a:b", "absolute"),
            ("build a --output oci:o --volume /a:/b/../c", "absolute"),
            ("build a --output oci:o -o containerfile", "mosb plan"),
            ("diff - -", "stdin can be read once"),
            ("diff a.yaml", "required"),
            ("diff oci:a oci:b --base oci:c", "leave it out"),
            ("diff a.yaml oci:b --base c", "registry host is missing"),
            ("inspect x -q -v", "cannot be used"),
            ("inspect quay.io/x --tls-verify=maybe", "isn't valid"),
        ] {
            let error = resolved(line).map(|_| ()).unwrap_err();
            assert!(error.contains(want), "{line}: {error}");
        }
    }

    #[test]
    fn an_operand_is_a_config_by_its_looks() {
        let config = |path: &str| Operand::Config(Input::File(path.into()));
        for (text, want) in [
            ("-", Operand::Config(Input::Stdin)),
            ("a.yaml", config("a.yaml")),
            ("a.yml", config("a.yml")),
            ("quay.io/a.json", config("quay.io/a.json")),
            ("./a", config("./a")),
            ("../a", config("../a")),
            ("/a", config("/a")),
            ("quay.io/a", Operand::Image("quay.io/a".parse().unwrap())),
            ("oci:a", Operand::Image("oci:a".parse().unwrap())),
            ("oci:a.yaml", config("oci:a.yaml")),
        ] {
            assert_eq!(operand(text).unwrap(), want, "{text}");
        }
        assert!(operand("a").is_err());
    }

    #[test]
    fn settings_of_all_commands() {
        let settings = |line: &str| resolved(line).unwrap().settings;
        let plain = settings("version");
        assert!(plain.tls_verify && !plain.quiet && plain.format == Format::Text);
        assert_eq!(plain.cache_dir, Some("/h/.cache/mosb".into()));
        assert!(settings("version --tls-verify").tls_verify);
        assert!(!settings("version --tls-verify=false").tls_verify);
        let auth = settings("version --authfile a -o yaml --cache-dir c --registries-conf r");
        assert_eq!(auth.push_authfile, Some("a".into()));
        assert_eq!(auth.cache_dir, Some("c".into()));
        assert_eq!(auth.registries_confs, [("r".into(), true)]);
        assert_eq!(
            settings("--push-authfile b version --authfile a").push_authfile,
            Some("b".into())
        );
    }
}
