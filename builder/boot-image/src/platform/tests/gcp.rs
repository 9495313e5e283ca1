use serde_json::json;

use super::*;

const OLD: &str = "projects/rhcos-cloud/global/images/rhcos-418-94-202511191518-0-gcp-x86-64";
const OLDER: &str = "projects/rhcos-cloud/global/images/rhcos-417-94-202410011518-0-gcp-x86-64";
const NEW: &str = "projects/rhcos-cloud/global/images/rhcos-9-6-20260210-0-gcp-x86-64";
const PAID: &str = "projects/redhat-marketplace-public/global/images/redhat-coreos-ocp-413";

/// Disks as (boot, image).
fn disks(disks: &[(bool, &str)]) -> Value {
    let disk = |(boot, image): &(bool, &str)| json!({"boot": boot, "image": image, "sizeGb": 128, "labels": {"unknown": true}});
    json!({"disks": disks.iter().map(disk).collect::<Vec<_>>(), "machineType": "n1-standard-4"})
}

fn template(fields: Value) -> Value {
    json!({"template": {"spec": fields}})
}

#[test]
fn machine_api() {
    let rhel = Fixture::rhel;
    let change = format!("{OLD} → {NEW}");
    let data = "projects/mine/global/images/data";
    let x86 = "/architectures/x86_64/images/gcp";
    let without = |path: &str| rhel().without(RHEL, &format!("{x86}{path}"));
    let url = format!("https://www.googleapis.com/compute/v1/{OLD}");
    let url_of_new = format!("https://compute.googleapis.com/compute/v1/{NEW}");
    let evil = format!("https://evil.example/compute/v1/{OLD}");
    type Disks<'a> = Vec<(bool, &'a str)>;
    let cases: Vec<(&str, Fixture, Disks<'_>, String, Disks<'_>)> = vec![
        ("one", rhel(), vec![(true, OLD)], change.clone(), vec![(true, NEW)]),
        ("current", rhel(), vec![(true, NEW)], format!("current {NEW}"), vec![]),
        (
            "a data disk stays",
            rhel(),
            vec![(false, data), (true, OLD)],
            change.clone(),
            vec![(false, data), (true, NEW)],
        ),
        (
            "an old data disk stays",
            rhel(),
            vec![(true, NEW), (false, OLD)],
            format!("current {NEW}"),
            vec![],
        ),
        (
            "two equal",
            rhel(),
            vec![(true, OLD), (true, OLD)],
            change,
            vec![(true, NEW), (true, NEW)],
        ),
        (
            "two different",
            rhel(),
            vec![(true, OLD), (true, OLDER)],
            format!("{OLD},{OLDER} → {NEW}"),
            vec![(true, NEW), (true, NEW)],
        ),
        (
            "one of two is current",
            rhel(),
            vec![(true, NEW), (true, OLD)],
            format!("{NEW},{OLD} → {NEW}"),
            vec![(true, NEW), (true, NEW)],
        ),
        (
            "one of two is custom",
            rhel(),
            vec![(true, OLD), (true, PAID)],
            "skip custom-image".to_owned(),
            vec![],
        ),
        ("paid", rhel(), vec![(true, PAID)], "skip custom-image".to_owned(), vec![]),
        (
            "paid, but proven",
            rhel().proven(PAID),
            vec![(true, PAID)],
            format!("{PAID} → {NEW}"),
            vec![(true, NEW)],
        ),
        (
            "a project that begins so",
            rhel(),
            vec![(true, "projects/rhcos-cloud/global/imagesx/a")],
            "skip custom-image".to_owned(),
            vec![],
        ),
        ("a name only", rhel(), vec![(true, "rhcos")], "skip custom-image".to_owned(), vec![]),
        (
            "a family",
            rhel().vouched(),
            vec![(true, "projects/rhcos-cloud/global/images/family/x")],
            "skip looked-up-image".to_owned(),
            vec![],
        ),
        ("as a URL", rhel(), vec![(true, &url)], format!("{url} → {NEW}"), vec![(true, NEW)]),
        (
            "current, as a URL",
            rhel(),
            vec![(true, &url_of_new)],
            format!("current {url_of_new}"),
            vec![],
        ),
        ("another server", rhel(), vec![(true, &evil)], "skip custom-image".to_owned(), vec![]),
        ("no disks", rhel(), vec![], "error no-boot-disk".to_owned(), vec![]),
        ("no boot disk", rhel(), vec![(false, OLD)], "error no-boot-disk".to_owned(), vec![]),
        (
            "an empty image",
            rhel(),
            vec![(true, "")],
            "error boot-image-field-missing".to_owned(),
            vec![],
        ),
        (
            "no GCP in the stream",
            without(""),
            vec![(true, OLD)],
            "skip not-in-stream".to_owned(),
            vec![],
        ),
        (
            "no project in the stream",
            without("/project"),
            vec![(true, OLD)],
            "skip not-in-stream".to_owned(),
            vec![],
        ),
        (
            "no name in the stream",
            without("/name"),
            vec![(true, OLD)],
            "skip not-in-stream".to_owned(),
            vec![],
        ),
        (
            "no such architecture",
            rhel().on(Architecture::Ppc64le),
            vec![(true, OLD)],
            "skip not-in-stream".to_owned(),
            vec![],
        ),
    ];
    for (what, fixture, before, want, after) in cases {
        let outcome = fixture.machine_api("GCP", &disks(&before));
        assert_eq!(outcome.line, want, "{what}");
        let after = if want.contains('→') { after } else { before };
        assert_eq!(outcome.after, disks(&after), "{what}");
    }
}

#[test]
fn cluster_api() {
    let old = "projects/fedora-coreos-cloud/global/images/fedora-coreos-41-20250105-3-0-gcp-x86-64";
    let new = "projects/fedora-coreos-cloud/global/images/fedora-coreos-42-20250609-3-0-gcp-x86-64";
    let builder = "projects/mine/global/images/cluster-api-ubuntu-2204-v1-33-1";
    let cases = [
        ("the stream's own project", json!({"image": old}), format!("{old} → {new}")),
        (
            "image wins over family",
            json!({"image": old, "imageFamily": "x"}),
            format!("{old} → {new}"),
        ),
        ("current", json!({"image": new}), format!("current {new}")),
        ("Red Hat's project", json!({"image": OLD}), format!("{OLD} → {new}")),
        ("per Kubernetes version", json!({"image": builder}), "skip custom-image".to_owned()),
        ("family", json!({"imageFamily": "capi-ubuntu"}), "skip looked-up-image".to_owned()),
        ("neither", json!({}), "skip looked-up-image".to_owned()),
        ("a list", json!({"image": [old]}), "error boot-image-field-type".to_owned()),
    ];
    for (what, mut fields, want) in cases {
        let outcome = Fixture::fedora().cluster_api(TemplateKind::Gcp, &template(fields.clone()));
        assert_eq!(outcome.line, want, "{what}");
        if want.contains('→') {
            fields["image"] = json!(new);
        }
        assert_eq!(outcome.after, template(fields), "{what}");
    }
}
