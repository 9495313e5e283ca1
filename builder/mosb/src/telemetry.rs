//! Tracing for people and for machines, to stderr.
//!
//! Info is a line for each step of a build, debug is for us. Only mosb's own events are raised to debug: those of an HTTP
//! library could hold a header with a credential.

use std::fmt;

use tracing::{Event, Level, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Log level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// A line for each step, and warnings.
    Normal,
    /// What helps to find a fault.
    Verbose,
}

/// Log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A line for people.
    Text,
    /// The same after a timestamp, for archived logs.
    Timed,
    /// One JSON object a line.
    Json,
}

/// Starts it for the whole process; the first call counts.
pub fn start<W>(verbosity: Verbosity, style: Style, writer: W)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (ours, others) = match verbosity {
        Verbosity::Quiet => (LevelFilter::ERROR, LevelFilter::ERROR),
        Verbosity::Normal => (LevelFilter::INFO, LevelFilter::WARN),
        Verbosity::Verbose => (LevelFilter::DEBUG, LevelFilter::WARN),
    };
    let filter = Targets::new()
        .with_default(others)
        // mosb reports failed watches itself, because the cluster may lack the kind.
        .with_target("kube_runtime", LevelFilter::ERROR)
        .with_target("mosb", ours);
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    let layer = match style {
        Style::Text => layer.with_ansi(false).event_format(Lines).boxed(),
        Style::Timed => layer.with_ansi(false).event_format(Timed).boxed(),
        Style::Json => layer.json().flatten_event(true).boxed(),
    };
    let started = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
    if started.is_err() {
        tracing::debug!("tracing was started before");
    }
}

/// `warning: message key=value`, without time and place.
#[derive(Debug)]
struct Lines;

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

/// [`Lines`] behind their time in UTC, as RFC 3339 has it.
#[derive(Debug)]
struct Timed;

impl<S, N> FormatEvent<S, N> for Timed
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
        SystemTime.format_time(&mut writer)?;
        writer.write_char(' ')?;
        Lines.format_event(context, writer, event)
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
            .event_format(Lines);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!("reading the base");
            tracing::warn!(place = "quay.io", "trying the next");
        });
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "reading the base\nwarning: trying the next place=\"quay.io\"\n");
    }
}
