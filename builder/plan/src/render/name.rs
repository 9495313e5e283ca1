//! The name of a rendered config, from its content.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::api::{NameError, PoolName, RenderedName};
use mosb_types::canonical_value;

/// `rendered-<pool>-<hex>`, where the hex is the first half of the SHA-256 of the spec's canonical
/// JSON (RFC 8785).
///
/// # Errors
/// The pool's name is too long.
pub(super) fn rendered(pool: &PoolName, spec: &Value) -> Result<RenderedName, NameError> {
    let hash = Sha256::digest(canonical_value(spec));
    let hex: String = hash[..16].iter().map(|b| format!("{b:02x}")).collect();
    format!("rendered-{pool}-{hex}").parse()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_name_is_the_hash_of_the_canonical_spec() {
        let pool: PoolName = "worker".parse().unwrap();
        // printf '{"a":[],"b":"x"}' | sha256sum
        let name = rendered(&pool, &json!({ "b": "x", "a": [] })).unwrap();
        assert_eq!(name.as_str(), "rendered-worker-d4aa9cd279871d2e2cf6a1ec605ae0bc");
        let long: PoolName = "p".repeat(220).parse().unwrap();
        assert!(rendered(&long, &json!({})).is_err());
    }
}
