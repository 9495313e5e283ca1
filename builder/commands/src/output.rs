//! The result of a command, on stdout: text for people, or the object that `-o json` and `-o yaml` print. Scripts read
//! objects, so a field once printed keeps its name and meaning; `docs/schemas/` holds a JSON Schema of each.

use std::io::{self, Write as _};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::error::Error;
use super::settings::Format;
use mosb_api::yaml;

/// The API version of all objects that mosb prints.
pub const API_VERSION: &str = "mosb.dev/v1";

/// The result of a command.
pub trait Object: Serialize + JsonSchema {
    /// Its `kind`.
    const KIND: &'static str;

    /// The text for people.
    fn text(&self) -> String;
}

/// An object with its `apiVersion` and `kind` in front.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Typed<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T: Object> Typed<'a, T> {
    /// The object as it is printed.
    pub fn new(object: &'a T) -> Self {
        Self { api_version: API_VERSION, kind: T::KIND, object }
    }
}

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
/// As [`print()`].
pub fn print_cluster_object(format: Format, object: &Value) -> Result<(), Error> {
    print_text(&match format {
        Format::Json => json_text(object),
        Format::Text
        | Format::Yaml
        | Format::Name
        | Format::Markdown
        | Format::Containerfile
        | Format::Configmap => yaml::to_text(object),
    })
}

/// Prints a text as it is.
///
/// # Errors
/// As [`print()`].
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
        Format::Json => json_text(&typed),
        Format::Yaml => yaml::to_text(&typed),
        // `plan`, `render` and `diff` print the other formats themselves.
        Format::Text
        | Format::Containerfile
        | Format::Configmap
        | Format::Name
        | Format::Markdown => object.text(),
    }
}

fn json_text(object: &impl Serialize) -> String {
    serde_json::to_string_pretty(object).expect("objects have text keys only") + "\n"
}
