//! Parsers of typed values, which clap calls, and checks of several of them. An error quotes the value or names the
//! option, and says what would be right.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};

use super::error::Error;
use super::input::Input;
use crate::Result;
use mosb_image::Platform;
use mosb_registry::{Source, Target};

/// An error of the person who typed the command.
pub fn usage<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Usage(message.into()).into())
}

/// A value with its own syntax, such as a name. An error is preceded by the option.
pub fn value<T>(option: &'static str) -> impl Fn(&str) -> Result<T> + Clone + Send + Sync + 'static
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    move |text: &str| text.parse().or_else(|error| usage(format!("{option} {error}")))
}

/// `-`, or a file.
pub fn input() -> impl TypedValueParser<Value = Input> {
    PathBufValueParser::new().map(|path: PathBuf| Input::new(&path))
}

/// The platform to select from an index.
pub fn platform(text: &str) -> Result<Platform> {
    value("--platform")(text)
}

/// An image in a registry or a layout.
pub fn source(text: &str) -> Result<Source> {
    match text.parse()? {
        Source::Dir(_) => usage(format!(
            "{text:?}: a dir: folder is not read here; write oci:DIR or host/repository"
        )),
        source => Ok(source),
    }
}

/// The destination of an image.
pub fn target(text: &str) -> Result<Target> {
    Ok(text.parse()?)
}

/// `90`, `90s`, `5m`, `1h`.
pub fn duration(
    option: &'static str,
) -> impl Fn(&str) -> Result<Duration> + Clone + Send + Sync + 'static {
    move |text: &str| {
        let (digits, unit) = match text.strip_suffix(['s', 'm', 'h']) {
            Some(digits) => (digits, &text[digits.len()..]),
            None => (text, "s"),
        };
        let seconds = match unit {
            "m" => 60,
            "h" => 3600,
            _ => 1,
        };
        let given = digits.parse::<u64>().ok().and_then(|given| given.checked_mul(seconds));
        match given {
            Some(seconds) => Ok(Duration::from_secs(seconds)),
            None => usage(format!(
                "{option} {text:?}: want a whole number of seconds, or one with s, m or h, such as 90s"
            )),
        }
    }
}

/// Rejects a second `-`: stdin can be read once.
pub fn one_stdin<'a>(inputs: impl IntoIterator<Item = &'a Input>, message: &str) -> Result<()> {
    match inputs.into_iter().filter(|input| **input == Input::Stdin).count() {
        0 | 1 => Ok(()),
        _ => usage(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_by_default() {
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
            let found = duration("--timeout")(text).ok().map(|time| time.as_secs());
            assert_eq!(found, want, "{text:?}");
        }
    }
}
