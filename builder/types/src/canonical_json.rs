//! JSON with one text for one value (RFC 8785), so that one value has one digest.

use canon_json::CanonicalFormatter;
use serde::Serialize;

/// The canonical text of a value: sorted keys, no blanks.
pub fn canonical_json<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = serde_json::Serializer::with_formatter(&mut out, CanonicalFormatter::new());
    value.serialize(&mut writer).expect("a JSON value can be written to memory");
    out
}
