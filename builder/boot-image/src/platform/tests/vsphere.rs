use serde_json::json;

use super::*;

const RELEASE: &str = "9.6.20260210-0";
const INSTALLED: &str = "demo-x7k2p-rhcos-generated-region-generated-zone";

#[test]
fn both_apis() {
    let mapped = || {
        Fixture::rhel().mapped(RELEASE, "rhcos-9.6").mapped("418.94.202511191518-0", "rhcos-4.18")
    };
    let from_map = "rhcos-4.18 (418.94.202511191518-0) → rhcos-9.6 (9.6.20260210-0)";
    let from_other = format!("{INSTALLED} → rhcos-9.6 (9.6.20260210-0)");
    let no_release = mapped().without(RHEL, "/architectures/x86_64/artifacts/vmware");
    let cases = [
        ("one of the map", mapped(), "rhcos-4.18", None, from_map),
        ("current", mapped(), "rhcos-9.6", None, "current rhcos-9.6 (9.6.20260210-0)"),
        ("proven", mapped().proven(INSTALLED), INSTALLED, None, &*from_other),
        ("vouched", mapped().vouched(), INSTALLED, None, &from_other),
        ("not proven", mapped(), INSTALLED, None, "skip unproven-image"),
        ("no map", Fixture::rhel().vouched(), INSTALLED, None, "skip no-image-for-release"),
        (
            "a map without this release",
            Fixture::rhel().mapped("9.4.20250210-0", "x"),
            "x",
            None,
            "skip no-image-for-release",
        ),
        ("no artifact", no_release, "rhcos-4.18", None, "skip not-in-stream"),
        (
            "an architecture without",
            mapped().on(Architecture::Aarch64),
            "rhcos-4.18",
            None,
            "skip not-in-stream",
        ),
        ("an empty snapshot", mapped(), "rhcos-4.18", Some(""), from_map),
        ("a snapshot by name", mapped(), "rhcos-4.18", Some("s1"), "skip custom-image"),
        ("empty", mapped(), "", None, "error boot-image-field-missing"),
        ("two lines", mapped().vouched(), "a\nb", None, "error bad-boot-image"),
        (
            "an empty name in the map",
            Fixture::rhel().mapped(RELEASE, "").vouched(),
            "x",
            None,
            "error bad-boot-image",
        ),
    ];
    for (what, fixture, name, snapshot, want) in cases {
        let fields = |name: &str| {
            let mut fields = json!({"template": name, "workspace": {"server": "v"}, "x": 1});
            if let Some(snapshot) = snapshot {
                fields["snapshot"] = json!(snapshot);
            }
            fields
        };
        let template = |name: &str| json!({"template": {"spec": fields(name)}});
        let after = if want.contains('→') { "rhcos-9.6" } else { name };
        let outcome = fixture.machine_api("VSphere", &fields(name));
        assert_eq!(outcome.line, want, "{what}");
        assert_eq!(outcome.after, fields(after), "{what}");
        let outcome = fixture.cluster_api(TemplateKind::VSphere, &template(name));
        assert_eq!(outcome.line, want, "{what}, Cluster API");
        assert_eq!(outcome.after, template(after), "{what}, Cluster API");
    }
}
