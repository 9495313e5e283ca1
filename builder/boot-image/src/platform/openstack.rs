//! OpenStack: an `Image` of the OpenStack resource controller, which downloads it, and the
//! template's reference to it.

use serde_json::{Value, json};

use super::{Verdict, edit, not_in_stream, skip};
use crate::field::{at, image, image_at, object, required_text, text};
use crate::stream::File;
use crate::{BootImage, Change, Context, ImageError, Skip};

/// Names of the `Image` objects that mosb makes.
const NAME_PREFIX: &str = "mosb-boot-image-";
/// Formats of the disk in streams, and how the controller unpacks them.
const FORMATS: [(&str, Option<&str>); 3] =
    [("qcow2.gz", Some("gz")), ("qcow2.xz", Some("xz")), ("qcow2", None)];
/// What the controller's API allows in a URL.
const MAX_URL_BYTES: usize = 2048;

const IMAGE: &str = "/template/spec/image";

/// None if it is looked up when a machine is made.
pub fn cluster_api_image(spec: &Value) -> Result<Option<BootImage>, ImageError> {
    for field in ["imageRef/name", "id"] {
        if let Some(image) = image_at(spec, &format!("{IMAGE}/{field}"))? {
            return Ok(Some(image));
        }
    }
    if at(spec, &format!("{IMAGE}/filter/tags"))?.is_some() {
        return Ok(None);
    }
    image_at(spec, &format!("{IMAGE}/filter/name"))
}

pub fn cluster_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    let path = IMAGE;
    if object(spec, path)?.is_none() {
        return Err(ImageError::Missing { path: path.to_owned() });
    }
    let (current, is_ours) = if let Some(name) = text(spec, &format!("{path}/imageRef/name"))? {
        (name, name.starts_with(NAME_PREFIX))
    } else if let Some(id) = text(spec, &format!("{path}/id"))? {
        (id, false)
    } else {
        if at(spec, &format!("{path}/filter/tags"))?.is_some() {
            return skip(Skip::Lookup { field: "image.filter.tags".to_owned() });
        }
        (required_text(spec, &format!("{path}/filter/name"))?, false)
    };
    let from = image(path, current)?;
    let Some((release, file, decompress)) = artifact(context) else {
        return not_in_stream("QCOW2 artifact with a checksum for OpenStack", context);
    };
    let name = object_name(release, context)?;
    if name == current {
        return Ok(Verdict::Current(from));
    }
    if !is_ours && !context.proof.covers(current) {
        return skip(Skip::Unproven { image: current.to_owned() });
    }
    let object = image_object(&name, file, decompress, spec, context)?;
    let to = image(path, &name)?;
    let edits = edit(spec, path, json!({"imageRef": {"name": name}})).into_iter().collect();
    Ok(Verdict::Change(Change { edits, from, to, object: Some(object) }))
}

/// A file with its checksum.
struct Download<'a> {
    url: &'a str,
    sha256: &'a str,
}

fn artifact<'a>(context: &Context<'a>) -> Option<(&'a str, Download<'a>, Option<&'static str>)> {
    let images = context.stream.images_of(context.architecture)?;
    let artifact = images.artifacts.get("openstack")?;
    let release = artifact.release.as_deref()?;
    let download = |file: &'a File| {
        let (url, sha256) = (file.location.as_deref()?, file.sha256.as_deref()?);
        let is_hash =
            sha256.len() == 64 && sha256.bytes().all(|b| b"0123456789abcdef".contains(&b));
        (is_hash && url.len() <= MAX_URL_BYTES).then_some(Download { url, sha256 })
    };
    FORMATS.into_iter().find_map(|(format, decompress)| {
        let file = artifact.formats.get(format)?.disk.as_ref()?;
        Some((release, download(file)?, decompress))
    })
}

/// One name for one release and architecture, so that sets share the object.
fn object_name(release: &str, context: &Context<'_>) -> Result<String, ImageError> {
    let is_valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b);
    if release.parse::<crate::Release>().is_err() || !release.bytes().all(is_valid) {
        let text = release.chars().take(64).collect();
        return Err(ImageError::Stream { what: "release of openstack", text });
    }
    Ok(format!("{NAME_PREFIX}{release}-{}", context.architecture.kubernetes_name()))
}

/// The `Image`; its credentials are those of the template, else of the cluster.
fn image_object(
    name: &str,
    file: Download<'_>,
    decompress: Option<&str>,
    spec: &Value,
    context: &Context<'_>,
) -> Result<Value, ImageError> {
    let template = "/template/spec/identityRef";
    let (value, path) = match (at(spec, template)?, context.cluster_spec) {
        (None, Some(cluster)) => (cluster, "/identityRef"),
        _ => (spec, template),
    };
    let secret = required_text(value, &format!("{path}/name"))?;
    let cloud = required_text(value, &format!("{path}/cloudName"))?;
    let mut download = json!({
        "url": file.url,
        "hash": {"algorithm": "sha256", "value": file.sha256},
    });
    if let Some(algorithm) = decompress {
        download["decompress"] = json!(algorithm);
    }
    Ok(json!({
        "apiVersion": "openstack.k-orc.cloud/v1alpha1",
        "kind": "Image",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "mosb"}},
        "spec": {
            "cloudCredentialsRef": {"secretName": secret, "cloudName": cloud},
            "managementPolicy": "managed",
            "resource": {"content": {"diskFormat": "qcow2", "download": download}},
        },
    }))
}
