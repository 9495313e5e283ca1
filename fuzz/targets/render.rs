//! Any text is a pool's configs or an error; what they are together is a config that reading does not change any more.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mosb::api::yaml;
use mosb::ignition::{self, Document, Merger};

fuzz_target!(|data: &[u8]| {
    let Ok(objects) = yaml::parse_all(data) else {
        return;
    };
    let mut merger = Merger::explaining();
    for (at, object) in objects.iter().enumerate() {
        if let Some(config) = object.pointer("/spec/config")
            && let Ok(read) = Document::read(config)
        {
            merger.add(at, read.document);
        }
    }
    let merged = merger.finish();
    for place in &merged.provenance {
        assert!(!place.overrides.contains(&place.from), "{place:?}");
    }
    if let Ok(again) = Document::read(merged.document.as_json()) {
        assert!(
            again.document == merged.document,
            "read again it is another"
        );
    }
    let _ = ignition::parse(merged.document.as_json()).is_ok();
});
