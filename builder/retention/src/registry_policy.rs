//! Policies with which a registry deletes the old images of a pool itself, for registries that refuse
//! deletion by their API.
//!
//! A policy lists the tags that may go, and nothing else: one that keeps the newest images would some
//! day delete an image that a machine runs. Formats: the API reference of Red Hat Quay 3
//! (createRepositoryAutoPrunePolicy), Harbor 2 (`POST /api/v2.0/retentions`), and zot 2 (retention in
//! its configuration).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::pool_images::{ImageState, PoolImages};

/// A registry with policies of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyFormat {
    Quay,
    Harbor,
    Zot,
}

impl PolicyFormat {
    pub const ALL: [(&'static str, Self); 3] =
        [("quay", Self::Quay), ("harbor", Self::Harbor), ("zot", Self::Zot)];

    /// What to do with the policy.
    pub fn usage(self) -> &'static str {
        match self {
            Self::Quay => {
                "create it with POST /api/v1/repository/NAMESPACE/NAME/autoprunepolicy/, and delete it once the tags are gone"
            }
            Self::Harbor => {
                "set scope.ref to the ID of the project, create it with POST /api/v2.0/retentions, run it, and delete it: a project has one policy, which deletes all tags that no rule retains"
            }
            Self::Zot => {
                "put it into the configuration of zot, and take it out once the tags are gone"
            }
        }
    }
}

/// The policy that deletes the tags of images which are not kept; none if all are kept.
pub fn policy(format: PolicyFormat, images: &PoolImages) -> Option<Value> {
    let deletable = images.images.iter().filter(|image| image.state == ImageState::Deletable);
    let tags: BTreeSet<&str> =
        deletable.flat_map(|image| image.tags.iter().map(String::as_str)).collect();
    if tags.is_empty() {
        return None;
    }
    let path = images.repository.split_once('/').map_or("", |(_, path)| path);
    Some(match format {
        PolicyFormat::Quay => json!({
            "method": "creation_date",
            "value": format!("{}d", images.days),
            "tagPattern": format!("^(?:{})$", alternatives(&tags)),
            "tagPatternMatches": true,
        }),
        PolicyFormat::Harbor => {
            // Patterns begin below the project.
            let repository = path.split_once('/').map_or(path, |(_, name)| name);
            let list: Vec<&str> = tags.into_iter().collect();
            json!({
                "algorithm": "or",
                "rules": [{
                    "disabled": false,
                    "action": "retain",
                    "template": "always",
                    "params": {},
                    "tag_selectors": [{
                        "kind": "doublestar",
                        "decoration": "excludes",
                        "pattern": format!("{{{}}}", list.join(",")),
                        "extras": "{\"untagged\":true}",
                    }],
                    "scope_selectors": { "repository": [{
                        "kind": "doublestar",
                        "decoration": "repoMatches",
                        "pattern": repository,
                    }] },
                }],
                "scope": { "level": "project", "ref": 0 },
                "trigger": { "kind": "Schedule", "settings": { "cron": "" } },
            })
        }
        PolicyFormat::Zot => json!({ "storage": { "retention": { "policies": [
            {
                "repositories": [path],
                "deleteReferrers": false,
                "deleteUntagged": false,
                "keepTags": [{ "patterns": [format!("^{}$", all_but(&tags))] }],
            },
            { "repositories": ["**"], "deleteUntagged": false, "keepTags": [{ "patterns": [".*"] }] },
        ] } } }),
    })
}

/// A dot is the only character of a tag that means something in a pattern.
fn alternatives(tags: &BTreeSet<&str>) -> String {
    let escaped: Vec<String> = tags.iter().map(|tag| tag.replace('.', "\\.")).collect();
    escaped.join("|")
}

/// A regular expression for all texts but these. zot lists what is kept, and its expressions have
/// no negation.
fn all_but(texts: &BTreeSet<&str>) -> String {
    let has_end = texts.contains("");
    let first: BTreeSet<char> = texts.iter().filter_map(|text| text.chars().next()).collect();
    if first.is_empty() {
        return if has_end { ".+" } else { ".*" }.to_owned();
    }
    let others: String = first.iter().filter(|c| **c != '-').collect();
    // At the end of a class, a dash is not a range.
    let dash = if first.contains(&'-') { "-" } else { "" };
    let mut parts = vec![format!("[^{others}{dash}].*")];
    for c in first {
        let rest: BTreeSet<&str> = texts.iter().filter_map(|text| text.strip_prefix(c)).collect();
        let literal = if c == '.' { "\\.".to_owned() } else { c.to_string() };
        parts.push(format!("{literal}{}", all_but(&rest)));
    }
    format!("(?:{}){}", parts.join("|"), if has_end { "" } else { "?" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;
    use crate::pool_images::PoolImage;

    fn images(tags: &[(&str, ImageState)]) -> PoolImages {
        let image = |(tag, state): &(&str, ImageState)| PoolImage {
            image: format!("quay.example/acme/os/worker@sha256:{}", "0".repeat(64)),
            kind: "machines".to_owned(),
            builds: Vec::new(),
            tags: vec![(*tag).to_owned()],
            time: jiff::Timestamp::UNIX_EPOCH,
            state: *state,
            reasons: Vec::new(),
        };
        PoolImages {
            pool: "worker".to_owned(),
            machine_os_config: "worker".to_owned(),
            repository: "quay.example/acme/os/worker".to_owned(),
            keep: 5,
            days: 30,
            prune: false,
            held: None,
            refused: None,
            images: tags.iter().map(image).collect(),
        }
    }

    #[test]
    fn policies_list_only_tags_of_images_not_kept() {
        let images = images(&[
            ("worker-1", ImageState::Deletable),
            ("worker-2", ImageState::Kept),
            ("v1.0", ImageState::Deletable),
        ]);
        let quay = policy(PolicyFormat::Quay, &images).unwrap();
        assert_eq!(quay["tagPattern"], r"^(?:v1\.0|worker-1)$");
        assert_eq!((&quay["value"], &quay["tagPatternMatches"]), (&json!("30d"), &json!(true)));
        let harbor = policy(PolicyFormat::Harbor, &images).unwrap();
        let rule = &harbor["rules"][0];
        assert_eq!(rule["tag_selectors"][0]["pattern"], "{v1.0,worker-1}");
        assert_eq!(rule["scope_selectors"]["repository"][0]["pattern"], "os/worker");
        let zot = policy(PolicyFormat::Zot, &images).unwrap();
        let own = &zot["storage"]["retention"]["policies"][0];
        assert_eq!(own["repositories"], json!(["acme/os/worker"]));
        let pattern = own["keepTags"][0]["patterns"][0].as_str().unwrap();
        let kept = Regex::new(pattern).unwrap();
        for (tag, want) in
            [("worker-1", false), ("worker-2", true), ("v1.0", false), ("v1x0", true)]
        {
            assert_eq!(kept.is_match(tag), want, "{tag}");
        }
    }

    #[test]
    fn without_deletable_tags_there_is_no_policy() {
        for (_, format) in PolicyFormat::ALL {
            assert_eq!(policy(format, &images(&[("worker-2", ImageState::Kept)])), None);
        }
    }

    proptest! {
        #[test]
        fn pattern_matches_all_tags_but_those(
            listed in prop::collection::btree_set("[a-c.-]{1,6}", 1..6),
            other in "[a-c.-]{1,7}",
        ) {
            let texts = listed.iter().map(String::as_str).collect();
            let kept = Regex::new(&format!("^{}$", all_but(&texts))).unwrap();
            for tag in &listed {
                prop_assert!(!kept.is_match(tag), "{tag}");
            }
            prop_assert_eq!(kept.is_match(&other), !listed.contains(&other));
        }
    }
}
