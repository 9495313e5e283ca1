//! Images that differ in anything else need a reboot.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::machine::*;
use crate::live::live_plan::{LivePlan, Planned};

#[test]
fn images_that_differ_elsewhere_need_a_reboot() {
    let cases: [(&str, Tree<'_>, &str); 12] = [
        ("another file of /etc", &[("usr/etc/other", "x")], "/usr/etc/other"),
        ("a file of the image", &[("usr/bin/other", "x")], "/usr/bin/other"),
        ("other bytes of the same length", &[("usr/bin/program", "BYTES")], "/usr/bin/program"),
        ("an empty directory", &[("usr/lib/empty/", "")], "/usr/lib"),
        ("below such a directory", &[("usr/etc/containers/a/b", "x")], "/usr/etc/containers/a"),
        (
            "a directory of registries",
            &[("usr/etc/containers/registries.d/a/b", "x")],
            "/usr/etc/containers/registries.d/a/b",
        ),
        ("outside of /usr", &[("opt/x", "x")], "/opt"),
        (
            "a line break",
            &[("usr/etc/containers/certs.d/a\nb", "x")],
            "/usr/etc/containers/certs.d/a\\nb",
        ),
        (
            "a file in place of a directory",
            &[("usr/etc/containers/registries.conf/x", "x")],
            "/usr/etc/containers/registries.conf/x",
        ),
        ("the first file below /var", &[("usr/lib/mosb/var-files/list", "x")], "/usr/lib"),
        ("no file at all", &[], ""),
        ("the machine's own", &[("etc/x", "x"), ("var/x", "x")], ""),
    ];
    for (what, added, path) in cases {
        let after: Vec<_> = AFTER
            .iter()
            .filter(|(path, _)| {
                !added.iter().any(|(other, _)| other.starts_with(&format!("{path}/")))
            })
            .chain(added)
            .copied()
            .collect();
        let both: Vec<_> = BEFORE.to_vec();
        let machine = Fixture::new(&both, &after);
        let before = machine.state("");
        match machine.plan(BOOT) {
            Planned::Reboot(cause) => {
                assert_eq!(cause, format!("the images differ in {path}"), "{what}")
            }
            Planned::Live(_) => assert_eq!(path, "", "{what}"),
        }
        assert_eq!(machine.state(""), before, "{what}");
    }
}

#[test]
fn modes_attributes_and_types_count() {
    type Change = fn(&Path);
    let cases: [(&str, Change, Option<&str>); 5] = [
        ("a mode", |root| chmod(&root.join("usr/etc/motd"), 0o600), Some("/usr/etc/motd")),
        ("a mode of a directory", |root| chmod(&root.join("usr/bin"), 0o700), Some("/usr/bin")),
        (
            "a mode of a live file",
            |root| chmod(&root.join("usr/etc").join(REGISTRIES), 0o600),
            None,
        ),
        (
            "a link in place of a live file",
            |root| {
                fs::remove_file(root.join("usr/etc").join(REGISTRIES)).unwrap();
                symlink("policy.json", root.join("usr/etc").join(REGISTRIES)).unwrap();
            },
            None,
        ),
        (
            "a pipe",
            |root| {
                let path = root.join("usr/etc").join(POLICY);
                drop(fs::remove_file(&path));
                let made = std::process::Command::new("mkfifo").arg(path).status();
                assert!(made.unwrap().success());
            },
            Some(""),
        ),
    ];
    for (what, change, path) in cases {
        let machine = Fixture::new(BEFORE, AFTER);
        let staged = machine.at(&format!("{DEPLOYMENTS}/{}", name("b")));
        // Not the hard link of the booted one.
        let motd = staged.join("usr/etc/motd");
        let content = fs::read_to_string(&motd).unwrap();
        fs::remove_file(&motd).unwrap();
        put(&motd, &content);
        change(&staged);
        match (machine.plan(BOOT), path) {
            (Planned::Reboot(cause), Some(path)) => {
                assert!(cause.contains(path), "{what}: {cause}")
            }
            (Planned::Live(plan), None) => {
                machine.finish(&plan);
                assert_eq!(machine.etc(), machine.image_etc("b"), "{what}");
                machine.restore();
                assert_eq!(machine.etc(), machine.image_etc("a"), "{what}");
            }
            (planned, _) => panic!("{what}: {planned:?}"),
        }
    }
}

#[test]
fn uncertain_staged_deployments_need_a_reboot() {
    let machine = Fixture::new(BEFORE, AFTER);
    let other = LivePlan::to_staged(&machine.root, digest("c"), BOOT).unwrap();
    assert!(matches!(other, Planned::Reboot(_)), "{other:?}");
    // Another tree of the same image, such as one with packages of the machine's own.
    let origin = format!("{DEPLOYMENTS}/{}.origin", name("b"));
    let second = format!("{DEPLOYMENTS}/{}", name("c"));
    put(&machine.at(&format!("{second}/usr/")), "");
    fs::copy(machine.at(&origin), machine.at(&format!("{second}.origin"))).unwrap();
    assert!(matches!(machine.plan(BOOT), Planned::Reboot(_)));
    // An `/etc` in memory.
    fs::remove_dir_all(machine.at(&second)).unwrap();
    fs::remove_file(machine.at("etc")).unwrap();
    put(&machine.at("etc/"), "");
    let planned = machine.plan(BOOT);
    assert!(matches!(&planned, Planned::Reboot(cause) if cause.contains("/etc")), "{planned:?}");
    assert_eq!(machine.restore(), None);
}
