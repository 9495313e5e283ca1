//! The output of `rpm-ostree status --json`.

use mosb_api::rollout::Deployment;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::deployment_folder::DeploymentFolder;
use crate::deployments::{DEPLOYMENTS, Deployments, deployment};

#[derive(Deserialize)]
struct Status {
    deployments: Vec<Entry>,
}

#[derive(Deserialize)]
struct Transaction {
    /// Its method, sender and object; null if there is none.
    transaction: Option<Value>,
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
    /// Whether a reboot leaves out what is staged.
    #[serde(default)]
    finalization_locked: bool,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What the next image of rpm-ostree gets too, from the origin of a deployment. Empty or false if there
/// is none (rpm-ostree, `rpmostreed-deployment-utils.cxx`).
const LOCAL_CHANGES: [&str; 10] = [
    "requested-packages",
    "requested-local-packages",
    "requested-local-fileoverride-packages",
    "requested-modules",
    "requested-modules-enabled",
    "requested-base-removals",
    "requested-base-local-replacements",
    "base-remote-replacements",
    "regenerate-initramfs",
    "initramfs-etc",
];

/// How the reference of an image begins that is pulled only if the policy of containers' tools accepts
/// it.
pub(crate) const SIGNED: &str = "ostree-image-signed:";

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

/// Reads the output: the deployments in boot order, the staged one first. Those before the booted one
/// are what the next reboot boots.
///
/// # Errors
/// The output is not a status.
pub(crate) fn parse(text: &str) -> Result<Deployments, String> {
    let status: Status =
        serde_json::from_str(text).map_err(|error| format!("not a status: {error}"))?;
    let has_booted = status.deployments.iter().any(|entry| entry.booted);
    let mut found = Deployments::default();
    for entry in status.deployments.iter().take(DEPLOYMENTS) {
        let one = of_entry(entry);
        if entry.booted {
            found.booted = Some(one);
            found.local_changes = local_changes(entry);
        } else if entry.staged {
            found.staged = Some(one);
            let reference = entry.container_image_reference.as_deref().unwrap_or_default();
            found.staged_is_verified = reference.starts_with(SIGNED);
        } else {
            // Before the booted one, it is what the next reboot boots.
            found.rollback_queued |= has_booted && found.booted.is_none();
            found.others.push(one);
        }
    }
    found.rollback_queued &= found.staged.is_none();
    Ok(found)
}

/// Where the booted deployment and the staged one are.
///
/// # Errors
/// The output is not a status.
pub(crate) fn places(text: &str) -> Result<Places, String> {
    let status: Status =
        serde_json::from_str(text).map_err(|error| format!("not a status: {error}"))?;
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
    let found = DeploymentFolder::new(osname, &format!("{checksum}.{}", entry.serial?));
    found.map(|folder| folder.root())
}

/// Whether the daemon changes the machine for somebody at the moment.
///
/// # Errors
/// The output is not a status.
pub(crate) fn has_transaction(text: &str) -> Result<bool, String> {
    let status: Transaction =
        serde_json::from_str(text).map_err(|error| format!("not a status: {error}"))?;
    Ok(status.transaction.is_some())
}

fn of_entry(entry: &Entry) -> Deployment {
    let name = entry.container_image_reference.as_deref().or(entry.origin.as_deref());
    let digest = entry.container_image_reference_digest.as_deref();
    let found = deployment(name.unwrap_or_default(), digest);
    // With more than the image, or if no reboot boots it, it is not that image.
    let is_image = !entry.finalization_locked && local_changes(entry).is_empty();
    Deployment { digest: found.digest.filter(|_| is_image), ..found }
}

fn local_changes(entry: &Entry) -> Vec<String> {
    let describe = |key: &&str| {
        let value = entry.rest.get(*key)?;
        let names: Vec<&str> = match value {
            Value::Array(list) => list.iter().map(|one| one.as_str().unwrap_or("…")).collect(),
            Value::Object(map) => map.keys().map(String::as_str).collect(),
            Value::Bool(true) => return Some((*key).to_owned()),
            Value::Bool(false) | Value::Null | Value::Number(_) | Value::String(_) => return None,
        };
        let names = names.join(" ");
        (!names.is_empty()).then(|| format!("{key} {names}"))
    };
    LOCAL_CHANGES.iter().filter_map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::Digest;
    use serde_json::json;

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

    /// Answers of rpm-ostree 2023.1, without manifests: a kernel argument was staged; and the booted
    /// deployment was left by `rpm-ostree rollback`.
    const STAGED: &str = include_str!("../../../testdata/node/rpm-ostree-staged.json");
    const PENDING: &str = include_str!("../../../testdata/node/rpm-ostree-pending.json");

    /// The first deployment, which is not booted, with other values.
    fn first_with(text: &str, values: Value) -> Deployments {
        let mut status: Value = serde_json::from_str(text).unwrap();
        for (key, value) in values.as_object().unwrap() {
            status["deployments"][0][key] = value.clone();
        }
        parse(&status.to_string()).unwrap()
    }

    #[test]
    fn first_and_not_staged_is_a_queued_rollback() {
        let found = first_with(STAGED, json!({}));
        assert_eq!((found.rollback_queued, found.others), (false, Vec::new()));
        assert!(found.staged.unwrap().digest.is_some() && found.booted.unwrap().digest.is_some());
        let found = first_with(PENDING, json!({}));
        let digest = found.booted_digest().unwrap();
        assert_eq!((found.rollback_queued, &found.staged), (true, &None));
        assert!(found.has_other(digest));
        // Nothing was booted, as in a recovery system.
        let text = PENDING.replace("\"booted\": true", "\"booted\": false");
        let found = parse(&text).unwrap();
        assert_eq!((found.rollback_queued, found.others.len()), (false, 2));
        // Behind a staged one.
        let text = json!({ "deployments": [
            entry("a", Digest::of(b"a"), false, true), entry("b", Digest::of(b"b"), false, false),
            entry("c", Digest::of(b"c"), true, false), entry("d", Digest::of(b"d"), false, false),
        ] });
        let found = parse(&text.to_string()).unwrap();
        let digests = (found.booted_digest(), found.staged_digest());
        assert_eq!(digests, (Some(Digest::of(b"c")), Some(Digest::of(b"a"))));
        let names =
            |list: &[Deployment]| list.iter().map(|one| one.image.clone()).collect::<Vec<_>>();
        assert_eq!(
            (found.rollback_queued, names(&found.others)),
            (false, vec!["b".to_owned(), "d".to_owned()])
        );
    }

    #[test]
    fn locked_or_changed_deployments_are_not_their_image() {
        for (what, values, is_image) in [
            ("as it was", json!({}), true),
            ("locked", json!({ "finalization-locked": true }), false),
            ("unlocked", json!({ "finalization-locked": false }), true),
            ("layered", json!({ "requested-packages": ["vim"] }), false),
            ("an empty name", json!({ "requested-packages": [""] }), true),
            ("a local file", json!({ "requested-local-packages": ["0:x"] }), false),
            ("removed", json!({ "requested-base-removals": ["nano"] }), false),
            ("replaced", json!({ "requested-base-local-replacements": ["0:x"] }), false),
            (
                "replaced from a repository",
                json!({ "base-remote-replacements": { "repo=updates": ["kernel"] } }),
                false,
            ),
            ("an initramfs of its own", json!({ "regenerate-initramfs": true }), false),
            ("files in the initramfs", json!({ "initramfs-etc": ["/etc/x"] }), false),
        ] {
            let found = first_with(STAGED, values);
            let staged = found.staged.unwrap();
            assert_eq!(staged.digest.is_some(), is_image, "{what}");
            assert!(staged.image.starts_with("reg.example/lab/stock@sha256:"), "{what}");
            assert!(found.local_changes.is_empty(), "{what}: it is not booted");
        }
        let text = PENDING.replace(
            "\"requested-packages\": []",
            "\"requested-packages\": [\"vim\", \"htop\"], \"initramfs-etc\": [\"/etc/x\"]",
        );
        let found = parse(&text).unwrap();
        assert_eq!(found.booted_digest(), None);
        let want = ["requested-packages vim htop", "initramfs-etc /etc/x"];
        assert_eq!(found.local_changes, want);
    }

    #[test]
    fn booted_and_staged_are_found_by_boot_order() {
        let digest = Digest::of(b"image");
        let mut broken = entry("c", digest, false, true);
        broken["osname"] = json!("../x");
        let of = |list: Vec<Value>| places(&json!({ "deployments": list }).to_string()).unwrap();
        let tree = format!("/sysroot/ostree/deploy/fedora-coreos/deploy/{}.0", "0".repeat(64));
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
    fn ostree_refs_are_not_images() {
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
