//! The encrypted private key of cosign (`cosign generate-key-pair`): JSON in PEM, with scrypt for the
//! password and NaCl's secretbox around PKCS #8.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use crypto_secretbox::{Key, Nonce, XSalsa20Poly1305};
use mosb_types::Secret;
use serde::Deserialize;

use crate::KeyError;

/// The newer label, and that of cosign before 2.0.
pub const LABELS: [&str; 2] = ["ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY"];

/// N times r times p: scrypt takes 128 times N times r bytes of memory. cosign's own keys have 2^19,
/// which are 64 MiB.
const MAX_WORK: u64 = 1 << 20;
/// cosign has 32 bytes.
const MAX_SALT: usize = 1024;

#[derive(Deserialize)]
struct Raw {
    kdf: RawKdf,
    cipher: RawCipher,
    ciphertext: String,
}

#[derive(Deserialize)]
struct RawKdf {
    name: String,
    params: RawParams,
    salt: String,
}

#[derive(Deserialize)]
struct RawParams {
    #[serde(rename = "N")]
    n: u64,
    r: u64,
    p: u64,
}

#[derive(Deserialize)]
struct RawCipher {
    name: String,
    nonce: String,
}

/// An encrypted key, whose parameters are within their limits.
pub struct EncryptedKey {
    params: scrypt::Params,
    salt: Vec<u8>,
    nonce: [u8; 24],
    ciphertext: Vec<u8>,
}

impl EncryptedKey {
    /// Reads the content of the PEM block. Nothing is computed yet.
    pub fn parse(json: &[u8]) -> Result<Self, KeyError> {
        let wrong = |cause: &str| KeyError::Encrypted(cause.to_owned());
        // An error of serde_json has the position only, and at most the name of a field.
        let raw: Raw = serde_json::from_slice(json).map_err(|error| {
            KeyError::Encrypted(format!("JSON, line {}, column {}", error.line(), error.column()))
        })?;
        if raw.kdf.name != "scrypt" || raw.cipher.name != "nacl/secretbox" {
            return Err(wrong("another key derivation than scrypt, or another cipher"));
        }
        let params = params(&raw.kdf.params)?;
        let decode = |text: &str, what| STANDARD.decode(text).map_err(|_| wrong(what));
        let salt = decode(&raw.kdf.salt, "its salt")?;
        if salt.len() > MAX_SALT {
            return Err(wrong("its salt is too long"));
        }
        let nonce = decode(&raw.cipher.nonce, "its nonce")?;
        let nonce = nonce.try_into().map_err(|_| wrong("its nonce"))?;
        let ciphertext = decode(&raw.ciphertext, "its content")?;
        Ok(Self { params, salt, nonce, ciphertext })
    }

    /// The key inside: PKCS #8.
    pub fn decrypt(&self, password: &Secret<Vec<u8>>) -> Result<Secret<Vec<u8>>, KeyError> {
        let mut key = Secret::new(vec![0; 32]);
        let derived = scrypt::scrypt(password.expose(), &self.salt, &self.params, key.expose_mut());
        derived.map_err(|_| KeyError::WrongPassword)?;
        let cipher = XSalsa20Poly1305::new(Key::from_slice(key.expose()));
        let opened = cipher.decrypt(Nonce::from_slice(&self.nonce), &*self.ciphertext);
        opened.map(Secret::new).map_err(|_| KeyError::WrongPassword)
    }
}

/// The parameters, checked before anything is computed with them.
fn params(raw: &RawParams) -> Result<scrypt::Params, KeyError> {
    let RawParams { n, r, p } = *raw;
    let refused = KeyError::Scrypt { n, r, p };
    let work = n.checked_mul(r).and_then(|work| work.checked_mul(p));
    if n < 2 || !n.is_power_of_two() || !work.is_some_and(|work| (1..=MAX_WORK).contains(&work)) {
        return Err(refused);
    }
    let small = |value: u64| u32::try_from(value).ok();
    let log_n = u8::try_from(n.trailing_zeros()).ok();
    let params = log_n.zip(small(r).zip(small(p)));
    let params = params.and_then(|(log_n, (r, p))| scrypt::Params::new(log_n, r, p).ok());
    params.ok_or(refused)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::SigningKey;
    use crate::verifying_key::encode_pem;

    const SALT: &[u8] = b"salt";
    const NONCE: [u8; 24] = [7; 24];

    /// As cosign writes it, with less work.
    fn encrypted(content: &[u8], password: &[u8]) -> Value {
        let mut key = [0; 32];
        scrypt::scrypt(password, SALT, &scrypt::Params::new(4, 8, 1).unwrap(), &mut key).unwrap();
        let cipher = XSalsa20Poly1305::new(Key::from_slice(&key));
        let ciphertext = cipher.encrypt(Nonce::from_slice(&NONCE), content).unwrap();
        json!({
            "kdf": {
                "name": "scrypt", "params": { "N": 16, "r": 8, "p": 1 },
                "salt": STANDARD.encode(SALT),
            },
            "cipher": { "name": "nacl/secretbox", "nonce": STANDARD.encode(NONCE) },
            "ciphertext": STANDARD.encode(ciphertext),
        })
    }

    fn read(json: &Value, password: Option<&str>) -> Result<SigningKey, KeyError> {
        let text = encode_pem(LABELS[0], json.to_string().into_bytes());
        let password = password.map(|password| Secret::new(password.as_bytes().to_vec()));
        SigningKey::from_pem(&Secret::new(text.into_bytes()), password.as_ref())
    }

    #[test]
    fn an_encrypted_key_needs_its_password() {
        let (key, text) = SigningKey::generate().unwrap();
        let der = pem::parse(text.expose()).unwrap().into_contents();
        let json = encrypted(&der, b"hunter2");
        let found = read(&json, Some("hunter2")).unwrap();
        assert_eq!(found.verifying_key(), key.verifying_key());
        assert_eq!(read(&json, None).unwrap_err(), KeyError::NoPassword);
        assert_eq!(read(&json, Some("hunter3")).unwrap_err(), KeyError::WrongPassword);
        let other = encrypted(b"not a key", b"hunter2");
        assert_eq!(read(&other, Some("hunter2")).unwrap_err(), KeyError::NotP256);
    }

    #[test]
    fn parameters_are_bounded_before_the_work() {
        let with = |pointer: &str, value: Value| {
            let mut json = encrypted(b"", b"");
            *json.pointer_mut(pointer).unwrap() = value;
            json
        };
        for (n, r, p, fits) in [
            (65536, 8, 1, true),
            (131_072, 8, 1, true),
            (262_144, 8, 1, false),
            (65536, 8, 4, false),
            (2, 1, u64::MAX, false),
            (u64::MAX, 8, 1, false),
            (1 << 63, 1 << 63, 1 << 63, false),
            (0, 8, 1, false),
            (1, 8, 1, false),
            (65535, 8, 1, false),
            (65536, 0, 1, false),
            (65536, 8, 0, false),
        ] {
            let json = with("/kdf/params", json!({ "N": n, "r": r, "p": p }));
            // No password is asked for with parameters that are refused.
            let want = if fits { KeyError::NoPassword } else { KeyError::Scrypt { n, r, p } };
            assert_eq!(read(&json, None).unwrap_err(), want);
        }
        for (pointer, value) in [
            ("/kdf/params/N", json!(-1)),
            ("/kdf/params/N", json!(1e300)),
            ("/kdf/name", json!("pbkdf2")),
            ("/cipher/name", json!("aes")),
            ("/cipher/nonce", json!("AAAA")),
            ("/kdf/salt", json!("*")),
            ("/kdf/salt", json!("AAAA".repeat(1000))),
            ("/ciphertext", json!(1)),
        ] {
            let error = read(&with(pointer, value), Some("")).unwrap_err();
            assert!(matches!(error, KeyError::Encrypted(_)), "{pointer}: {error}");
        }
    }
}
