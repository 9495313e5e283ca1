//! The users and groups that a build looks up by name in the files of the base.
//!
//! Only what is surely looked up there is decided: a program, a package, a file of the config or one
//! that is copied before may bring the name.

use mosb_image::PinnedRef;
use mosb_image::tree::BaseTree;

use super::Error;
use super::administrator::wrong;
use super::facts::AtLine;
use super::split::{Part, SplitStage, split};
use super::stages::Origin;
use crate::plan::{BuildRequest, number_in};
use mosb_api::KernelType;

/// `USER` and `--chown` of the stages that are built, as far as they look into the base's own files.
///
/// # Errors
/// As [`split`].
pub fn looked_up(request: &BuildRequest) -> Result<Vec<AtLine>, Error> {
    let split = split(request)?;
    if split.stages.is_empty() || split.undecided.is_some() || may_bring_names(request) {
        return Ok(Vec::new());
    }
    // On a prepared part, whose programs ran, the config is written.
    let is_base = |origin: &Origin| match origin {
        Origin::Base => true,
        Origin::Configs => split.prepared.is_none(),
        Origin::Stage(_) | Origin::Extract | Origin::Extensions | Origin::Image(_) => false,
    };
    let mut begins: Vec<bool> = Vec::with_capacity(split.stages.len());
    for SplitStage { stage, .. } in &split.stages {
        begins.push(match stage.from.to {
            Origin::Stage(at) => begins[at] && !split.stages[at].stage.facts.may_bring_names,
            _ => is_base(&stage.from.to),
        });
    }
    let stages = split.stages.iter().zip(begins);
    let stages = stages.filter(|(one, begins)| *begins && one.part != Part::Unused);
    Ok(stages.flat_map(|(one, _)| one.stage.facts.looked_up.clone()).collect())
}

/// Whether the packages or files of the config may bring names.
fn may_bring_names(request: &BuildRequest) -> bool {
    let config = &request.config;
    let text = config.ignition().map(ToString::to_string).unwrap_or_default();
    !config.extensions.is_empty()
        || config.kernel_type != KernelType::Default
        || ["passwd\"", "group\""].iter().any(|end| text.contains(&format!("/{end}")))
}

/// Checks that the base has these users and groups. buildah reads `/etc/passwd` and `/etc/group`
/// alone. Returns those that it surely has.
///
/// # Errors
/// The first that it doesn't have.
pub fn check_names(names: &[AtLine], tree: &BaseTree) -> Result<Vec<AtLine>, Error> {
    let mut decided = Vec::new();
    for name @ AtLine { line, text } in names {
        let mut is_decided = true;
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        for (what, name, file) in [("user", user, "etc/passwd"), ("group", group, "etc/group")] {
            // What the build makes of these is not decided here.
            let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
            let is_number = name.bytes().all(|b| b.is_ascii_digit());
            if is_number {
                continue;
            }
            let Some(file_text) = tree.content(file).filter(|_| is_plain) else {
                is_decided = false;
                continue;
            };
            if number_in(file_text, name).is_none() {
                let problem = format!(
                    "the base's /{file} has no {what} {name}, and buildah looks nowhere else; write the number, or make the {what} in a RUN before"
                );
                return Err(wrong(*line, &problem));
            }
        }
        decided.extend(is_decided.then(|| name.clone()));
    }
    Ok(decided)
}

/// The image with the packages, if some are installed.
pub(super) fn extensions_image(request: &BuildRequest) -> Option<&PinnedRef> {
    request.extensions_image.as_ref().filter(|_| request.config.installs_packages())
}

#[cfg(test)]
mod tests {
    use mosb_image::tree::OwnedEntry;
    use serde_json::json;

    use super::*;
    use crate::containerfile::render::tests::{base, request};

    #[test]
    fn names_that_the_base_lacks_are_refused() {
        let tree = BaseTree::from_entries([
            (b"etc/passwd".to_vec(), OwnedEntry::file(b"root:x:0:0::/:\ncore:x:1000:1000::/:\n")),
            (b"etc/group".to_vec(), OwnedEntry::file(b"root:x:0:\nwheel:x:10:\n")),
            (b"usr/lib/passwd".to_vec(), OwnedEntry::file(b"chrony:x:9:9::/:\n")),
        ]);
        for (text, line) in [
            ("FROM configs\nCOPY --chown=acme <<E /opt/x\nE\n", Some(2)),
            ("FROM configs\nCOPY --chown=chrony <<E /opt/x\nE\n", Some(2)),
            ("FROM configs\nCOPY --chown=core:acme <<E /opt/x\nE\n", Some(2)),
            ("FROM configs\nCOPY --chown=core:wheel <<E /opt/x\nE\n", None),
            ("FROM configs\nCOPY --chown=7:8 <<E /opt/x\nE\n", None),
            ("FROM configs\nCOPY <<E /opt/x\nE\nCOPY --chown=acme <<E /opt/y\nE\n", Some(4)),
            ("FROM configs\nCOPY <<E /etc/passwd\nE\nCOPY --chown=acme <<E /y\nE\n", None),
            ("FROM configs\nRUN useradd acme\nCOPY --chown=acme <<E /y\nE\n", None),
            ("FROM configs\nUSER acme\nRUN true\n", Some(2)),
            ("FROM configs\nUSER core\nRUN true\n", None),
            ("FROM configs\nRUN useradd acme\nUSER acme\nRUN true\n", None),
            // Nothing looks it up in the build.
            ("FROM configs\nUSER acme\n", None),
            ("FROM configs AS a\nRUN useradd acme\nFROM a\nUSER acme\nRUN true\n", None),
            ("FROM configs AS a\nFROM a\nUSER acme\nRUN true\n", Some(3)),
            ("FROM base\nCOPY --chown=acme <<E /opt/x\nE\n", Some(2)),
            ("FROM configs AS unused\nUSER acme\nRUN true\nFROM configs\nRUN true\n", None),
            ("FROM base AS b\nRUN useradd acme\nFROM configs\nUSER acme\nRUN true\n", None),
            (
                "FROM quay.io/a/b AS b\nUSER acme\nRUN true\nFROM configs\nCOPY --from=b /x /x\n",
                None,
            ),
        ] {
            let mut request = request(json!({}), base(true, false));
            request.containerfile = Some(text.to_owned());
            let names = looked_up(&request).unwrap();
            let found = check_names(&names, &tree);
            match (found, line) {
                (Ok(decided), None) => {
                    assert_eq!(decided, names, "{text}");
                    let stages = split(&request).unwrap().stages;
                    let unchecked = |decided: &[AtLine]| -> usize {
                        stages.iter().map(|one| one.unchecked(decided).len()).sum()
                    };
                    let named = names.iter().filter(|name| !name.text.starts_with('7')).count();
                    assert_eq!(unchecked(&[]) - unchecked(&decided), named, "{text}");
                }
                (Err(Error::Administrator { line, .. }), Some(want)) => {
                    assert_eq!(line, want, "{text}");
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        // A package may bring the user.
        let mut request = request(json!({ "extensions": ["acme"] }), base(true, false));
        request.containerfile = Some("FROM configs\nUSER acme\nRUN true\n".to_owned());
        assert_eq!(looked_up(&request).unwrap(), []);
    }
}
