//! The command line: arguments, output, exit codes.
//!
//! Input: the command line and the environment. Output: a result on stdout, progress on stderr, and
//! an exit code. Invariant: nothing is decided here about images. Arguments are parsed ([`args`])
//! and validated ([`resolve`]), the crates below are called (`commands`), and their results are
//! printed ([`objects`], and their texts).

pub mod args;
mod commands;
mod context;
pub mod environment;
pub mod error;
mod failure;
mod input;
mod interrupt;
mod layers;
mod manifests;
pub mod objects;
mod output;
mod output_folder;
mod plugin;
mod progress;
pub mod resolve;
mod text;
mod unread;

use std::ffi::OsString;
use std::io::Write as _;

use clap::CommandFactory as _;

use args::{Cli, Format};
use context::CliContext;
use environment::Environment;
use error::Error;
pub use failure::{Failure, Result};
use interrupt::until_signal;
use objects::{Object, Version};
use progress::Progress;
#[cfg(feature = "cluster")]
use resolve::{ClusterJob, InPod};
use resolve::{Invocation, Job, Settings};

use crate::bootstrap::preflight::Outcome;

/// The exit code of the program.
pub type ExitCode = u8;

/// A command that is ready to run.
#[derive(Debug)]
pub struct Ready {
    invocation: Invocation,
    progress: Progress,
}

/// Parses and validates the command line, and starts tracing.
///
/// # Errors
/// The exit code, after help, the version or a usage error was printed.
pub fn understand(typed: impl IntoIterator<Item = OsString>) -> Result<Ready, ExitCode> {
    let typed: Vec<OsString> = typed.into_iter().collect();
    let cli = plugin::parse(&typed).map_err(|error| not_parsed(&error, &typed))?;
    let format = cli.common.format;
    let invocation =
        resolve::resolve(cli, Environment::read()).map_err(|error| failed(error, format, false))?;
    let progress = Progress::new(&invocation.settings);
    progress.start_tracing(&invocation.settings);
    Ok(Ready { invocation, progress })
}

/// Prints help and version on stdout, and usage errors on stderr, or as an object if the arguments
/// contain `-o json`.
fn not_parsed(error: &clap::Error, typed: &[OsString]) -> ExitCode {
    let printed = error.print();
    if printed.is_err() {
        // The reader closed the pipe; the exit code remains.
        tracing::debug!("nobody reads");
    }
    if !error.use_stderr() {
        return 0;
    }
    if let Some(format) = wanted_format(typed) {
        let rendered = error.to_string();
        let lines = rendered.lines().take_while(|line| !line.is_empty());
        let message = lines.map(str::trim).collect::<Vec<_>>().join(" ");
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        let failure = Failure::from(Error::Usage(message.to_owned()));
        // stderr has the text already.
        let _ = output::print(format, &failure.object(2));
    }
    2
}

/// `-o json` or `-o yaml` in a command line that can't be parsed.
fn wanted_format(typed: &[OsString]) -> Option<Format> {
    let words: Vec<&str> = typed.iter().filter_map(|word| word.to_str()).collect();
    let is = |name: &str| {
        let joined = [format!("-o{name}"), format!("-o={name}"), format!("--format={name}")];
        words.windows(2).any(|pair| matches!(pair[0], "-o" | "--format") && pair[1] == name)
            || words.iter().any(|word| joined.iter().any(|form| form == word))
    };
    match (is("json"), is("yaml")) {
        (true, _) => Some(Format::Json),
        (false, true) => Some(Format::Yaml),
        (false, false) => None,
    }
}

/// Runs a command to its end or to a signal, prints its result or its one error, and returns the
/// exit code.
pub async fn run(ready: Ready) -> ExitCode {
    let Ready { invocation, progress } = ready;
    let Invocation { job, settings } = invocation;
    let of_diff = matches!(job, Job::Diff(_));
    #[cfg(feature = "cluster")]
    if let Job::InPod(part) = &job
        && let InPod::WaitForDone(post) = &**part
    {
        // SIGTERM is its usual end.
        return match commands::wait_for_done(post).await {
            Ok(()) => 0,
            Err(error) => failed(error, settings.format, of_diff),
        };
    }
    #[cfg(feature = "cluster")]
    if let Job::InCluster(job) = &job
        && let ClusterJob::Controller(wanted) = &job.what
    {
        // The controller finishes running work and releases its Lease.
        return match commands::control(job, wanted).await {
            Ok(code) => code,
            Err(error) => failed(error, settings.format, of_diff),
        };
    }
    #[cfg(feature = "cluster")]
    if let Job::ServeIgnition(wanted) = &job {
        // A signal is its usual end.
        return match commands::serve_ignition(wanted).await {
            Ok(()) => 0,
            Err(error) => failed(error, settings.format, of_diff),
        };
    }
    let ended = until_signal(carry_out(&job, &settings, &progress)).await;
    progress.end();
    match ended {
        Ok(Ok(Ok(code))) => code,
        Ok(Ok(Err(error))) => failed(error, settings.format, of_diff),
        Ok(Err(interrupt)) => {
            let failure = Failure::from(Error::Interrupted(interrupt.name()));
            print_failure(&failure, settings.format, interrupt.exit_code());
            interrupt.exit_code()
        }
        Err(error) => failed(Error::System(error).into(), settings.format, of_diff),
    }
}

async fn carry_out(job: &Job, settings: &Settings, progress: &Progress) -> Result<ExitCode> {
    let context = || CliContext::new(settings, progress.clone());
    match job {
        Job::Build(build) => {
            report(settings, progress, &commands::build(&context()?, build, settings).await?)
        }
        Job::Prepare(build) => {
            report(settings, progress, &commands::prepare(&context()?, build, settings).await?)
        }
        Job::Plan(plan) => {
            commands::plan(&context()?, plan, settings).await?;
            Ok(0)
        }
        Job::Render(render) => commands::render(render, settings, progress).await,
        Job::Bootstrap(wanted) => {
            let result = commands::bootstrap(wanted, settings, progress).await?;
            report(settings, progress, &result)
        }
        Job::SeedNew(typed) => {
            commands::new_seed(typed, settings.format)?;
            Ok(0)
        }
        Job::Golden(typed) => {
            commands::golden(typed, settings.format)?;
            Ok(0)
        }
        Job::Diff(wanted) => {
            // Comparing two files needs no settings of registries.
            let context = wanted.needs_images().then(context).transpose()?;
            let diff = commands::diff(context.as_ref(), wanted).await?;
            report(settings, progress, &diff)?;
            Ok(if diff.same { 0 } else { 1 })
        }
        Job::Inspect(image, platform) => {
            let info = commands::inspect(&context()?, image, platform.as_ref()).await?;
            report(settings, progress, &info)
        }
        Job::Files(image, layer, platform) => {
            let files = commands::files(&context()?, image, *layer, platform.as_ref()).await?;
            report(settings, progress, &files)
        }
        Job::CacheList => {
            let cache_dir = settings.cache_dir.as_deref().ok_or(Error::NoCache)?;
            let list = commands::list(&context::cache(settings)?, cache_dir).await?;
            report(settings, progress, &list)
        }
        Job::CachePrune => {
            let cache_dir = settings.cache_dir.as_deref().ok_or(Error::NoCache)?;
            let (cache, records) =
                (context::cache(settings)?, context::prepared_records(settings)?);
            let pruned = commands::prune(&cache, &records, cache_dir).await?;
            report(settings, progress, &pruned)
        }
        #[cfg(feature = "cluster")]
        Job::InPod(part) => commands::in_pod(&context()?, part, settings).await,
        #[cfg(feature = "cluster")]
        Job::InCluster(job) => commands::in_cluster(job, settings, progress).await,
        #[cfg(feature = "cluster")]
        Job::ServeIgnition(_) => {
            unreachable!("it handles signals itself, so it is called otherwise")
        }
        #[cfg(feature = "cluster")]
        Job::Node(command) => {
            let ended = commands::node(command).await;
            report(settings, progress, &ended.report)?;
            Ok(ended.failure.map_or(0, |(failure, code)| {
                // The report on stdout has it too.
                print_failure(&failure, Format::Text, code);
                code
            }))
        }
        #[cfg(feature = "cluster")]
        Job::Drift => report(settings, progress, &commands::drift().await?),
        #[cfg(feature = "cluster")]
        Job::Adopt { config, is_dry_run } => {
            let adopted = commands::adopt(config.as_deref(), *is_dry_run).await?;
            report(settings, progress, &adopted)
        }
        Job::Preflight(job) => {
            let found = commands::preflight(job, settings).await?;
            report(settings, progress, &objects::Preflight::from(&found))?;
            Ok(match found.outcome() {
                Outcome::Passed | Outcome::Skipped => 0,
                Outcome::Failed => 1,
                Outcome::Unknown => 3,
            })
        }
        Job::Version => report(settings, progress, &Version::this()),
        Job::Completion(shell) => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "mosb", &mut script);
            output::print_text(&String::from_utf8_lossy(&script))?;
            Ok(0)
        }
    }
}

fn report<T: Object>(settings: &Settings, progress: &Progress, object: &T) -> Result<ExitCode> {
    progress.end();
    output::print(settings.format, object)?;
    Ok(0)
}

/// Prints a failure and returns its exit code.
fn failed(failure: Failure, format: Format, of_diff: bool) -> ExitCode {
    let code = failure.exit_code(of_diff);
    print_failure(&failure, format, code);
    code
}

fn print_failure(failure: &Failure, format: Format, code: ExitCode) {
    // If stderr or stdout is closed, the exit code is all that remains.
    let _ = writeln!(std::io::stderr(), "error: {}", failure.text());
    if matches!(format, Format::Json | Format::Yaml) {
        let _ = output::print(format, &failure.object(code));
    }
}
