//! The output of `bootc status --json`.

use mosb_api::rollout::Deployment;
use serde::Deserialize;
use serde_json::Value;

use crate::deployments::{DEPLOYMENTS, Deployments, deployment};

/// The version of bootc's objects.
const API_VERSION: &str = "org.containers.bootc/v1";

/// What a deployment has that bootc calls incompatible; it does not say more.
const CHANGES: &str = "changes of rpm-ostree, such as layered packages";

/// What bootc reports of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BootcStatus {
    pub deployments: Deployments,
    /// Whether the disk of the machine can't be written, as of a live system (bootc 1.16.7).
    pub read_only: bool,
    /// Whether what is staged may be booted without its kernel; none before bootc 1.7, which does not say.
    pub soft_reboot_capable: Option<bool>,
    /// `CHECKSUM.SERIAL` of the staged deployment. bootc 1.1.4 does not name its stateroot.
    pub staged_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Host {
    api_version: String,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    booted: Option<BootEntry>,
    staged: Option<BootEntry>,
    rollback: Option<BootEntry>,
    #[serde(default)]
    other_deployments: Vec<BootEntry>,
    #[serde(default)]
    rollback_queued: bool,
    #[serde(default)]
    read_only: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BootEntry {
    image: Option<ImageStatus>,
    #[serde(default)]
    incompatible: bool,
    /// Staged and locked: no reboot finalizes it (bootc 1.12).
    #[serde(default)]
    download_only: bool,
    #[serde(default)]
    soft_reboot_capable: Option<bool>,
    ostree: Option<OstreeEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OstreeEntry {
    checksum: String,
    deploy_serial: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageStatus {
    image: ImageReference,
    image_digest: Option<String>,
}

#[derive(Deserialize)]
struct ImageReference {
    image: String,
    /// How it is verified; an object for a remote of ostree.
    #[serde(default)]
    signature: Value,
}

/// The image was pulled only because the policy of containers' tools accepted it.
const BY_POLICY: &str = "containerPolicy";

/// Reads the output, from the first line that begins with a brace: up to version 1.6, a bootc that waits
/// for another one writes a line about that before.
///
/// # Errors
/// The status has an unknown version, or is not JSON of one.
pub(crate) fn parse(text: &str) -> Result<BootcStatus, String> {
    let mut begins = std::iter::once(0).chain(text.match_indices('\n').map(|(end, _)| end + 1));
    let begin = begins.find(|at| text[*at..].starts_with('{')).unwrap_or_default();
    let host: Host =
        serde_json::from_str(&text[begin..]).map_err(|error| format!("not a status: {error}"))?;
    if host.api_version != API_VERSION {
        let version: String = host.api_version.chars().take(60).collect();
        return Err(format!("a status of version {version:?}; {API_VERSION} is read"));
    }
    let status = host.status;
    let staged = status.staged.as_ref().filter(|entry| !entry.download_only);
    let others = status.rollback.iter().chain(&status.other_deployments).take(DEPLOYMENTS);
    let is_changed = status.booted.as_ref().is_some_and(|entry| entry.incompatible);
    Ok(BootcStatus {
        deployments: Deployments {
            booted: status.booted.as_ref().map(of_entry),
            staged: staged.map(of_entry),
            staged_is_verified: staged.is_some_and(is_verified),
            others: others.map(of_entry).collect(),
            rollback_queued: status.rollback_queued && staged.is_none(),
            local_changes: is_changed.then(|| CHANGES.to_owned()).into_iter().collect(),
        },
        read_only: status.read_only,
        soft_reboot_capable: staged.and_then(|entry| entry.soft_reboot_capable),
        staged_name: staged
            .and_then(|entry| entry.ostree.as_ref())
            .map(|ostree| format!("{}.{}", ostree.checksum, ostree.deploy_serial)),
    })
}

fn is_verified(entry: &BootEntry) -> bool {
    entry.image.as_ref().is_some_and(|status| status.image.signature == BY_POLICY)
}

fn of_entry(entry: &BootEntry) -> Deployment {
    let image = entry.image.as_ref();
    let name = image.map_or("", |status| &*status.image.image);
    deployment(name, image.and_then(|status| status.image_digest.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::Digest;
    use serde_json::json;

    fn entry(name: &str, digest: Digest) -> Value {
        json!({
            "image": {
                "image": { "image": name, "transport": "registry" },
                "version": "42.20260801.3.0",
                "timestamp": "2026-08-01T10:00:00Z",
                "imageDigest": digest.to_string(),
                "architecture": "amd64",
            },
            "cachedUpdate": null,
            "incompatible": false,
            "pinned": false,
            "store": "ostreeContainer",
            "ostree": { "checksum": "0".repeat(64), "deploySerial": 0 },
        })
    }

    fn status(status: Value) -> String {
        json!({
            "apiVersion": "org.containers.bootc/v1",
            "kind": "BootcHost",
            "metadata": { "name": "host" },
            "spec": { "image": { "image": "reg.example/os:1", "transport": "registry" }, "bootOrder": "default" },
            "status": status,
        })
        .to_string()
    }

    #[test]
    fn each_entry_has_its_image_and_digest() {
        let digests = [b"booted", b"staged", b"before"].map(|bytes| Digest::of(bytes));
        let [booted, staged, before] = digests;
        let text = status(json!({
            "staged": entry(&format!("reg.example/os@{staged}"), staged),
            "booted": entry("reg.example/os:1", booted),
            "rollback": entry("reg.example/os:0", before),
            "rollbackQueued": false,
            "type": "bootcHost",
        }));
        let read = parse(&text).unwrap();
        assert!(read.deployments.local_changes.is_empty());
        let found = read.deployments;
        assert_eq!((found.booted_digest(), found.staged_digest()), (Some(booted), Some(staged)));
        assert!(found.has_other(before) && !found.has_other(booted) && !found.rollback_queued);
        assert_eq!(found.booted.unwrap().image, "reg.example/os:1");
        assert_eq!(read.staged_name, Some(format!("{}.0", "0".repeat(64))));
        assert_eq!(read.soft_reboot_capable, None, "as before 1.7");
    }

    #[test]
    fn only_what_a_policy_verified_is_verified() {
        let digest = Digest::of(b"one");
        for (signature, want) in [
            (json!("containerPolicy"), true),
            (json!("insecure"), false),
            (json!({ "ostreeRemote": "fedora" }), false),
            (Value::Null, false),
        ] {
            let mut staged = entry("reg.example/os:1", digest);
            staged["image"]["image"]["signature"] = signature.clone();
            let text =
                status(json!({ "staged": staged, "booted": entry("reg.example/os:0", digest) }));
            assert_eq!(parse(&text).unwrap().deployments.staged_is_verified, want, "{signature}");
        }
    }

    #[test]
    fn only_what_is_staged_is_asked_for_soft_reboots() {
        let digest = Digest::of(b"one");
        for (staged, booted, want) in [(true, false, Some(true)), (false, true, Some(false))] {
            let mut entries =
                [entry("reg.example/os:1", digest), entry("reg.example/os:0", digest)];
            entries[0]["softRebootCapable"] = json!(staged);
            entries[1]["softRebootCapable"] = json!(booted);
            let text = status(json!({ "staged": entries[0], "booted": entries[1] }));
            assert_eq!(parse(&text).unwrap().soft_reboot_capable, want);
        }
    }

    /// Of bootc up to 1.6, which had to wait for ostree's lock.
    #[test]
    fn what_comes_before_the_json_is_left_out() {
        let booted = Digest::of(b"booted");
        let text = status(json!({ "booted": entry("reg.example/os:1", booted) }));
        for before in ["Waiting for sysroot lock...\n", "a\n{b\n", "a { b\n"] {
            let read = parse(&format!("{before}{text}"));
            if before.contains("\n{") {
                assert!(read.is_err(), "{before:?}");
            } else {
                assert_eq!(read.unwrap().deployments.booted_digest(), Some(booted), "{before:?}");
            }
        }
    }

    #[test]
    fn next_boot_is_a_rollback_but_never_locked() {
        let [booted, staged, before] = [b"booted" as &[u8], b"staged", b"before"].map(Digest::of);
        for (what, has_staged, download_only, queued, want_staged, want_queued) in [
            ("staged", true, false, false, Some(staged), false),
            ("staged, and locked", true, true, false, None, false),
            ("a rollback", false, false, true, None, true),
            ("a rollback, and staged", true, false, true, Some(staged), false),
            ("a rollback, and locked", true, true, true, None, true),
        ] {
            let mut entry_staged = entry("reg.example/os:2", staged);
            entry_staged["downloadOnly"] = json!(download_only);
            let text = status(json!({
                "staged": has_staged.then_some(entry_staged),
                "booted": entry("reg.example/os:1", booted),
                "rollback": entry("reg.example/os:0", before),
                "rollbackQueued": queued,
            }));
            let found = parse(&text).unwrap().deployments;
            assert_eq!(
                (found.staged_digest(), found.rollback_queued),
                (want_staged, want_queued),
                "{what}"
            );
        }
    }

    #[test]
    fn machines_without_images_or_with_layers_are_read() {
        let none = parse(&status(json!({ "staged": null, "booted": null, "rollback": null })));
        assert_eq!(none.unwrap().deployments, Deployments::default());
        let layered = json!({ "booted": { "image": null, "incompatible": true, "pinned": false } });
        let layered = parse(&status(layered)).unwrap();
        assert!(!layered.deployments.local_changes.is_empty() && !layered.read_only);
        let live =
            json!({ "booted": entry("reg.example/os:1", Digest::of(b"live")), "readOnly": true });
        assert!(parse(&status(live)).unwrap().read_only);
        assert_eq!(layered.deployments.booted.unwrap().digest, None);
    }

    #[test]
    fn another_version_and_no_json_are_errors() {
        for (text, cause) in [
            (status(json!({})).replace("bootc/v1", "bootc/v1alpha1"), "v1alpha1"),
            ("no deployments".to_owned(), "not a status"),
            ("[]".to_owned(), "not a status"),
            (status(json!({ "booted": "sha256:0" })), "not a status"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(cause), "{text}: {error}");
        }
    }
}
