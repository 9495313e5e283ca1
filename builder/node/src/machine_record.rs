//! The machine's record of the target that it has, and of what of it mosb set beside the image: only
//! that is changed or removed by a later target.
//!
//! It is written before something is set, with both the old and the new, and again when all is set.
//! So a command that is killed anywhere leaves nothing that the next one does not know of.

use std::collections::BTreeSet;
use std::fmt;

use mosb_api::rollout::{MachinePart, NodeTarget};
use mosb_image::Digest;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Error;
use crate::host_root::HostRoot;

/// In the machine's own state, which no image replaces.
const FOLDER: &str = "/var/lib/mosb";
const FILE: &str = "/var/lib/mosb/target";
/// How many targets it has. A machine has three or four deployments, and more that are pinned.
const FORMER: usize = 8;
/// The most bytes that are read: some parts.
const LIMIT: u64 = 8 * 1024 * 1024;

/// What mosb brought to the machine, and still has to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MachineRecord {
    /// The target that was completed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<NodeTarget>,
    pub set: SetByMosb,
    /// The targets before, the newest last: their deployments may still be there, and the next one
    /// may be based on theirs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<FormerTarget>,
    /// What is being brought; none once it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingTarget>,
}

/// What mosb may have set.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SetByMosb {
    /// Kernel arguments of targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel_arguments: Vec<String>,
    /// Kernel arguments that were there and were removed; they come back when no target asks for
    /// their removal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed_kernel_arguments: Vec<String>,
    /// Whether the file of SSH keys is that of a target.
    pub ssh_keys: bool,
    /// Password hashes of targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub password_hashes: Vec<String>,
}

/// The kernel arguments of a target that was completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FormerTarget {
    image: Digest,
    #[serde(default)]
    kernel_arguments: Vec<String>,
    #[serde(default)]
    removed_kernel_arguments: Vec<String>,
}

/// A target that is being brought, with its part, so that a report can verify it after the reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingTarget {
    pub target: NodeTarget,
    /// None too if a later version wrote what this one doesn't know. Then nothing is verified.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "part_of_this_version"
    )]
    pub part: Option<MachinePart>,
}

fn part_of_this_version<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<MachinePart>, D::Error> {
    let part = serde_json::Value::deserialize(deserializer)?;
    // The text of the error may quote the file.
    Ok(serde_json::from_value(part).ok())
}

/// Without the password hashes.
impl fmt::Debug for SetByMosb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetByMosb")
            .field("kernel_arguments", &self.kernel_arguments)
            .field("removed_kernel_arguments", &self.removed_kernel_arguments)
            .field("ssh_keys", &self.ssh_keys)
            .field("password_hashes", &self.password_hashes.len())
            .finish()
    }
}

impl MachineRecord {
    /// The record; an empty one if there is none, or one that can't be parsed.
    pub fn read(root: &HostRoot) -> Result<Self, Error> {
        let Some(text) = root.read(FILE, LIMIT)? else { return Ok(Self::default()) };
        Ok(serde_json::from_slice(&text).unwrap_or_else(|error| {
            // The text of the error may quote the file.
            let (line, column) = (error.line(), error.column());
            tracing::warn!(
                "{FILE} is not a record, so it is ignored: line {line}, column {column}"
            );
            Self::default()
        }))
    }

    /// Before the part of a target is set. `removed` are the arguments that it removes from those of
    /// the machine.
    pub fn begun(
        &self,
        target: &NodeTarget,
        part: Option<&MachinePart>,
        removed: &[String],
    ) -> Self {
        let mut set = self.set.clone();
        if let Some(part) = part {
            set = SetByMosb {
                kernel_arguments: union(&set.kernel_arguments, &part.kernel_arguments),
                removed_kernel_arguments: union(&set.removed_kernel_arguments, removed),
                ssh_keys: set.ssh_keys || !part.ssh_authorized_keys.is_empty(),
                password_hashes: union(&set.password_hashes, part.password_hash.as_slice()),
            };
        }
        let pending = Some(PendingTarget { target: target.clone(), part: part.cloned() });
        Self { target: self.target.clone(), set, former: self.former.clone(), pending }
    }

    /// Once the machine has all of a target. Without a part, what was set stays so, for a later target
    /// that has one.
    pub fn completed(&self, target: &NodeTarget, part: Option<&MachinePart>) -> Self {
        let set = part.map_or_else(|| self.set.clone(), |part| self.set_by(part));
        let image = target.image.digest();
        let others = self.former.iter().filter(|former| former.image != image);
        let mut former: Vec<FormerTarget> = others.cloned().collect();
        former.push(FormerTarget {
            image,
            kernel_arguments: set.kernel_arguments.clone(),
            removed_kernel_arguments: set.removed_kernel_arguments.clone(),
        });
        former.drain(..former.len().saturating_sub(FORMER));
        Self { target: Some(target.clone()), set, former, pending: None }
    }

    /// What mosb may have set on the booted deployment and on what is based on it. Somebody may have
    /// gone back to an earlier image, so arguments of each recorded target count; what a target removed
    /// is missing only where its own image is booted.
    pub fn known_of(&self, booted: Option<Digest>) -> SetByMosb {
        let mut known = self.set.clone();
        for former in &self.former {
            known.kernel_arguments = union(&known.kernel_arguments, &former.kernel_arguments);
            if booted == Some(former.image) {
                let removed = &former.removed_kernel_arguments;
                known.removed_kernel_arguments = union(&known.removed_kernel_arguments, removed);
            }
        }
        known
    }

    /// What is set once a machine has a part.
    fn set_by(&self, part: &MachinePart) -> SetByMosb {
        let is_owed = |argument: &&String| {
            part.removed_kernel_arguments.contains(argument)
                || part.kernel_arguments.contains(argument)
        };
        let removed = self.set.removed_kernel_arguments.iter().filter(is_owed);
        SetByMosb {
            kernel_arguments: part.kernel_arguments.clone(),
            removed_kernel_arguments: removed.cloned().collect(),
            ssh_keys: !part.ssh_authorized_keys.is_empty(),
            password_hashes: part.password_hash.iter().cloned().collect(),
        }
    }

    /// What is being brought for a target; none for another target.
    pub fn pending_for(&self, target: &NodeTarget) -> Option<&PendingTarget> {
        self.pending.as_ref().filter(|pending| pending.target == *target)
    }

    /// Writes it to the disk if it differs from `old`.
    pub fn write(&self, root: &HostRoot, old: &Self) -> Result<(), Error> {
        if self == old {
            return Ok(());
        }
        root.make_folder_private(FOLDER)?;
        let text = serde_json::to_vec(self).expect("a record is JSON");
        root.write(FILE, &text, 0o600)
    }
}

/// The first list, and what only the second one has.
fn union(one: &[String], other: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    one.iter().chain(other).filter(|text| seen.insert(*text)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn target(name: &str) -> NodeTarget {
        let image = format!("reg.example/os@{}", Digest::of(name.as_bytes()));
        serde_json::from_value(serde_json::json!({ "image": image })).unwrap()
    }

    fn part(arguments: &[&str], removed: &[&str], hash: Option<&str>) -> MachinePart {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        MachinePart {
            kernel_arguments: texts(arguments),
            removed_kernel_arguments: texts(removed),
            ssh_authorized_keys: Vec::new(),
            password_hash: hash.map(str::to_owned),
        }
    }

    #[test]
    fn pending_targets_are_kept_until_completion() {
        let quiet = ["quiet".to_owned()];
        let one = part(&["a", "b"], &["quiet", "rhgb"], Some("x"));
        let begun = MachineRecord::default().begun(&target("one"), Some(&one), &quiet);
        assert_eq!(begun.target, None);
        let record = begun.completed(&target("one"), Some(&one));
        assert_eq!((record.target.clone(), record.pending.clone()), (Some(target("one")), None));
        assert_eq!(record.set.removed_kernel_arguments, quiet);
        // Killed while it brings two, then another one.
        let (two, three) = (part(&["b", "c"], &[], Some("y")), part(&["d"], &[], None));
        let begun = record.begun(&target("two"), Some(&two), &[]).begun(
            &target("three"),
            Some(&three),
            &[],
        );
        assert_eq!(begun.target, Some(target("one")));
        assert_eq!(begun.set.kernel_arguments, ["a", "b", "c", "d"]);
        assert_eq!(begun.set.password_hashes, ["x", "y"]);
        assert_eq!(begun.set.removed_kernel_arguments, quiet);
        let pending = begun.pending_for(&target("three")).unwrap();
        assert_eq!(pending.part.as_ref(), Some(&three));
        assert_eq!(begun.pending_for(&target("two")), None);
        // The stock image on the way: what was set is still known.
        let stock = begun.begun(&target("stock"), None, &[]);
        assert_eq!(stock.set, begun.set);
        assert_eq!(stock.completed(&target("stock"), None).set, begun.set);
        let done = begun.completed(&target("three"), Some(&three));
        let want = SetByMosb { kernel_arguments: vec!["d".to_owned()], ..SetByMosb::default() };
        assert_eq!(done.set, want);
        // What is set now was there before and is still owed.
        let wants_it = part(&["quiet"], &[], None);
        assert_eq!(
            record.completed(&target("four"), Some(&wants_it)).set.removed_kernel_arguments,
            quiet
        );
    }

    #[test]
    fn arguments_of_each_recorded_target_are_known() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let booted = |name: &str| Some(target(name).image.digest());
        let (one, two) = (part(&["a"], &["quiet"], None), part(&["b"], &[], None));
        let record = MachineRecord::default()
            .begun(&target("one"), Some(&one), &texts(&["quiet"]))
            .completed(&target("one"), Some(&one))
            .begun(&target("two"), Some(&two), &[])
            .completed(&target("two"), Some(&two));
        for (what, booted, arguments, removed) in [
            ("the last target", booted("two"), &["b", "a"][..], &[][..]),
            ("back at the one before", booted("one"), &["b", "a"], &["quiet"]),
            ("another image", booted("other"), &["b", "a"], &[]),
            ("no image", None, &["b", "a"], &[]),
        ] {
            let known = record.known_of(booted);
            assert_eq!(known.kernel_arguments, texts(arguments), "{what}");
            assert_eq!(known.removed_kernel_arguments, texts(removed), "{what}");
        }
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<MachineRecord>(&text).unwrap(), record);
        // The same image counts once, and not more than some.
        let again = record.completed(&target("one"), Some(&two));
        assert_eq!(again.former.len(), 2);
        let many = (0..20).fold(record, |record, number| {
            record.completed(&target(&number.to_string()), Some(&two))
        });
        assert_eq!(many.former.len(), FORMER);
        assert_eq!(many.known_of(None).kernel_arguments, ["b"]);
    }

    #[test]
    fn the_record_is_private_and_printed_without_hashes() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        assert_eq!(MachineRecord::read(&root).unwrap(), MachineRecord::default());
        std::fs::create_dir_all(dir.path().join("var/lib/mosb")).unwrap();
        let mode =
            |path: &str| dir.path().join(path).metadata().unwrap().permissions().mode() & 0o7777;
        let none = MachineRecord::default();
        none.write(&root, &none).unwrap();
        assert!(!root.exists(FILE));
        let record = none.begun(&target("one"), Some(&part(&["a"], &[], Some("$y$hush"))), &[]);
        record.write(&root, &none).unwrap();
        assert_eq!(MachineRecord::read(&root).unwrap(), record);
        assert_eq!((mode("var/lib/mosb"), mode("var/lib/mosb/target")), (0o700, 0o600));
        assert!(!format!("{record:?}").contains("hush"));
        for text in ["{", "[]", r#"{"target":"$y$hush"}"#] {
            root.write(FILE, text.as_bytes(), 0o600).unwrap();
            assert_eq!(MachineRecord::read(&root).unwrap(), none, "{text}");
        }
        // What a later version wrote.
        let target = |name: &str| {
            let mut target = serde_json::to_value(target(name)).unwrap();
            target["later"] = 1.into();
            target
        };
        let text = serde_json::json!({
            "later": 1, "target": target("one"), "set": { "kernelArguments": ["a"], "later": 1 },
            "pending": { "target": target("two"), "part": { "later": 1 }, "later": 1 },
        });
        root.write(FILE, text.to_string().as_bytes(), 0o600).unwrap();
        let later = MachineRecord::read(&root).unwrap();
        assert_eq!(later.target, Some(self::target("one")));
        assert_eq!(later.set.kernel_arguments, ["a"]);
        assert_eq!(later.pending_for(&self::target("two")).unwrap().part, None);
    }
}
