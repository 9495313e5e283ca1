//! Progress, on stderr: a bar on a terminal, one line a step otherwise.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

use super::settings::{LogFormat, Settings};
use crate::telemetry::{Style, Verbosity};
use mosb_registry::Client;

/// The progress of a command.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The bar on a terminal.
    bar: Option<ProgressBar>,
}

/// How often the bar is redrawn.
const TICK: Duration = Duration::from_millis(120);

impl Progress {
    /// Depends on the settings and the terminal.
    pub fn new(settings: &Settings) -> Self {
        let people = !settings.quiet && settings.log_format == LogFormat::Text;
        let bar = (people && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(style(|_| String::new()));
            bar
        });
        Self { bar }
    }

    /// Starts tracing, whose lines go above the bar.
    pub fn start_tracing(&self, settings: &Settings) {
        let verbosity = match (settings.quiet, settings.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, true) => Verbosity::Verbose,
            (false, false) => Verbosity::Normal,
        };
        let style = match settings.log_format {
            LogFormat::Text => Style::Text,
            LogFormat::Timed => Style::Timed,
            LogFormat::Json => Style::Json,
        };
        crate::telemetry::start(verbosity, style, self.clone());
    }

    /// Shows the transferred bytes of this client.
    pub fn watch(&self, client: &Client) {
        if let Some(bar) = &self.bar {
            let client = client.clone();
            bar.set_style(style(move |_| {
                let (pulled, pushed) =
                    (client.transfer_stats().pulled(), client.transfer_stats().pushed());
                format!(
                    "({} pulled, {} pushed)",
                    indicatif::BinaryBytes(pulled),
                    indicatif::BinaryBytes(pushed)
                )
            }));
        }
    }

    /// The next step begins.
    pub fn step(&self, step: &str) {
        match &self.bar {
            Some(bar) => {
                tracing::debug!("{step}");
                bar.set_message(step.to_owned());
                bar.enable_steady_tick(TICK);
            }
            None => tracing::info!("{step}"),
        }
    }

    /// Clears the bar, after all steps or a failure.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(
    stats: impl Fn(&ProgressState) -> String + Clone + Send + Sync + 'static,
) -> ProgressStyle {
    let write = move |state: &ProgressState, out: &mut dyn fmt::Write| {
        // A bar without this text is still a bar.
        let _ = out.write_str(&stats(state));
    };
    ProgressStyle::with_template("{spinner} {wide_msg} {moved} {elapsed}")
        .expect("a constant template")
        .with_key("moved", write)
}

/// Writes to stderr, and hides the bar for each line.
#[derive(Debug)]
pub struct AboveBar<'a>(Option<&'a ProgressBar>);

impl Write for AboveBar<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let write = || io::stderr().write_all(bytes).map(|()| bytes.len());
        match self.0 {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl<'a> MakeWriter<'a> for Progress {
    type Writer = AboveBar<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        AboveBar(self.bar.as_ref())
    }
}
