//! Any bytes are a payload of a signature or an error, and what is read is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mosb_trust::payload::Payload;

fuzz_target!(|data: &[u8]| {
    if let Ok(payload) = Payload::parse(data) {
        let bytes = payload.to_bytes();
        assert_eq!(Payload::parse(&bytes), Ok(payload));
    }
});
