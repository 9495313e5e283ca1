//! Why a key can't be used. No variant holds bytes of a key.

use mosb_types::Diagnostic;

use crate::KEY_LIMIT;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(code = "bad-key", class = InvalidInput)]
#[non_exhaustive]
pub enum KeyError {
    #[error("more than {KEY_LIMIT} bytes; no key is that large, give another file")]
    TooLarge,
    #[error("no key in PEM (-----BEGIN …-----); give one, `mosb keys new FILE` makes it")]
    NotPem,
    #[error("{0} keys in PEM; give one for each file")]
    Several(usize),
    #[error("{found:?} is not {want}; give another file")]
    Label {
        /// The label of the PEM block.
        found: String,
        want: &'static str,
    },
    #[error(
        "not a private key for signatures; give an ECDSA key on the curve P-256 in PKCS #8, `mosb keys new FILE` makes it"
    )]
    NotP256,
    #[error(
        "not a public key that can be used; give ECDSA (P-256, P-384, P-521), RSA with 2048 to 8192 bits, or Ed25519"
    )]
    UnknownPublicKey,
    #[error("the key is encrypted; give its password with --sign-key-password")]
    NoPassword,
    #[error("the password is wrong, or the key is damaged; check the password")]
    WrongPassword,
    #[error("not readable as an encrypted key of cosign: {0}; give another file")]
    Encrypted(String),
    #[error(
        "its scrypt parameters N={n}, r={r}, p={p} ask for more memory or time than is spent on a key; make the key anew with `cosign generate-key-pair` or `mosb keys new FILE`"
    )]
    Scrypt { n: u64, r: u64, p: u64 },
    #[error("no random numbers from the system; try again")]
    Random,
}
