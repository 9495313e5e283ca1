//! A Secret by namespace and name, as the annotation has it.

use std::fmt;
use std::str::FromStr;

use mosb_api::is_object_name;

/// The longest name of a namespace.
const MAX_NAMESPACE_LEN: usize = 63;

/// `NAMESPACE/NAME` of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretRef {
    namespace: String,
    name: String,
}

impl SecretRef {
    /// One whose names are valid.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for SecretRef {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, name) = text.split_once('/').ok_or("there is no /")?;
        let is_namespace = is_object_name(namespace)
            && namespace.len() <= MAX_NAMESPACE_LEN
            && !namespace.contains('.');
        if !is_namespace {
            return Err("not the name of a namespace");
        }
        if !is_object_name(name) {
            return Err("not the name of a Secret");
        }
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_read_as_it_is_printed() {
        for (text, want) in [
            ("machines/worker-user-data", Ok(())),
            ("machines/a.b", Ok(())),
            ("worker-user-data", Err("there is no /")),
            ("/worker", Err("not the name of a namespace")),
            ("a.b/worker", Err("not the name of a namespace")),
            (&format!("{}/worker", "a".repeat(64)), Err("not the name of a namespace")),
            ("machines/", Err("not the name of a Secret")),
            ("machines/a/b", Err("not the name of a Secret")),
            ("machines/../secrets", Err("not the name of a Secret")),
            ("Machines/worker", Err("not the name of a namespace")),
        ] {
            let read = text.parse::<SecretRef>();
            assert_eq!(read.clone().map(drop), want, "{text}");
            if let Ok(read) = read {
                assert_eq!(read.to_string(), text);
            }
        }
    }
}
