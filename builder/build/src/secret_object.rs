//! A Secret of the API, in the form that is never printed.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1;

use mosb_types::Wipe;

/// A Secret as an object of the API. Its values are overwritten when it is dropped.
#[derive(Clone, PartialEq)]
pub struct SecretObject(pub v1::Secret);

impl fmt::Debug for SecretObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl Wipe for SecretObject {
    fn wipe(&mut self) {
        let data = self.0.data.iter_mut().flat_map(BTreeMap::values_mut);
        data.for_each(|bytes| bytes.0.wipe());
        let texts = self.0.string_data.iter_mut().flat_map(BTreeMap::values_mut);
        texts.for_each(Wipe::wipe);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_value_of_a_secret_stays_in_memory() {
        let secret = json!({ "data": { "a": "aHVudGVyMg==" }, "stringData": { "b": "hunter2" } });
        let mut secret = SecretObject(serde_json::from_value(secret).unwrap());
        secret.wipe();
        assert_eq!(
            serde_json::to_value(secret.0).unwrap(),
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": { "a": "" }, "stringData": { "b": "" } })
        );
    }
}
