//! Which images bring files below `/var` to machines, and how they are named.

use serde_json::json;

use super::*;
use crate::api::RenderedConfig;
use crate::plan::{Base, BaseName};
use mosb_image::tree::OwnedEntry;

fn request(path: &str, build_on: BuildOn, method: MethodChoice) -> BuildRequest {
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "rendered-worker-0123456789abcdef0123456789abcdef" },
        "spec": { "config": { "ignition": { "version": "3.5.0" },
            "storage": { "files": [{ "path": path, "contents": { "source": "data:,x" } }] } } },
    });
    let image = json!({ "os": "linux", "architecture": "amd64", "config": {},
        "rootfs": { "type": "layers", "diff_ids": [Digest::of(b"layer")] } });
    let image = image.to_string();
    let manifest = json!({ "config": {}, "layers": [{}] }).to_string();
    let name = BaseName::from_layout(Digest::of(manifest.as_bytes()));
    let base =
        Base::new(name, "oci:dir".to_owned(), None, manifest.as_bytes(), image.as_bytes()).unwrap();
    let config = RenderedConfig::from_value(config).unwrap();
    BuildRequest { build_on, method, ..BuildRequest::new(config, base) }
}

fn draft(path: &str, build_on: BuildOn) -> Draft {
    Draft::new(request(path, build_on, MethodChoice::Auto)).unwrap()
}

fn tree() -> BaseTree {
    let entry = |path: &str, entry| (path.as_bytes().to_vec(), entry);
    BaseTree::from_entries([
        entry("var/usrlocal", OwnedEntry::directory(0o755)),
        entry("usr/local", OwnedEntry::symlink("../var/usrlocal")),
        entry("opt", OwnedEntry::directory(0o755)),
        entry("etc", OwnedEntry::directory(0o755)),
    ])
}

const SCRIPT: &str = "/usr/local/bin/x";

#[test]
fn only_what_lies_below_var_makes_another_image() {
    use BuildOn::{EveryConfig, OsChange};
    let names = |path, build_on, format| draft(path, build_on).names_in(format);
    for path in ["/etc/x", "/usr/lib/x"] {
        for format in Format::all() {
            assert_eq!(names(path, EveryConfig, format), names(path, OsChange, format), "{path}");
        }
        assert_eq!(names(path, EveryConfig, Format::V3), names(path, EveryConfig, Format::V2));
    }
    // What an earlier version wrote still has its name.
    for format in Format::OLDER {
        assert_eq!(names(SCRIPT, EveryConfig, format), names(SCRIPT, OsChange, format));
    }
    let (new, old) =
        (names(SCRIPT, EveryConfig, Format::V3), names(SCRIPT, OsChange, Format::CURRENT));
    assert_ne!(new, old);
    assert_eq!(old, names(SCRIPT, OsChange, Format::V2));
}

#[test]
fn a_plan_lists_what_it_adds() {
    for (what, path, build_on, format, method, want) in [
        (
            "a script",
            SCRIPT,
            BuildOn::EveryConfig,
            Format::V3,
            MethodChoice::Auto,
            (&["", "/var/usrlocal/bin/x"][..], 0, "3", 1),
        ),
        (
            "of a Containerfile build, whose base isn't read",
            SCRIPT,
            BuildOn::EveryConfig,
            Format::V3,
            MethodChoice::Containerfile,
            (&["", SCRIPT], 0, "3", 0),
        ),
        (
            "in the format of an earlier version",
            SCRIPT,
            BuildOn::EveryConfig,
            Format::V2,
            MethodChoice::Auto,
            (&[], 1, "2", 0),
        ),
        (
            "where machines apply configs",
            SCRIPT,
            BuildOn::OsChange,
            Format::V3,
            MethodChoice::Auto,
            (&[], 1, "2", 0),
        ),
        (
            "the base has it elsewhere",
            "/opt/x",
            BuildOn::EveryConfig,
            Format::V3,
            MethodChoice::Auto,
            (&[], 0, "3", 0),
        ),
        (
            "nothing below /var",
            "/etc/x",
            BuildOn::EveryConfig,
            Format::V3,
            MethodChoice::Auto,
            (&[], 0, "2", 0),
        ),
    ] {
        let draft = Draft::new(request(path, build_on, method)).unwrap().in_format(format);
        let plan = draft.finish(&tree()).unwrap();
        let added = plan.added.iter().map(|one| one.path.clone().unwrap_or_default());
        let only_installed =
            plan.notes.iter().filter(|note| note.code == "var-at-installation").count();
        let lists = plan.layer.iter().filter(|entry| entry.path().name() == "list").count();
        let format = &*plan.labels[labels::IMAGE_FORMAT];
        let added: Vec<String> = added.collect();
        let got = (&added[..], only_installed, format, lists);
        assert_eq!(
            got,
            (
                &want.0.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>()[..],
                want.1,
                want.2,
                want.3
            ),
            "{what}"
        );
    }
}
