//! The contents of a config, and their bytes.

use data_encoding::HEXLOWER;
use std::fmt;
use std::io::Read;

use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256, Sha512};

use super::data_url::Body;
use super::error::ContentError;

/// Contents in a config. `Debug` shows only lengths, because the contents may be secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Resource {
    /// A valid data URL, or empty for no bytes; `None` if nothing is written.
    pub source: Option<String>,
    pub compression: Compression,
    /// Checks the unpacked bytes.
    pub verification: Option<Verification>,
}

/// The compression of contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    #[default]
    None,
    /// One or more gzip members.
    Gzip,
}

/// The hash of unpacked contents.
#[derive(Clone, PartialEq, Eq)]
pub struct Verification {
    pub function: HashFunction,
    /// Hex in lower case, as long as the function's hashes are.
    pub sum: String,
}

/// The hash functions of Ignition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashFunction {
    /// Since spec 3.1.
    Sha256,
    /// Always.
    Sha512,
}

impl HashFunction {
    /// As written before the dash.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// Bytes of a hash.
    pub(super) fn size(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    fn hex(self, bytes: &[u8]) -> String {
        let sum = match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        };
        HEXLOWER.encode(&sum)
    }
}

impl Resource {
    /// The bytes: decoded, unpacked, verified. Each of these steps holds at most `limit` bytes in
    /// memory.
    ///
    /// # Errors
    /// The contents are larger, can't be unpacked (also if there are bytes after the last gzip
    /// member), or don't match `verification`.
    pub fn bytes(&self, limit: u64) -> Result<Vec<u8>, ContentError> {
        let bytes = match self.source.as_deref() {
            // Ignition fetches nothing here, whatever `compression` says.
            None | Some("") => Vec::new(),
            Some(source) => self.unpack(decode(source, limit)?, limit)?,
        };
        match &self.verification {
            Some(v) if v.function.hex(&bytes) != v.sum => {
                Err(ContentError::HashMismatch { function: v.function.as_str() })
            }
            _ => Ok(bytes),
        }
    }

    fn unpack(&self, packed: Vec<u8>, limit: u64) -> Result<Vec<u8>, ContentError> {
        match self.compression {
            Compression::None => Ok(packed),
            Compression::Gzip => {
                let mut bytes = Vec::new();
                let mut unpacked =
                    MultiGzDecoder::new(packed.as_slice()).take(limit.saturating_add(1));
                unpacked.read_to_end(&mut bytes).map_err(ContentError::Gzip)?;
                within(bytes.len(), limit)?;
                Ok(bytes)
            }
        }
    }
}

fn decode(source: &str, limit: u64) -> Result<Vec<u8>, ContentError> {
    if !source.starts_with("data:") {
        return Err(ContentError::Remote);
    }
    let body = Body::find(source)?;
    within(body.decoded_len(), limit)?;
    Ok(body.decode())
}

fn within(len: usize, limit: u64) -> Result<(), ContentError> {
    if u64::try_from(len).is_ok_and(|len| len <= limit) {
        Ok(())
    } else {
        Err(ContentError::TooLarge { limit })
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source.as_ref().map(|s| format!("[{} bytes]", s.len()));
        f.debug_struct("Resource")
            .field("source", &source)
            .field("compression", &self.compression)
            .field("verification", &self.verification)
            .finish()
    }
}

/// Without the hash, from which a short secret could be guessed.
impl fmt::Debug for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use flate2::write::GzEncoder;
    use mosb_types::Diagnostic as _;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn url(bytes: &[u8]) -> String {
        format!("data:;base64,{}", base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    fn resource(
        source: &str,
        compression: Compression,
        hash_of: Option<(HashFunction, &[u8])>,
    ) -> Resource {
        let verification =
            hash_of.map(|(function, bytes)| Verification { function, sum: function.hex(bytes) });
        Resource { source: Some(source.to_owned()), compression, verification }
    }

    #[test]
    fn bytes_are_decoded_unpacked_and_verified() {
        use Compression::{Gzip, None as Plain};
        use HashFunction::{Sha256, Sha512};
        let twice = [gzip(b"ab"), gzip(b"cd")].concat();
        for (what, given, want) in [
            ("plain", resource("data:,hi", Plain, None), Ok(b"hi".to_vec())),
            ("empty source", resource("", Plain, None), Ok(Vec::new())),
            ("empty source, gzip", resource("", Gzip, None), Ok(Vec::new())),
            (
                "empty source, wrong hash",
                resource("", Plain, Some((Sha512, b"x"))),
                Err("wrong-hash"),
            ),
            ("gzip", resource(&url(&gzip(b"hi")), Gzip, Some((Sha256, b"hi"))), Ok(b"hi".to_vec())),
            (
                "two members",
                resource(&url(&twice), Gzip, Some((Sha512, b"abcd"))),
                Ok(b"abcd".to_vec()),
            ),
            (
                "hash of the packed",
                resource(&url(&gzip(b"hi")), Gzip, Some((Sha512, &gzip(b"hi")))),
                Err("wrong-hash"),
            ),
            (
                "rubbish after gzip",
                resource(&url(&[gzip(b"hi"), b"x".to_vec()].concat()), Gzip, None),
                Err("bad-gzip"),
            ),
            (
                "zeros after gzip",
                resource(&url(&[gzip(b"hi"), vec![0; 20]].concat()), Gzip, None),
                Err("bad-gzip"),
            ),
            ("cut gzip", resource(&url(&gzip(b"hi")[..15]), Gzip, None), Err("bad-gzip")),
            ("no gzip", resource("data:,hi", Gzip, None), Err("bad-gzip")),
            ("nothing as gzip", resource("data:,", Gzip, None), Err("bad-gzip")),
            ("remote", resource("https://example.com/", Plain, None), Err("remote-source")),
            ("bad data URL", resource("data:,a b", Plain, None), Err("bad-data-url")),
        ] {
            let got = given.bytes(100).map_err(|e| e.code());
            assert_eq!(got, want, "{what}");
        }
        assert_eq!(Resource::default().bytes(0).unwrap(), b"", "no source");
    }

    #[test]
    fn a_limit_holds_before_and_after_unpacking() {
        let bomb = resource(&url(&gzip(&vec![0; 10_000_000])), Compression::Gzip, None);
        let reason = |r: &Resource, limit| r.bytes(limit).map(|b| b.len()).map_err(|e| e.code());
        assert_eq!(reason(&bomb, 9_999_999), Err("contents-too-large"));
        assert_eq!(reason(&bomb, 10_000_000), Ok(10_000_000));
        let plain = resource("data:,12345", Compression::None, None);
        assert_eq!(reason(&plain, 4), Err("contents-too-large"));
        assert_eq!(reason(&plain, 5), Ok(5));
        assert_eq!(reason(&plain, u64::MAX), Ok(5));
    }

    #[test]
    fn neither_errors_nor_debug_show_contents() {
        let secret =
            resource("data:,hunter2 ", Compression::None, Some((HashFunction::Sha512, b"hunter2")));
        let error = secret.bytes(100).unwrap_err();
        let shown = format!("{secret:?} {error:?} {error}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("[14 bytes]"), "{shown}");
        let sum = &secret.verification.as_ref().unwrap().sum;
        assert!(!shown.contains(sum.as_str()), "{shown}");
    }
}
