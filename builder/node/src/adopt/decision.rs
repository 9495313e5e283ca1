//! Decides what becomes of a path that a config wrote. Pure: what the config left, what the machine
//! has and what its image has are arguments.

use std::collections::BTreeSet;

use mosb_image::overlay::Meta;
use mosb_plan::plan::WrittenEntry;

use crate::drift::Difference;
use crate::file_tree::EntryState;

/// What becomes of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// The machine has what its image has, so the next image changes it.
    Unchanged,
    /// The next image brings its own.
    Adopt,
    /// It is not what the config wrote. How it differs; at least one.
    Keep(Vec<Difference>),
}

/// What becomes of a path: only what the machine has exactly as the config left it is adopted.
pub(super) fn decide(
    written: &WrittenEntry,
    machine: Option<&EntryState>,
    image: Option<&EntryState>,
) -> Decision {
    if machine == image {
        return Decision::Unchanged;
    }
    let differences = differences(written, machine);
    if !differences.is_empty() {
        return Decision::Keep(differences);
    }
    adopt_unless_types_differ(machine, image)
}

/// What becomes of the file that the config was read from.
pub(super) fn of_record(machine: Option<&EntryState>, image: Option<&EntryState>) -> Decision {
    if machine == image { Decision::Unchanged } else { adopt_unless_types_differ(machine, image) }
}

/// A directory and something else are not exchanged: what is below it was not compared.
fn adopt_unless_types_differ(machine: Option<&EntryState>, image: Option<&EntryState>) -> Decision {
    let is_folder = |state: &EntryState| matches!(state, EntryState::Directory { .. });
    match (machine, image) {
        (Some(machine), Some(image)) if is_folder(machine) != is_folder(image) => {
            Decision::Keep(vec![Difference::Type])
        }
        _ => Decision::Adopt,
    }
}

fn differences(written: &WrittenEntry, machine: Option<&EntryState>) -> Vec<Difference> {
    let Some(machine) = machine else {
        return match written {
            WrittenEntry::Removed => Vec::new(),
            _ => vec![Difference::Removed],
        };
    };
    match (written, machine) {
        (
            WrittenEntry::File { meta: wanted, content: text, unordered },
            EntryState::File { meta, content },
        ) => {
            let is_same = content.as_ref().is_some_and(|content| {
                content == text || (*unordered && lines(content) == lines(text))
            });
            let mut differences = of_meta(wanted, meta);
            if !is_same {
                differences.insert(0, Difference::Content);
            }
            differences
        }
        (WrittenEntry::Directory { meta: wanted }, EntryState::Directory { meta }) => {
            of_meta(wanted, meta)
        }
        (WrittenEntry::Link { meta, target: wanted }, EntryState::Link { uid, gid, target }) => {
            let mut differences = Vec::new();
            if wanted.as_bytes() != target {
                differences.push(Difference::Target);
            }
            if (meta.uid, meta.gid) != (*uid, *gid) {
                differences.push(Difference::Owner);
            }
            differences
        }
        _ => vec![Difference::Type],
    }
}

fn of_meta(wanted: &Meta, found: &Meta) -> Vec<Difference> {
    let mut differences = Vec::new();
    if wanted.mode != found.mode {
        differences.push(Difference::Mode);
    }
    if (wanted.uid, wanted.gid) != (found.uid, found.gid) {
        differences.push(Difference::Owner);
    }
    differences
}

fn lines(text: &[u8]) -> BTreeSet<&[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Difference::{Content, Mode, Owner, Removed, Target, Type};
    use mosb_image::overlay::Meta;

    const META: Meta = Meta { mode: 0o644, uid: 0, gid: 0 };

    fn file(content: &str) -> Option<EntryState> {
        Some(EntryState::File { meta: META, content: Some(content.as_bytes().to_vec()) })
    }

    fn link(target: &str) -> Option<EntryState> {
        Some(EntryState::Link { uid: 0, gid: 0, target: target.as_bytes().to_vec() })
    }

    fn folder(mode: u32) -> Option<EntryState> {
        Some(EntryState::Directory { meta: Meta { mode, ..META } })
    }

    #[test]
    fn only_what_the_config_left_is_adopted() {
        let wrote = |content: &'static str, unordered| WrittenEntry::File {
            meta: META,
            content: content.into(),
            unordered,
        };
        let linked = |target: &str| WrittenEntry::Link { meta: META, target: target.to_owned() };
        let made = |mode| WrittenEntry::Directory { meta: Meta { mode, ..META } };
        let with = |meta| Some(EntryState::File { meta, content: Some(b"a".to_vec()) });
        let keep = |differences: &[Difference]| Decision::Keep(differences.to_vec());
        let large = Some(EntryState::File { meta: META, content: None });
        for (what, written, machine, image, want) in [
            ("as written, not in the image", wrote("a", false), file("a"), None, Decision::Adopt),
            (
                "as written, another in the image",
                wrote("a", false),
                file("a"),
                file("b"),
                Decision::Adopt,
            ),
            ("as in the image", wrote("a", false), file("b"), file("b"), Decision::Unchanged),
            (
                "as written, and so in the image",
                wrote("a", false),
                file("a"),
                file("a"),
                Decision::Unchanged,
            ),
            ("edited", wrote("a", false), file("x"), file("b"), keep(&[Content])),
            (
                "another mode",
                wrote("a", false),
                with(Meta { mode: 0o600, ..META }),
                None,
                keep(&[Mode]),
            ),
            (
                "another owner",
                wrote("a", false),
                with(Meta { uid: 7, ..META }),
                None,
                keep(&[Owner]),
            ),
            ("a person removed it", wrote("a", false), None, file("b"), keep(&[Removed])),
            ("removed, and not in the image", wrote("a", false), None, None, Decision::Unchanged),
            ("a link in its place", wrote("a", false), link("a"), None, keep(&[Type])),
            (
                "a directory in the image",
                wrote("a", false),
                file("a"),
                folder(0o755),
                keep(&[Type]),
            ),
            ("a large file", wrote("a", false), large, None, keep(&[Content])),
            (
                "lines in another order",
                wrote("a\nb\n", true),
                file("b\na\n"),
                None,
                Decision::Adopt,
            ),
            ("order matters", wrote("a\nb\n", false), file("b\na\n"), None, keep(&[Content])),
            ("one more line", wrote("a\nb\n", true), file("b\na\nc\n"), None, keep(&[Content])),
            ("a link", linked("x"), link("x"), None, Decision::Adopt),
            ("a link to elsewhere", linked("x"), link("y"), None, keep(&[Target])),
            ("disabled", WrittenEntry::Removed, None, link("x"), Decision::Adopt),
            ("enabled again", WrittenEntry::Removed, link("y"), link("x"), keep(&[Type])),
            (
                "enabled as in the image",
                WrittenEntry::Removed,
                link("x"),
                link("x"),
                Decision::Unchanged,
            ),
            ("a directory", made(0o700), folder(0o700), None, Decision::Adopt),
            ("its mode", made(0o700), folder(0o700), folder(0o755), Decision::Adopt),
            ("another mode of it", made(0o700), folder(0o711), None, keep(&[Mode])),
        ] {
            assert_eq!(decide(&written, machine.as_ref(), image.as_ref()), want, "{what}");
        }
    }

    #[test]
    fn the_configs_record_is_adopted_unchanged() {
        for (what, machine, image, want) in [
            ("not in the image", file("a"), None, Decision::Adopt),
            ("another in the image", file("a"), file("b"), Decision::Adopt),
            ("that of the image", file("a"), file("a"), Decision::Unchanged),
        ] {
            assert_eq!(of_record(machine.as_ref(), image.as_ref()), want, "{what}");
        }
    }
}
