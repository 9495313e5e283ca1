//! The stub: the small Ignition config that fetches the config of a pool.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mosb_types::{Secret, canonical_json};
use serde_json::json;

use super::token::Token;

/// The Ignition spec of a stub: the oldest one in which a fetched config may have HTTP headers and
/// be compressed.
pub const STUB_VERSION: &str = "3.1.0";

/// The stub for a URL: it trusts this CA (PEM), and shows this token. Ignition trusts the CAs of the
/// boot image too, and no config can change that. The same inputs give the same bytes.
pub fn stub(url: &str, authority: &str, token: &Token) -> Secret<Vec<u8>> {
    let authorization = Secret::new(format!("Bearer {}", token.expose()));
    let certificate = format!("data:;base64,{}", STANDARD.encode(authority));
    let config = Secret::new(json!({ "ignition": {
        "version": STUB_VERSION,
        // Replaced and not merged: nothing of the stub is left in the config that the machine uses.
        "config": { "replace": {
            "source": url,
            "compression": "gzip",
            "httpHeaders": [{ "name": "Authorization", "value": authorization.expose() }],
        } },
        "security": { "tls": { "certificateAuthorities": [{ "source": certificate }] } },
    } }));
    Secret::new(canonical_json(config.expose()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_are_small_and_complete() {
        let token = Secret::new("t0".to_owned());
        let bytes = stub("https://ignition.example.com/worker", "PEM\n", &token);
        let want = r#"{"ignition":{"config":{"replace":{"compression":"gzip","httpHeaders":[{"name":"Authorization","value":"Bearer t0"}],"source":"https://ignition.example.com/worker"}},"security":{"tls":{"certificateAuthorities":[{"source":"data:;base64,UEVNCg=="}]}},"version":"3.1.0"}}"#;
        assert_eq!(std::str::from_utf8(bytes.expose()), Ok(want));
    }
}
