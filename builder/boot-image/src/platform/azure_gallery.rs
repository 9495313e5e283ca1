//! Images on Azure that an administrator uploaded: resource ids, and the administrator's map from
//! releases to them.

use serde_json::Value;

use super::marketplace::Generation;
use crate::field::required_text;
use crate::{Context, ImageError, Skip};

/// The id of the uploaded image that should be in use.
pub enum Wanted<'a> {
    Current,
    Id(&'a str),
    Skip(Skip),
}

/// By the release of the stream's artifacts for Azure.
pub fn wanted<'a>(current: &str, context: &Context<'a>) -> Wanted<'a> {
    let Some(release) = context.stream.release(context.architecture, "azure") else {
        let what = format!("artifact for Azure and {}", context.architecture);
        return Wanted::Skip(Skip::NotInStream { what });
    };
    let Some(wanted) = context.by_release.get(release) else {
        return Wanted::Skip(Skip::NoImageForRelease { release: release.to_owned() });
    };
    if wanted.eq_ignore_ascii_case(current) {
        return Wanted::Current;
    }
    if !is_listed(current, context) && !context.proof.covers(current) {
        return Wanted::Skip(Skip::Unproven { image: current.to_owned() });
    }
    // The definition in a gallery has the architecture and the generation, so only the version may
    // change. Images outside of galleries have nothing but their names.
    let fits = match (definition(current), definition(wanted)) {
        (Some(one), Some(other)) => one.eq_ignore_ascii_case(other),
        (None, None) => {
            let generation = |id| Generation::of_resource(id, context.architecture);
            generation(current) == generation(wanted)
        }
        _ => false,
    };
    if !fits {
        let want = format!("the settings have {wanted}, of another definition or generation");
        return Wanted::Skip(Skip::Custom { image: current.to_owned(), want });
    }
    Wanted::Id(wanted)
}

/// Whether the administrator's map has the image, for any release.
pub fn is_listed(id: &str, context: &Context<'_>) -> bool {
    context.by_release.values().any(|known| known.eq_ignore_ascii_case(id))
}

/// Whether a text can be a resource id.
pub fn is_resource_id(text: &str) -> bool {
    text.starts_with('/')
}

/// The part of a gallery's resource id before the version.
fn definition(id: &str) -> Option<&str> {
    let version = id.to_ascii_lowercase().rfind("/versions/")?;
    Some(&id[..version])
}

/// The version of a gallery's resource id.
pub fn version(id: &str) -> Option<&str> {
    let definition = definition(id)?;
    Some(&id[definition.len() + "/versions/".len()..])
}

/// The version, which alone may differ between images that follow each other.
pub fn version_or_id(id: &str) -> &str {
    version(id).unwrap_or(id)
}

/// Whether the installer of OpenShift uploaded the image: it names the gallery, or the resource
/// group, after the image.
pub fn is_from_installer(id: &str) -> bool {
    let id = id.to_ascii_lowercase();
    let parts: Vec<&str> = id.trim_start_matches('/').split('/').collect();
    let parts = match parts[..] {
        ["subscriptions", _, ..] => &parts[2..],
        _ => &parts[..],
    };
    let infrastructure = |image: &str| image.strip_suffix("-gen2").unwrap_or(image).to_owned();
    let ["resourcegroups", group, "providers", "microsoft.compute", rest @ ..] = parts else {
        return false;
    };
    match rest {
        ["galleries", gallery, "images", image, "versions", _] => {
            let name = infrastructure(image).replace('-', "_");
            gallery.strip_prefix("gallery_").is_some_and(|gallery| gallery == name)
        }
        ["images", image] => group.strip_suffix("-rg") == Some(&*infrastructure(image)),
        _ => false,
    }
}

/// The resource id of `computeGallery` or `sharedGallery` of a template.
pub fn id_of(spec: &Value, path: &str) -> Result<String, ImageError> {
    let field = |name: &str| required_text(spec, &format!("{path}/{name}"));
    let optional = |name: &str| crate::field::text(spec, &format!("{path}/{name}"));
    let (gallery, name, version) = (field("gallery")?, field("name")?, field("version")?);
    Ok(match (optional("subscriptionID")?, optional("resourceGroup")?) {
        (Some(subscription), Some(group)) => format!(
            "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute\
             /galleries/{gallery}/images/{name}/versions/{version}"
        ),
        _ => format!("/communityGalleries/{gallery}/images/{name}/versions/{version}"),
    })
}
