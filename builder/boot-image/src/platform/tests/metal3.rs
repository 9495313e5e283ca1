use serde_json::json;

use super::*;

const SERVER: &str = "https://builds.coreos.fedoraproject.org/prod/streams/stable/builds";

fn url(release: &str, file: &str) -> String {
    format!("{SERVER}/{release}/x86_64/fedora-coreos-{release}-{file}")
}

fn template(image: Value) -> Value {
    json!({"template": {"spec": {"image": image, "hostSelector": {"matchLabels": {"a": "b"}}}}})
}

#[test]
fn urls() {
    let (old, new) = ("41.20250105.3.0", "42.20250609.3.0");
    let (metal, metal4k) = ("metal.x86_64.raw.xz", "metal4k.x86_64.raw.xz");
    let openstack = "openstack.x86_64.qcow2.xz";
    let change = |file: &str| format!("{} → {}", url(old, file), url(new, file));
    let formats = "/architectures/x86_64/artifacts/metal/formats";
    let without = |path: &str| Fixture::fedora().without(FEDORA, &format!("{formats}{path}"));
    let fedora = Fixture::fedora;
    let mirror = url(old, metal).replace(SERVER, "http://mirror.example");
    let plain_http = url(old, metal).replace("https:", "http:");
    let from_mirror = format!("{mirror} → {}", url(new, metal));
    let custom = "skip custom-image".to_owned();
    let cases = [
        ("metal", fedora(), url(old, metal), change(metal)),
        ("4k disks", fedora(), url(old, metal4k), change(metal4k)),
        ("openstack", fedora(), url(old, openstack), change(openstack)),
        ("current", fedora(), url(new, metal), format!("current {}", url(new, metal))),
        ("a mirror", fedora(), mirror.clone(), "skip unproven-image".to_owned()),
        ("a mirror, proven", fedora().proven(&mirror), mirror, from_mirror),
        ("without TLS", fedora(), plain_http, "skip unproven-image".to_owned()),
        ("a format that is in no stream", fedora(), url(old, "metal.x86_64.raw"), custom.clone()),
        ("no release in the name", fedora(), url("latest", metal), custom.clone()),
        (
            "another architecture",
            fedora().on(Architecture::Aarch64),
            url(old, metal),
            custom.clone(),
        ),
        ("another file", fedora(), "https://x.example/ubuntu.qcow2".to_owned(), custom.clone()),
        ("no URL", fedora(), "x".to_owned(), custom.clone()),
        ("format gone", without("/raw.xz"), url(old, metal), custom),
        (
            "no checksum",
            without("/raw.xz/disk/sha256"),
            url(old, metal),
            "skip not-in-stream".to_owned(),
        ),
        ("empty", fedora(), String::new(), "error boot-image-field-missing".to_owned()),
    ];
    let stream: Value = serde_json::from_str(FEDORA).unwrap();
    for (what, fixture, before, want) in cases {
        let image = |url: &str, checksum: &Value, kind: &str| json!({"url": url, "checksum": checksum, "checksumType": kind, "format": "raw", "x": 1});
        let old = image(&before, &json!(format!("{before}.sha512")), "sha512");
        let outcome = fixture.cluster_api(TemplateKind::Metal3, &template(old.clone()));
        assert_eq!(outcome.line, want, "{what}");
        let Some((_, to)) = want.split_once(" → ") else {
            assert_eq!(outcome.after, template(old), "{what}");
            continue;
        };
        let artifacts = &stream["architectures"]["x86_64"]["artifacts"];
        let formats = artifacts.as_object().unwrap().values();
        let formats = formats.flat_map(|one| one["formats"].as_object().unwrap().values());
        let mut disks = formats.map(|format| &format["disk"]);
        let disk = disks.find(|disk| disk["location"] == to).unwrap();
        assert_eq!(outcome.after, template(image(to, &disk["sha256"], "sha256")), "{what}");
    }
}

#[test]
fn rhel_coreos_follows_both_schemes_of_releases() {
    let server = "https://rhcos.mirror.openshift.com/art/storage/prod/streams";
    let old = format!(
        "{server}/4.18-9.4/builds/418.94.202511191518-0/x86_64/rhcos-418.94.202511191518-0-openstack.x86_64.qcow2.gz"
    );
    let outcome = Fixture::rhel().cluster_api(TemplateKind::Metal3, &template(json!({"url": old})));
    let name = "rhcos-9.6.20260210-0-openstack.x86_64.qcow2.gz";
    let want = format!("{server}/rhel-9.6/builds/9.6.20260210-0/x86_64/{name}");
    assert_eq!(outcome.line, format!("{old} → {want}"));
}

#[test]
fn other_ways_to_deploy() {
    let cases = [
        (
            "a custom deploy",
            json!({"customDeploy": {"method": "install_coreos"}}),
            "skip looked-up-image",
        ),
        ("nothing", json!({}), "error boot-image-field-missing"),
        ("a text", json!({"image": "x"}), "error boot-image-field-type"),
    ];
    for (what, spec, want) in cases {
        let template = json!({"template": {"spec": spec}});
        let outcome = Fixture::fedora().cluster_api(TemplateKind::Metal3, &template);
        assert_eq!(outcome.line, want, "{what}");
    }
}

#[test]
fn a_url_longer_than_the_api_allows() {
    let mut fixture = Fixture::fedora();
    let images = fixture.stream.architectures.get_mut("x86_64").unwrap();
    let format = images.artifacts.get_mut("metal").unwrap().formats.get_mut("raw.xz").unwrap();
    let disk = format.disk.as_mut().unwrap();
    let long = disk.location.as_ref().unwrap().replace("/prod/", &format!("/{}/", "x".repeat(500)));
    disk.location = Some(long);
    let old = url("41.20250105.3.0", "metal.x86_64.raw.xz");
    let outcome = fixture.cluster_api(TemplateKind::Metal3, &template(json!({"url": old})));
    assert_eq!(outcome.line, "skip not-in-stream");
}
