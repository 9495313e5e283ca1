//! Whether bytes are what the config says of them, and how they are embedded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::super::content::{Compression, Resource};
use super::super::error::shown_word;
use super::super::resource::{read_hash, shown_hash};
use super::super::version::SpecVersion;
use mosb_types::Finding;

/// Most bytes that contents may have when they are unpacked: what a file of an image may have.
const LARGEST_UNPACKED: u64 = 64 << 20;

/// Bytes as a data URL. Nothing but the bytes decides what it looks like.
pub(super) fn data_url(bytes: &[u8]) -> String {
    const PREFIX: &str = "data:;base64,";
    let mut url = String::with_capacity(PREFIX.len() + bytes.len().div_ceil(3) * 4);
    url.push_str(PREFIX);
    STANDARD.encode_string(bytes, &mut url);
    url
}

/// Whether there is anything that the contents of this resource must be.
pub(super) fn is_checked(resource: &Map<String, Value>) -> bool {
    text(resource, "compression").is_some_and(|said| !said.is_empty()) || hash(resource).is_some()
}

/// The bytes of the resource's data URL, unpacked and verified as Ignition does it: the hash counts for the unpacked bytes.
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
    resource.bytes(LARGEST_UNPACKED).map(Bytes::from).map_err(|error| Finding::from(&error))
}

/// The same of bytes that a server answered with.
pub(super) fn open_fetched(
    resource: &Map<String, Value>,
    bytes: &Bytes,
    shown: &str,
) -> Result<Bytes, Finding> {
    if !is_checked(resource) {
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
    fn what_was_served_is_checked_by_what_the_config_says() {
        // Of "hi".
        let sum = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4";
        let gzip: &[u8] =
            &[31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 203, 200, 4, 0, 172, 42, 147, 216, 2, 0, 0, 0];
        let hash = json!({ "hash": format!("sha256-{sum}") });
        for (what, resource, served, want) in [
            ("nothing said", json!({}), &b"hi"[..], Ok("hi")),
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
