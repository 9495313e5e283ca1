//! Keys, signatures and attestations of images, and what a policy asks of them. Pure but for the
//! random numbers of a new key and of each ECDSA signature: no network, file, clock or environment.
//!
//! Input: keys in PEM, the manifests and blobs that are attached to an image. Output: a signature
//! with the manifest that names it, or who signed what. Invariant: bytes are parsed only after their
//! signature was verified, but for what is only shown; what can't be evaluated is never accepted.
//!
//! | file | holds |
//! | --- | --- |
//! | `signing_key`, `encrypted_key` | private keys: PKCS #8, and the encrypted key of cosign |
//! | `verifying_key` | public keys |
//! | `payload` | what is signed of an image: simple signing, as cosign and containers/image |
//! | `attestation` | DSSE envelopes with in-toto statements |
//! | `attached` | the manifests with the tags `sha256-….sig` and `sha256-….att` |
//! | `signature` | one signature of an image, made and verified |
//! | `spdx`, `provenance` | the documents that attestations have: an SBOM, SLSA provenance |
//! | `evidence` | all that is attached to an image that we push |
//! | `evaluate` | whether signatures satisfy a `policy.json` |

pub mod attached;
pub mod attestation;
mod encrypted_key;
pub mod evaluate;
mod evidence;
mod image_name;
mod key_error;
pub mod payload;
pub mod provenance;
pub mod signature;
mod signing_key;
pub mod spdx;
mod verifying_key;

pub use attached::{
    Attached, AttachedManifest, AttachmentKind, NewAttachment, attachment_tags, is_attachment_tag,
};
pub use evidence::{Evidence, SignError};
pub use image_name::ImageName;
pub use key_error::KeyError;
pub use signing_key::SigningKey;
pub use verifying_key::{KeyAlgorithm, VerifyingKey};

/// Most bytes of a file with a key.
pub const KEY_LIMIT: usize = 64 << 10;
