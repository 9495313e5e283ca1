//! The keys of the Secret that the server mounts.

/// The certificates that the server shows, as PEM.
pub const CERTIFICATE: &str = "tls.crt";
/// The private key, as PEM.
pub const PRIVATE_KEY: &str = "tls.key";
/// What the certificate is for, as JSON; for the controller, which renews it.
pub const CERTIFICATE_INFO: &str = "tls.json";
/// Ends the key with the gzip of a pool's config.
const CONFIG_SUFFIX: &str = ".ign.gz";
/// Ends the key with the hashes of a pool's tokens.
const TOKENS_SUFFIX: &str = ".tokens";

/// The key with the gzip of a pool's config.
pub fn config_key(pool: &str) -> String {
    format!("{pool}{CONFIG_SUFFIX}")
}

/// The key with the hashes of a pool's tokens.
pub fn tokens_key(pool: &str) -> String {
    format!("{pool}{TOKENS_SUFFIX}")
}

/// The pool that a key is for; none if it is for the server itself, or of somebody else.
pub fn pool_of(key: &str) -> Option<&str> {
    key.strip_suffix(CONFIG_SUFFIX).or_else(|| key.strip_suffix(TOKENS_SUFFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_pool_that_it_was_made_for() {
        for pool in ["worker", "tls", "a.tokens", "b.ign.gz"] {
            assert_eq!(pool_of(&config_key(pool)), Some(pool));
            assert_eq!(pool_of(&tokens_key(pool)), Some(pool));
        }
        for key in [CERTIFICATE, PRIVATE_KEY, CERTIFICATE_INFO, "worker"] {
            assert_eq!(pool_of(key), None, "{key}");
        }
    }
}
