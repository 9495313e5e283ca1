//! The two digests of OCI: of bytes as stored, and of an unpacked layer. They are two types, so
//! that they can't be confused.

use data_encoding::HEXLOWER;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Why a text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// No `algorithm:hex`.
    #[error("{0:?} is not a digest: want sha256:<64 hex digits>")]
    Form(String),
    /// An algorithm other than SHA-256, which every registry supports.
    #[error("{0:?}: only sha256 digests are supported")]
    Algorithm(String),
    /// Wrong length or alphabet after `sha256:`.
    #[error("{0:?} is not a digest: want 64 lower-case hex digits after sha256:")]
    Hex(String),
}

fn parse(s: &str) -> Result<[u8; 32], DigestError> {
    let (algorithm, hex) = s.split_once(':').ok_or_else(|| DigestError::Form(s.to_owned()))?;
    if algorithm != "sha256" {
        return Err(DigestError::Algorithm(s.to_owned()));
    }
    let wrong = || DigestError::Hex(s.to_owned());
    let nibble = |b: u8| match b {
        b'0'..=b'9' => Ok(b - b'0'),
        b'a'..=b'f' => Ok(b - b'a' + 10),
        _ => Err(wrong()),
    };
    if hex.len() != 64 {
        return Err(wrong());
    }
    let mut out = [0; 32];
    for (byte, pair) in out.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Ok(out)
}

macro_rules! digest {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; 32]);

        impl $name {
            /// The SHA-256 of these bytes.
            pub fn of(bytes: &[u8]) -> Self {
                Self(Sha256::digest(bytes).into())
            }

            /// The digest of a finished hash.
            pub fn from_sha256(hash: Sha256) -> Self {
                Self(hash.finalize().into())
            }

            /// The 64 hex digits alone.
            pub fn hex(&self) -> String {
                HEXLOWER.encode(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = DigestError;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                parse(s).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = DigestError;
            fn try_from(s: String) -> Result<Self, Self::Error> {
                s.parse()
            }
        }

        impl From<$name> for String {
            fn from(digest: $name) -> Self {
                digest.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "sha256:{}", self.hex())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

digest! {
    /// SHA-256 of bytes as a registry stores them: a manifest, a config, a compressed layer
    /// (OCI image spec, descriptor, `digest`).
    Digest
}
digest! {
    /// SHA-256 of an unpacked layer (OCI image spec, config, `rootfs.diff_ids`).
    DiffId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_sha256_in_lower_case_hex() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(format!("sha256:{hex}").parse(), Ok(Digest::of(b"")));
        assert_eq!(Digest::of(b"").to_string(), format!("sha256:{hex}"));
        assert_eq!(Digest::of(b"").hex(), hex);
        let upper = format!("sha256:{}", hex.to_uppercase());
        for (what, input, want) in [
            ("no colon", hex.to_owned(), DigestError::Form(hex.to_owned())),
            (
                "other algorithm",
                "sha512:00".to_owned(),
                DigestError::Algorithm("sha512:00".to_owned()),
            ),
            ("upper case", upper.clone(), DigestError::Hex(upper)),
            ("short", "sha256:00".to_owned(), DigestError::Hex("sha256:00".to_owned())),
        ] {
            assert_eq!(input.parse::<Digest>(), Err(want), "{what}");
        }
    }
}
