use super::*;

const CONF: &str = r#"
unqualified-search-registries = ["docker.io"]
short-name-mode = "enforcing"

[[registry]]
prefix = "quay.io/acme"
location = "mirror.example:5000/copies"
insecure = true

[[registry]]
location = "quay.io"
[[registry.mirror]]
location = "all.example/quay"
[[registry.mirror]]
location = "digest.example/quay"
pull-from-mirror = "digest-only"
insecure = true
[[registry.mirror]]
location = "tag.example/quay"
pull-from-mirror = "tag-only"

[[registry]]
prefix = "*.corp.example"
location = "cache.example/corp"

[[registry]]
prefix = "*.plain.example"
insecure = true

[[registry]]
prefix = "evil.example/"
blocked = true

[[registry]]
location = "slash.example/os//"
[[registry.mirror]]
location = "mirror.example/os/"

[[registry]]
location = "old.example"
mirror-by-digest-only = true
[[registry.mirror]]
location = "newer.example"
"#;

fn conf() -> RegistriesConf {
    let mut conf = RegistriesConf::default();
    conf.add(CONF, Path::new("registries.conf")).unwrap();
    conf
}

#[test]
fn the_longest_prefix_decides_the_location() {
    let conf = conf();
    for (repo, by, want) in [
        ("other.io/x", By::Tag, vec!["other.io/x"]),
        ("quay.io/acme/os", By::Tag, vec!["mirror.example:5000/copies/os insecure"]),
        ("quay.io/acme", By::Tag, vec!["mirror.example:5000/copies insecure"]),
        (
            "quay.io/acmes/os",
            By::Tag,
            vec![
                "all.example/quay/acmes/os mirror",
                "tag.example/quay/acmes/os mirror",
                "quay.io/acmes/os",
            ],
        ),
        (
            "quay.io/x",
            By::Digest,
            vec!["all.example/quay/x mirror", "digest.example/quay/x insecure mirror", "quay.io/x"],
        ),
        ("a.b.corp.example/x", By::Tag, vec!["cache.example/corp/x"]),
        ("corp.example/x", By::Tag, vec!["corp.example/x"]),
        ("a.plain.example/x", By::Tag, vec!["a.plain.example/x insecure"]),
        ("old.example/x", By::Tag, vec!["old.example/x"]),
        ("slash.example/os/x", By::Tag, vec!["mirror.example/os/x mirror", "slash.example/os/x"]),
        ("old.example/x", By::Digest, vec!["newer.example/x mirror", "old.example/x"]),
    ] {
        let got: Vec<_> = conf
            .pull_sources(&repo.parse().unwrap(), by)
            .unwrap()
            .into_iter()
            .map(|place| {
                let insecure = if place.insecure { " insecure" } else { "" };
                let mirror = if place.mirror { " mirror" } else { "" };
                format!("{}{insecure}{mirror}", place.repo)
            })
            .collect();
        assert_eq!(got, want, "{repo} {by:?}");
    }
}

#[test]
fn pushes_ignore_mirrors_and_fail_if_blocked() {
    let conf = conf();
    assert!(conf.push_insecure(&"quay.io/acme/os".parse().unwrap()).unwrap());
    assert!(!conf.push_insecure(&"quay.io/other".parse().unwrap()).unwrap());
    let evil: RepoRef = "evil.example/x/y".parse().unwrap();
    assert!(matches!(conf.pull_sources(&evil, By::Tag), Err(Error::Blocked { .. })));
    let error = conf.push_insecure(&evil).unwrap_err().to_string();
    assert!(error.contains("blocked by \"evil.example\" in registries.conf; "), "{error}");
}

#[test]
fn invalid_files_are_rejected_with_the_cause() {
    for (what, text, want) in [
        ("version 1", "[registries.search]\nregistries = ['a.io']", "version 1"),
        ("an empty entry", "[[registry]]\ninsecure = true", "neither prefix nor location"),
        ("not TOML", "registry = ", "line 1"),
        ("a URI", "[[registry]]\nlocation = 'https://a.io/x'", "write \"a.io/x\""),
        (
            "a mirror's URI",
            "[[registry]]\nlocation = 'a.io'\nmirror = [{ location = 'http://m.io' }]",
            "write \"m.io\"",
        ),
    ] {
        let error =
            RegistriesConf::default().add(text, Path::new("/etc/r.conf")).unwrap_err().to_string();
        assert!(error.starts_with("/etc/r.conf: ") && error.contains(want), "{what}: {error}");
    }
}

#[test]
fn drop_ins_are_read_in_order_and_replace() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registries.conf");
    let drop_ins = dir.path().join("registries.conf.d");
    std::fs::create_dir(&drop_ins).unwrap();
    std::fs::write(&file, "[[registry]]\nlocation = 'a.io'\nblocked = true\n").unwrap();
    std::fs::write(drop_ins.join("20.conf"), "[[registry]]\nprefix = 'a.io'\nlocation = 'c.io'\n")
        .unwrap();
    std::fs::write(drop_ins.join("10.conf"), "[[registry]]\nprefix = 'a.io'\nlocation = 'b.io'\n")
        .unwrap();
    std::fs::write(drop_ins.join("30.conf.bak"), "rubbish").unwrap();
    let none = SettingNames::default();
    let conf = RegistriesConf::read(&file, true, &none).unwrap();
    let places = conf.pull_sources(&"a.io/x".parse().unwrap(), By::Tag).unwrap();
    assert_eq!(places[0].repo.to_string(), "c.io/x");
    let nothing = dir.path().join("none.conf");
    assert_eq!(RegistriesConf::read(&nothing, false, &none).unwrap(), RegistriesConf::default());
    assert!(matches!(
        RegistriesConf::read(&nothing, true, &none),
        Err(Error::RegistriesConf { .. })
    ));
}

#[test]
fn docker_hub_is_one_registry() {
    let conf = |text: &str| {
        let mut conf = RegistriesConf::default();
        conf.add(text, Path::new("registries.conf")).unwrap();
        conf
    };
    let blocked = conf("[[registry]]\nprefix = 'docker.io'\nblocked = true");
    let own = conf("[[registry]]\nprefix = 'docker.io/library'\nblocked = true");
    for (repo, by_blocked, by_own) in [
        ("docker.io/busybox", true, true),
        ("docker.io/library/busybox", true, true),
        ("index.docker.io/busybox", true, true),
        ("index.docker.io/acme/os", true, false),
        ("docker.io/acme/os", true, false),
        ("quay.io/busybox", false, false),
    ] {
        let repo: RepoRef = repo.parse().unwrap();
        for (conf, want) in [(&blocked, by_blocked), (&own, by_own)] {
            assert_eq!(conf.pull_sources(&repo, By::Tag).is_err(), want, "{repo}");
            assert_eq!(conf.push_insecure(&repo).is_err(), want, "{repo}");
        }
    }
    let mirrored =
        conf("[[registry]]\nlocation = 'docker.io'\nmirror = [{ location = 'm.example/hub' }]");
    for repo in ["docker.io/busybox", "index.docker.io/library/busybox"] {
        let places = mirrored.pull_sources(&repo.parse().unwrap(), By::Tag).unwrap();
        let repos: Vec<_> = places.iter().map(|place| place.repo.to_string()).collect();
        assert_eq!(repos, ["m.example/hub/library/busybox", "docker.io/library/busybox"], "{repo}");
    }
}
