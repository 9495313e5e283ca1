//! GCP: the path of an image on each boot disk.

use serde_json::{Value, json};

use super::Verdict;
use crate::field::{flag, image, list, required_text, text};
use crate::{Change, Context, Edit, ImageError, Skip};

/// Where Red Hat publishes, whatever a stream says.
const RHCOS_PROJECT: &str = "rhcos-cloud";
/// Prefixes of the same path as a URL.
const HOSTS: [&str; 2] =
    ["https://www.googleapis.com/compute/v1/", "https://compute.googleapis.com/compute/v1/"];

pub fn machine_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    let mut boot_disks = Vec::new();
    for index in 0..list(spec, "/disks")?.len() {
        if flag(spec, &format!("/disks/{index}/boot"))? {
            boot_disks.push(format!("/disks/{index}/image"));
        }
    }
    if boot_disks.is_empty() {
        return Err(ImageError::NoBootDisk { path: "/disks".to_owned() });
    }
    judge(spec, &boot_disks, context)
}

pub fn cluster_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    let path = "/template/spec/image";
    if text(spec, path)?.is_none() {
        let family = text(spec, "/template/spec/imageFamily")?;
        let field = if family.is_some() { "imageFamily" } else { "image" };
        return Ok(Verdict::Skip(Skip::Lookup { field: field.to_owned() }));
    }
    judge(spec, &[path.to_owned()], context)
}

fn judge(spec: &Value, paths: &[String], context: &Context<'_>) -> Result<Verdict, ImageError> {
    let images = context.stream.images_of(context.architecture);
    let gcp = images.and_then(|images| images.images.gcp.as_ref());
    let published = gcp.and_then(|gcp| Some((gcp.project.as_deref()?, gcp.name.as_deref()?)));
    let Some((project, name)) = published else {
        let what = format!("GCP image for {}", context.architecture);
        return Ok(Verdict::Skip(Skip::NotInStream { what }));
    };
    let wanted = format!("projects/{project}/global/images/{name}");
    let (mut edits, mut texts) = (Vec::new(), Vec::new());
    for path in paths {
        let current = required_text(spec, path)?;
        texts.push(current);
        let bare = HOSTS.iter().find_map(|host| current.strip_prefix(host)).unwrap_or(current);
        if bare == wanted {
            continue;
        }
        let parts: Vec<&str> = bare.split('/').collect();
        match parts[..] {
            ["projects", _, "global", "images", "family", _] => {
                return Ok(Verdict::Skip(Skip::Lookup { field: current.to_owned() }));
            }
            ["projects", of, "global", "images", _] if of == RHCOS_PROJECT || of == project => {}
            _ if context.proof.covers(current) => {}
            _ => {
                let want = format!("projects/{project}/global/images/…");
                return Ok(Verdict::Skip(Skip::Custom { image: current.to_owned(), want }));
            }
        }
        let (old, new) = (Some(json!(current)), Some(json!(wanted)));
        edits.push(Edit { path: path.clone(), old, new });
    }
    texts.dedup();
    let from = image(&paths[0], &texts.join(","))?;
    if edits.is_empty() {
        return Ok(Verdict::Current(from));
    }
    let to = image("images.gcp", &wanted)?;
    Ok(Verdict::Change(Change { edits, from, to, object: None }))
}
