//! The boot image of each platform: where it is in a value, whether it may be replaced, and by
//! what.
//!
//! Input: `providerSpec.value` of a set of the Machine API, or `spec` of a template of Cluster API.
//! Paths in errors and edits are JSON pointers in that value.

mod aws;
mod azure;
mod azure_gallery;
mod gcp;
mod kind;
mod kubevirt;
mod marketplace;
mod metal3;
mod openstack;
mod vsphere;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::field::{image, image_at, object, required_text, text};
use crate::{Architecture, BootImage, Change, Edit, ImageError, Skip, Stream};
use marketplace::Plan;

pub use kind::{PlatformType, TemplateKind};

/// What should happen to a boot image.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It is the one of the stream.
    Current(BootImage),
    Change(Change),
    Skip(Skip),
}

/// Judges `providerSpec.value` of a MachineSet or ControlPlaneMachineSet of the Machine API.
///
/// # Errors
/// The value is not one of this platform.
pub fn machine_api(
    platform: &PlatformType,
    provider_spec: &Value,
    context: &Context<'_>,
) -> Result<Verdict, ImageError> {
    match platform {
        PlatformType::Aws => aws::machine_api(provider_spec, context),
        PlatformType::Gcp => gcp::machine_api(provider_spec, context),
        PlatformType::BareMetal => skip(Skip::ManagedElsewhere {
            platform: platform.to_string(),
            by: "the machine-os-images of the release".to_owned(),
        }),
        PlatformType::Azure => azure::machine_api(provider_spec, context),
        PlatformType::VSphere => vsphere::machine_api(provider_spec, context),
        PlatformType::OpenStack | PlatformType::KubeVirt | PlatformType::Other(_) => {
            skip(Skip::Platform { platform: platform.to_string() })
        }
    }
}

/// Judges `spec` of an infrastructure machine template of Cluster API.
///
/// # Errors
/// The value is not one of this kind.
pub fn cluster_api(
    kind: TemplateKind,
    spec: &Value,
    context: &Context<'_>,
) -> Result<Verdict, ImageError> {
    match kind {
        TemplateKind::Aws => aws::cluster_api(spec, context),
        TemplateKind::Gcp => gcp::cluster_api(spec, context),
        TemplateKind::Azure => azure::cluster_api(spec, context),
        TemplateKind::VSphere => vsphere::cluster_api(spec, context),
        TemplateKind::OpenStack => openstack::cluster_api(spec, context),
        TemplateKind::Metal3 => metal3::cluster_api(spec, context),
        TemplateKind::KubeVirt => kubevirt::cluster_api(spec, context),
    }
}

/// The image that `providerSpec.value` names, whatever is done about it; none if it names none.
/// `by_release` has the administrator's images.
///
/// # Errors
/// The value is not one of this platform.
pub fn machine_api_image(
    platform: &PlatformType,
    provider_spec: &Value,
    by_release: &BTreeMap<String, String>,
) -> Result<Option<BootImage>, ImageError> {
    match platform {
        PlatformType::Aws => aws::machine_api_image(provider_spec),
        PlatformType::Gcp => gcp::machine_api_image(provider_spec),
        PlatformType::Azure => azure::machine_api_image(provider_spec),
        PlatformType::VSphere => vsphere::machine_api_image(provider_spec, by_release),
        PlatformType::BareMetal => image_at(provider_spec, "/image/url"),
        PlatformType::OpenStack => image_at(provider_spec, "/image"),
        PlatformType::KubeVirt | PlatformType::Other(_) => Ok(None),
    }
}

/// The image that `spec` of a template names, as [`machine_api_image`].
///
/// # Errors
/// The value is not one of this kind.
pub fn cluster_api_image(
    kind: TemplateKind,
    spec: &Value,
    by_release: &BTreeMap<String, String>,
) -> Result<Option<BootImage>, ImageError> {
    match kind {
        TemplateKind::Aws => aws::cluster_api_image(spec),
        TemplateKind::Gcp => gcp::cluster_api_image(spec),
        TemplateKind::Azure => azure::cluster_api_image(spec),
        TemplateKind::VSphere => vsphere::cluster_api_image(spec, by_release),
        TemplateKind::OpenStack => openstack::cluster_api_image(spec),
        TemplateKind::Metal3 => metal3::cluster_api_image(spec),
        TemplateKind::KubeVirt => kubevirt::cluster_api_image(spec),
    }
}

/// The edit of one path of a value, unless it is already so.
fn edit(value: &Value, path: &str, new: Value) -> Option<Edit> {
    let old = value.pointer(path).cloned();
    (old.as_ref() != Some(&new)).then(|| Edit { path: path.to_owned(), old, new: Some(new) })
}

/// A change of one path.
fn change(value: &Value, path: &str, new: Value, from: BootImage, to: BootImage) -> Verdict {
    let edits = edit(value, path, new).into_iter().collect();
    Verdict::Change(Change { edits, from, to, object: None })
}

fn skip(skip: Skip) -> Result<Verdict, ImageError> {
    Ok(Verdict::Skip(skip))
}

fn not_in_stream(what: &str, context: &Context<'_>) -> Result<Verdict, ImageError> {
    skip(Skip::NotInStream { what: format!("{what} for {}", context.architecture) })
}

#[cfg(test)]
mod tests;

/// What the set should follow, and what is known about the images in use.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub stream: &'a Stream,
    pub architecture: Architecture,
    pub proof: &'a Proof,
    /// The region of the cluster, for templates of Cluster API, which have none.
    pub region: Option<&'a str>,
    /// `spec` of the cluster's infrastructure object, such as an `OpenStackCluster`.
    pub cluster_spec: Option<&'a Value>,
    /// The administrator's images by release: names of vSphere templates, resource ids of Azure.
    pub by_release: &'a BTreeMap<String, String>,
}

/// What proves that an image in use is of a stream, where its name does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proof {
    /// Images of streams seen earlier, of the set's history, and of the administrator's list.
    pub images: BTreeSet<String>,
    /// The set has the annotation `mosb.dev/boot-image-is-stock: "true"`.
    pub vouched: bool,
}

impl Proof {
    /// Whether this image may be replaced.
    pub fn covers(&self, image: &str) -> bool {
        self.vouched || self.images.contains(image)
    }
}

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
        PlatformType::Azure => azure_image(provider_spec, to)?,
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

fn azure_image(spec: &Value, to: &BootImage) -> Result<Edits, ImageError> {
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
