//! Private keys. Only ECDSA on P-256 signs: each verifier takes it, and cosign and containers/image
//! disagree about Ed25519.

use std::fmt;

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use mosb_types::Secret;

use crate::encrypted_key::{self, EncryptedKey};
use crate::verifying_key::{encode_pem, only_block};
use crate::{KeyError, VerifyingKey};

/// A key that signs.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    public: VerifyingKey,
}

const LABEL: &str = "PRIVATE KEY";

impl SigningKey {
    /// Makes a key. Returns it with its PEM text (PKCS #8).
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<(Self, Secret<String>), KeyError> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)
            .map_err(|_| KeyError::Random)?;
        let der = pair.to_pkcs8v1().map_err(|_| KeyError::NotP256)?;
        let text = Secret::new(encode_pem(LABEL, der.as_ref().to_vec()));
        Ok((Self::new(pair)?, text))
    }

    /// Reads a PEM text: PKCS #8, or an encrypted key of cosign, which takes 65 MiB of memory and up
    /// to half a second.
    ///
    /// # Errors
    /// It is not such a key, or the password is missing or wrong.
    pub fn from_pem(
        text: &Secret<Vec<u8>>,
        password: Option<&Secret<Vec<u8>>>,
    ) -> Result<Self, KeyError> {
        let block = only_block(text.expose())?;
        let label = block.tag().to_owned();
        let content = Secret::new(block.into_contents());
        if label == LABEL {
            return Self::from_pkcs8(&content);
        }
        if !encrypted_key::LABELS.contains(&&*label) {
            let want = "a private key (PRIVATE KEY, or ENCRYPTED SIGSTORE PRIVATE KEY)";
            return Err(KeyError::Label { found: label, want });
        }
        let encrypted = EncryptedKey::parse(content.expose())?;
        let password = password.ok_or(KeyError::NoPassword)?;
        Self::from_pkcs8(&encrypted.decrypt(password)?)
    }

    fn from_pkcs8(der: &Secret<Vec<u8>>) -> Result<Self, KeyError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der.expose());
        Self::new(pair.map_err(|_| KeyError::NotP256)?)
    }

    fn new(pair: EcdsaKeyPair) -> Result<Self, KeyError> {
        let der: PublicKeyX509Der = pair.public_key().as_der().map_err(|_| KeyError::NotP256)?;
        Ok(Self { public: VerifyingKey::from_der(der.as_ref())?, pair })
    }

    /// The key that verifies what this one signs.
    pub fn verifying_key(&self) -> &VerifyingKey {
        &self.public
    }

    /// A signature in ASN.1 DER. Each is another one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature =
            self.pair.sign(&SystemRandom::new(), message).map_err(|_| KeyError::Random)?;
        Ok(signature.as_ref().to_vec())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KEY_LIMIT;

    fn read(text: &str) -> Result<SigningKey, KeyError> {
        SigningKey::from_pem(&Secret::new(text.as_bytes().to_vec()), None)
    }

    #[test]
    fn a_new_key_is_read_again_and_signs() {
        let (key, text) = SigningKey::generate().unwrap();
        let again = read(text.expose()).unwrap();
        let public = VerifyingKey::from_pem(key.verifying_key().to_pem().as_bytes()).unwrap();
        assert_eq!(&public, again.verifying_key());
        let signature = again.sign(b"message").unwrap();
        assert!(public.verifies(b"message", &signature));
        assert!(!public.verifies(b"another", &signature));
        let (other, _) = SigningKey::generate().unwrap();
        assert!(!other.verifying_key().verifies(b"message", &signature));
        let shown = format!("{key:?} {text:?}");
        assert!(shown.contains(&public.fingerprint().to_string()) && shown.contains("[secret]"));
    }

    #[test]
    fn other_texts_are_rejected_as_keys() {
        let (key, text) = SigningKey::generate().unwrap();
        let public = key.verifying_key().to_pem();
        let text = text.expose();
        let other_label = text.replace("PRIVATE KEY", "EC PRIVATE KEY");
        type Want = fn(&KeyError) -> bool;
        for (what, input, want) in [
            ("nothing", "", (|e| *e == KeyError::NotPem) as Want),
            ("a public key", &*public, |e| matches!(e, KeyError::Label { .. })),
            ("SEC 1", &other_label, |e| matches!(e, KeyError::Label { .. })),
            ("two", &format!("{text}{text}"), |e| *e == KeyError::Several(2)),
            ("large", &format!("{text}{}", " ".repeat(KEY_LIMIT)), |e| *e == KeyError::TooLarge),
            ("no key inside", &encode_pem(LABEL, b"0\x03abc".to_vec()), |e| {
                *e == KeyError::NotP256
            }),
        ] {
            let error = read(input).unwrap_err();
            assert!(want(&error), "{what}: {error}");
        }
    }
}
