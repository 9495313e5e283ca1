//! vSphere: the name of a VM template. A stream has no names of templates, so the administrator's
//! map from releases to uploaded templates decides.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Verdict, change, not_in_stream, skip};
use crate::field::{image, required_text, text};
use crate::{BootImage, Context, ImageError, Skip};

const TEMPLATE: &str = "/template";
const TEMPLATE_OF_CLUSTER_API: &str = "/template/spec/template";

/// Releases to names of templates.
type Names = BTreeMap<String, String>;

pub fn machine_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    judge(spec, TEMPLATE, "/snapshot", context)
}

pub fn cluster_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    judge(spec, TEMPLATE_OF_CLUSTER_API, "/template/spec/snapshot", context)
}

pub fn machine_api_image(spec: &Value, names: &Names) -> Result<Option<BootImage>, ImageError> {
    image_at(spec, TEMPLATE, names)
}

pub fn cluster_api_image(spec: &Value, names: &Names) -> Result<Option<BootImage>, ImageError> {
    image_at(spec, TEMPLATE_OF_CLUSTER_API, names)
}

/// The template at a path, with its release if that is known; absent is none.
fn image_at(spec: &Value, path: &str, names: &Names) -> Result<Option<BootImage>, ImageError> {
    text(spec, path)?.map(|name| named(path, name, release_of(name, names))).transpose()
}

fn release_of<'a>(name: &str, names: &'a Names) -> Option<&'a str> {
    let found = names.iter().find(|(_, known)| *known == name);
    found.map(|(release, _)| release.as_str())
}

fn named(path: &str, name: &str, release: Option<&str>) -> Result<BootImage, ImageError> {
    let source = |source| ImageError::Image { path: path.to_owned(), source };
    BootImage::named(name, release).map_err(source)
}

fn judge(
    spec: &Value,
    path: &str,
    snapshot: &str,
    context: &Context<'_>,
) -> Result<Verdict, ImageError> {
    let current = required_text(spec, path)?;
    let current_release = release_of(current, context.by_release);
    let from = named(path, current, current_release)?;
    if let Some(snapshot) = text(spec, snapshot)? {
        let want = "templates without the name of a snapshot".to_owned();
        return skip(Skip::Custom { image: format!("snapshot {snapshot} of {current}"), want });
    }
    let Some(release) = context.stream.release(context.architecture, "vmware") else {
        return not_in_stream("artifact for VMware", context);
    };
    let Some(wanted) = context.by_release.get(release) else {
        return skip(Skip::NoImageForRelease { release: release.to_owned() });
    };
    if wanted == current {
        return Ok(Verdict::Current(from));
    }
    if current_release.is_none() && !context.proof.covers(current) {
        return skip(Skip::Unproven { image: current.to_owned() });
    }
    image("images of the settings", wanted)?;
    let to = named(path, wanted, Some(release))?;
    Ok(change(spec, path, json!(wanted), from, to))
}
