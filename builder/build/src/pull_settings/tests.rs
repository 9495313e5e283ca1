//! What a machine gets of settings, and which JSON it takes.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::json::{CERTIFICATE, MAX_ENTRIES};
use super::*;
use mosb_image::{Digest, RepoRef};
use mosb_registry::registries_conf::RegistriesConf;

const SETTINGS: &str = r"
additionalTrustBundle: |
  -----BEGIN CERTIFICATE-----
  of-all
imageRegistryBundles:
  registry.example:5000: |
    -----BEGIN CERTIFICATE-----
    of-registry
  other.example: |
    -----BEGIN CERTIFICATE-----
    of-other
mirrors:
  - {source: registry.example:5000/acme, mirrors: [mirror.example/acme, tags.example/acme]}
  - {source: registry.example:5000/acme, mirrors: [never.example/acme], by: tag}
  - {source: quay.io, mirrors: [mirror.example/quay]}
registrySources: {insecureRegistries: [mirror.example]}
";

fn image() -> PinnedRef {
    let repo: RepoRef = "registry.example:5000/acme/os".parse().unwrap();
    repo.pinned(Digest::of(b"image"))
}

fn settings(text: &str) -> ClusterSettings {
    let mut settings = ClusterSettings::parse(text).unwrap();
    let proxy = [
        ("httpsProxy", "http://user:pass-word@proxy.example:3128"),
        ("noProxy", "a.example, \"b\\c\""),
    ];
    let proxy = proxy.map(|(key, text)| (key.to_owned(), text.as_bytes().to_vec()));
    settings.proxy = Some(Proxy::default().with_secret(&proxy.into()).unwrap());
    settings
}

fn new(settings: &ClusterSettings) -> Result<PullSettings, PullSettingsTooLarge> {
    PullSettings::new(&image(), settings, SignatureFiles::default())
}

#[test]
fn machine_gets_only_settings_of_its_repository() {
    let made = new(&settings(SETTINGS)).unwrap();
    let conf = made.registries_conf().unwrap();
    let want = r#"[[registry]]
location = "registry.example:5000/acme/os"
insecure = false
blocked = false
[[registry.mirror]]
location = "mirror.example/acme/os"
insecure = true
[[registry.mirror]]
location = "tags.example/acme/os"
insecure = false
"#;
    assert_eq!(conf, want);
    // Our own client reads the same from it as from the whole.
    let whole = registries_conf(&settings(SETTINGS)).unwrap();
    let places = [&conf, &whole].map(|text| {
        let mut read = RegistriesConf::default();
        read.add(text, Path::new("registries.conf")).unwrap();
        read.pull_sources(image().repo(), By::Digest).unwrap()
    });
    assert_eq!(places[0], places[1]);
    let all = "-----BEGIN CERTIFICATE-----\nof-all\n";
    let own = "-----BEGIN CERTIFICATE-----\nof-registry\n";
    let authorities = [
        ("mirror.example".to_owned(), all.to_owned()),
        ("registry.example:5000".to_owned(), format!("{all}{own}")),
        ("tags.example".to_owned(), all.to_owned()),
    ];
    assert_eq!(made.authorities(), authorities);
    let environment = made.environment().unwrap();
    for line in [
        "https_proxy=\"http://user:pass-word@proxy.example:3128\"",
        r#"NO_PROXY="a.example, \"b\\c\"""#,
    ] {
        assert!(environment.expose().lines().any(|it| it == line), "{line}");
    }
    assert_eq!(made.proxy_urls().count(), 1);
    assert!(!format!("{made:?}").contains("pass-word"));
    assert_eq!(PullSettings::parse(made.to_json().expose()).unwrap(), made);
}

#[test]
fn machine_without_settings_pulls_as_before() {
    for text in [
        "{}",
        "mirrors: [{source: quay.io, mirrors: [mirror.example/quay]}]",
        "mirrors: [{source: registry.example:5000, mirrors: [a.example/b], by: tag}]",
        "imageRegistryBundles: {a.example: '-----BEGIN CERTIFICATE-----'}",
        "registrySources: {blockedRegistries: [a.example]}",
    ] {
        let made = new(&ClusterSettings::parse(text).unwrap()).unwrap();
        assert!(made.is_empty(), "{text}");
        assert_eq!(made.to_json().expose(), b"{}", "{text}");
        assert_eq!(made.registries_conf(), None, "{text}");
        assert!(made.environment().is_none() && !made.has_containers(), "{text}");
    }
    assert!(PullSettings::parse(b"{}").unwrap().is_empty());
}

#[test]
fn how_signatures_are_verified_round_trips() {
    let text = |text: &str| format!(r#"{{"signatures":{{"{text}":"text"}}}}"#);
    let read = PullSettings::parse(text("registries.d/a.yaml").as_bytes()).unwrap();
    assert!(read.has_containers() && !read.is_empty());
    let files = read.signatures().clone();
    let made = PullSettings::new(&image(), &ClusterSettings::default(), files.clone()).unwrap();
    assert_eq!(made, read);
    assert_eq!(PullSettings::parse(made.to_json().expose()).unwrap(), made);
    let large =
        text("policy.json").replace(":\"text", &format!(":\"{}", "x".repeat(MAX_PULL_SETTINGS)));
    let large: serde_json::Value = serde_json::from_str(&large).unwrap();
    let files = serde_json::from_value(large["signatures"].clone()).unwrap();
    let error = PullSettings::new(&image(), &settings(SETTINGS), files).unwrap_err();
    assert_eq!(error.largest, "policy.json");
}

#[test]
fn source_that_must_not_be_asked_is_blocked() {
    for (text, mirrors) in [
        (
            "mirrors: [{source: registry.example:5000/acme, mirrors: [a.example/b], mirrorSourcePolicy: NeverContactSource}]",
            1,
        ),
        ("registrySources: {blockedRegistries: ['registry.example:5000']}", 0),
    ] {
        let made = new(&ClusterSettings::parse(text).unwrap()).unwrap();
        let conf = made.registries_conf().unwrap();
        assert!(conf.contains("blocked = true"), "{text}: {conf}");
        assert_eq!(conf.matches("registry.mirror").count(), mirrors, "{text}: {conf}");
    }
}

#[test]
fn a_bundle_that_is_too_large_is_named() {
    let large = format!("{CERTIFICATE}\n{}", "x".repeat(MAX_PULL_SETTINGS));
    let mut settings = settings(SETTINGS);
    let larger = large.clone() + "larger";
    settings.image_registry_bundles.insert("other.example".to_owned(), larger);
    // No image of it is pulled.
    assert!(new(&settings).is_ok());
    settings.registry_trust_bundle = Some(large);
    let error = new(&settings).unwrap_err();
    assert_eq!(error.largest, "registryTrustBundle");
    assert!(error.to_string().contains("registryTrustBundle"), "{error}");
}

#[test]
fn unfit_json_is_refused_and_not_quoted() {
    let registry = |location: &str, mirror: &str| {
        json!({ "registry": { "location": location, "insecure": false, "blocked": false,
                "mirrors": [{ "location": mirror, "insecure": false }] } })
    };
    let host = |host: &str, pem: &str| json!({ "authorities": { "hosts": { host: pem } } });
    assert!(
        PullSettings::parse(registry("a.example/b", "c.example/d").to_string().as_bytes()).is_ok()
    );
    assert!(PullSettings::parse(host("a.example", CERTIFICATE).to_string().as_bytes()).is_ok());
    let many: Vec<_> = (0..=MAX_ENTRIES).map(|at| format!("a{at}.example")).collect();
    let many: BTreeMap<_, _> = many.iter().map(|host| (host, CERTIFICATE)).collect();
    for value in [
        registry("a.example/b\"\nblocked = true", "c.example/d"),
        registry("a.example/b", "hush"),
        host("../hush", CERTIFICATE),
        host("..", CERTIFICATE),
        host("a.example/hush", CERTIFICATE),
        host("a.example", "hush"),
        json!({ "authorities": { "hosts": many } }),
        json!({ "proxy": { "httpProxy": "hush" } }),
        json!({ "proxy": { "httpsProxy": "http://a\nhush" } }),
        json!({ "proxy": { "noProxy": "hush\0" } }),
        json!({ "proxy": { "secret": "hush" } }),
        json!({ "signatures": { "../hush": "" } }),
        json!({ "later": "hush" }),
        json!({ "proxy": "hush" }),
        json!(" ".repeat(MAX_PULL_SETTINGS)),
    ] {
        let error = PullSettings::parse(value.to_string().as_bytes()).unwrap_err();
        assert!(!error.contains("hush"), "{error}");
    }
}
