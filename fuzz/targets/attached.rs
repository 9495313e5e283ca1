//! Any bytes are a manifest of signatures or an error. What is added is there, and what was there stays.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mosb_image::{BlobRef, Digest};
use mosb_trust::attached::NewLayer;
use mosb_trust::signature::UntrustedSignature;
use mosb_trust::{AttachedManifest, AttachmentKind, attestation};

fuzz_target!(|data: &[u8]| {
    drop(attestation::verify(data, &[], &Digest::of(b"")));
    let Ok(manifest) = AttachedManifest::parse(data) else {
        return;
    };
    for layer in manifest.layers() {
        let signature = layer.annotations.values().next().cloned();
        let untrusted = UntrustedSignature { payload: Some(data.to_vec().into()), signature };
        assert!(untrusted.verify(&[], &layer.digest).is_err());
    }
    let kind = AttachmentKind::Signature;
    let subject = BlobRef::of("text/plain", b"");
    let new = NewLayer {
        media_type: "text/plain",
        content: data.to_vec().into(),
        annotations: Default::default(),
    };
    if let Ok(made) = kind.manifest(&subject, Some(&manifest), vec![new]) {
        let again = AttachedManifest::parse(&made.manifest).expect("what we wrote is read");
        let (last, others) = again.layers().split_last().expect("a layer");
        assert_eq!((others, last.digest), (manifest.layers(), Digest::of(data)));
        assert!(again.refers_to(kind, &subject));
    }
});
