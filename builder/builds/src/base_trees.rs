//! The trees of bases that build pods of this cluster pushed: the data of the ConfigMap
//! `mosb-base-trees`. Pure.

use std::collections::BTreeMap;

use serde_json::json;

use mosb_image::{Digest, RepoRef};
use mosb_types::canonical_json;
use mosb_workload::BuildNodes;

/// Hex digits of a key that name its writers.
const WRITERS_LEN: usize = 32;

/// Images with base trees, by their keys.
pub type BaseTrees = BTreeMap<BaseTreeKey, Digest>;

/// A base, and who may have recorded its tree: builds that push to one repository, on nodes that are
/// trusted alike. Root on a node can alter what its pods report, and the tree decides what images of
/// this base have, so nobody takes a tree over from others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaseTreeKey {
    base: Digest,
    writers: String,
}

impl BaseTreeKey {
    /// `base`: its manifest.
    pub fn new(base: &Digest, push: &RepoRef, nodes: &BuildNodes) -> Self {
        let writers = json!({ "push": push.to_string(), "nodes": nodes.trusted() });
        let writers = Digest::of(&canonical_json(&writers)).hex();
        Self { base: *base, writers: writers[..WRITERS_LEN].to_owned() }
    }

    pub fn base(&self) -> Digest {
        self.base
    }

    /// The key in the ConfigMap, which can't contain a colon.
    pub fn data_key(&self) -> String {
        format!("{}.{}", self.base.hex(), self.writers)
    }

    /// `None` for another text than [`Self::data_key`] gives.
    fn from_data_key(text: &str) -> Option<Self> {
        let (base, writers) = text.split_once('.')?;
        let key =
            Self { base: format!("sha256:{base}").parse().ok()?, writers: writers.to_owned() };
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (writers.len() == WRITERS_LEN && writers.bytes().all(is_hex)).then_some(key)
    }
}

/// The entries of the ConfigMap. Others count as missing.
pub fn from_data(data: &BTreeMap<String, String>) -> BaseTrees {
    let entry = |(key, image): (&String, &String)| {
        Some((BaseTreeKey::from_data_key(key)?, image.parse().ok()?))
    };
    data.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_shared_only_by_equal_repositories_and_nodes() {
        let base = Digest::of(b"base");
        let push = |text: &str| text.parse::<RepoRef>().unwrap();
        let own = |nodes: &BuildNodes| BaseTreeKey::new(&base, &push("quay.io/acme/os"), nodes);
        let control_plane = BuildNodes::ControlPlane { exists: true };
        let selected =
            |value: &str| BuildNodes::Selected([("role".to_owned(), value.to_owned())].into());
        let all = [
            own(&BuildNodes::Any),
            own(&control_plane),
            own(&selected("build")),
            own(&selected("other")),
            BaseTreeKey::new(&base, &push("quay.io/acme/os2"), &BuildNodes::Any),
            BaseTreeKey::new(&Digest::of(b"other"), &push("quay.io/acme/os"), &BuildNodes::Any),
        ];
        for (index, key) in all.iter().enumerate() {
            assert!(!all[..index].contains(key), "{index}");
        }
        assert_eq!(own(&control_plane), own(&BuildNodes::ControlPlane { exists: false }));

        let image = Digest::of(b"tree");
        let mut data: BTreeMap<_, _> =
            all.iter().map(|key| (key.data_key(), image.to_string())).collect();
        let want: BaseTrees = all.into_iter().map(|key| (key, image)).collect();
        assert_eq!(from_data(&data), want);
        // Another version, or a person, wrote these.
        data.insert(base.hex(), image.to_string());
        data.insert(format!("{}.any", base.hex()), image.to_string());
        data.insert(own(&selected("third")).data_key(), "no digest".to_owned());
        assert_eq!(from_data(&data), want);
    }
}
