//! The files of the staged image come, and go again.

use super::machine::*;
use crate::live::live_plan::LivePlan;

#[test]
fn files_of_the_staged_image_come_and_go() {
    let machine = Fixture::new(BEFORE, AFTER);
    let before = machine.etc();
    assert_eq!(machine.restore(), None, "nothing was written");
    assert_eq!(machine.apply(BOOT), Some(true));
    assert_eq!(machine.etc(), machine.image_etc("b"));
    assert!(machine.record().unwrap().has_all(digest("b"), LATER));
    // Again, also after a power cut: there is nothing to do, and nothing is reloaded.
    assert_eq!(machine.apply(BOOT), None);
    assert_eq!(machine.apply(LATER), None);
    // What it hides of its image is not drift.
    let drift = crate::drift::of_root(&machine.root).unwrap();
    assert_eq!(drift.paths, []);
    assert_eq!(machine.restore(), Some(true));
    assert_eq!(machine.etc(), before);
    assert_eq!(machine.record(), None);
    assert_eq!(machine.restore(), None);
}

/// The machine booted the first image of both.
#[test]
fn one_image_after_the_other_comes_live() {
    let machine = Fixture::new(BEFORE, AFTER);
    let before = machine.etc();
    let third = [
        ("usr/etc/containers/registries.conf", "newer"),
        ("usr/etc/containers/policy.json", "{}"),
        ("usr/etc/pki/ca-trust/extracted/bundle.pem", "one"),
        ("usr/etc/machine-config-daemon/currentconfig", "config a"),
    ];
    machine.deploy("c", &third, Some("a"));
    machine.apply(BOOT);
    let plan = LivePlan::to_staged(&machine.root, digest("c"), BOOT).unwrap();
    assert_eq!(machine.finish(&live(plan)), Some(true));
    assert_eq!(machine.etc(), machine.image_etc("c"));
    let record = machine.record().unwrap();
    assert!(record.has_all(digest("c"), BOOT) && !record.has_all(digest("b"), BOOT));
    assert_eq!(record.files.keys().collect::<Vec<_>>(), [REGISTRIES]);
    assert_eq!(machine.apply(BOOT), Some(true), "back to the second one");
    assert_eq!(machine.etc(), machine.image_etc("b"));
    machine.restore();
    assert_eq!(machine.etc(), before);
}

#[test]
fn crio_reloads_only_for_files_read_once() {
    let cert: Tree<'_> = &[("usr/etc/containers/certs.d/reg:5000/ca.crt", "cert")];
    let machine = Fixture::new(&[], cert);
    assert_eq!(machine.apply(BOOT), Some(false));
    assert_eq!(machine.etc(), machine.image_etc("b"));
    assert_eq!(machine.restore(), Some(false));
    assert_eq!(machine.etc(), machine.image_etc("a"));
}

#[test]
fn the_next_image_gets_no_older_files() {
    let machine = Fixture::new(BEFORE, AFTER);
    machine.apply(BOOT);
    let record = machine.record().unwrap();
    let paths: Vec<&str> = record.files.keys().map(String::as_str).collect();
    let folder = "containers/certs.d/reg:5000";
    let bundle = "pki/ca-trust/extracted/bundle.pem";
    assert_eq!(paths, [folder, CERT, POLICY, REGISTRIES, bundle, ANCHOR]);
    assert_eq!(record.files[POLICY], ["-"]);
    for (path, states) in &record.files {
        assert!(!states[0].contains(char::is_control), "{path}");
    }
}
