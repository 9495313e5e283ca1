//! Fields of a MachineOSConfig that the API server or the controller would reject.

use std::collections::BTreeSet;

use mosb_api::{MachineOsConfig, NameError, PoolName, is_object_name};
use mosb_plan::{containerfile, plan};

const MAX_CONTENT_CHARS: usize = 4096;
const MAX_FILES: usize = 4;

/// Returns the invalid fields, each with the valid values. `nested`: as of `plan::pre_built_image`.
pub fn invalid_fields(config: &MachineOsConfig, nested: bool) -> Vec<(&'static str, String)> {
    let spec = &config.spec;
    let mut wrong = Vec::new();
    let pool = &spec.machine_config_pool.name;
    match pool.parse::<PoolName>() {
        Err(error) => wrong.push(("spec.machineConfigPool.name", error.to_string())),
        Ok(_) if *pool != config.metadata.name => wrong.push((
            "metadata.name",
            format!("the API wants it to be the pool's name, {pool}; rename it"),
        )),
        Ok(_) => {}
    }
    let builder = &spec.image_builder.image_builder_type;
    if builder != "Job" {
        let message = format!("{builder:?} is unknown, and the only one is Job");
        wrong.push(("spec.imageBuilder.imageBuilderType", message));
    }
    if spec.rendered_image_push_secret.name.is_empty() {
        let message = "it is missing; name the Secret that later images are pushed with".to_owned();
        wrong.push(("spec.renderedImagePushSecret.name", message));
    }
    let own = spec.base_image_pull_secret.as_ref();
    for (field, name) in [
        ("spec.renderedImagePushSecret.name", Some(&spec.rendered_image_push_secret.name)),
        ("spec.baseImagePullSecret.name", own.map(|secret| &secret.name)),
    ] {
        let name = name.filter(|name| !name.is_empty() && !is_object_name(name));
        wrong.extend(name.map(|name| (field, NameError::Subdomain(name.clone()).to_string())));
    }
    if let Err(error) = plan::push_repository(&spec.rendered_image_push_spec, nested) {
        wrong.push(("spec.renderedImagePushSpec", error.to_string()));
    }
    let files = &spec.container_file;
    if files.len() > MAX_FILES {
        let message = format!("it has {} entries, and the API takes {MAX_FILES}", files.len());
        wrong.push(("spec.containerFile", message));
    }
    let mut architectures = BTreeSet::new();
    for file in files {
        let architecture = file.architecture();
        if !architectures.insert(architecture) {
            let message = format!(
                "two entries have containerfileArch {architecture}, and the API takes one of each; keep one of them"
            );
            wrong.push(("spec.containerFile", message));
        }
        let length = file.content.chars().count();
        if length > MAX_CONTENT_CHARS {
            let message = format!(
                "a Containerfile of {length} characters, and the API takes {MAX_CONTENT_CHARS}; shorten it"
            );
            wrong.push(("spec.containerFile", message));
        } else if let Err(error) = containerfile::check_in_cluster(&file.content) {
            wrong.push(("spec.containerFile", error.to_string()));
        }
    }
    wrong
}
