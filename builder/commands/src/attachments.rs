//! What is attached to an image: counted, not checked.

use futures_util::try_join;
use schemars::JsonSchema;
use serde::Serialize;

use super::page::Page;
use mosb_image::{ImageRef, PinnedRef};
use mosb_registry::{self as registry, Client};
use mosb_trust::attestation::PREDICATE_TYPE_ANNOTATION;
use mosb_trust::provenance::SLSA_PROVENANCE;
use mosb_trust::spdx::SPDX_DOCUMENT;
use mosb_trust::{AttachmentKind, VerifyingKey};

/// Signatures, SBOM and provenance of an image. `mosb verify` checks them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attachments {
    /// How many signatures there are, whoever made them.
    pub signatures: usize,
    /// Fingerprints of the keys that verify some of them, of those that the policy of `--signature-policy` or of this
    /// machine names for the image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub signed_by: Vec<String>,
    /// Whether there is an SBOM in SPDX, whoever wrote it.
    pub sbom: bool,
    /// Whether there is SLSA provenance, whoever wrote it.
    pub provenance: bool,
}

impl Attachments {
    /// Reads signatures, and the list of attestations. `name` is how the image was asked for.
    ///
    /// # Errors
    /// The registry doesn't return them, or there are more than are read.
    pub async fn read(
        client: &Client,
        name: &ImageRef,
        image: &PinnedRef,
    ) -> Result<Self, registry::Error> {
        let (signatures, attestations) = try_join!(
            client.signatures(image),
            client.attached_manifest(image, AttachmentKind::Attestation),
        )?;
        let digest = image.digest();
        let is_verified = |key: &&VerifyingKey| {
            let key = std::slice::from_ref(*key);
            signatures.iter().any(|signature| signature.verify(key, &digest).is_ok())
        };
        let keys = policy_keys(client, name);
        let signed_by = keys.iter().filter(is_verified);
        let layers = attestations.iter().flat_map(|attached| attached.layers());
        let types: Vec<_> =
            layers.filter_map(|layer| layer.annotations.get(PREDICATE_TYPE_ANNOTATION)).collect();
        let has = |kind: &str| types.iter().any(|predicate_type| *predicate_type == kind);
        Ok(Self {
            signatures: signatures.len(),
            signed_by: signed_by.map(|key| key.fingerprint().to_string()).collect(),
            sbom: has(SPDX_DOCUMENT),
            provenance: has(SLSA_PROVENANCE),
        })
    }

    pub fn lines(&self, page: &mut Page) {
        let signatures = match (self.signatures, &self.signed_by[..]) {
            (0, _) => "not signed".to_owned(),
            (count, []) => format!("{count}, by keys that no policy here names"),
            (count, keys) => format!("{count}, by {}", keys.join(", ")),
        };
        let shown = |is_attached| Some(if is_attached { "attached" } else { "none" });
        page.section("Attached");
        page.pairs(&[
            ("signatures", Some(&*signatures)),
            ("SBOM", shown(self.sbom)),
            ("provenance", shown(self.provenance)),
        ]);
    }
}

/// The keys that the policy names for an image. None if it asks for what mosb can't check.
fn policy_keys(client: &Client, name: &ImageRef) -> Vec<VerifyingKey> {
    let rule = client.signature_rule(name).ok().flatten();
    rule.map(|rule| rule.required.keys()).unwrap_or_default()
}
