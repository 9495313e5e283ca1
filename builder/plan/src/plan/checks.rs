//! What is checked before a build. By hand, in the cluster and in a build pod, the same list holds: all of
//! them plan with a [`Draft`](super::Draft). Pure.
//!
//! Two things are checked elsewhere: what only a cluster knows, by its controller, and which image a
//! tag names now, by who pushes.

use mosb_image::signature_policy::PolicyError;
use mosb_image::tree::{BaseTree, Entry, Kind};
use mosb_types::{Diagnostic, Finding};
use serde_json::Value;

use super::base::{Base, MODULES, SEALED, is_root};
use super::build_plan::BuildRequest;
use super::method::{MethodChoice, Reason};
use super::{Error, machine_policy, packages};
use mosb_api::labels;

/// What is known when a build is checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub request: &'a BuildRequest,
    /// Why programs must run, as far as it is known.
    pub reasons: &'a [Reason],
    /// The tree of the base, or of the prepared base; none until it was read.
    pub tree: Option<&'a BaseTree>,
    /// Instructions of the administrator may run after the config is written.
    pub may_have_last: bool,
}

/// What makes a build fail, or its image useless.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
#[non_exhaustive]
pub enum CheckError {
    /// It was built from a rendered config itself.
    #[error(
        "{image} was itself built from {config}; give the plain OS image as base, or --on-top to build upon it"
    )]
    #[diagnostic(code = "base-already-built")]
    AlreadyBuilt {
        image: String,
        /// The rendered config in its label.
        config: String,
    },
    /// `--method direct`, and something must be run.
    #[error("{config} can't be built directly: {}; leave out --method direct to build it with buildah", .reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("; "))]
    #[diagnostic(code = "not-direct", findings = reasons.iter().map(Reason::finding).collect())]
    NotDirect { config: String, reasons: Vec<Reason> },
    /// buildah compares the two when it writes an image.
    #[error(
        "{image}: its config has {entries} entries of history that made a layer, and {layers} layers, so buildah can't build on it; build the base anew, or without a history"
    )]
    #[diagnostic(code = "base-not-buildable")]
    History { image: String, entries: usize, layers: usize },
    /// buildah runs them, and a direct build does not.
    #[error(
        "{image}: its config has ONBUILD instructions ({first}), which buildah would run; take a base without them"
    )]
    #[diagnostic(code = "base-not-buildable")]
    OnBuild { image: String, first: String },
    /// The steps of mosb run as this user.
    #[error(
        "{image}: its config has the user {user:?}, and the steps of a build with buildah must run as root; take a base with USER root"
    )]
    #[diagnostic(code = "base-not-buildable")]
    User { image: String, user: String },
    /// Machines with the config could pull neither this image nor the next one.
    #[error(
        "{config}: {scope:?} of its /etc/containers/policy.json rejects {repo}, so machines with this config could not pull the image, or the next one; allow the repository there, or push to another one"
    )]
    #[diagnostic(code = "machines-reject")]
    MachinesReject { config: String, repo: String, scope: String },
    /// Machines with the config could pull nothing.
    #[error("{config}: /etc/containers/policy.json: {source}; correct the file")]
    #[diagnostic(code = "bad-signature-policy")]
    MachinePolicy { config: String, source: PolicyError },
    /// Its kernel has the digest of its file system, so that no machine boots it with another layer.
    #[error(
        "{image}: it has {sign}, as sealed images do: that pins the file system, so machines don't boot it with any layer on top; take the base that it was sealed from, or seal the image again (bootc container ukify) in the last part of a Containerfile (FROM configs)"
    )]
    #[diagnostic(code = "sealed-base")]
    Sealed {
        image: String,
        /// The unified kernel, or the label.
        sign: String,
    },
}

type Check = fn(Facts<'_>) -> Result<(), Error>;

/// Each check, and whether the last part of a Containerfile may correct what it finds, which is then a
/// warning.
const CHECKS: [(Check, bool); 5] = [
    (plain_base, false),
    (existing_packages, false),
    (permitted_method, false),
    (buildable_with_buildah, false),
    (unsealed, true),
];

/// Makes all checks. Returns warnings.
///
/// # Errors
/// The first one that fails.
pub(super) fn check(facts: Facts<'_>) -> Result<Vec<Finding>, Error> {
    let mut warnings = Vec::new();
    for (check, is_correctable) in CHECKS {
        match check(facts) {
            Err(error) if is_correctable && facts.may_have_last => {
                warnings.push(Finding::new(error.code(), error.to_string()));
            }
            checked => checked?,
        }
    }
    warnings.extend(machine_policy::check(facts.request)?);
    Ok(warnings)
}

fn plain_base(facts: Facts<'_>) -> Result<(), Error> {
    let base = &facts.request.base;
    match base.config.labels.get(labels::IMAGE_MACHINE_CONFIG) {
        Some(config) if !facts.request.on_top => {
            let image = base.image.clone();
            Err(CheckError::AlreadyBuilt { image, config: config.clone() }.into())
        }
        Some(_) | None => Ok(()),
    }
}

fn existing_packages(facts: Facts<'_>) -> Result<(), Error> {
    Ok(packages::check(facts.request)?)
}

/// What must be run may be.
fn permitted_method(Facts { request, reasons, .. }: Facts<'_>) -> Result<(), Error> {
    if request.method == MethodChoice::Direct && !reasons.is_empty() {
        let config = request.config.name().to_string();
        return Err(CheckError::NotDirect { config, reasons: reasons.to_vec() }.into());
    }
    Ok(())
}

/// A direct build does not care.
fn buildable_with_buildah(facts: Facts<'_>) -> Result<(), Error> {
    if facts.reasons.is_empty() {
        return Ok(());
    }
    Ok(buildable_base(&facts.request.base)?)
}

/// Checks what buildah does with the config.
fn buildable_base(base: &Base) -> Result<(), CheckError> {
    let image = || base.image.clone();
    let raw = &base.config.raw;
    let history = raw.get("history").and_then(Value::as_array).map(Vec::as_slice);
    let history = history.unwrap_or_default();
    let is_layer = |entry: &&Value| entry["empty_layer"] != Value::Bool(true);
    let (entries, layers) = (history.iter().filter(is_layer).count(), base.config.diff_ids.len());
    if !history.is_empty() && entries != layers {
        return Err(CheckError::History { image: image(), entries, layers });
    }
    let onbuild = raw.pointer("/config/OnBuild").and_then(Value::as_array);
    if let Some(first) = onbuild.and_then(|list| list.first()) {
        let first = first.as_str().unwrap_or_default().chars().take(100).collect();
        return Err(CheckError::OnBuild { image: image(), first });
    }
    let user = raw.pointer("/config/User").and_then(Value::as_str).unwrap_or_default();
    if !is_root(user) {
        return Err(CheckError::User { image: image(), user: user.to_owned() });
    }
    Ok(())
}

/// Machines boot it with a layer on top. As bootc and image-builder do, an image with a unified kernel
/// counts as sealed. Before the tree is known, its label counts.
fn unsealed(facts: Facts<'_>) -> Result<(), Error> {
    let base = &facts.request.base;
    let sign = match facts.tree {
        Some(tree) => unified_kernel(tree).map(|path| format!("a unified kernel, /{path}")),
        None => base.is_said_to_be_sealed().then(|| format!("the label {SEALED}")),
    };
    match sign {
        Some(sign) => Err(CheckError::Sealed { image: base.image.clone(), sign }.into()),
        None => Ok(()),
    }
}

/// A unified kernel, where `bootc container ukify` and kernel-install put it.
pub(crate) fn unified_kernel(tree: &BaseTree) -> Option<String> {
    let kernels = tree.children(MODULES).into_iter();
    let kernels = kernels.map(|(name, _)| format!("{MODULES}/{}", String::from_utf8_lossy(name)));
    kernels.chain(["boot/EFI/Linux".to_owned()]).find_map(|directory| {
        let mut files = tree.children(&directory).into_iter();
        let is_unified = |(name, entry): &(&[u8], Entry<'_>)| {
            name.ends_with(b".efi") && entry.kind == Kind::File
        };
        let (name, _) = files.find(is_unified)?;
        Some(format!("{directory}/{}", String::from_utf8_lossy(name)))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mosb_image::tree::OwnedEntry;
    use mosb_image::{DiffId, Digest};
    use serde_json::json;

    use super::*;
    use crate::plan::BaseName;

    #[test]
    fn buildah_needs_root_and_a_history_that_fits() {
        let layer = json!({ "created_by": "a" });
        let empty = json!({ "created_by": "a", "empty_layer": true });
        for (what, config, history, want) in [
            ("nothing", json!({}), json!(null), None),
            ("no history", json!({}), json!([]), None),
            ("its history", json!({}), json!([empty, layer, empty]), None),
            ("a longer history", json!({}), json!([layer, layer]), Some("2 entries")),
            ("empty layers only", json!({}), json!([empty]), Some("0 entries")),
            ("root", json!({ "User": "root" }), json!(null), None),
            ("root with a group", json!({ "User": "0:7" }), json!(null), None),
            ("another user", json!({ "User": "core" }), json!(null), Some("core")),
            ("a number", json!({ "User": "65532:0" }), json!(null), Some("65532")),
            ("no trigger", json!({ "OnBuild": null }), json!(null), None),
            ("a trigger", json!({ "OnBuild": ["COPY a b"] }), json!(null), Some("COPY a b")),
        ] {
            let config = json!({
                "os": "linux", "architecture": "amd64", "config": config, "history": history,
                "rootfs": { "diff_ids": [DiffId::of(b"a")] },
            });
            let base = Base::new(
                BaseName::from_layout(Digest::of(b"a")),
                "oci:a".to_owned(),
                None,
                br#"{ "layers": [{}] }"#,
                config.to_string().as_bytes(),
            );
            let refused = buildable_base(&base.unwrap()).err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), want.is_some(), "{what}: {refused:?}");
            assert!(refused.unwrap_or_default().contains(want.unwrap_or_default()), "{what}");
        }
    }

    #[test]
    fn a_unified_kernel_seals_a_base() {
        for (what, files, want) in [
            ("a kernel and its initramfs", &["usr/lib/modules/6.1/vmlinuz"][..], None),
            ("a boot loader", &["usr/lib/systemd/boot/efi/systemd-bootx64.efi"], None),
            ("in /boot", &["boot/EFI/Linux/6.1.efi"], Some("boot/EFI/Linux/6.1.efi")),
            (
                "beside the modules",
                &["usr/lib/modules/6.1/vmlinuz", "usr/lib/modules/6.2/6.2.efi"],
                Some("usr/lib/modules/6.2/6.2.efi"),
            ),
        ] {
            let mut entries = BTreeMap::new();
            for file in files {
                for (at, _) in file.match_indices('/') {
                    entries.insert(file.as_bytes()[..at].to_vec(), OwnedEntry::directory(0o755));
                }
                entries.insert(file.as_bytes().to_vec(), OwnedEntry::file(b""));
            }
            let tree = BaseTree::from_entries(entries);
            assert_eq!(unified_kernel(&tree).as_deref(), want, "{what}");
        }
    }
}
