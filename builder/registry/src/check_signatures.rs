//! Whether an image has the signatures that a policy requires: reads what is attached to it.

use futures_util::{TryStreamExt as _, stream};

use mosb_image::{Digest, ImageRef, PinnedRef};
use mosb_trust::AttachmentKind;
use mosb_trust::evaluate::AcceptedSignature;
use mosb_trust::signature::{self, UntrustedSignature};

use crate::client::Client;
use crate::error::Error;
use crate::signature_rule::SignatureRule;

/// An image with the signatures that a policy requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedImage {
    /// The manifest that was checked, under the name that is written.
    pub image: PinnedRef,
    /// The policy: a file, or the setting of a cluster.
    pub file: String,
    /// The scope of the image in it, or `default`.
    pub scope: String,
    /// One for each requirement of the scope.
    pub signatures: Vec<AcceptedSignature>,
}

impl Client {
    /// The signatures that are attached to an image. Nothing of them is verified.
    ///
    /// # Errors
    /// They can't be read, or there are more than are read.
    pub async fn signatures(&self, image: &PinnedRef) -> Result<Vec<UntrustedSignature>, Error> {
        let attached = self.attached(image, AttachmentKind::Signature).await?;
        Ok(signature::untrusted(attached.as_ref()).collect())
    }

    /// Checks that an image has the signatures that the policy requires of it; of an index, each image in it,
    /// too. `None` if the policy requires none, or if there is no policy.
    ///
    /// # Errors
    /// The policy doesn't accept it or can't be evaluated, or the signatures can't be read.
    pub async fn check_image(&self, image: &ImageRef) -> Result<Option<AcceptedImage>, Error> {
        let Some(rule) = self.signature_rule(image)? else {
            return Ok(None);
        };
        let named = self.named_manifests(image).await?;
        let digests: Vec<_> = named.iter().map(|named| named.descriptor.digest).collect();
        self.check_signatures(&rule, &digests).await.map(Some)
    }

    /// Checks that each of these manifests, the first of which the image names, has the signatures
    /// that a rule requires.
    ///
    /// # Errors
    /// One of them has not, or its signatures can't be read.
    pub async fn check_signatures(
        &self,
        rule: &SignatureRule,
        manifests: &[Digest],
    ) -> Result<AcceptedImage, Error> {
        let repo = rule.image.repo();
        let check = |digest: &Digest| {
            let image = repo.pinned(*digest);
            async move {
                let signatures = self.signatures(&image).await?;
                let signatures = rule.check(&image.digest(), &signatures)?;
                let (file, scope) = (rule.file.clone(), rule.scope.clone());
                Ok::<_, Error>(AcceptedImage { image, file, scope, signatures })
            }
        };
        let checks: Vec<_> = manifests.iter().map(|digest| Ok::<_, Error>(check(digest))).collect();
        let accepted: Vec<_> =
            stream::iter(checks).try_buffered(self.parallel()).try_collect().await?;
        Ok(accepted.into_iter().next().expect("an image has a manifest"))
    }
}
