//! Who else uses a stub. Pure.

use std::collections::BTreeMap;

use super::machine_set::MachineSet;

/// The sets that use each stub and keep an image that may need the old spec.
#[derive(Debug, Default)]
pub(super) struct Sharing(BTreeMap<(String, String), String>);

impl Sharing {
    pub fn new<'s>(sets: impl Iterator<Item = MachineSet<'s>>) -> Self {
        let uses = sets.filter_map(|set| {
            let (namespace, name) = set.stub().ok().flatten()?;
            Some(((namespace.to_owned(), name.to_owned()), set.to_string()))
        });
        Self(uses.collect())
    }

    pub fn keeper(&self, namespace: &str, name: &str) -> Option<&str> {
        self.0.get(&(namespace.to_owned(), name.to_owned())).map(String::as_str)
    }
}
