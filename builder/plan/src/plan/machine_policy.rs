//! The `policy.json` that a config brings to machines: whether they may pull images from where this
//! one is pushed to.

use super::build_plan::BuildRequest;
use super::checks::CheckError;
use mosb_api::RenderedConfig;
use mosb_ignition::{Compression, Resource};
use mosb_image::signature_policy::{Requirement, SignaturePolicy, Verdict};
use mosb_types::Finding;

/// The policy of podman, bootc and rpm-ostree on a machine.
pub const FILE: &str = "/etc/containers/policy.json";
/// Far above the size of real policies, which have some hundred bytes per scope.
const MAX_SIZE: u64 = 1 << 20;

/// Returns a warning if machines need a signature.
///
/// # Errors
/// The policy rejects the repository, or is none, with which machines pull nothing at all.
pub(super) fn check(request: &BuildRequest) -> Result<Option<Finding>, CheckError> {
    let (Some(repo), Some(text)) = (&request.push, contents(&request.config)) else {
        return Ok(None);
    };
    let config = request.config.name().to_string();
    let policy = match SignaturePolicy::parse(&text) {
        Ok(policy) => policy,
        Err(source) => return Err(CheckError::MachinePolicy { config, source }),
    };
    let repo = repo.to_string();
    let Verdict { scope, requirement } = policy.verdict(&repo);
    match requirement {
        Requirement::Accept => Ok(None),
        Requirement::Reject => Err(CheckError::MachinesReject { config, repo, scope }),
        Requirement::Signatures(_) => {
            let message = format!(
                "{scope:?} of it requires signatures of images in {repo}: machines with this config pull the image, and the next one, only once it is signed (mosb sign)"
            );
            Ok(Some(Finding::new("machines-require-signature", message).path(FILE)))
        }
    }
}

/// The contents of the file in a config, of any spec; `None` without such a file, or if its contents
/// can't be read, which is another error of the plan.
pub fn contents(config: &RenderedConfig) -> Option<Vec<u8>> {
    let files = config.ignition()?.pointer("/storage/files")?.as_array()?;
    let contents = &files.iter().find(|file| file["path"] == FILE)?["contents"];
    let resource = Resource {
        source: Some(contents["source"].as_str()?.to_owned()),
        compression: match contents["compression"].as_str() {
            Some("gzip") => Compression::Gzip,
            _ => Compression::None,
        },
        verification: None,
    };
    resource.bytes(MAX_SIZE).ok()
}
