//! The boot image of each platform: where it is in a value, whether it may be replaced, and by
//! what.
//!
//! Input: `providerSpec.value` of a set of the Machine API, or `spec` of a template of Cluster API.
//! Paths in errors and edits are JSON pointers in that value.

mod aws;
mod gcp;
mod kind;

use serde_json::Value;

use crate::{BootImage, Change, Context, Edit, ImageError, Skip};

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
        PlatformType::BareMetal => Ok(Verdict::Skip(Skip::ManagedElsewhere {
            platform: platform.to_string(),
            by: "the machine-os-images of the release".to_owned(),
        })),
        PlatformType::Azure
        | PlatformType::VSphere
        | PlatformType::OpenStack
        | PlatformType::KubeVirt
        | PlatformType::Other(_) => {
            Ok(Verdict::Skip(Skip::Platform { platform: platform.to_string() }))
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
        TemplateKind::Azure
        | TemplateKind::VSphere
        | TemplateKind::OpenStack
        | TemplateKind::Metal3
        | TemplateKind::KubeVirt => {
            Ok(Verdict::Skip(Skip::Platform { platform: kind.kind().to_owned() }))
        }
    }
}

/// A change of one path.
fn change_at(
    path: &str,
    old: Option<&Value>,
    new: Value,
    from: BootImage,
    to: BootImage,
) -> Verdict {
    let edit = Edit { path: path.to_owned(), old: old.cloned(), new: Some(new) };
    Verdict::Change(Change { edits: vec![edit], from, to, object: None })
}
