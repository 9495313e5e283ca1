//! `--bundle DIR`: what a command before an installation leaves in a directory if it fails.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::json;
use tokio::task::spawn_blocking;

use super::error::Error;
use super::failure::Failure;
use super::input::{FILE_LIMIT, Input};
use super::output::Typed;
use super::output_folder;
use crate::bundle::{Bundle, version};
use mosb_bootstrap::File;
use mosb_bootstrap::preflight::Report;
use mosb_build::Redactor;

/// What a failed command was given.
#[derive(Debug)]
pub struct FailureBundle<'c> {
    pub folder: &'c Path,
    /// The command.
    pub command: &'static str,
    /// Names of manifests or images.
    pub inputs: Vec<String>,
    /// Credentials that are redacted.
    pub pull_secret: Option<PathBuf>,
}

impl FailureBundle<'_> {
    /// Writes the failure, or the report of failed checks. A bundle that can't be written does not
    /// change how the command ends.
    pub async fn write(&self, failure: Option<&Failure>, report: Option<&Report>) {
        let now = Timestamp::now();
        let login = self.pull_secret.clone().map(Input::File);
        let mut bundle = Bundle::default();
        if let Some(login) = login {
            // The command itself reports a file that can't be read.
            let bytes = login.bytes("file of logins", FILE_LIMIT).unwrap_or_default();
            bundle = Bundle::new(Redactor::from_logins([bytes]));
        }
        bundle.add_json("versions.json", &json!({ "mosb": version() }));
        bundle.add_json("inputs.json", &json!({ "command": self.command, "inputs": self.inputs }));
        if let Some(failure) = failure {
            let failure = failure.report(failure.exit_code(false));
            bundle.add_json("failure.json", &Typed::new(&failure));
        }
        if let Some(report) = report {
            bundle.add_json("preflight.json", &Typed::new(report));
        }
        let files = bundle.into_files(&json!({ "command": self.command }), now).into_iter();
        let files: Vec<File> =
            files.map(|(path, bytes)| File { path, bytes, is_private: false }).collect();
        let folder = self.folder.to_owned();
        let written = spawn_blocking(move || output_folder::write(&folder, &files)).await;
        match written.map_err(Error::stopped("writing the bundle")).flatten() {
            Ok(()) => {
                tracing::info!("{}: the support bundle of this failure", self.folder.display())
            }
            Err(error) => tracing::warn!("no support bundle: {}", Failure::from(error).message()),
        }
    }
}
