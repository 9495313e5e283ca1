//! Any file is a docker configuration or an error, and any registry may be looked up in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mosb_registry::credentials::DockerConfig;

fuzz_target!(|data: &[u8]| {
    if let Ok(config) = DockerConfig::parse(data) {
        drop(config.find("registry.example:5000", "a/b/c"));
    }
});
