//! Files and directories of manifests, bounded.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Error;
use crate::input::Input;
use mosb_api::yaml::{self, Limits};
use mosb_types::{Diagnostic as _, Finding};

/// A file of manifests.
#[derive(Debug)]
pub(super) struct File {
    input: Input,
    /// Whether it was found in a directory, and not named itself.
    pub in_directory: bool,
}

/// What a file holds.
#[derive(Debug)]
pub(super) enum Content {
    Objects(Vec<Value>),
    /// Why it can't be an object of Kubernetes, for a file that was not named itself.
    NoObject(&'static str),
}

/// The number of bytes that may still be read.
#[derive(Debug)]
pub(super) struct RemainingBytes(usize);

impl Default for RemainingBytes {
    fn default() -> Self {
        Self(yaml::LIST_LIMIT)
    }
}

/// The files of an operand: the file itself, or the sorted files of a directory.
pub(super) fn of(operand: &Input, problems: &mut Vec<Finding>) -> Vec<File> {
    let named = || vec![File { input: operand.clone(), in_directory: false }];
    let Input::File(directory) = operand else {
        return named();
    };
    if !directory.is_dir() {
        return named();
    }
    match listed(directory) {
        Ok(files) if files.is_empty() => {
            let message = "it holds no *.yaml, *.yml or *.json; give another directory";
            problems.push(Finding::new("bad-file", message).object(operand.to_string()));
            Vec::new()
        }
        Ok(files) => {
            let file = |path| File { input: Input::File(path), in_directory: true };
            files.into_iter().map(file).collect()
        }
        Err(source) => {
            let file = operand.to_string();
            problems.push(to_problem(&file, &Error::Read { file: file.clone(), source }));
            Vec::new()
        }
    }
}

fn listed(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|it| it.to_str());
        // A dangling link is reported when it is read; reading a pipe may never end.
        let is_file = path.metadata().map_or(true, |it| it.is_file());
        if matches!(extension, Some("yaml" | "yml" | "json")) && is_file {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

impl File {
    /// The objects in it.
    pub fn objects(&self, remaining: &mut RemainingBytes) -> Result<Content, Finding> {
        let file = self.to_string();
        let bytes = self.input.bytes("list of MachineConfigs", remaining.0);
        let bytes = bytes.map_err(|error| to_problem(&file, &error))?;
        remaining.0 -= bytes.len();
        match yaml::parse_all(&bytes, Limits::LIST) {
            Ok(objects) => Ok(Content::Objects(objects)),
            // Each object has a kind.
            Err(_) if self.in_directory && !bytes.windows(4).any(|word| word == b"kind") => {
                Ok(Content::NoObject("it can't be read, and has no kind"))
            }
            Err(source) => Err(to_problem(&file, &Error::Yaml { file: file.clone(), source })),
        }
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.input.fmt(f)
    }
}

/// An error of a file as one problem of several.
fn to_problem(file: &str, error: &Error) -> Finding {
    let mut message = error.to_string();
    if let Error::Read { source, .. } = error {
        message = format!("{message}: {}", mosb_types::error_text(source));
    }
    let message = message.strip_prefix(&format!("{file}: ")).unwrap_or(&message);
    Finding::new(error.code(), message).object(file)
}
