//! The result, on stdout.

use std::io::{self, Write as _};

use serde_json::Value;

use super::args::Format;
use super::error::Error;
use super::objects::{Object, Typed};
use mosb_plan::api::yaml;

/// Prints an object in the selected format.
///
/// # Errors
/// Stdout can't be written. A closed pipe is not an error.
pub fn print<T: Object>(format: Format, object: &T) -> Result<(), Error> {
    print_text(&shown(format, object))
}

/// Prints an object of a cluster, for `kubectl apply`: as JSON if that is selected, else as YAML.
///
/// # Errors
/// As [`print`].
pub fn print_cluster_object(format: Format, object: &Value) -> Result<(), Error> {
    print_text(&match format {
        Format::Json => {
            serde_json::to_string_pretty(object).expect("a JSON value has text keys only") + "\n"
        }
        Format::Text | Format::Yaml | Format::Name | Format::Containerfile | Format::Configmap => {
            yaml::to_text(object)
        }
    })
}

/// Prints a text as it is.
///
/// # Errors
/// As [`print`].
pub fn print_text(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::Write { file: "stdout".to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

fn shown<T: Object>(format: Format, object: &T) -> String {
    let typed = Typed::new(object);
    match format {
        Format::Json => {
            let json = serde_json::to_string_pretty(&typed);
            json.expect("our objects have text keys only") + "\n"
        }
        Format::Yaml => yaml::to_text(&typed),
        // `plan` and `render` print the other formats themselves.
        Format::Text | Format::Containerfile | Format::Configmap | Format::Name => object.text(),
    }
}
