//! GCP: the path of an image on each boot disk.

use serde_json::{Value, json};

use super::{Verdict, edit, not_in_stream, skip};
use crate::field::{flag, image, image_at, list, required_text, text};
use crate::{BootImage, Change, Context, ImageError, Skip};

/// Where Red Hat publishes, whatever a stream says.
const RHCOS_PROJECT: &str = "rhcos-cloud";
/// Prefixes of the same path as a URL.
const HOSTS: [&str; 2] =
    ["https://www.googleapis.com/compute/v1/", "https://compute.googleapis.com/compute/v1/"];

const IMAGE_OF_TEMPLATE: &str = "/template/spec/image";

/// The paths of the images of all boot disks.
pub fn boot_disks(spec: &Value) -> Result<Vec<String>, ImageError> {
    let mut paths = Vec::new();
    for index in 0..list(spec, "/disks")?.len() {
        if flag(spec, &format!("/disks/{index}/boot"))? {
            paths.push(format!("/disks/{index}/image"));
        }
    }
    if paths.is_empty() {
        return Err(ImageError::NoBootDisk { path: "/disks".to_owned() });
    }
    Ok(paths)
}

/// One text for the images of several disks.
pub fn text_of_all(images: &[&str]) -> String {
    match images {
        [first, others @ ..] if others.iter().all(|other| other == first) => (*first).to_owned(),
        _ => images.join(","),
    }
}

/// The image of the disks with these paths.
fn image_of(spec: &Value, paths: &[String]) -> Result<BootImage, ImageError> {
    let texts = paths.iter().map(|path| required_text(spec, path));
    let texts: Vec<&str> = texts.collect::<Result<_, _>>()?;
    image(&paths[0], &text_of_all(&texts))
}

pub fn machine_api_image(spec: &Value) -> Result<Option<BootImage>, ImageError> {
    image_of(spec, &boot_disks(spec)?).map(Some)
}

pub fn cluster_api_image(spec: &Value) -> Result<Option<BootImage>, ImageError> {
    image_at(spec, IMAGE_OF_TEMPLATE)
}

pub fn machine_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    judge(spec, &boot_disks(spec)?, context)
}

pub fn cluster_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    let path = IMAGE_OF_TEMPLATE;
    if text(spec, path)?.is_none() {
        let family = text(spec, "/template/spec/imageFamily")?;
        let field = if family.is_some() { "imageFamily" } else { "image" };
        return skip(Skip::Lookup { field: field.to_owned() });
    }
    judge(spec, &[path.to_owned()], context)
}

/// All boot disks change or none.
fn judge(spec: &Value, paths: &[String], context: &Context<'_>) -> Result<Verdict, ImageError> {
    let images = context.stream.images_of(context.architecture);
    let gcp = images.and_then(|images| images.images.gcp.as_ref());
    let Some((gcp, wanted)) = gcp.and_then(|gcp| Some((gcp, gcp.path()?))) else {
        return not_in_stream("GCP image", context);
    };
    let project = gcp.project.as_deref().unwrap_or_default();
    let mut edits = Vec::new();
    for path in paths {
        let current = required_text(spec, path)?;
        image(path, current)?;
        let bare = HOSTS.iter().find_map(|host| current.strip_prefix(host)).unwrap_or(current);
        if bare == wanted {
            continue;
        }
        let parts: Vec<&str> = bare.split('/').collect();
        match parts[..] {
            ["projects", _, "global", "images", "family", family] => {
                return skip(Skip::Lookup { field: format!("image family {family}") });
            }
            ["projects", of, "global", "images", _] if of == RHCOS_PROJECT || of == project => {}
            _ if context.proof.covers(current) => {}
            _ => {
                let want = format!("projects/{project}/global/images/…");
                return skip(Skip::Custom { image: current.to_owned(), want });
            }
        }
        edits.extend(edit(spec, path, json!(wanted)));
    }
    let from = image_of(spec, paths)?;
    if edits.is_empty() {
        return Ok(Verdict::Current(from));
    }
    let to = image("images.gcp of the stream", &wanted)?;
    Ok(Verdict::Change(Change { edits, from, to, object: None }))
}
