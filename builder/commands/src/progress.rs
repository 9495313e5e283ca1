//! Progress and log lines, on stderr.
//!
//! A step is shown in a bar on a terminal, and is one line elsewhere. Only mosb's own events are raised to debug: those of
//! an HTTP library could hold a header with a credential.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use tracing::{Event, Level, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::settings::{LogFormat, Settings};
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
    /// For the whole process; the first call counts.
    pub fn start_tracing(&self, settings: &Settings) {
        let (ours, others) = match (settings.quiet, settings.verbose) {
            (true, _) => (LevelFilter::ERROR, LevelFilter::ERROR),
            (false, true) => (LevelFilter::DEBUG, LevelFilter::WARN),
            (false, false) => (LevelFilter::INFO, LevelFilter::WARN),
        };
        let filter = Targets::new()
            .with_default(others)
            // mosb reports failed watches itself, because the cluster may lack the kind.
            .with_target("kube_runtime", LevelFilter::ERROR)
            .with_target("mosb", ours);
        let layer = tracing_subscriber::fmt::layer().with_writer(self.clone());
        let layer = match settings.log_format {
            format @ (LogFormat::Text | LogFormat::Timed) => {
                let lines = Lines { timed: format == LogFormat::Timed };
                layer.with_ansi(false).event_format(lines).boxed()
            }
            LogFormat::Json => layer.json().flatten_event(true).boxed(),
        };
        let started = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
        if started.is_err() {
            tracing::debug!("tracing was started before");
        }
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

/// `warning: message key=value`, without the place.
#[derive(Debug)]
struct Lines {
    /// The time in UTC is in front, as RFC 3339 has it.
    timed: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.timed {
            SystemTime.format_time(&mut writer)?;
            writer.write_char(' ')?;
        }
        let level = *event.metadata().level();
        if level == Level::ERROR {
            writer.write_str("error: ")?;
        } else if level == Level::WARN {
            writer.write_str("warning: ")?;
        } else if level != Level::INFO {
            writer.write_str("debug: ")?;
        }
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_has_only_what_a_person_needs() {
        let memory = Memory::default();
        let writer = memory.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .event_format(Lines { timed: false });
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!("reading the base");
            tracing::warn!(place = "quay.io", "trying the next");
        });
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "reading the base\nwarning: trying the next place=\"quay.io\"\n");
    }
}
