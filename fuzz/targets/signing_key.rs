//! Any file is a key or an error, and no parameters of an encrypted one take long.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mosb_trust::{SigningKey, VerifyingKey};
use mosb_types::Secret;

fuzz_target!(|data: &[u8]| {
    if let Ok(key) = VerifyingKey::from_pem(data) {
        assert_eq!(VerifyingKey::from_pem(key.to_pem().as_bytes()), Ok(key));
    }
    // Without a password, everything but scrypt is done.
    if let Ok(key) = SigningKey::from_pem(&Secret::new(data.to_vec()), None) {
        let signature = key.sign(data).expect("random numbers");
        assert!(key.verifying_key().verifies(data, &signature));
    }
});
