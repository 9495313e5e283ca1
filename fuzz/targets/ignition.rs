//! Any JSON is a config or an error, and what is accepted has paths that stay in the tree.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(value) = serde_json::from_slice(data) else {
        return;
    };
    if let Ok(parsed) = mosb_ignition::parse(&value) {
        for file in &parsed.config.storage.files {
            if let Some(contents) = &file.contents {
                // Within the limit or an error; never more.
                if let Ok(bytes) = contents.bytes(1 << 20) {
                    assert!(bytes.len() <= 1 << 20);
                }
            }
        }
    }
});
