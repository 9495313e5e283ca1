//! AWS: `ami.id`, by region.

use serde_json::{Value, json};

use super::{Verdict, change, not_in_stream, skip};
use crate::field::{image, image_at, list, object, required_text, text};
use crate::{BootImage, Context, ImageError, Skip};

const AMI_OF_TEMPLATE: &str = "/template/spec/ami/id";

pub fn machine_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    let region = required_text(spec, "/placement/region")?;
    if object(spec, "/ami")?.is_none() {
        return Err(ImageError::Missing { path: "/ami".to_owned() });
    }
    if text(spec, "/ami/arn")?.is_some() {
        return skip(Skip::Lookup { field: "ami.arn".to_owned() });
    }
    if !list(spec, "/ami/filters")?.is_empty() {
        return skip(Skip::Lookup { field: "ami.filters".to_owned() });
    }
    let current = required_text(spec, "/ami/id")?;
    // Whole, as `id`, `arn` and `filters` exclude each other.
    judge(spec, current, "/ami", |ami| json!({"id": ami}), region, context)
}

/// None if it is looked up when a machine is made.
pub fn machine_api_image(spec: &Value) -> Result<Option<BootImage>, ImageError> {
    if text(spec, "/ami/arn")?.is_some() || !list(spec, "/ami/filters")?.is_empty() {
        return Ok(None);
    }
    image_at(spec, "/ami/id")
}

pub fn cluster_api_image(spec: &Value) -> Result<Option<BootImage>, ImageError> {
    image_at(spec, AMI_OF_TEMPLATE)
}

pub fn cluster_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    let path = AMI_OF_TEMPLATE;
    let Some(current) = text(spec, path)? else {
        // With no id, the provider looks an image up by Kubernetes version, whatever else is set.
        return skip(Skip::Lookup { field: "ami".to_owned() });
    };
    let Some(region) = context.region.filter(|region| !region.is_empty()) else {
        return skip(Skip::NoRegion);
    };
    judge(spec, current, path, |ami| json!(ami), region, context)
}

fn judge(
    spec: &Value,
    current: &str,
    path: &str,
    new: impl Fn(&str) -> Value,
    region: &str,
    context: &Context<'_>,
) -> Result<Verdict, ImageError> {
    let from = image(path, current)?;
    let images = context.stream.images_of(context.architecture);
    let Some(aws) = images.and_then(|images| images.images.aws.as_ref()) else {
        return not_in_stream("AWS image", context);
    };
    let Some(wanted) = aws.regions.get(region).and_then(|one| one.image.as_deref()) else {
        return skip(Skip::Region { region: region.chars().take(64).collect() });
    };
    if current == wanted {
        return Ok(Verdict::Current(from));
    }
    if !context.proof.covers(current) {
        return skip(Skip::Unproven { image: current.to_owned() });
    }
    let to = image("images.aws of the stream", wanted)?;
    Ok(change(spec, path, new(wanted), from, to))
}
