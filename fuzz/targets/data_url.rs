//! Any text is a data URL or an error, and its content is never longer than it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(content) = mosb_ignition::parse_data_url(text) {
        assert!(content.len() <= text.len());
    }
});
