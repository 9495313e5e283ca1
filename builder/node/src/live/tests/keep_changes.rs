//! What a person changed stays.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::machine::*;

#[test]
fn what_a_person_changed_stays() {
    type Edit = fn(&Path);
    let cases: [(&str, Edit, &str); 6] = [
        ("content", |etc| put(&etc.join(REGISTRIES), "mine"), REGISTRIES),
        ("mode", |etc| chmod(&etc.join(REGISTRIES), 0o600), REGISTRIES),
        ("removed", |etc| fs::remove_file(etc.join(REGISTRIES)).unwrap(), REGISTRIES),
        ("before the image", |etc| put(&etc.join(ANCHOR), "mine"), ANCHOR),
        ("a file that goes", |etc| put(&etc.join(POLICY), "mine"), POLICY),
        (
            "a link in place of a directory",
            |etc| {
                fs::remove_dir(etc.join("containers/certs.d")).unwrap();
                symlink("/outside", etc.join("containers/certs.d")).unwrap();
            },
            "containers/certs.d",
        ),
    ];
    for (what, edit, path) in cases {
        let machine = Fixture::new(BEFORE, AFTER);
        put(&machine.at("outside/"), "");
        edit(&machine.at("etc"));
        let is_path = |line: &&String| line.starts_with(path);
        let mine: Vec<String> = machine.etc().iter().filter(is_path).cloned().collect();
        let before = machine.etc();
        machine.apply(BOOT);
        let after = machine.etc();
        assert_eq!(after.iter().filter(is_path).cloned().collect::<Vec<_>>(), mine, "{what}");
        let others = |lines: Vec<String>| -> Vec<String> {
            lines.into_iter().filter(|line| !line.starts_with(path)).collect()
        };
        assert_eq!(others(after), others(machine.image_etc("b")), "{what}");
        assert!(machine.record().unwrap().has_all(digest("b"), BOOT), "{what}");
        assert_eq!(fs::read_dir(machine.at("outside")).unwrap().count(), 0, "{what}");
        machine.restore();
        assert_eq!(machine.etc(), before, "{what}");
    }
}

#[test]
fn what_a_person_changed_after_that_stays_too() {
    let machine = Fixture::new(BEFORE, AFTER);
    machine.apply(BOOT);
    put(&machine.at("etc").join(REGISTRIES), "mine");
    put(&machine.at("etc/containers/certs.d/reg:5000/mine.crt"), "mine");
    assert_eq!(crate::drift::of_root(&machine.root).unwrap().paths.len(), 1);
    machine.restore();
    let etc = machine.etc();
    assert!(etc.contains(&format!("{REGISTRIES} 100644 mine")), "{etc:?}");
    assert!(etc.contains(&"containers/certs.d/reg:5000/mine.crt 100644 mine".to_owned()));
    assert!(!etc.iter().any(|line| line.starts_with(CERT)), "{etc:?}");
}
