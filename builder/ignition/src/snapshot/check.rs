//! Checks fetched bytes by `compression` and `verification`, and encodes them as data URLs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::super::content::{Compression, Resource};
use super::super::error::shown_word;
use super::super::resource::{read_hash, shown_hash};
use super::super::version::SpecVersion;
use mosb_types::Finding;

/// The limit of unpacked contents: that of a file in an image.
const MAX_UNPACKED_SIZE: u64 = 64 << 20;

/// Bytes as a data URL. Equal bytes have the same URL.
pub(super) fn data_url(bytes: &[u8]) -> String {
    const PREFIX: &str = "data:;base64,";
    let mut url = String::with_capacity(PREFIX.len() + bytes.len().div_ceil(3) * 4);
    url.push_str(PREFIX);
    STANDARD.encode_string(bytes, &mut url);
    url
}

/// Whether the resource has a compression or a hash to check its contents by.
pub(super) fn has_checks(resource: &Map<String, Value>) -> bool {
    text(resource, "compression").is_some_and(|compression| !compression.is_empty())
        || hash(resource).is_some()
}

/// The bytes of the resource's data URL, unpacked and verified as in Ignition: the hash is that of
/// the unpacked bytes.
pub(super) fn open(resource: &Map<String, Value>, source: &str) -> Result<Bytes, Finding> {
    let compression = match text(resource, "compression") {
        None | Some("") => Compression::None,
        Some("gzip") => Compression::Gzip,
        Some(other) => {
            let message =
                format!("compression {} must be \"gzip\", or left out", shown_word(other));
            return Err(Finding::new("bad-compression", message));
        }
    };
    let verification = match hash(resource) {
        None => None,
        Some(hash) => Some(read_hash(hash, SpecVersion::V3_5).map_err(|(code, message)| {
            Finding::new(code, format!("the hash {} {message}", shown_hash(hash)))
        })?),
    };
    let resource = Resource { source: Some(source.to_owned()), compression, verification };
    resource.bytes(MAX_UNPACKED_SIZE).map(Bytes::from).map_err(|error| Finding::from(&error))
}

/// The same for the bytes of a server's response.
pub(super) fn open_fetched(
    resource: &Map<String, Value>,
    bytes: &Bytes,
    shown: &str,
) -> Result<Bytes, Finding> {
    if !has_checks(resource) {
        return Ok(bytes.clone());
    }
    open(resource, &data_url(bytes)).map_err(|mut problem| {
        problem.message = format!("{shown}: {}", problem.message);
        problem
    })
}

fn text<'v>(resource: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    resource.get(key)?.as_str()
}

fn hash(resource: &Map<String, Value>) -> Option<&str> {
    resource.get("verification")?.get("hash")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_data_url;
    use serde_json::json;

    #[test]
    fn any_bytes_come_back_from_their_data_url() {
        let all: Vec<u8> = (0..=255).collect();
        for length in [0, 1, 2, 3, 255, 256] {
            let url = data_url(&all[..length]);
            assert_eq!(parse_data_url(&url).unwrap(), &all[..length], "{url}");
        }
        assert_eq!(data_url(b"hi"), "data:;base64,aGk=");
    }

    #[test]
    fn fetched_bytes_are_checked_by_compression_and_hash() {
        // Of "hi".
        let sum = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4";
        let gzip: &[u8] =
            &[31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 203, 200, 4, 0, 172, 42, 147, 216, 2, 0, 0, 0];
        let hash = json!({ "hash": format!("sha256-{sum}") });
        for (what, resource, served, want) in [
            ("no checks", json!({}), &b"hi"[..], Ok("hi")),
            ("hash", json!({ "verification": hash }), b"hi", Ok("hi")),
            ("wrong hash", json!({ "verification": hash }), b"ho", Err("wrong-hash")),
            (
                "hash of the unpacked",
                json!({ "verification": hash, "compression": "gzip" }),
                gzip,
                Ok("hi"),
            ),
            ("not packed", json!({ "compression": "gzip" }), b"hi", Err("bad-gzip")),
            ("nothing packed", json!({ "compression": "gzip" }), b"", Err("bad-gzip")),
            ("hash of the packed", json!({ "verification": hash }), gzip, Err("wrong-hash")),
            ("xz", json!({ "compression": "xz" }), b"", Err("bad-compression")),
            ("md5", json!({ "verification": { "hash": "md5-0" } }), b"", Err("bad-verification")),
        ] {
            let served = Bytes::from_static(served);
            let got = open_fetched(resource.as_object().unwrap(), &served, "https://h/p");
            let got = got.map_err(|problem| {
                assert!(problem.message.starts_with("https://h/p: "), "{what}");
                problem.code
            });
            let want = want.map(|text| Bytes::from_static(text.as_bytes()));
            assert_eq!(got, want.map_err(str::to_owned), "{what}");
        }
    }
}
