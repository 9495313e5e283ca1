//! Public keys: SubjectPublicKeyInfo in PEM, as `openssl pkey -pubout` and `cosign.pub` have it.

use std::fmt;

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P521_SHA256_ASN1, ED25519,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};
use mosb_image::Digest;
use pem::Pem;

use crate::{KEY_LIMIT, KeyError};

/// The kind of a key. The messages of all but Ed25519 are hashed by SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAlgorithm {
    EcdsaP256,
    EcdsaP384,
    EcdsaP521,
    /// PKCS #1 v1.5, 2048 to 8192 bits.
    Rsa,
    Ed25519,
}

impl KeyAlgorithm {
    const ALL: [Self; 5] =
        [Self::EcdsaP256, Self::EcdsaP384, Self::EcdsaP521, Self::Rsa, Self::Ed25519];

    fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::EcdsaP256 => &ECDSA_P256_SHA256_ASN1,
            Self::EcdsaP384 => &ECDSA_P384_SHA256_ASN1,
            Self::EcdsaP521 => &ECDSA_P521_SHA256_ASN1,
            Self::Rsa => &RSA_PKCS1_2048_8192_SHA256,
            Self::Ed25519 => &ED25519,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::EcdsaP256 => "ECDSA P-256",
            Self::EcdsaP384 => "ECDSA P-384",
            Self::EcdsaP521 => "ECDSA P-521",
            Self::Rsa => "RSA",
            Self::Ed25519 => "Ed25519",
        }
    }
}

/// A public key.
#[derive(Clone)]
pub struct VerifyingKey {
    algorithm: KeyAlgorithm,
    key: ParsedPublicKey,
}

const LABEL: &str = "PUBLIC KEY";

impl VerifyingKey {
    /// Reads the one key of a PEM text.
    ///
    /// # Errors
    /// There is no key or several, or of a kind that is not supported.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let block = only_block(text)?;
        if block.tag() != LABEL {
            let found = block.tag().to_owned();
            return Err(KeyError::Label { found, want: "a public key (PUBLIC KEY)" });
        }
        Self::from_der(block.contents())
    }

    /// Reads a SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// It is of a kind that is not supported.
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let parsed = KeyAlgorithm::ALL.into_iter().find_map(|algorithm| {
            let key = ParsedPublicKey::new(algorithm.verification(), der).ok()?;
            // The library takes bare points and RSA keys, too.
            let is_spki = key.as_der().is_ok_and(|spki| spki.as_ref() == der);
            is_spki.then_some(Self { algorithm, key })
        });
        // RSA keys are checked for their size only when they are used.
        match parsed {
            Some(Self { algorithm: KeyAlgorithm::Rsa, .. }) if !is_rsa_size(der.len()) => {
                Err(KeyError::UnknownPublicKey)
            }
            Some(key) => Ok(key),
            None => Err(KeyError::UnknownPublicKey),
        }
    }

    pub fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }

    fn der(&self) -> &[u8] {
        self.key.as_ref()
    }

    /// SHA-256 of the SubjectPublicKeyInfo, by which people and bundles name a key.
    pub fn fingerprint(&self) -> Digest {
        Digest::of(self.der())
    }

    /// The key in PEM, with a line end.
    pub fn to_pem(&self) -> String {
        encode_pem(LABEL, self.der().to_vec())
    }

    /// Whether `signature` is one of `message` by this key.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.key.verify_sig(message, signature).is_ok()
    }
}

/// Whether a SubjectPublicKeyInfo of RSA has about 2048 to 8192 bits. The library has the exact
/// check.
fn is_rsa_size(der: usize) -> bool {
    (256..1200).contains(&der)
}

impl PartialEq for VerifyingKey {
    fn eq(&self, other: &Self) -> bool {
        self.der() == other.der()
    }
}

impl Eq for VerifyingKey {}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({} {})", self.algorithm.name(), self.fingerprint())
    }
}

/// The only block of a PEM text.
pub(crate) fn only_block(text: &[u8]) -> Result<Pem, KeyError> {
    if text.len() > KEY_LIMIT {
        return Err(KeyError::TooLarge);
    }
    let mut blocks = pem::parse_many(text).map_err(|_| KeyError::NotPem)?;
    match (blocks.len(), blocks.pop()) {
        (1, Some(block)) => Ok(block),
        (0, _) | (_, None) => Err(KeyError::NotPem),
        (found, _) => Err(KeyError::Several(found)),
    }
}

/// PEM with the line ends of Unix.
pub(crate) fn encode_pem(label: &str, der: Vec<u8>) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&Pem::new(label, der), config)
}
