//! KubeVirt: an image reference, of the container disk or data volume that a machine boots from.

use serde_json::{Value, json};

use super::{Verdict, change, not_in_stream, skip};
use crate::field::{at, image, list, object, required_text, text};
use crate::{BootImage, Context, ImageError, Skip};

const MACHINE: &str = "/template/spec/virtualMachineTemplate/spec";
/// The scheme of image references in data volumes.
const DOCKER: &str = "docker://";

/// Where a machine boots from.
enum Source {
    /// The path of an image reference, and what is before the reference.
    Reference {
        path: String,
        scheme: &'static str,
    },
    Skip(Skip),
}

/// None if a machine does not boot from an image of a registry.
pub fn cluster_api_image(spec: &Value) -> Result<Option<BootImage>, ImageError> {
    match boot_source(spec)? {
        Source::Reference { path, scheme } => reference(spec, &path, scheme).map(Some),
        Source::Skip(_) => Ok(None),
    }
}

pub fn cluster_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    match boot_source(spec)? {
        Source::Reference { path, scheme } => judge(spec, &path, scheme, context),
        Source::Skip(reason) => skip(reason),
    }
}

fn boot_source(spec: &Value) -> Result<Source, ImageError> {
    let volumes = format!("{MACHINE}/template/spec/volumes");
    let volume = format!("{volumes}/{}", boot_volume(spec, &volumes)?);
    source(spec, &volume)
}

fn reference(spec: &Value, path: &str, scheme: &str) -> Result<BootImage, ImageError> {
    let value = required_text(spec, path)?;
    image(path, value.strip_prefix(scheme).unwrap_or(value))
}

/// The index of the volume of the boot disk: the lowest boot order, else the first disk.
fn boot_volume(spec: &Value, volumes: &str) -> Result<usize, ImageError> {
    let disks = format!("{MACHINE}/template/spec/domain/devices/disks");
    let mut first: Option<(u64, &str)> = None;
    for index in 0..list(spec, &disks)?.len() {
        let order = at(spec, &format!("{disks}/{index}/bootOrder"))?.and_then(Value::as_u64);
        let order = order.unwrap_or(u64::MAX);
        let name = required_text(spec, &format!("{disks}/{index}/name"))?;
        if first.is_none_or(|(lowest, _)| order < lowest) {
            first = Some((order, name));
        }
    }
    let count = list(spec, volumes)?.len();
    let Some((_, name)) = first else {
        // KubeVirt adds disks for volumes without one, in their order.
        let missing = || ImageError::Missing { path: volumes.to_owned() };
        return (count > 0).then_some(0).ok_or_else(missing);
    };
    for index in 0..count {
        if text(spec, &format!("{volumes}/{index}/name"))? == Some(name) {
            return Ok(index);
        }
    }
    Err(ImageError::Missing { path: format!("{volumes} (volume of boot disk {name})") })
}

fn source(spec: &Value, volume: &str) -> Result<Source, ImageError> {
    if object(spec, &format!("{volume}/containerDisk"))?.is_some() {
        let path = format!("{volume}/containerDisk/image");
        required_text(spec, &path)?;
        return Ok(Source::Reference { path, scheme: "" });
    }
    let custom = |what: String| {
        let want = "a container disk, or a data volume with source.registry.url".to_owned();
        Ok(Source::Skip(Skip::Custom { image: what, want }))
    };
    let Some(name) = text(spec, &format!("{volume}/dataVolume/name"))? else {
        return custom("the volume of the boot disk".to_owned());
    };
    let templates = format!("{MACHINE}/dataVolumeTemplates");
    for index in 0..list(spec, &templates)?.len() {
        let template = format!("{templates}/{index}");
        if text(spec, &format!("{template}/metadata/name"))? != Some(name) {
            continue;
        }
        let path = format!("{template}/spec/source/registry/url");
        return match text(spec, &path)? {
            Some(url) if url.starts_with(DOCKER) => Ok(Source::Reference { path, scheme: DOCKER }),
            Some(url) => custom(url.to_owned()),
            None => match text(spec, &format!("{template}/spec/source/http/url"))? {
                Some(url) => custom(url.to_owned()),
                None => custom(format!("the source of data volume {name}")),
            },
        };
    }
    custom(format!("data volume {name}, which exists already,"))
}

fn judge(
    spec: &Value,
    path: &str,
    scheme: &str,
    context: &Context<'_>,
) -> Result<Verdict, ImageError> {
    let from = reference(spec, path, scheme)?;
    let current = from.as_str();
    let images = context.stream.images_of(context.architecture);
    let kubevirt = images.and_then(|images| images.images.kubevirt.as_ref());
    let wanted = kubevirt.and_then(|one| one.digest_ref.as_deref().or(one.image.as_deref()));
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
        return not_in_stream("KubeVirt image", context);
    };
    if current == wanted {
        return Ok(Verdict::Current(from));
    }
    if !context.proof.covers(current) {
        if repository(current) != repository(wanted) {
            let want = format!("{}@sha256:…", repository(wanted));
            return skip(Skip::Custom { image: current.to_owned(), want });
        }
        if !current.contains('@') {
            return skip(Skip::Lookup { field: format!("the tag of {current}") });
        }
    }
    let to = image("images.kubevirt of the stream", wanted)?;
    Ok(change(spec, path, json!(format!("{scheme}{wanted}")), from, to))
}

/// An image reference without tag and digest.
fn repository(reference: &str) -> &str {
    let name = reference.split('@').next().unwrap_or_default();
    let path = name.rfind('/').map_or(0, |slash| slash + 1);
    name[path..].find(':').map_or(name, |colon| &name[..path + colon])
}
