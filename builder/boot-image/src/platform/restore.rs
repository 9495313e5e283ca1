//! The edit that puts an earlier image back into a set of the Machine API. Sets of Cluster API get
//! the reference to their earlier template instead.

use serde_json::{Value, json};

use super::marketplace::Plan;
use super::{PlatformType, Verdict, azure_gallery, edit, gcp, skip};
use crate::field::{image, object, required_text, text};
use crate::{BootImage, Change, ImageError, Skip};

/// Puts `to`, as a history has it, into `providerSpec.value`. An image that a set looks up is
/// replaced too: the caller restores only what was recorded for this set.
///
/// # Errors
/// The value is not one of this platform, or has other boot disks than the image was recorded for.
pub fn restore(
    platform: &PlatformType,
    provider_spec: &Value,
    to: &BootImage,
) -> Result<Verdict, ImageError> {
    let (edits, from) = match platform {
        PlatformType::Aws => {
            let path = "/ami";
            let from = image("/ami/id", text(provider_spec, "/ami/id")?.unwrap_or("none"))?;
            (edit(provider_spec, path, json!({"id": to.as_str()})).into_iter().collect(), from)
        }
        PlatformType::Gcp => gcp_disks(provider_spec, to)?,
        PlatformType::Azure => azure(provider_spec, to)?,
        PlatformType::VSphere => {
            let from = image("/template", required_text(provider_spec, "/template")?)?;
            (edit(provider_spec, "/template", json!(to.name())).into_iter().collect(), from)
        }
        PlatformType::BareMetal
        | PlatformType::OpenStack
        | PlatformType::KubeVirt
        | PlatformType::Other(_) => {
            return skip(Skip::Platform { platform: platform.to_string() });
        }
    };
    if edits.is_empty() {
        return Ok(Verdict::Current(from));
    }
    Ok(Verdict::Change(Change { edits, from, to: to.clone(), object: None }))
}

type Edits = (Vec<crate::Edit>, BootImage);

fn gcp_disks(spec: &Value, to: &BootImage) -> Result<Edits, ImageError> {
    let paths = gcp::boot_disks(spec)?;
    let images: Vec<&str> = to.as_str().split(',').collect();
    if images.len() != 1 && images.len() != paths.len() {
        return Err(ImageError::BootDisks { image: to.to_string() });
    }
    let (mut edits, mut texts) = (Vec::new(), Vec::new());
    for (path, wanted) in paths.iter().zip(images.iter().cycle()) {
        texts.push(required_text(spec, path)?);
        edits.extend(edit(spec, path, json!(wanted)));
    }
    Ok((edits, image(&paths[0], &gcp::text_of_all(&texts))?))
}

fn azure(spec: &Value, to: &BootImage) -> Result<Edits, ImageError> {
    if object(spec, "/image")?.is_none() {
        return Err(ImageError::Missing { path: "/image".to_owned() });
    }
    let field = |name: &str| text(spec, &format!("/image/{name}"));
    let urn = |spec: [Option<&str>; 4]| spec.map(Option::unwrap_or_default).join(":");
    let from = match field("resourceID")? {
        Some(id) => id.to_owned(),
        None => urn([field("publisher")?, field("offer")?, field("sku")?, field("version")?]),
    };
    let new = match to.as_str().split(':').collect::<Vec<_>>()[..] {
        [publisher, offer, sku, version] => {
            let mut new = json!({
                "publisher": publisher, "offer": offer, "sku": sku, "version": version,
                "resourceID": "",
            });
            if let Some(plan) = Plan::of(publisher, offer) {
                new["type"] = json!(plan.image_type());
            }
            new
        }
        _ if azure_gallery::is_resource_id(to.as_str()) => {
            json!({"publisher": "", "offer": "", "sku": "", "version": "", "resourceID": to.as_str()})
        }
        _ => return Err(ImageError::RestoredImage { image: to.to_string() }),
    };
    Ok((edit(spec, "/image", new).into_iter().collect(), image("/image", &from)?))
}
