//! What has no prepared base.

use super::*;

#[test]
fn need_of_whole_config_prevents_prepared_base() {
    let none: Change = |given| {
        given.spec = json!({ "config": given.spec["config"] });
        storage(given, "files").remove(0);
        storage(given, "links").clear();
        given.bundle = None;
        given.own = None;
    };
    let only_last = |given: &mut Given| {
        none(given);
        given.last = OwnLast::OnConfigs;
    };
    let no_packages: Change = |given| given.spec = json!({ "config": given.spec["config"] });
    let file_at = |path: &str| {
        let mut given = given();
        storage(&mut given, "files").push(file(path, "x"));
        given
    };
    let changed = |change: &dyn Fn(&mut Given)| {
        let mut given = given();
        change(&mut given);
        given
    };
    for (what, given, want) in [
        ("as it is", given(), None),
        ("nothing to run", changed(&none), Some("prepared-nothing-runs")),
        ("nothing to run before the config", changed(&only_last), Some("prepared-nothing-runs")),
        (
            "instructions before and after the config",
            changed(&|given: &mut Given| given.last = OwnLast::OnConfigs),
            None,
        ),
        (
            "packages, and instructions after the config",
            changed(&|given: &mut Given| {
                given.own = None;
                given.last = OwnLast::OnConfigs;
            }),
            None,
        ),
        (
            "they need the base with its packages",
            changed(&|given: &mut Given| given.last = OwnLast::NeedsBase { line: 3 }),
            Some("prepared-last-needs-base"),
        ),
        (
            "they need the base, and nothing is installed",
            changed(&|given: &mut Given| {
                no_packages(given);
                given.last = OwnLast::NeedsBase { line: 3 };
            }),
            None,
        ),
        (
            "they need what runs before the config",
            changed(&|given: &mut Given| {
                no_packages(given);
                given.last = OwnLast::NeedsPrepared { line: 3 };
            }),
            Some("prepared-last-needs-base"),
        ),
        ("a repository", file_at("/etc/yum.repos.d/acme.repo"), Some("prepared-reads-config")),
        ("dracut", file_at("/etc/dracut.conf"), Some("prepared-reads-config")),
        ("of another name", file_at("/etc/dracut.confx"), None),
        ("the compiled store", file_at("/etc/pki/ca-trust/x"), Some("prepared-reads-config")),
        ("a file above", file_at("/etc/pki/ca-trust/source"), Some("prepared-trust-file")),
        (
            "a directory above that is made anew",
            changed(&|given: &mut Given| {
                storage(given, "directories")
                    .push(json!({ "path": "/etc/pki", "overwrite": true }));
            }),
            Some("prepared-trust-file"),
        ),
        (
            "a link out of it",
            changed(&|given: &mut Given| storage(given, "links")[0]["target"] = json!("/etc/x")),
            Some("prepared-trust-file"),
        ),
        (
            "a link upwards",
            changed(&|given: &mut Given| {
                storage(given, "links")[0]["target"] = json!("../../../../x")
            }),
            Some("prepared-trust-file"),
        ),
        (
            "an owner by name",
            changed(&|given: &mut Given| anchor(given)["user"] = json!({ "name": "acme" })),
            Some("prepared-trust-file"),
        ),
        (
            "root by name",
            changed(&|given: &mut Given| anchor(given)["user"] = json!({ "name": "root" })),
            None,
        ),
        (
            "another hash",
            changed(&|given: &mut Given| {
                let hash = format!("sha256-{}", "0".repeat(64));
                anchor(given)["contents"]["verification"] = json!({ "hash": hash });
            }),
            Some("prepared-trust-file"),
        ),
    ] {
        let obstacle = given.prepared().err();
        assert_eq!(obstacle.as_ref().map(Obstacle::code), want, "{what}");
        let warning = obstacle.and_then(|obstacle| obstacle.warning());
        // Where nothing could be run before, nothing is lost.
        let warns = want.is_some_and(|code| code != "prepared-nothing-runs");
        assert_eq!(warning.is_some(), warns, "{what}");
    }
    let mut given = changed(&no_packages);
    storage(&mut given, "files").push(file("/etc/yum.repos.d/acme.repo", "x"));
    assert!(given.prepared().is_ok(), "nothing is installed");
    // Its instructions need the config.
    let obstacle =
        Draft::new(given.request()).unwrap().prepared(OwnParts::default(), BuilderNodes::Any);
    assert_eq!(obstacle.unwrap_err(), Obstacle::Reason(Reason::CustomContainerfile));
    let request = BuildRequest { method: MethodChoice::Containerfile, ..given.request() };
    let draft = Draft::new(request).unwrap();
    let obstacle = draft.prepared(given.parts(), BuilderNodes::Any).unwrap_err();
    assert_eq!(obstacle.code(), "prepared-other-reason");
    assert_eq!(obstacle.warning(), None, "it was asked for");
}
