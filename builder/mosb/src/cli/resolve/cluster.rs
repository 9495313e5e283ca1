//! The validated arguments of commands for a cluster.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::boot_images::{self, BootImagesJob};
use crate::cli::Result;
use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::error::Error;
use crate::cli::input::Input;
use mosb_controller::rollout::{RolloutRequest, UndoTo};

/// A command for a cluster, and the connection options.
#[derive(Debug)]
pub struct InCluster {
    pub what: ClusterJob,
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    pub namespace: Option<String>,
}

/// A command for a cluster.
#[derive(Debug)]
pub enum ClusterJob {
    Controller(Controller),
    /// `status`, of a pool or of all.
    Status(Option<String>),
    /// `rebuild`, of a pool.
    Rebuild {
        pool: String,
        config_only: bool,
    },
    /// `logs`, of a pool or a build.
    Logs {
        of: String,
        follow: bool,
    },
    /// `wait`, for a pool.
    Wait {
        pool: String,
        timeout: Duration,
    },
    /// `builds`, of a pool.
    Builds(Option<String>),
    /// `nodes`, of a pool or all.
    Nodes(Option<String>),
    /// `nodes drift`, and `nodes adopt --dry-run`, of a pool.
    Drift(String),
    /// `nodes adopt`, of a pool.
    Adopt(Rollout),
    /// `ignition`, of a pool.
    Ignition(Ignition),
    /// `rollout start`, `pause`, `resume` and `undo`.
    Rollout(Rollout),
    /// `boot-images`.
    BootImages(BootImagesJob),
    /// `rollout status`; followed until this time is over.
    RolloutStatus {
        pool: String,
        watch: Option<Duration>,
    },
}

/// Which Ignition config is printed.
#[derive(Debug)]
pub struct Ignition {
    pub pool: String,
    /// `--build`.
    pub build: Option<String>,
    /// `--merge`.
    pub merge: Option<Input>,
}

/// A request about a pool's roll-out.
#[derive(Debug)]
pub struct Rollout {
    pub pool: String,
    pub request: RolloutRequest,
    /// `--yes`.
    pub yes: bool,
}

/// `controller`.
#[derive(Debug)]
pub struct Controller {
    pub operator_namespace: Option<String>,
    pub security_context_constraints: bool,
    pub render: bool,
    pub rollout: bool,
    pub boot_images: bool,
    pub listen: Vec<SocketAddr>,
    /// `--builder-image`, else the variable.
    pub builder_image: Option<String>,
    /// The pod of this process, in a cluster.
    pub pod: Option<String>,
    /// The node of this process, in a cluster.
    pub node: Option<String>,
    pub lookup_timeout: Duration,
}

fn of(what: ClusterJob, cluster: args::Cluster) -> InCluster {
    InCluster {
        what,
        kubeconfig: cluster.kubeconfig,
        context: cluster.context,
        namespace: cluster.namespace,
    }
}

pub fn boot_images(typed: args::BootImagesInCluster) -> Result<InCluster> {
    let (what, cluster) = boot_images::boot_images(typed)?;
    Ok(of(ClusterJob::BootImages(what), cluster))
}

pub fn controller(typed: args::Controller, environment: &Environment) -> Result<InCluster> {
    let what = Controller {
        operator_namespace: typed.operator_namespace,
        security_context_constraints: typed.security_context_constraints,
        render: typed.render,
        rollout: typed.rollout,
        boot_images: typed.boot_images,
        listen: typed.listen,
        builder_image: typed.builder_image.or_else(|| environment.builder_image.clone()),
        pod: environment.pod_name.clone(),
        node: environment.node_name.clone(),
        lookup_timeout: lookup_timeout(&typed.lookup_timeout)?,
    };
    Ok(of(ClusterJob::Controller(what), typed.cluster))
}

pub fn status(typed: args::Status) -> InCluster {
    of(ClusterJob::Status(typed.pool), typed.cluster)
}

pub fn rebuild(typed: args::Rebuild) -> InCluster {
    let what = ClusterJob::Rebuild { pool: typed.pool, config_only: typed.config_only };
    of(what, typed.cluster)
}

pub fn logs(typed: args::Logs) -> InCluster {
    let what = ClusterJob::Logs { of: typed.of, follow: typed.follow };
    of(what, typed.cluster)
}

pub fn wait(typed: args::Wait) -> Result<InCluster> {
    let what =
        ClusterJob::Wait { pool: typed.pool, timeout: duration("--timeout", &typed.timeout)? };
    Ok(of(what, typed.cluster))
}

pub fn builds(typed: args::Builds) -> InCluster {
    of(ClusterJob::Builds(typed.pool), typed.cluster)
}

pub fn nodes(typed: args::Nodes) -> InCluster {
    match typed.what {
        None => of(ClusterJob::Nodes(typed.pool), typed.cluster),
        Some(args::NodesOf::Drift(typed)) => of(ClusterJob::Drift(typed.pool), typed.cluster),
        Some(args::NodesOf::Adopt(typed)) if typed.dry_run => {
            of(ClusterJob::Drift(typed.pool), typed.cluster)
        }
        Some(args::NodesOf::Adopt(typed)) => {
            let request = RolloutRequest::Adopt;
            let change = Rollout { pool: typed.pool, request, yes: true };
            of(ClusterJob::Adopt(change), typed.cluster)
        }
    }
}

pub fn ignition(typed: args::Ignition) -> InCluster {
    let merge = typed.merge.as_deref().map(Input::new);
    let what = Ignition { pool: typed.pool, build: typed.build, merge };
    of(ClusterJob::Ignition(what), typed.cluster)
}

pub fn rollout(typed: args::Rollout) -> Result<InCluster> {
    let change = |pool, request, yes| ClusterJob::Rollout(Rollout { pool, request, yes });
    Ok(match typed {
        args::Rollout::Start(typed) => {
            of(change(typed.pool, RolloutRequest::Start, typed.yes), typed.cluster)
        }
        args::Rollout::Pause(typed) => {
            of(change(typed.pool, RolloutRequest::Pause, true), typed.cluster)
        }
        args::Rollout::Resume(typed) => {
            of(change(typed.pool, RolloutRequest::Resume, typed.yes), typed.cluster)
        }
        args::Rollout::Undo(typed) => {
            let to = typed.to.as_deref().map(undo_to).transpose()?;
            of(change(typed.pool, RolloutRequest::Undo(to), typed.yes), typed.cluster)
        }
        args::Rollout::Status(typed) => {
            let limit = duration("--timeout", &typed.timeout)?;
            let watch = typed.watch.then_some(limit);
            of(ClusterJob::RolloutStatus { pool: typed.pool, watch }, typed.cluster)
        }
    })
}

fn undo_to(text: &str) -> Result<UndoTo, Error> {
    text.parse().map_err(|cause: &str| {
        Error::Usage(format!(
            "--to {text:?}: {cause}; want a build as `mosb builds` lists it, BUILD@sha256:…, or stock"
        ))
    })
}

/// A longer time would block a worker for hours: a reconcile may look up several things.
const LONGEST_LOOKUP: Duration = Duration::from_secs(3600);

fn lookup_timeout(text: &str) -> Result<Duration, Error> {
    let given = duration("--lookup-timeout", text)?;
    if given.is_zero() || given > LONGEST_LOOKUP {
        return Err(Error::Usage(format!("--lookup-timeout {text:?}: want 1s to 1h")));
    }
    Ok(given)
}

/// `90`, `90s`, `5m`, `1h`.
fn duration(flag: &str, text: &str) -> Result<Duration, Error> {
    let (digits, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(digits) => (digits, &text[digits.len()..]),
        None => (text, "s"),
    };
    let seconds = match unit {
        "m" => 60,
        "h" => 3600,
        _ => 1,
    };
    let given = digits.parse::<u64>().ok();
    given.and_then(|given| given.checked_mul(seconds)).map(Duration::from_secs).ok_or_else(|| {
        Error::Usage(format!(
            "{flag} {text:?}: want a whole number of seconds, or one with s, m or h, such as 90s"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[test]
    fn times_are_seconds_unless_they_say_otherwise() {
        for (text, want) in [
            ("90", Some(90)),
            ("90s", Some(90)),
            ("5m", Some(300)),
            ("1h", Some(3600)),
            ("", None),
            ("m", None),
            ("1d", None),
            ("-1", None),
            ("99999999999999999999h", None),
        ] {
            let found = duration("--timeout", text).ok().map(|time| time.as_secs());
            assert_eq!(found, want, "{text:?}");
        }
    }

    fn rolled(line: &str) -> Result<ClusterJob, String> {
        let cli = args::Cli::try_parse_from(["mosb", "rollout"].into_iter().chain(line.split(' ')));
        match cli.map_err(|error| error.kind().to_string())?.command {
            args::Command::Rollout { command } => {
                rollout(command).map(|job| job.what).map_err(|error| error.message())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_about_a_roll_out() {
        for (line, request, yes) in [
            ("start worker", RolloutRequest::Start, false),
            ("start worker -y", RolloutRequest::Start, true),
            ("resume worker --yes", RolloutRequest::Resume, true),
            ("undo worker", RolloutRequest::Undo(None), false),
            (
                "undo worker --to stock --yes",
                RolloutRequest::Undo(Some("stock".parse().unwrap())),
                true,
            ),
        ] {
            match rolled(line) {
                Ok(ClusterJob::Rollout(found)) => {
                    assert_eq!((&*found.pool, found.request, found.yes), ("worker", request, yes));
                }
                other => panic!("{line}: {other:?}"),
            }
        }
        // A pause disturbs nothing.
        assert!(matches!(rolled("pause a"), Ok(ClusterJob::Rollout(Rollout { yes: true, .. }))));
        for (line, want) in [
            ("status a", None),
            ("status a --watch", Some(3600)),
            ("status a -w --timeout 5m", Some(300)),
        ] {
            match rolled(line) {
                Ok(ClusterJob::RolloutStatus { watch, .. }) => {
                    assert_eq!(watch.map(|time| time.as_secs()), want, "{line}");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
        for (line, want) in [
            ("undo a --to A", "--to \"A\": not the name of a MachineOSBuild; want a build"),
            ("undo a --to a@sha256:0", "the digest is not"),
            ("status a --timeout 5m", "required"),
            ("status a -w --timeout 5d", "--timeout \"5d\""),
            ("pause a --yes", "unexpected"),
        ] {
            let error = rolled(line).unwrap_err();
            assert!(error.contains(want), "{line}: {error}");
        }
    }

    #[test]
    fn a_config_is_of_a_pool_and_may_be_of_another_build_and_with_a_file() {
        let asked = |line: &str| {
            let words = ["mosb", "ignition"].into_iter().chain(line.split(' '));
            match args::Cli::try_parse_from(words).unwrap().command {
                args::Command::Ignition(typed) => match ignition(typed).what {
                    ClusterJob::Ignition(Ignition { pool, build, merge }) => (pool, build, merge),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(asked("a"), ("a".to_owned(), None, None));
        let build = Some("b".to_owned());
        assert_eq!(asked("a --build b --merge -"), ("a".to_owned(), build, Some(Input::Stdin)));
    }

    #[test]
    fn a_lookup_has_a_time_that_it_can_be_done_in() {
        for (text, is_fine) in [("0s", false), ("1", true), ("1h", true), ("61m", false)] {
            assert_eq!(lookup_timeout(text).is_ok(), is_fine, "{text}");
        }
    }
}
