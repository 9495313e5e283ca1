//! `mosb boot-images`: the golden ConfigMap of a stream, and what [`BootImagesInCluster`] does.
#![allow(rustdoc::bare_urls, reason = "in help texts, an address is plain text")]

use clap::{Args, Subcommand};
use serde_json::Value;

#[cfg(feature = "cluster")]
use super::cluster::boot_images::BootImagesInCluster;
use mosb_api::is_object_name;
use mosb_boot_image::{Release, golden_config_map};
use mosb_commands::arguments::{self, usage};
use mosb_commands::context::Session;
use mosb_commands::error::Error;
use mosb_commands::input::{FILE_LIMIT, Input};
use mosb_commands::{ExitCode, Result, output};

#[derive(Debug, Subcommand)]
pub enum BootImages {
    /// Prints the golden ConfigMap, with the images that new machines should start from, from the JSON of a stream
    ///
    /// For clusters without OpenShift, whose releases come with this ConfigMap. Fedora CoreOS publishes its streams at
    /// https://builds.coreos.fedoraproject.org/streams/stable.json. Printed as YAML, or as JSON (-o json). Needs no cluster.
    ///
    /// Example:
    ///
    ///   mosb boot-images golden --stream stable.json | kubectl apply --server-side -f -
    #[command(verbatim_doc_comment)]
    Golden(Golden),
    /// In a cluster.
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    InCluster(BootImagesInCluster),
}

#[derive(Debug, Args)]
pub struct Golden {
    /// The stream's JSON as it is published (- for stdin)
    #[arg(long, value_name = "FILE", value_parser = arguments::input())]
    pub stream: Input,
    /// The namespace of mosb's controller, which reads the ConfigMap there only
    #[arg(long, value_name = "NAME", default_value = "mosb-system", value_parser = namespace)]
    pub namespace: String,
    /// The OS release that the cluster runs; newer images of the stream wait [default: the stream's newest, so none waits]
    #[arg(long, value_name = "RELEASE", value_parser = arguments::value::<Release>("--release-version"))]
    pub release_version: Option<Release>,
}

fn namespace(text: &str) -> Result<String> {
    if !is_object_name(text) || text.contains('.') || text.len() > 63 {
        return usage(format!(
            "--namespace {text:?}: not the name of a namespace; want at most 63 of a-z, 0-9 and -"
        ));
    }
    Ok(text.to_owned())
}

impl BootImages {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        match self {
            Self::Golden(typed) => {
                output::print_cluster_object(session.settings.format, &golden(&typed)?)?;
                Ok(0)
            }
            #[cfg(feature = "cluster")]
            Self::InCluster(command) => command.run(session).await,
        }
    }
}

/// The golden ConfigMap to apply.
///
/// # Errors
/// The file is not a stream.
fn golden(typed: &Golden) -> Result<Value> {
    let (version, input) = (&typed.release_version, &typed.stream);
    let bytes = input.bytes("stream", FILE_LIMIT)?;
    let file = input.to_string();
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::NotText { file: file.clone(), what: "stream" })?;
    let object = golden_config_map(&file, &text, &typed.namespace, version.as_ref())?;
    if version.is_none()
        && let Some(newest) = object["data"]["releaseVersion"].as_str()
    {
        tracing::info!(
            "releaseVersion is {newest}, the newest of the stream, so no image waits for the OS of your pools where mosb does not know it; if they run an older release, give it with --release-version"
        );
    }
    Ok(object)
}
