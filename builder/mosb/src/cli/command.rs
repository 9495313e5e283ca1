//! The commands: which there are, and what each does for a person.

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use schemars::JsonSchema;
use serde::Serialize;

use super::boot_images::BootImages;
#[cfg(feature = "cluster")]
use super::cluster::ClusterCommand;
#[cfg(feature = "cluster")]
use super::job::JobPart;
#[cfg(feature = "cluster")]
use super::node::Node;
use mosb_commands::arguments::usage;
use mosb_commands::bootstrap::Bootstrap;
use mosb_commands::build::Build;
use mosb_commands::cache::Cache;
use mosb_commands::context::Session;
use mosb_commands::diff::DiffCommand;
use mosb_commands::files::Files;
use mosb_commands::inspect::Inspect;
use mosb_commands::keys::Keys;
use mosb_commands::output::{self, Object};
use mosb_commands::plan::PlanCommand;
use mosb_commands::preflight::Preflight;
use mosb_commands::render::Render;
use mosb_commands::seed::Seed;
use mosb_commands::settings::{Format, Settings};
use mosb_commands::sign::Sign;
use mosb_commands::verify::Verify;
use mosb_commands::{ExitCode, Result};
use mosb_plan::plan::FORMAT;

/// Machine OS Builder: a pool's rendered MachineConfig and a base OS image become one bootable OS image.
///
/// A change of configuration is built directly, as one layer on top of the base. If something must run (packages, another
/// kernel, your own Containerfile), buildah builds the image. `mosb plan` shows the method and the reasons.
///
/// The result goes to stdout, progress to stderr.
///
/// Exit codes: 0 done; 1 the build failed, or the registry refused it; 2 wrong use, invalid or missing input; 3 not
/// known (unreachable, server error, timed out); 130 interrupted (SIGINT), 143 ended (SIGTERM).
///
/// Example:
///
///   mosb build worker.yaml --base quay.io/fedora/fedora-coreos:stable --platform linux/amd64 --output oci:out
#[derive(Debug, Parser)]
#[command(
    name = "mosb",
    version,
    verbatim_doc_comment,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(flatten)]
    pub settings: Settings,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Build(Build),
    Plan(PlanCommand),
    Render(Render),
    Bootstrap(Bootstrap),
    /// Manifests for images that exist already
    #[command(arg_required_else_help = true)]
    Seed {
        #[command(subcommand)]
        command: Seed,
    },
    Diff(DiffCommand),
    Inspect(Inspect),
    Files(Files),
    Sign(Sign),
    Verify(Verify),
    /// Makes and shows keys for signatures of images
    ///
    /// Examples:
    ///
    ///   mosb keys new os.key
    ///   mosb keys show os.key
    #[command(verbatim_doc_comment, arg_required_else_help = true)]
    Keys {
        #[command(subcommand)]
        command: Keys,
    },
    Preflight(Preflight),
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    InCluster(ClusterCommand),
    /// Shows and changes the images that new machines start from
    ///
    /// A controller with --boot-images keeps the machine sets that bootImages of ConfigMap mosb-config selects at what the
    /// release says.
    ///
    /// Examples:
    ///
    ///   mosb boot-images status
    ///   mosb boot-images golden --stream stable.json > golden.yaml
    #[command(verbatim_doc_comment, arg_required_else_help = true)]
    BootImages {
        #[command(subcommand)]
        command: BootImages,
    },
    /// Shows or empties the cache: base trees, buildah's storage
    ///
    /// Example:
    ///
    ///   mosb cache list
    #[command(verbatim_doc_comment, arg_required_else_help = true)]
    Cache {
        #[command(subcommand)]
        command: Cache,
    },
    #[cfg(feature = "cluster")]
    /// The parts of a build that run inside a build pod; the controller's Jobs call them
    ///
    /// Each writes a result: the image, or the failure and its remedy.
    #[command(verbatim_doc_comment, arg_required_else_help = true)]
    Job {
        #[command(subcommand)]
        command: JobPart,
    },
    #[cfg(feature = "cluster")]
    /// What runs on a machine: the parts of a roll-out, which the controller's Jobs call, drift and adopt
    ///
    /// All need the machine's process IDs and its root's rights: on the machine itself as root, or in a privileged container
    /// with hostPID. bootc changes the machine's image, or rpm-ostree where there is no bootc.
    ///
    /// Exit codes of report, stage and apply: 0 done; 42 the machine rebooted for this attempt and runs another image:
    /// final; 43 it rebooted before the image was finalized: the next attempt may succeed; 44 its image can't be changed;
    /// 45 --no-reboot was given, and the target needs a reboot: nothing was changed; 1, 2 and 3 as for all commands.
    #[command(verbatim_doc_comment, arg_required_else_help = true)]
    Node {
        #[command(subcommand)]
        command: Node,
    },
    /// Shows the version, and the format of the images that it builds
    ///
    /// Example:
    ///
    ///   mosb version -o json
    #[command(verbatim_doc_comment)]
    Version,
    /// Prints a completion script for a shell
    ///
    /// Example:
    ///
    ///   mosb completion bash > /etc/bash_completion.d/mosb
    #[command(verbatim_doc_comment)]
    Completion {
        /// The shell
        shell: Shell,
    },
}

impl Command {
    /// Rejects options that contradict each other. What one value must be like, its parser says.
    ///
    /// # Errors
    /// [`Error::Usage`](mosb_commands::error::Error::Usage).
    pub fn check(&self, settings: &Settings) -> Result<()> {
        self.check_format(settings.format)?;
        match self {
            Self::Build(command) => command.check(),
            Self::Plan(command) => command.check(),
            Self::Render(command) => command.check(settings.format),
            Self::Bootstrap(command) => command.check(settings),
            Self::Diff(command) => command.check(),
            Self::Verify(command) => command.check(settings),
            Self::Preflight(command) => command.check(settings),
            _ => Ok(()),
        }
    }

    fn check_format(&self, format: Format) -> Result<()> {
        let planned = match self {
            Self::Plan(plan) => Some(&plan.inputs),
            Self::Build(build) if build.dry_run => Some(&build.inputs),
            _ => None,
        };
        match (format, planned) {
            (Format::Containerfile | Format::Configmap, None) => usage(
                "-o containerfile and -o configmap belong to `mosb plan`; want -o text, json or yaml here",
            ),
            (Format::Containerfile | Format::Configmap, Some(inputs))
                if inputs.prepared.is_some() =>
            {
                usage(
                    "-o containerfile and -o configmap print a build without a prepared base; leave out --prepared",
                )
            }
            (Format::Configmap, Some(inputs)) if inputs.context.is_some() => usage(
                "-o configmap prints a build of a cluster, which has no build context; leave out --context",
            ),
            (Format::Name, _) if !matches!(self, Self::Render(_)) => {
                usage("-o name belongs to `mosb render`; want -o text, json or yaml here")
            }
            (Format::Markdown, _) if !matches!(self, Self::Diff(_)) => {
                usage("-o markdown belongs to `mosb diff`; want -o text, json or yaml here")
            }
            _ => Ok(()),
        }
    }

    /// Whether a line of the log has a timestamp: the checks of an installation take long.
    pub fn logs_times(&self) -> bool {
        matches!(self, Self::Bootstrap(_) | Self::Preflight(_))
    }

    /// Whether a signal is the usual end of the command, which it handles itself.
    pub fn handles_signals(&self) -> bool {
        match self {
            #[cfg(feature = "cluster")]
            Self::InCluster(ClusterCommand::Controller(_) | ClusterCommand::ServeIgnition(_))
            | Self::Job { command: JobPart::WaitForDone(_) } => true,
            _ => false,
        }
    }

    /// Runs the command, prints its result, and returns the exit code.
    ///
    /// # Errors
    /// Those of the command.
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        match self {
            Self::Build(command) => Box::pin(command.run(session)).await,
            Self::Plan(command) => Box::pin(command.run(session)).await,
            Self::Render(command) => Box::pin(command.run(session)).await,
            Self::Bootstrap(command) => Box::pin(command.run(session)).await,
            Self::Seed { command } => command.run(session),
            Self::Diff(command) => Box::pin(command.run(session)).await,
            Self::Inspect(command) => command.run(session).await,
            Self::Files(command) => command.run(session).await,
            Self::Sign(command) => command.run(session).await,
            Self::Verify(command) => command.run(session).await,
            Self::Keys { command } => command.run(session).await,
            Self::Preflight(command) => Box::pin(command.run(session)).await,
            #[cfg(feature = "cluster")]
            Self::InCluster(command) => Box::pin(command.run(session)).await,
            Self::BootImages { command } => command.run(session).await,
            Self::Cache { command } => command.run(session).await,
            #[cfg(feature = "cluster")]
            Self::Job { command } => Box::pin(command.run(session)).await,
            #[cfg(feature = "cluster")]
            Self::Node { command } => Box::pin(command.run(session)).await,
            Self::Version => session.print(&Version::this()),
            Self::Completion { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "mosb", &mut script);
                output::print_text(&String::from_utf8_lossy(&script))?;
                Ok(0)
            }
        }
    }
}

/// Which program this is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Of the program.
    pub version: String,
    /// Of the images: it is raised only when the bytes of an image change.
    pub format: u32,
}

impl Version {
    /// Of this program.
    pub fn this() -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), format: FORMAT }
    }
}

impl Object for Version {
    const KIND: &'static str = "Version";

    fn text(&self) -> String {
        format!("mosb {} (image format {})\n", self.version, self.format)
    }
}
