//! The prepared bases that build pods of this cluster pushed: the data of the ConfigMap
//! `mosb-prepared-bases`.
//!
//! Pure. Invariant: at most [`LIMIT`] entries; the one that was not used for the longest time goes
//! first. An entry that can't be read counts as missing, and goes with the next write.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use mosb_image::{Digest, RepoRef};
use mosb_types::canonical_json;
use mosb_workload::BuildNodes;

/// Entries of about 200 bytes; a ConfigMap has at most 1 MiB.
const LIMIT: usize = 64;

/// Who may share a prepared base: pools with the same push repository, pull Secret and inputs, whose
/// images are built on nodes that are trusted alike. Otherwise a copied Containerfile would give
/// another team's private packages to a pool, or root on a node would decide what others boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PreparedBaseKey(String);

impl PreparedBaseKey {
    /// Without a pull Secret, the pool pulls with the global one. `inputs` is the digest of
    /// everything that is run, and of what runs it.
    pub fn new(
        push: &RepoRef,
        pull_secret: Option<&str>,
        nodes: &BuildNodes,
        inputs: &Digest,
    ) -> Self {
        let parts = json!({
            "push": push.to_string(), "pullSecret": pull_secret, "nodes": nodes.trusted(),
            "inputs": inputs,
        });
        Self(Digest::of(&canonical_json(&parts)).hex())
    }

    /// As the annotation of a build has it; `None` for anything but 64 hex digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digest: Digest = format!("sha256:{text}").parse().ok()?;
        Some(Self(digest.hex()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A prepared base in the push repository of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreparedBase {
    pub image: Digest,
    pub made_at: Timestamp,
    /// When a build was last made on it.
    pub used_at: Timestamp,
}

/// What a workload has to do with a prepared base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreparedUse {
    /// Nothing.
    Without,
    /// It makes one, and the image on it.
    Make,
    /// It makes the image on this one, in the push repository.
    On(Digest),
}

/// All recorded prepared bases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PreparedBases(BTreeMap<PreparedBaseKey, PreparedBase>);

impl PreparedBases {
    pub fn from_data(data: &BTreeMap<String, String>) -> Self {
        let entry = |(key, base): (&String, &String)| {
            Some((PreparedBaseKey::from_hex(key)?, serde_json::from_str(base).ok()?))
        };
        let mut bases = Self(data.iter().filter_map(entry).collect());
        bases.remove_unused(None);
        bases
    }

    pub fn get(&self, key: &PreparedBaseKey) -> Option<&PreparedBase> {
        self.0.get(key)
    }

    /// Replaces the entry of this key. Others go if there are too many.
    pub fn insert(&mut self, key: &PreparedBaseKey, base: PreparedBase) {
        self.0.insert(key.clone(), base);
        self.remove_unused(Some(key));
    }

    fn remove_unused(&mut self, keep: Option<&PreparedBaseKey>) {
        while self.0.len() > LIMIT {
            let others = self.0.iter().filter(|(key, _)| Some(*key) != keep);
            let oldest = others.min_by_key(|(_, base)| base.used_at).map(|(key, _)| key.clone());
            self.0.remove(&oldest.expect("more entries than the one to keep"));
        }
    }

    /// The merge patch that turns this data of a ConfigMap into these entries; empty if nothing
    /// differs.
    pub fn patch_of(&self, data: &BTreeMap<String, String>) -> Map<String, Value> {
        let mut patch = Map::new();
        let is_obsolete = |key: &&String| !self.0.keys().any(|own| own.as_str() == key.as_str());
        patch.extend(data.keys().filter(is_obsolete).map(|key| (key.clone(), Value::Null)));
        for (key, base) in &self.0 {
            let text = String::from_utf8(canonical_json(base)).expect("JSON is UTF-8");
            if data.get(key.as_str()) != Some(&text) {
                patch.insert(key.as_str().to_owned(), Value::String(text));
            }
        }
        patch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn base(second: i64) -> PreparedBase {
        let image = Digest::of(&second.to_be_bytes());
        PreparedBase { image, made_at: at(second), used_at: at(second) }
    }

    fn key(name: &str) -> PreparedBaseKey {
        let push = "registry.example:5000/os/images".parse().unwrap();
        PreparedBaseKey::new(&push, None, &BuildNodes::Any, &Digest::of(name.as_bytes()))
    }

    /// The data after a write of `bases`.
    fn written(
        bases: &PreparedBases,
        before: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let mut data = before.clone();
        for (key, value) in bases.patch_of(before) {
            match value {
                Value::String(text) => data.insert(key, text),
                _ => data.remove(&key),
            };
        }
        data
    }

    #[test]
    fn pools_share_only_with_equal_repository_secret_nodes_inputs() {
        let repo = |text: &str| text.parse::<RepoRef>().unwrap();
        let (inputs, others) = (Digest::of(b"dnf"), Digest::of(b"rpm"));
        let key = |push, secret, inputs| {
            PreparedBaseKey::new(&repo(push), secret, &BuildNodes::Any, inputs)
        };
        let own = key("quay.io/acme/os", Some("pull"), &inputs);
        assert_eq!(own, key("quay.io/acme/os", Some("pull"), &inputs));
        let selected = BuildNodes::Selected(BTreeMap::new());
        for nodes in [selected, BuildNodes::ControlPlane { exists: true }] {
            let push = repo("quay.io/acme/os");
            assert_ne!(
                own,
                PreparedBaseKey::new(&push, Some("pull"), &nodes, &inputs),
                "{nodes:?}"
            );
        }
        for (what, push, secret, inputs) in [
            ("another repository", "quay.io/acme/os2", Some("pull"), &inputs),
            ("another registry", "quay.example/acme/os", Some("pull"), &inputs),
            ("another Secret", "quay.io/acme/os", Some("other"), &inputs),
            ("the global Secret", "quay.io/acme/os", None, &inputs),
            ("a Secret without a name", "quay.io/acme/os", Some(""), &inputs),
            ("other inputs", "quay.io/acme/os", Some("pull"), &others),
        ] {
            assert_ne!(own, key(push, secret, inputs), "{what}");
        }
        assert_eq!(PreparedBaseKey::from_hex(own.as_str()), Some(own));
        for text in ["", "0123", "../secret", &"g".repeat(64), &"A".repeat(64)] {
            assert_eq!(PreparedBaseKey::from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_else() {
        let mut bases = PreparedBases::default();
        bases.insert(&key("a"), base(1));
        bases.insert(&key("b"), base(2));
        let data = written(&bases, &BTreeMap::new());
        assert_eq!(
            data[key("a").as_str()],
            format!(
                r#"{{"image":"{}","madeAt":"1970-01-01T00:00:01Z","usedAt":"1970-01-01T00:00:01Z"}}"#,
                base(1).image
            )
        );
        assert_eq!(PreparedBases::from_data(&data), bases);
        assert!(bases.patch_of(&data).is_empty());

        let mut odd = data.clone();
        odd.insert(key("c").as_str().to_owned(), "sha256:0".to_owned());
        odd.insert("readme".to_owned(), data[key("a").as_str()].clone());
        assert_eq!(PreparedBases::from_data(&odd), bases);
        assert_eq!(written(&bases, &odd), data);
    }

    #[test]
    fn the_one_that_was_not_used_for_longest_goes_first() {
        let mut bases = PreparedBases::default();
        let name = |n: i64| key(&n.to_string());
        for n in 0..64 {
            bases.insert(&name(n), base(n));
        }
        bases.insert(&name(0), PreparedBase { used_at: at(100), ..base(0) });
        assert_eq!(bases.0.len(), LIMIT);
        // An entry stays when it is written, however old it is.
        bases.insert(&name(64), base(-1));
        assert_eq!(bases.0.len(), LIMIT);
        assert_eq!(bases.get(&name(1)), None);
        assert!([0, 2, 63, 64].iter().all(|n| bases.get(&name(*n)).is_some()));

        // Somebody else wrote more.
        let mut data = written(&bases, &BTreeMap::new());
        let more = String::from_utf8(canonical_json(&base(0))).unwrap();
        data.insert(name(65).as_str().to_owned(), more);
        let read = PreparedBases::from_data(&data);
        assert_eq!((read.0.len(), read.get(&name(64))), (LIMIT, None));
        assert_eq!(written(&read, &data).len(), LIMIT);
    }
}
