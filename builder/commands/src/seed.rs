//! `mosb seed new`: a MachineOSConfig to apply, or to add to an installation's manifests.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::context::Session;
use super::error::Error;
use super::{ExitCode, Result, input, output};
use mosb_api::{API_VERSION, MachineOsConfig, is_digest_format, labels};
use mosb_bootstrap::invalid_fields;
use mosb_plan::plan;

#[derive(Debug, Subcommand)]
pub enum Seed {
    /// Prints a MachineOSConfig that puts an image that exists already into service
    ///
    /// Example:
    ///
    ///   mosb seed new --pool worker --image registry.example.com/os/worker@sha256:… \
    ///     --push-secret push --push-spec registry.example.com/os/worker:latest > worker.yaml
    #[command(verbatim_doc_comment)]
    New(SeedNew),
}

#[derive(Debug, Args)]
pub struct SeedNew {
    /// The pool's name
    #[arg(long, value_name = "NAME")]
    pub pool: String,
    /// The image, by digest
    #[arg(long, value_name = "REPO@DIGEST")]
    pub image: String,
    /// Name of the Secret that later images are pushed with
    #[arg(long, value_name = "NAME")]
    pub push_secret: String,
    /// The repository for later images; the tag is replaced
    #[arg(long, value_name = "REPO:TAG")]
    pub push_spec: String,
    /// Your own Containerfile, for later images
    #[arg(long, value_name = "FILE")]
    pub containerfile: Option<PathBuf>,
}

impl Seed {
    pub fn run(&self, session: &Session) -> Result<ExitCode> {
        let Self::New(typed) = self;
        output::print_cluster_object(session.settings.format, &object(typed)?)?;
        Ok(0)
    }
}

fn object(typed: &SeedNew) -> Result<Value> {
    let (image, notice) = plan::pre_built_image(&typed.image, true)?;
    let image = image.to_string();
    if let Some(notice) = notice {
        tracing::warn!("{}: {} [{}]", typed.image, notice.message, notice.code);
    }
    if !is_digest_format(&image, false) {
        tracing::warn!(
            "{image}: an OpenShift cluster takes at most one path component before an image's name; there, copy it to a flatter repository [pre-built-image-nested]"
        );
    }
    let mut spec = json!({
        "machineConfigPool": { "name": typed.pool },
        "imageBuilder": { "imageBuilderType": "Job" },
        "renderedImagePushSecret": { "name": typed.push_secret },
        "renderedImagePushSpec": typed.push_spec,
    });
    if let Some(file) = &typed.containerfile {
        let content = input::containerfile(file)?;
        spec["containerFile"] = json!([{ "containerfileArch": "NoArch", "content": content }]);
    }
    let object = json!({
        "apiVersion": API_VERSION,
        "kind": "MachineOSConfig",
        "metadata": { "name": typed.pool, "annotations": { labels::PRE_BUILT_IMAGE: image } },
        "spec": spec,
    });
    let read: MachineOsConfig = serde_json::from_value(object.clone()).expect("it was just made");
    let wrong = invalid_fields(&read, true);
    if wrong.is_empty() {
        Ok(object)
    } else {
        let problems: Vec<String> =
            wrong.iter().map(|(field, what)| format!("{field}: {what}")).collect();
        Err(Error::Usage(format!("seed new: {}", problems.join("; "))).into())
    }
}
