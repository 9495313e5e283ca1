//! The output of `rpm-ostree status --json`.

use mosb_plan::api::rollout::Deployment;
use serde::Deserialize;

use crate::deployments::{self, DEPLOYMENTS, Deployments, deployment};

#[derive(Deserialize)]
struct Status {
    deployments: Vec<Entry>,
}

#[derive(Deserialize)]
struct Transaction {
    /// Its method, sender and object; null if there is none.
    transaction: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Entry {
    #[serde(default)]
    booted: bool,
    #[serde(default)]
    staged: bool,
    container_image_reference: Option<String>,
    container_image_reference_digest: Option<String>,
    /// The ref, for a deployment that is not an image.
    origin: Option<String>,
    osname: Option<String>,
    checksum: Option<String>,
    serial: Option<u32>,
}

/// Where a deployment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its place in the boot order, from 0.
    pub index: usize,
    /// Its root on the machine; none if the status has none.
    pub tree: Option<String>,
}

/// Where the booted deployment and the staged one are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub booted: Option<Place>,
    pub staged: Option<Place>,
}

/// Reads the output: the deployments in boot order, the staged one first.
///
/// # Errors
/// It is no status.
pub(crate) fn parse(text: &str) -> Result<Deployments, String> {
    let status: Status =
        serde_json::from_str(text).map_err(|error| format!("no status: {error}"))?;
    let mut found = Deployments::default();
    for entry in status.deployments.iter().take(DEPLOYMENTS) {
        let one = of_entry(entry);
        if entry.booted {
            found.booted = Some(one);
        } else if entry.staged {
            found.staged = Some(one);
        } else {
            found.others.push(one);
        }
    }
    Ok(found)
}

/// Where the booted deployment and the staged one are.
///
/// # Errors
/// It is no status.
pub(crate) fn places(text: &str) -> Result<Places, String> {
    let status: Status =
        serde_json::from_str(text).map_err(|error| format!("no status: {error}"))?;
    let mut found = Places::default();
    for (index, entry) in status.deployments.iter().enumerate().take(DEPLOYMENTS) {
        let place = || Some(Place { index, tree: tree(entry) });
        if entry.booted {
            found.booted = place();
        } else if entry.staged {
            found.staged = place();
        }
    }
    Ok(found)
}

fn tree(entry: &Entry) -> Option<String> {
    let (osname, checksum) = (entry.osname.as_deref()?, entry.checksum.as_deref()?);
    deployments::tree(osname, checksum, entry.serial?)
}

/// Whether the daemon changes the machine for somebody at the moment.
///
/// # Errors
/// It is no status.
pub(crate) fn has_transaction(text: &str) -> Result<bool, String> {
    let status: Transaction =
        serde_json::from_str(text).map_err(|error| format!("no status: {error}"))?;
    Ok(status.transaction.is_some())
}

fn of_entry(entry: &Entry) -> Deployment {
    let name = entry.container_image_reference.as_deref().or(entry.origin.as_deref());
    deployment(name.unwrap_or_default(), entry.container_image_reference_digest.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::Digest;
    use serde_json::{Value, json};

    fn entry(name: &str, digest: Digest, booted: bool, staged: bool) -> Value {
        json!({
            "base-commit-meta": { "ostree.manifest-digest": digest.to_string() },
            "booted": booted,
            "checksum": "0".repeat(64),
            "container-image-reference": name,
            "container-image-reference-digest": digest.to_string(),
            "id": format!("fedora-coreos-{}.0", "0".repeat(64)),
            "origin": name,
            "osname": "fedora-coreos",
            "packages": [],
            "pinned": false,
            "requested-local-packages": [],
            "serial": 0,
            "staged": staged,
            "timestamp": 1_754_000_000,
            "unlocked": "none",
            "version": "42.20260801.3.0",
        })
    }

    #[test]
    fn deployments_are_told_apart_by_booted_and_staged() {
        let digests = [b"booted", b"staged", b"before"].map(|bytes| Digest::of(bytes));
        let [booted, staged, before] = digests;
        let image = format!("ostree-unverified-registry:reg.example/os@{staged}");
        let text = json!({
            "deployments": [
                entry(&image, staged, false, true),
                entry("ostree-image-signed:docker://reg.example/os:1", booted, true, false),
                entry("ostree-unverified-registry:reg.example/os:0", before, false, false),
            ],
            "transaction": null,
            "cached-update": null,
            "update-driver": null,
        });
        let found = parse(&text.to_string()).unwrap();
        assert_eq!((found.booted_digest(), found.staged_digest()), (Some(booted), Some(staged)));
        assert!(found.has_other(before));
        assert_eq!(found.booted.unwrap().image, "reg.example/os:1");
        assert_eq!(found.staged.unwrap().image, format!("reg.example/os@{staged}"));
    }

    #[test]
    fn booted_and_staged_are_found_by_their_place_in_the_boot_order() {
        let digest = Digest::of(b"image");
        let mut broken = entry("c", digest, false, true);
        broken["osname"] = json!("../x");
        let of = |list: Vec<Value>| places(&json!({ "deployments": list }).to_string()).unwrap();
        let tree = format!("/ostree/deploy/fedora-coreos/deploy/{}.0", "0".repeat(64));
        let place = |index| Some(Place { index, tree: Some(tree.clone()) });
        let [staged, booted, other] = [(false, true), (true, false), (false, false)]
            .map(|(booted, staged)| entry("a", digest, booted, staged));
        assert_eq!(
            of(vec![staged, booted.clone(), other.clone()]),
            Places { staged: place(0), booted: place(1) }
        );
        // A pending one that is not staged.
        assert_eq!(of(vec![other, booted]), Places { staged: None, booted: place(1) });
        assert_eq!(of(vec![broken]).staged, Some(Place { index: 0, tree: None }));
        assert!(places("{}").is_err());
    }

    #[test]
    fn a_transaction_is_seen() {
        let running = json!(["upgrade", ":1.42", "/org/projectatomic/rpmostree1/fedora_coreos"]);
        for (transaction, want) in [(json!(null), false), (running, true)] {
            let text = json!({ "deployments": [], "transaction": transaction }).to_string();
            assert_eq!(has_transaction(&text), Ok(want), "{text}");
        }
        assert_eq!(has_transaction("{}"), Ok(false));
        assert!(has_transaction("error: No such method").is_err());
    }

    #[test]
    fn a_ref_of_ostree_is_no_image_and_other_output_is_an_error() {
        let text = json!({ "deployments": [{ "booted": true, "origin": "fedora:fedora/x86_64/coreos/stable" }] });
        let booted = parse(&text.to_string()).unwrap().booted.unwrap();
        assert_eq!(booted.image, "fedora:fedora/x86_64/coreos/stable");
        assert_eq!(booted.digest, None);
        for text in ["", "{}", "[]", "error: No such method"] {
            assert!(parse(text).is_err(), "{text}");
        }
        let many = json!({ "deployments": vec![json!({}); 1000] }).to_string();
        assert_eq!(parse(&many).unwrap().others.len(), DEPLOYMENTS);
    }
}
