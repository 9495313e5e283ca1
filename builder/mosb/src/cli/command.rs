//! The commands: which there are, and what each does for a person.

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::usage;
use super::boot_images::BootImages;
use super::bootstrap::Bootstrap;
use super::build::Build;
use super::cache::Cache;
#[cfg(feature = "cluster")]
use super::cluster::{
    builds::Builds, controller::Controller, ignition::Ignition, logs::Logs, nodes::Nodes,
    rebuild::Rebuild, rollout::Rollout, status::Status, wait::Wait,
};
use super::context::Session;
use super::diff::DiffCommand;
use super::files::Files;
use super::inspect::Inspect;
#[cfg(feature = "cluster")]
use super::job::JobPart;
#[cfg(feature = "cluster")]
use super::node::Node;
use super::output::{self, Object};
use super::plan::PlanCommand;
use super::preflight::Preflight;
use super::render::Render;
use super::seed::Seed;
#[cfg(feature = "cluster")]
use super::serve_ignition::ServeIgnition;
use super::settings::{Format, Settings};
use super::{ExitCode, Result};
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
    /// Builds the image of a rendered MachineConfig, and pushes it
    ///
    /// The image is tagged with the rendered name, which moves, and with the build name, which stays. Built directly,
    /// the same inputs are the same image everywhere: same digest.
    ///
    /// Examples:
    ///
    ///   mosb build worker.yaml --output registry.example.com/os/worker
    ///   oc get mc rendered-worker-… -o yaml | mosb build - --output oci:out --digestfile digest
    #[command(verbatim_doc_comment)]
    Build(Build),
    /// Shows what a build would do, and why, without doing it
    ///
    /// Example:
    ///
    ///   mosb plan worker.yaml --base oci:fcos
    #[command(verbatim_doc_comment)]
    Plan(PlanCommand),
    /// Merges the MachineConfigs of a pool into one rendered MachineConfig, named by its content
    ///
    /// MachineConfigs of role worker are merged first, then the pool's own, each by name; the later one wins. Ignition specs
    /// 2.0 to 3.6 are read, and remote contents are fetched and embedded. Printed as YAML, as JSON, or (-o name) as its name.
    ///
    /// Exit codes: 0 done; 1 done, and --previous found a change that nodes can't apply; 2 invalid input; 3 unreachable.
    ///
    /// Examples:
    ///
    ///   mosb render --pool worker machineconfigs/ | mosb build - --base oci:fcos --output oci:out
    ///   oc get mcp,mc,controllerconfig -o yaml | mosb render --pool infra --explain -
    #[command(verbatim_doc_comment)]
    Render(Render),
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
    #[command(verbatim_doc_comment)]
    Bootstrap(Bootstrap),
    /// Manifests for images that exist already
    #[command(arg_required_else_help = true)]
    Seed {
        #[command(subcommand)]
        command: Seed,
    },
    /// Shows what changes from one config or image to another
    ///
    /// An operand is a config if it is `-`, ends in .yaml, .yml or .json, or begins with ./, ../ or /; else it is an image.
    /// For file contents, only size and digest are shown. For an image that was built with --base, give the same --base: the
    /// config is then compared as it would be built on that base.
    ///
    /// Exit codes: 0 same, 1 differs, 2 wrong use, 3 all else.
    ///
    /// Examples:
    ///
    ///   mosb diff registry.example.com/os/worker:rendered-worker-… worker.yaml
    ///   mosb diff oci:out:rendered-worker-… worker.yaml --base oci:fcos
    #[command(verbatim_doc_comment)]
    Diff(DiffCommand),
    /// Shows what mosb knows of an image: config, pool, base, inputs, layers and their history
    ///
    /// An image that mosb did not build is shown too, and marked as such.
    ///
    /// Example:
    ///
    ///   mosb inspect oci:out:rendered-worker-…
    #[command(verbatim_doc_comment)]
    Inspect(Inspect),
    /// Lists the paths that a build added or changed
    ///
    /// Example:
    ///
    ///   mosb files registry.example.com/os/worker@sha256:…
    #[command(verbatim_doc_comment)]
    Files(Files),
    /// Checks images and registries before an installation relies on them
    ///
    /// For each image: does the registry respond; may the image be pulled (manifest, config and a layer are read); is it
    /// bootable, for the machines' architecture, of the cluster's release; may later images be pushed (an upload is started
    /// and cancelled)? The log on stderr has a line with a timestamp for each check.
    ///
    /// Exit codes: 0 all passed; 1 a check failed; 2 wrong use; 3 a check could not be made, try again.
    ///
    /// Examples:
    ///
    ///   mosb preflight registry.example.com/os/worker@sha256:… --authfile pull-secret.json
    ///   mosb preflight --manifests install/manifests --pull-secret pull-secret.json
    ///   mosb preflight quay.io/acme/os:v1 --push quay.io/acme/os --platform linux/amd64 -o json
    #[command(verbatim_doc_comment)]
    Preflight(Preflight),
    #[cfg(feature = "cluster")]
    /// Builds images in a cluster whenever a pool's config changes: the program of the Deployment
    ///
    /// Watches MachineOSConfigs, pools and builds, creates a Job for each build, and updates their statuses. If several
    /// controllers run in a namespace, a Lease selects the one that acts.
    ///
    /// Example:
    ///
    ///   mosb controller --namespace mosb-system --kubeconfig ~/.kube/config
    #[command(verbatim_doc_comment)]
    Controller(Controller),
    #[cfg(feature = "cluster")]
    /// Shows for each pool of a cluster why it is or isn't building
    ///
    /// Examples:
    ///
    ///   mosb status
    ///   mosb status worker -o json
    #[command(verbatim_doc_comment)]
    Status(Status),
    #[cfg(feature = "cluster")]
    /// Requests a new build of a pool's image
    ///
    /// What must be run is run again, so that updates come in.
    ///
    /// Example:
    ///
    ///   mosb rebuild worker && mosb wait worker
    #[command(verbatim_doc_comment)]
    Rebuild(Rebuild),
    #[cfg(feature = "cluster")]
    /// Shows the log of a build's pod, container by container
    ///
    /// The pod of a build that succeeded is deleted.
    ///
    /// Examples:
    ///
    ///   mosb logs -f worker
    ///   mosb logs worker-0123456789abcdef0123456789abcdef
    #[command(verbatim_doc_comment)]
    Logs(Logs),
    #[cfg(feature = "cluster")]
    /// Waits until the image of a pool is up to date
    ///
    /// Exit codes: 0 it is; 1 the build failed; 2 somebody must change something first; 3 timed out.
    ///
    /// Example:
    ///
    ///   mosb wait worker --timeout 30m
    #[command(verbatim_doc_comment)]
    Wait(Wait),
    #[cfg(feature = "cluster")]
    /// Lists the images of a pool, or of all pools, newest first, and where they run
    ///
    /// Examples:
    ///
    ///   mosb builds
    ///   mosb builds worker
    #[command(verbatim_doc_comment)]
    Builds(Builds),
    #[cfg(feature = "cluster")]
    /// Lists nodes, and which images they run, should run and have staged
    ///
    /// Examples:
    ///
    ///   mosb nodes worker -o json
    ///   mosb nodes drift worker
    #[command(verbatim_doc_comment)]
    Nodes(Nodes),
    #[cfg(feature = "cluster")]
    /// Prints the Ignition config of a new machine of a pool
    ///
    /// The machine boots the image in service (or the build to which the pool is pinned) and joins the cluster, if
    /// userData.joinSecret of ConfigMap mosb-config names the Secret with what joins it. The same config is in the Secret of the
    /// annotation mosb.dev/user-data. It contains a login that can pull the image: give it only to machines.
    ///
    /// Examples:
    ///
    ///   mosb ignition worker > worker.ign
    ///   mosb ignition worker --build worker-0123456789abcdef0123456789abcdef --merge node-7.ign > node-7-complete.ign
    #[command(verbatim_doc_comment)]
    Ignition(Ignition),
    #[cfg(feature = "cluster")]
    /// Serves the Ignition configs of new machines, where a provider takes fewer bytes: the program of a Deployment
    ///
    /// The user data of machines then is a small config, which fetches that of its pool with a token. Reads only a
    /// directory, in which Kubernetes mounts the Secret mosb-ignition-server, and uses no API. Any other request than that of
    /// a pool's config with a token of that pool gets the same 404.
    ///
    /// Example:
    ///
    ///   mosb serve-ignition --configs /configs
    #[command(verbatim_doc_comment)]
    ServeIgnition(ServeIgnition),
    #[cfg(feature = "cluster")]
    /// Brings a pool's image to its machines, or takes it back
    ///
    /// A controller with --rollout does the work: these commands set what it follows, and show how far it is.
    ///
    /// Example:
    ///
    ///   mosb rollout start worker
    #[command(verbatim_doc_comment, arg_required_else_help = true)]
    Rollout {
        #[command(subcommand)]
        command: Rollout,
    },
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
    /// 1, 2 and 3 as for all commands.
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
    /// [`Error::Usage`](super::error::Error::Usage).
    pub fn check(&self, settings: &Settings) -> Result<()> {
        self.check_format(settings.format)?;
        match self {
            Self::Build(command) => command.check(),
            Self::Plan(command) => command.check(),
            Self::Render(command) => command.check(settings.format),
            Self::Bootstrap(command) => command.check(settings),
            Self::Diff(command) => command.check(),
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
            Self::Controller(_)
            | Self::ServeIgnition(_)
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
            Self::Build(command) => command.run(session).await,
            Self::Plan(command) => command.run(session).await,
            Self::Render(command) => command.run(session).await,
            Self::Bootstrap(command) => command.run(session).await,
            Self::Seed { command } => command.run(session),
            Self::Diff(command) => command.run(session).await,
            Self::Inspect(command) => command.run(session).await,
            Self::Files(command) => command.run(session).await,
            Self::Preflight(command) => command.run(session).await,
            #[cfg(feature = "cluster")]
            Self::Controller(command) => command.run(&session.settings.environment).await,
            #[cfg(feature = "cluster")]
            Self::Status(command) => command.run(session).await,
            #[cfg(feature = "cluster")]
            Self::Rebuild(command) => command.run(session).await,
            #[cfg(feature = "cluster")]
            Self::Logs(command) => command.run().await,
            #[cfg(feature = "cluster")]
            Self::Wait(command) => command.run(session).await,
            #[cfg(feature = "cluster")]
            Self::Builds(command) => command.run(session).await,
            #[cfg(feature = "cluster")]
            Self::Nodes(command) => command.run(session).await,
            #[cfg(feature = "cluster")]
            Self::Ignition(command) => command.run(session).await,
            #[cfg(feature = "cluster")]
            Self::ServeIgnition(command) => command.run().await,
            #[cfg(feature = "cluster")]
            Self::Rollout { command } => command.run(session).await,
            Self::BootImages { command } => command.run(session).await,
            Self::Cache { command } => command.run(session).await,
            #[cfg(feature = "cluster")]
            Self::Job { command } => command.run(session).await,
            #[cfg(feature = "cluster")]
            Self::Node { command } => command.run(session).await,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::path::Path;

    fn helps(command: &mut clap::Command, path: &str, text: &mut String) {
        let path = format!("{path}{}", command.get_name());
        let help = command.render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        writeln!(text, "# {path}\n\n```text\n{}\n```\n", help.join("\n").trim_end()).unwrap();
        for below in command.get_subcommands_mut() {
            helps(below, &format!("{path} "), text);
        }
    }

    /// `make generate` writes it anew.
    #[test]
    fn generated_help_is_up_to_date() {
        let mut text = String::new();
        let mut command = Cli::command();
        command.build();
        helps(&mut command, "", &mut text);
        let file =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("docs/cli/help.md");
        expect_test::expect_file![file].assert_eq(&(text.trim_end().to_owned() + "\n"));
    }
}
