//! `mosb boot-images golden`.

use crate::cli::args::{Format, Golden};
use crate::cli::error::Error;
use crate::cli::input::{FILE_LIMIT, Input};
use crate::cli::{Result, output};
use mosb_boot_image::{Release, golden_config_map};
use mosb_plan::api::is_object_name;

/// Prints the golden ConfigMap to apply.
///
/// # Errors
/// The file is not a stream, or an argument is invalid for a ConfigMap.
pub fn golden(typed: &Golden, format: Format) -> Result<()> {
    let namespace = &typed.namespace;
    if !is_object_name(namespace) || namespace.contains('.') || namespace.len() > 63 {
        return Err(Error::Usage(format!("--namespace {namespace:?} is no namespace")).into());
    }
    let version = typed.release_version.as_deref().map(str::parse::<Release>).transpose()?;
    let input = Input::new(&typed.stream);
    let bytes = input.bytes("stream", FILE_LIMIT)?;
    let file = input.to_string();
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::NotText { file: file.clone(), what: "stream" })?;
    let object = golden_config_map(&file, &text, namespace, version.as_ref())?;
    if version.is_none()
        && let Some(newest) = object["data"]["releaseVersion"].as_str()
    {
        tracing::info!(
            "releaseVersion is {newest}, the newest of the stream, so no image waits for the OS of your pools; if they run an older release, give it with --release-version"
        );
    }
    output::print_cluster_object(format, &object)?;
    Ok(())
}
