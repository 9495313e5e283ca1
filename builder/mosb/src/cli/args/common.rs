//! What all commands take.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

/// What all commands take.
#[derive(Debug, Args)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// How the result is printed: text, json, yaml; plan also has containerfile and configmap, render has name
    #[arg(
        short = 'o',
        long = "format",
        global = true,
        value_enum,
        default_value = "text",
        hide_possible_values = true
    )]
    pub format: Format,
    /// Credentials of registries; without, the places where podman and docker keep them
    #[arg(long, global = true, value_name = "FILE")]
    pub authfile: Option<PathBuf>,
    /// Credentials to push with; without, those to pull with
    #[arg(long, global = true, value_name = "FILE")]
    pub push_authfile: Option<PathBuf>,
    /// CAs (*.crt) and client certificates (*.cert, *.key) for all registries
    #[arg(long, global = true, value_name = "DIR")]
    pub cert_dir: Option<PathBuf>,
    /// With =false, certificates are not checked and plain HTTP is fine
    #[arg(long, global = true, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", hide_possible_values = true)]
    pub tls_verify: bool,
    /// Mirrors and blocked registries (registries.conf, version 2)
    #[arg(long, global = true, value_name = "FILE")]
    pub registries_conf: Option<PathBuf>,
    /// Which images may be pulled (policy.json); without, where podman looks for it. Signatures are not checked
    #[arg(long, global = true, value_name = "FILE")]
    pub signature_policy: Option<PathBuf>,
    /// Where base trees are kept [default: $XDG_CACHE_HOME/mosb, else ~/.cache/mosb]
    #[arg(long, global = true, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// No progress, errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Tell more, for finding faults; nothing of a credential
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// How progress and warnings are written to stderr
    #[arg(long, global = true, value_enum, default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
}

/// `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One object, as `docs/schemas/` says.
    Json,
    /// The same object as YAML.
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
    /// A line behind its time, which some commands have instead of [`Self::Text`].
    #[value(skip)]
    Timed,
}
