//! An image that a policy accepted by its signatures, as it is printed.

use schemars::JsonSchema;
use serde::Serialize;

use crate::page::Page;
use crate::verify::AppliedPolicy;
use mosb_registry::AcceptedImage;

/// An image whose signatures a policy requires, and accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedImage {
    /// `repo@digest` of the manifest that was checked.
    pub image: String,
    /// The policy, and what applies of it.
    pub policy: AppliedPolicy,
    /// The signature for each requirement of the policy.
    pub signatures: Vec<VerifiedSignature>,
}

/// A signature that the policy accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedSignature {
    /// Fingerprint of the key.
    pub key: String,
    /// The name that it is for.
    pub identity: String,
}

impl From<&AcceptedImage> for VerifiedImage {
    fn from(accepted: &AcceptedImage) -> Self {
        let signatures = accepted.signatures.iter().map(|signature| VerifiedSignature {
            key: signature.key.to_string(),
            identity: signature.identity.clone(),
        });
        Self {
            image: accepted.image.to_string(),
            policy: AppliedPolicy { file: accepted.file.clone(), scope: accepted.scope.clone() },
            signatures: signatures.collect(),
        }
    }
}

impl VerifiedImage {
    /// A section about all of them; none if there are none.
    pub fn section(all: &[Self], page: &mut Page) {
        if all.is_empty() {
            return;
        }
        page.section("Signatures that a policy requires, verified");
        for one in all {
            page.line(&format!("  {}", one.image));
            page.line(&format!("    by {:?} of {}", one.policy.scope, one.policy.file));
            for VerifiedSignature { key, identity } in &one.signatures {
                page.line(&format!("    signed for {identity} with {key}"));
            }
        }
    }
}
