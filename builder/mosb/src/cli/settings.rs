//! The options of all commands, and what the environment adds to them.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::environment::Environment;
use super::error::Error;

/// The options of all commands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Common options")]
pub struct Settings {
    /// The format of the result: text, json, yaml; for plan also containerfile and configmap, for render name
    #[arg(
        short = 'o',
        long = "format",
        global = true,
        value_enum,
        default_value = "text",
        hide_possible_values = true
    )]
    pub format: Format,
    /// Registry credentials [default: those of podman and docker]
    #[arg(long, global = true, value_name = "FILE")]
    pub authfile: Option<PathBuf>,
    /// Registry credentials for pushes [default: those for pulls]
    #[arg(long, global = true, value_name = "FILE")]
    pub push_authfile: Option<PathBuf>,
    /// CAs (*.crt) and client certificates (*.cert, *.key) for all registries
    #[arg(long, global = true, value_name = "DIR")]
    pub cert_dir: Option<PathBuf>,
    /// With =false, certificates are not checked and plain HTTP is allowed
    #[arg(long, global = true, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", hide_possible_values = true)]
    pub tls_verify: bool,
    /// Mirrors and blocked registries (registries.conf, version 2)
    #[arg(long, global = true, value_name = "FILE")]
    pub registries_conf: Option<PathBuf>,
    /// The images that may be pulled (policy.json) [default: podman's]. Signatures are not checked
    #[arg(long, global = true, value_name = "FILE")]
    pub signature_policy: Option<PathBuf>,
    /// The cache of base trees [default: $XDG_CACHE_HOME/mosb, else ~/.cache/mosb]
    #[arg(long, global = true, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// No progress, errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log more, for debugging; never a credential
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// The format of progress and warnings on stderr
    #[arg(long, global = true, value_enum, default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
    #[arg(skip)]
    pub environment: Environment,
}

impl Settings {
    /// The logins for pushes.
    pub fn push_logins(&self) -> Option<&PathBuf> {
        self.push_authfile.as_ref().or(self.authfile.as_ref())
    }

    /// Candidate paths of registries.conf, in order, and whether the file must exist.
    pub fn registries_confs(&self) -> Vec<(PathBuf, bool)> {
        match &self.registries_conf {
            Some(file) => vec![(file.clone(), true)],
            None => self.environment.registries_confs(),
        }
    }

    /// Candidate paths of policy.json, in order, and whether the file must exist.
    pub fn signature_policies(&self) -> Vec<(PathBuf, bool)> {
        match &self.signature_policy {
            Some(file) => vec![(file.clone(), true)],
            None => self.environment.signature_policies(),
        }
    }

    /// The cache of this machine.
    ///
    /// # Errors
    /// There is no home directory, and no other one was given.
    pub fn cache_dir(&self) -> Result<PathBuf, Error> {
        let given = self.cache_dir.clone();
        given.or_else(|| self.environment.cache_dir()).ok_or(Error::NoCache)
    }
}

/// `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One object, with a schema in `docs/schemas/`.
    Json,
    Yaml,
    /// The Containerfile of a plan.
    Containerfile,
    /// The ConfigMaps of a plan.
    Configmap,
    /// The name of a rendered config.
    Name,
}

/// `--log-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// One JSON object a line.
    Json,
    /// A line with a timestamp, which some commands use instead of [`Self::Text`].
    #[value(skip)]
    Timed,
}
