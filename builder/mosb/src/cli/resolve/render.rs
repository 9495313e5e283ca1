//! The validated arguments of `mosb render`.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::Result;
use crate::cli::args::{self, Format};
use crate::cli::error::Error;
use crate::cli::input::Input;
use mosb_plan::api::PoolName;

/// Arguments of rendering.
#[derive(Debug)]
pub struct Render {
    /// Files, directories, stdin.
    pub inputs: Vec<Input>,
    pub pool: PoolName,
    pub pool_file: Option<Input>,
    pub controller_config: Option<Input>,
    pub os_image: Option<String>,
    pub extensions_image: Option<String>,
    pub resolve_tags: bool,
    pub offline: bool,
    pub http_headers_file: Option<PathBuf>,
    pub ca: Option<PathBuf>,
    pub timeout: Duration,
    pub previous: Option<Input>,
    pub explain: bool,
}

pub(super) fn render(typed: args::Render, format: Format) -> Result<Render> {
    if typed.explain && format == Format::Name {
        return super::usage("--explain has no -o name; want -o text, json or yaml");
    }
    let input = |path: Option<PathBuf>| path.as_deref().map(Input::new);
    let render = Render {
        inputs: typed.inputs.iter().map(|path| Input::new(path)).collect(),
        pool: typed.pool.parse().map_err(|error| Error::Usage(format!("--pool {error}")))?,
        pool_file: input(typed.pool_file),
        controller_config: input(typed.controller_config),
        os_image: typed.os_image.filter(|image| !image.is_empty()),
        extensions_image: typed.extensions_image.filter(|image| !image.is_empty()),
        resolve_tags: typed.resolve_tags,
        offline: typed.offline,
        http_headers_file: typed.http_headers_file,
        ca: typed.ca,
        timeout: duration(&typed.timeout)?,
        previous: input(typed.previous),
        explain: typed.explain,
    };
    let others = [&render.pool_file, &render.controller_config, &render.previous];
    let all = render.inputs.iter().chain(others.into_iter().flatten());
    if all.filter(|input| **input == Input::Stdin).count() > 1 {
        return super::usage("stdin can be read once; give a file for all but one -");
    }
    Ok(render)
}

/// Parses a duration, such as `500ms`, `30s`, `2m` or `1h`.
fn duration(text: &str) -> Result<Duration, Error> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    let number: u64 = number.parse().unwrap_or_default();
    match number.checked_mul(millis) {
        Some(total) if total > 0 => Ok(Duration::from_millis(total)),
        _ => Err(Error::Usage(format!(
            "--timeout {text:?}: want a number and its unit, as 500ms, 30s, 2m or 1h"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit() {
        for (text, want) in [
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("30", None),
            ("0s", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("99999999999999999h", None),
            ("1d", None),
        ] {
            let got = duration(text).ok().map(|it| it.as_millis());
            assert_eq!(got, want, "{text}");
        }
    }
}
