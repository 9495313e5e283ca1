//! The pull secret comes as the unit of the image brings it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use mosb_plan::plan::live::PULL_SECRET;

use super::machine::*;
use crate::live::live_plan::Planned;

/// The list of an image, its copies, and the one for machines that are installed from it.
fn var_files(lines: &[&str], contents: &[&str]) -> Vec<(String, String)> {
    let folder = "usr/lib/mosb/var-files";
    let list = lines.iter().flat_map(|line| [line, "\n"]).collect();
    let contents = contents.iter().map(|content| {
        (format!("{folder}/content/{}", digest(content).hex()), (*content).to_owned())
    });
    let factory = format!("usr/share/factory{PULL_SECRET}");
    let secret = lines.iter().find(|line| line.ends_with(PULL_SECRET));
    let secret = secret.map(|line| (factory, (*line).to_owned()));
    [(format!("{folder}/list"), list)].into_iter().chain(contents).chain(secret).collect()
}

#[test]
fn pull_secrets_are_brought_like_the_unit_does() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().metadata().unwrap();
    let line = |content: &str, path: &str| {
        format!("f 600 {} {} {} {path}", own.uid(), own.gid(), digest(content).hex())
    };
    let (old, new) = (line("old", PULL_SECRET), line("new", PULL_SECRET));
    let other = line("other", "/var/opt/other");
    let later = line("later", "/var/opt/other");
    for (what, before, after, machine_has, want) in [
        ("changed", vec![&*old], vec![&*new], Some("old"), Ok(Some("new"))),
        ("as wanted", vec![&*old], vec![&*new], Some("new"), Ok(Some("new"))),
        ("edited", vec![&*old], vec![&*new], Some("mine"), Ok(Some("mine"))),
        ("absent", vec![&*old], vec![&*new], None, Ok(Some("new"))),
        ("added", vec![&*other], vec![&*new, &*other], None, Ok(Some("new"))),
        ("added, and there", vec![&*other], vec![&*new, &*other], Some("mine"), Ok(Some("mine"))),
        ("removed", vec![&*old, &*other], vec![&*other], Some("old"), Ok(None)),
        ("removed, and edited", vec![&*old, &*other], vec![&*other], Some("x"), Ok(Some("x"))),
        ("another one", vec![&*old, &*other], vec![&*new, &*later], Some("old"), Err(())),
    ] {
        let contents = ["old", "new", "other", "later"];
        let (one, two) = (var_files(&before, &contents), var_files(&after, &contents));
        let one: Vec<(&str, &str)> = one.iter().map(|(a, b)| (&**a, &**b)).collect();
        let two: Vec<(&str, &str)> = two.iter().map(|(a, b)| (&**a, &**b)).collect();
        let machine = Fixture::new(&one, &two);
        let secret = machine.at(&PULL_SECRET[1..]);
        if let Some(content) = machine_has {
            put(&secret, content);
            chmod(&secret, 0o600);
        }
        let record: String = before.iter().flat_map(|line| [line, "\n"]).collect();
        put(&machine.at("var/lib/mosb/var-files"), &record);
        let planned = machine.plan(BOOT);
        let Ok(content) = want else {
            assert!(matches!(planned, Planned::Reboot(_)), "{what}");
            continue;
        };
        assert_eq!(machine.finish(&live(planned)), Some(false), "{what}");
        assert_eq!(fs::read_to_string(&secret).ok().as_deref(), content, "{what}");
        assert_eq!(machine.apply(BOOT), None, "{what}");
        let is_undone = !what.contains("edited") && !what.contains("there");
        let live = machine.record().unwrap();
        assert_eq!(
            (live.has_all(digest("b"), BOOT), live.has_all(digest("b"), LATER)),
            (true, !is_undone),
            "{what}"
        );
        if content == Some("new") {
            assert_eq!(secret.metadata().unwrap().mode() & 0o7777, 0o600, "{what}");
            let record = fs::read_to_string(machine.at("var/lib/mosb/var-files")).unwrap();
            assert!(machine_has == Some("new") || record.contains(&new), "{what}: {record}");
        }
        let text = format!("{:?}", machine.live(BOOT));
        assert!(!text.contains("\"new\"") && !text.contains("\"old\""), "{what}");
        // Another boot of the image before brings its own; then it is written again.
        if what == "changed" {
            put(&secret, "old");
            chmod(&secret, 0o600);
            assert_eq!(machine.apply(LATER), Some(false), "{what}");
            assert_eq!(fs::read_to_string(&secret).unwrap(), "new");
            assert_eq!(machine.restore(), Some(false));
            assert_eq!(fs::read_to_string(&secret).unwrap(), "old");
            assert_eq!(machine.record(), None);
        }
    }
}
