//! The command line: arguments, output, exit codes.
//!
//! Input: the command line and the environment. Output: a result on stdout, progress on stderr, and
//! an exit code. `Command` lists the commands. Those that need no cluster, and what all share, are in
//! [`mosb_commands`].

mod boot_images;
#[cfg(feature = "cluster")]
mod cluster;
mod command;
#[cfg(feature = "cluster")]
mod job;
#[cfg(feature = "cluster")]
mod node;
mod plugin;

#[cfg(test)]
mod tests;

use std::error::Error as _;
use std::ffi::OsString;
use std::io::Write as _;

use command::{Cli, Command};
use mosb_commands::context::Session;
use mosb_commands::error::Error;
use mosb_commands::progress::Progress;
use mosb_commands::settings::{Environment, Format, LogFormat};
use mosb_commands::signals::until_signal;
use mosb_commands::{ExitCode, Failure, Result, output};

/// A command that is ready to run.
#[derive(Debug)]
pub struct Ready {
    command: Command,
    session: Session,
}

/// Parses and checks the command line, and starts tracing.
///
/// # Errors
/// The exit code, after help, the version or a usage error was printed.
pub fn understand(typed: impl IntoIterator<Item = OsString>) -> Result<Ready, ExitCode> {
    let typed: Vec<OsString> = typed.into_iter().collect();
    let Cli { mut settings, command } =
        plugin::parse(&typed).map_err(|error| not_parsed(&error, &typed))?;
    settings.environment = Environment::read();
    command.check(&settings).map_err(|error| failed(&error, settings.format, false))?;
    if settings.log_format == LogFormat::Text && command.logs_times() {
        settings.log_format = LogFormat::Timed;
    }
    let progress = Progress::new(&settings);
    progress.start_tracing(&settings);
    Ok(Ready { command, session: Session { settings, progress } })
}

/// Prints help and version on stdout, and usage errors on stderr, or as an object if the arguments
/// contain `-o json`.
fn not_parsed(error: &clap::Error, typed: &[OsString]) -> ExitCode {
    let format = typed_format(typed);
    if let Some(failure) = error.source().and_then(|source| source.downcast_ref::<Failure>()) {
        return failed(failure, format.unwrap_or(Format::Text), false);
    }
    let printed = error.print();
    if printed.is_err() {
        // The reader closed the pipe; the exit code remains.
        tracing::debug!("nobody reads");
    }
    if !error.use_stderr() {
        return 0;
    }
    if let Some(format) = format {
        let rendered = error.to_string();
        let lines = rendered.lines().take_while(|line| !line.is_empty());
        let message = lines.map(str::trim).collect::<Vec<_>>().join(" ");
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        let failure = Failure::from(Error::Usage(message.to_owned()));
        // stderr has the text already.
        let _ = output::print(format, &failure.report(2));
    }
    2
}

/// `-o json` or `-o yaml` in a command line that can't be parsed.
fn typed_format(typed: &[OsString]) -> Option<Format> {
    let words: Vec<&str> = typed.iter().filter_map(|word| word.to_str()).collect();
    let is = |name: &str| {
        words.iter().enumerate().any(|(at, word)| match format_value(word) {
            Some("") => words.get(at + 1) == Some(&name),
            Some(value) => value == name,
            None => false,
        })
    };
    match (is("json"), is("yaml")) {
        (true, _) => Some(Format::Json),
        (false, true) => Some(Format::Yaml),
        (false, false) => None,
    }
}

/// The value in a word with `--format` or `-o`, which may follow other short flags; empty if the
/// value is the next word.
fn format_value(word: &str) -> Option<&str> {
    if word == "--format" {
        return Some("");
    }
    if let Some(value) = word.strip_prefix("--format=") {
        return Some(value);
    }
    let value = word.strip_prefix('-')?.trim_start_matches(['q', 'v']).strip_prefix('o')?;
    Some(value.strip_prefix('=').unwrap_or(value))
}

/// Runs a command to its end or to a signal, prints its result or its one error, and returns the
/// exit code.
pub async fn run(ready: Ready) -> ExitCode {
    let Ready { command, session } = ready;
    let (format, of_diff) = (session.settings.format, matches!(command, Command::Diff(_)));
    let handles_signals = command.handles_signals();
    let work = command.run(&session);
    let ended = if handles_signals { Ok(Ok(work.await)) } else { until_signal(work).await };
    session.progress.end();
    match ended {
        Ok(Ok(Ok(code))) => code,
        Ok(Ok(Err(error))) => failed(&error, format, of_diff),
        Ok(Err(interrupt)) => {
            let failure = Failure::from(Error::Interrupted(interrupt.name()));
            print_failure(&failure, format, interrupt.exit_code());
            interrupt.exit_code()
        }
        Err(error) => failed(&Error::System(error).into(), format, of_diff),
    }
}

/// Prints a failure and returns its exit code.
fn failed(failure: &Failure, format: Format, of_diff: bool) -> ExitCode {
    let code = failure.exit_code(of_diff);
    print_failure(failure, format, code);
    code
}

fn print_failure(failure: &Failure, format: Format, code: ExitCode) {
    // If stderr or stdout is closed, the exit code is all that remains.
    let _ = writeln!(std::io::stderr(), "error: {}", failure.text());
    if matches!(format, Format::Json | Format::Yaml) {
        let _ = output::print(format, &failure.report(code));
    }
}
