//! vSphere: the name of a VM template. A stream has no names of templates, so the administrator's
//! map from releases to uploaded templates decides.

use serde_json::{Value, json};

use super::{Verdict, change, not_in_stream, skip};
use crate::field::{image, required_text, text};
use crate::{BootImage, Context, ImageError, Skip};

pub fn machine_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    judge(spec, "/template", "/snapshot", context)
}

pub fn cluster_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    judge(spec, "/template/spec/template", "/template/spec/snapshot", context)
}

fn judge(
    spec: &Value,
    path: &str,
    snapshot: &str,
    context: &Context<'_>,
) -> Result<Verdict, ImageError> {
    let current = required_text(spec, path)?;
    let by_name = context.by_release.iter().find(|(_, name)| *name == current);
    let current_release = by_name.map(|(release, _)| release.as_str());
    let named = |name, release| {
        let source = |source| ImageError::Image { path: path.to_owned(), source };
        BootImage::named(name, release).map_err(source)
    };
    let from = named(current, current_release)?;
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
    let to = named(wanted, Some(release))?;
    Ok(change(spec, path, json!(wanted), from, to))
}
