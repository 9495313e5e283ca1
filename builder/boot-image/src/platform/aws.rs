//! AWS: `ami.id`, by region.

use serde_json::{Value, json};

use super::{Verdict, change_at};
use crate::field::{image, list, object, required_text, text};
use crate::{Context, ImageError, Skip};

pub fn machine_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    let region = required_text(spec, "/placement/region")?;
    if object(spec, "/ami")?.is_none() {
        return Err(ImageError::Missing { path: "/ami".to_owned() });
    }
    if text(spec, "/ami/arn")?.is_some() {
        return Ok(Verdict::Skip(Skip::Lookup { field: "ami.arn".to_owned() }));
    }
    if !list(spec, "/ami/filters")?.is_empty() {
        return Ok(Verdict::Skip(Skip::Lookup { field: "ami.filters".to_owned() }));
    }
    let current = required_text(spec, "/ami/id")?;
    judge(current, "/ami", spec.pointer("/ami"), |ami| json!({"id": ami}), region, context)
}

pub fn cluster_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    let Some(current) = text(spec, "/template/spec/ami/id")? else {
        // With no id, the provider looks an image up by Kubernetes version, whatever else is set.
        return Ok(Verdict::Skip(Skip::Lookup { field: "ami".to_owned() }));
    };
    let Some(region) = context.region else {
        return Ok(Verdict::Skip(Skip::NoRegion));
    };
    let path = "/template/spec/ami/id";
    judge(current, path, spec.pointer(path), |ami| json!(ami), region, context)
}

fn judge(
    current: &str,
    path: &str,
    old: Option<&Value>,
    new: impl Fn(&str) -> Value,
    region: &str,
    context: &Context<'_>,
) -> Result<Verdict, ImageError> {
    let from = image(path, current)?;
    let images = context.stream.images_of(context.architecture);
    let Some(aws) = images.and_then(|images| images.images.aws.as_ref()) else {
        let what = format!("AWS image for {}", context.architecture);
        return Ok(Verdict::Skip(Skip::NotInStream { what }));
    };
    let Some(wanted) = aws.regions.get(region).and_then(|one| one.image.as_deref()) else {
        return Ok(Verdict::Skip(Skip::Region { region: region.to_owned() }));
    };
    if current == wanted {
        return Ok(Verdict::Current(from));
    }
    if !context.proof.covers(current) {
        return Ok(Verdict::Skip(Skip::Unproven { image: current.to_owned() }));
    }
    let to = image("images.aws", wanted)?;
    Ok(change_at(path, old, new(wanted), from, to))
}
