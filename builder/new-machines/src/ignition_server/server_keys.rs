//! The CA and the token key, as their Secret has them.

use jiff::Timestamp;
use k8s_openapi::ByteString;

use mosb_cluster::user_data_secret::{SecretData, UserDataSecret};
use mosb_ignition_server::{Authority, AuthorityError, TokenKey};
use mosb_types::Secret;

const CERTIFICATE: &str = "ca.crt";
const PRIVATE_KEY: &str = "ca.key";
const NOT_AFTER: &str = "ca.not-after";
const TOKEN_KEY: &str = "token.key";

/// The CA of the server's certificates, and the key of which the tokens of all pools are made.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerKeys {
    pub authority: Authority,
    pub tokens: TokenKey,
}

impl ServerKeys {
    /// None if one of them is missing or broken.
    pub fn in_secret(secret: &UserDataSecret) -> Option<Self> {
        Some(Self { authority: authority(secret)?, tokens: token_key(secret)? })
    }

    /// The keys of the Secret. A key that is missing or broken, and a CA that is about to end, are
    /// replaced by new ones.
    ///
    /// # Errors
    /// No key can be generated.
    pub fn renew(secret: &UserDataSecret, now: Timestamp) -> Result<Self, AuthorityError> {
        let authority = match authority(secret).filter(|authority| authority.is_good(now)) {
            Some(authority) => authority,
            None => Authority::generate(now)?,
        };
        Ok(Self { authority, tokens: token_key(secret).unwrap_or_else(TokenKey::generate) })
    }

    /// Writes them into the values of the Secret.
    pub fn write(&self, data: &mut SecretData) {
        let Authority { certificate, key, not_after } = &self.authority;
        for (name, value) in [
            (CERTIFICATE, certificate.as_bytes()),
            (PRIVATE_KEY, key.expose().as_bytes()),
            (NOT_AFTER, not_after.as_bytes()),
            (TOKEN_KEY, self.tokens.bytes()),
        ] {
            data.insert(name.to_owned(), ByteString(value.to_vec()));
        }
    }
}

fn authority(secret: &UserDataSecret) -> Option<Authority> {
    let text = |key| std::str::from_utf8(secret.value(key)?).ok().map(str::to_owned);
    Some(Authority {
        certificate: text(CERTIFICATE)?,
        key: Secret::new(text(PRIVATE_KEY)?),
        not_after: text(NOT_AFTER)?,
    })
}

fn token_key(secret: &UserDataSecret) -> Option<TokenKey> {
    // A key of another length is replaced, as one that is missing.
    TokenKey::from_bytes(secret.value(TOKEN_KEY)?).ok()
}
