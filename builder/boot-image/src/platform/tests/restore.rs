use serde_json::json;

use super::*;
use crate::BootImage;
use crate::platform::restore;

fn restored(platform: &str, spec: &Value, to: &str) -> Outcome {
    let to: BootImage = to.parse().unwrap();
    Outcome::new(restore(&platform.parse().unwrap(), spec, &to), spec)
}

/// What a change replaced comes back by the text that the history has of it.
#[test]
fn a_change_and_its_way_back() {
    let gcp = |name: &str| format!("projects/rhcos-cloud/global/images/{name}");
    let id = "/resourceGroups/d-rg/providers/Microsoft.Compute/images/d";
    let uploaded =
        json!({"publisher": "", "offer": "", "sku": "", "version": "", "resourceID": id});
    let urn = json!({
        "publisher": "redhat", "offer": "rh-ocp-worker", "sku": "rh-ocp-worker", "version": "1",
        "resourceID": "", "type": "MarketplaceWithPlan",
    });
    let cases = [
        ("AWS", json!({"ami": {"id": "ami-old"}, "placement": {"region": "us-east-1"}, "x": 1})),
        ("GCP", json!({"disks": [{"boot": true, "image": gcp("a")}], "x": 1})),
        (
            "GCP",
            json!({"disks": [
                {"boot": true, "image": gcp("a")},
                {"boot": false, "image": "data"},
                {"boot": true, "image": gcp("b")},
                {"boot": true, "image": gcp("b")},
            ]}),
        ),
        ("Azure", json!({"image": uploaded, "vmSize": "x"})),
        ("Azure", json!({"image": urn, "vmSize": "x"})),
        ("VSphere", json!({"template": "old name", "workspace": {}})),
    ];
    let fixture = Fixture::rhel().vouched().mapped("9.6.20260210-0", "new");
    for (platform, before) in cases {
        let platform_type: PlatformType = platform.parse().unwrap();
        let verdict = crate::machine_api(&platform_type, &before, &fixture.context()).unwrap();
        let Verdict::Change(change) = verdict else { panic!("{platform}: {verdict:?}") };
        let mut after = before.clone();
        change.apply(&mut after).unwrap();
        assert_ne!(after, before, "{platform}");
        let back = restored(platform, &after, change.from.as_str());
        assert_eq!(back.after, before, "{platform}");
        let again = restored(platform, &before, change.from.as_str());
        assert_eq!(again.line, format!("current {}", change.from.name()), "{platform}");
    }
}

#[test]
fn what_can_not_be_restored() {
    let two = json!({"disks": [{"boot": true, "image": "a"}, {"boot": true, "image": "b"}]});
    let cases = [
        ("three images, two disks", "GCP", two, "x,y,z", "error boot-disks-differ"),
        ("no disks", "GCP", json!({}), "x", "error no-boot-disk"),
        ("no image", "Azure", json!({}), "a:b:c:d", "error boot-image-field-missing"),
        (
            "neither an id nor four fields",
            "Azure",
            json!({"image": {"sku": "x"}}),
            "a:b",
            "error bad-restored-image",
        ),
        ("no template", "VSphere", json!({}), "x", "error boot-image-field-missing"),
        ("metal", "BareMetal", json!({}), "x", "skip platform"),
    ];
    for (what, platform, spec, to, want) in cases {
        assert_eq!(restored(platform, &spec, to).line, want, "{what}");
    }
}

#[test]
fn vsphere_gets_the_name_without_its_release() {
    let spec = json!({"template": "new"});
    let outcome = restored("VSphere", &spec, "old (418.94.202511191518-0)");
    assert_eq!(outcome.after, json!({"template": "old"}));
}
