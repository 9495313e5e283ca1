//! The image of one set: what it has, and what it should have. Pure.

use std::collections::BTreeSet;

use super::eligibility::{architecture, stream_label};
use super::history;
use super::machine_set::{MachineSet, TemplateRef};
use super::obstacle::{Failure, Obstacle};
use super::snapshot::BootImageSnapshot;
use super::unread::too_large;
use mosb_api::cluster_settings::BootImageSettings;
use mosb_boot_image::{
    Architecture, BootImage, Context, Golden, PlatformType, Proof, Stream, Verdict, cluster_api,
    cluster_api_image, machine_api, machine_api_image,
};
use mosb_cluster::cluster_cache::{BootImageKind, SeenObject, object_key};

/// Annotation of a set: an administrator vouches for its image.
const IS_STOCK: &str = "mosb.dev/boot-image-is-stock";

/// What is known of the image of a set.
#[derive(Debug)]
pub(super) struct Judgement<'s> {
    pub verdict: Verdict,
    pub stream: &'s Stream,
    pub architecture: Architecture,
    /// Of a set of Cluster API.
    pub template: Option<(TemplateRef, &'s SeenObject)>,
}

impl Judgement<'_> {
    /// The name of the template of a set of Cluster API.
    pub fn template_name(&self) -> Option<&str> {
        self.template.as_ref().map(|(reference, _)| &*reference.name)
    }
}

pub(super) fn judge<'s>(
    set: MachineSet<'_>,
    snapshot: &'s BootImageSnapshot,
    settings: &BootImageSettings,
    golden: &'s Golden,
) -> Result<Judgement<'s>, Obstacle> {
    let stream = golden.stream(stream_label(set))?;
    let architecture = architecture(set, snapshot, stream)?;
    let proof = proof(set, snapshot, settings);
    let context = Context {
        stream,
        architecture,
        proof: &proof,
        region: None,
        cluster_spec: None,
        by_release: &settings.images,
    };
    if set.is_machine_api() {
        let verdict = machine_api(&platform(snapshot)?, set.provider_spec()?.1, &context)?;
        return Ok(Judgement { verdict, stream, architecture, template: None });
    }
    let reference = set.template()?;
    let key = object_key(&reference.namespace, &reference.name);
    let template = snapshot.get(reference.kind, &key).ok_or_else(|| {
        Failure::new(
            "template-missing",
            format!(
                "{} {key} does not exist, or mosb may not read it; create it, or correct infrastructureRef",
                reference.kind.as_str()
            ),
        )
    })?;
    if template.is_too_large {
        return Err(too_large(template).into());
    }
    let infrastructure = infrastructure_cluster(set, snapshot);
    let context = Context {
        region: infrastructure.and_then(|cluster| cluster.spec["region"].as_str()),
        cluster_spec: infrastructure.map(|cluster| &cluster.spec),
        ..context
    };
    let verdict = cluster_api(reference.template, &template.spec, &context)?;
    Ok(Judgement { verdict, stream, architecture, template: Some((reference, template)) })
}

/// The image that a set names, whatever is done about it; none if it is not known.
pub(super) fn image_in_use(
    set: MachineSet<'_>,
    snapshot: &BootImageSnapshot,
    settings: &BootImageSettings,
) -> Option<BootImage> {
    // A set that is judged fails for what can't be read; the image of another one is only shown.
    read_image(set, snapshot, settings).ok()?
}

fn read_image(
    set: MachineSet<'_>,
    snapshot: &BootImageSnapshot,
    settings: &BootImageSettings,
) -> Result<Option<BootImage>, Obstacle> {
    if set.is_machine_api() {
        let (_, spec) = set.provider_spec()?;
        return Ok(machine_api_image(&platform(snapshot)?, spec, &settings.images)?);
    }
    let reference = set.template()?;
    let key = object_key(&reference.namespace, &reference.name);
    let Some(template) = snapshot.get(reference.kind, &key) else { return Ok(None) };
    Ok(cluster_api_image(reference.template, &template.spec, &settings.images)?)
}

/// The platform of OpenShift.
pub(super) fn platform(snapshot: &BootImageSnapshot) -> Result<PlatformType, Failure> {
    let infrastructure = snapshot.infrastructure.as_ref();
    let platform = infrastructure.and_then(|one| one.status["platformStatus"]["type"].as_str());
    let platform = platform.ok_or_else(|| {
        Failure::new(
            "no-platform",
            "Infrastructure cluster has no status.platformStatus.type, so the platform is not known",
        )
    })?;
    let Ok(platform) = platform.parse::<PlatformType>();
    Ok(platform)
}

/// The provider's object of the Cluster that a set belongs to.
fn infrastructure_cluster<'s>(
    set: MachineSet<'_>,
    snapshot: &'s BootImageSnapshot,
) -> Option<&'s SeenObject> {
    let cluster = snapshot.get(BootImageKind::Cluster, &set.cluster()?)?;
    let reference = &cluster.spec["infrastructureRef"];
    let kind = match reference["kind"].as_str()? {
        "AWSCluster" => BootImageKind::AwsCluster,
        "OpenStackCluster" => BootImageKind::OpenStackCluster,
        _ => return None,
    };
    snapshot.get(kind, &object_key(&cluster.namespace, reference["name"].as_str()?))
}

/// The administrator's list, the images that mosb saw in this set as those of a stream, and the annotation.
///
/// The images of the present golden ConfigMap prove nothing: a set that has an image of an earlier
/// one would not be listed there, and one that has an image of this one needs no change.
fn proof(set: MachineSet<'_>, snapshot: &BootImageSnapshot, settings: &BootImageSettings) -> Proof {
    let mut images: BTreeSet<String> = settings.stock_images.iter().cloned().collect();
    images.extend(history::read(set, snapshot).stock_images().map(str::to_owned));
    let vouched = set.object.annotation(IS_STOCK) == Some("true");
    Proof { images, vouched }
}
