//! Any file is a policy or an error. What is read is written again, and each image has a verdict.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mosb_image::signature_policy::{
    Requirement, SignatureCheck, SignaturePolicy, SignatureRequirement,
};

fuzz_target!(|data: &[u8]| {
    let Ok(policy) = SignaturePolicy::parse(data) else {
        return;
    };
    let again = SignaturePolicy::parse(policy.with_signatures().as_bytes());
    assert_eq!(again.as_ref(), Ok(&policy));
    for name in ["registry.example:5000/a/b:c", "docker.io/busybox"] {
        let image = name.parse().expect("an image");
        if let Requirement::Signatures(all) = policy.verdict(name).requirement {
            all.iter().for_each(|SignatureRequirement { check, .. }| {
                if let SignatureCheck::Sigstore { identity, .. } = check {
                    identity.accepts(&image, name);
                }
            });
        }
    }
});
