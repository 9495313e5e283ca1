//! `mosb seed new`.

use serde_json::{Value, json};

use crate::bootstrap::invalid_fields;
use crate::cli::args::{Format, SeedNew};
use crate::cli::error::Error;
use crate::cli::{Result, input, output};
use mosb_plan::api::{API_VERSION, MachineOsConfig, is_digest_format, labels, yaml};
use mosb_plan::plan;

/// Prints a MachineOSConfig to apply, or to add to an installation's manifests.
///
/// # Errors
/// The arguments are invalid for a MachineOSConfig.
pub fn new(typed: &SeedNew, format: Format) -> Result<()> {
    let object = object(typed)?;
    let text = match format {
        Format::Json => {
            let json = serde_json::to_string_pretty(&object);
            json.expect("an object of JSON") + "\n"
        }
        Format::Text | Format::Yaml | Format::Name | Format::Containerfile | Format::Configmap => {
            yaml::to_text(&object)
        }
    };
    output::print_text(&text)?;
    Ok(())
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
