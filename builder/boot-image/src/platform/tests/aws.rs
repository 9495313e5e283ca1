use serde_json::json;

use super::*;

const OLD: &str = "ami-0000000000000old1";
const NEW: &str = "ami-0d965531ead0d0868";
const ARM: &str = "ami-0d9686c41d95140f3";

fn spec(ami: Value) -> Value {
    json!({
        "kind": "AWSMachineProviderConfig",
        "ami": ami,
        "instanceType": "m5.large",
        "placement": {"availabilityZone": "us-east-1a", "region": "us-east-1"},
        "futureField": {"kept": [1, 2]},
    })
}

fn template(ami: Value) -> Value {
    json!({"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"ami": ami, "unknown": 1}}})
}

#[test]
fn machine_api() {
    let rhel = Fixture::rhel;
    let proven = || rhel().proven(OLD);
    let change = format!("{OLD} → {NEW}");
    let x86 = "/architectures/x86_64";
    let without = |path: &str| proven().without(RHEL, &format!("{x86}{path}"));
    let cases = [
        ("proven", proven(), json!({"id": OLD}), &*change),
        ("vouched", rhel().vouched(), json!({"id": OLD}), &change),
        ("not proven", rhel(), json!({"id": OLD}), "skip unproven-image"),
        ("current, without proof", rhel(), json!({"id": NEW}), &format!("current {NEW}")),
        (
            "of another architecture",
            proven().on(Architecture::Aarch64),
            json!({"id": OLD}),
            &format!("{OLD} → {ARM}"),
        ),
        (
            "no image for it",
            proven().on(Architecture::S390x),
            json!({"id": OLD}),
            "skip not-in-stream",
        ),
        ("by ARN", rhel().vouched(), json!({"arn": "arn:aws:x"}), "skip looked-up-image"),
        ("id and ARN", proven(), json!({"id": OLD, "arn": "arn:aws:x"}), "skip looked-up-image"),
        (
            "by filter",
            rhel().vouched(),
            json!({"filters": [{"name": "tag:Name", "values": ["x"]}]}),
            "skip looked-up-image",
        ),
        ("empty ARN and filters", proven(), json!({"id": OLD, "arn": "", "filters": []}), &change),
        ("nothing in it", proven(), json!({}), "error boot-image-field-missing"),
        ("an empty id", proven(), json!({"id": ""}), "error boot-image-field-missing"),
        ("null", proven(), Value::Null, "error boot-image-field-missing"),
        ("a text", proven(), json!(OLD), "error boot-image-field-type"),
        ("id as a number", proven(), json!({"id": 7}), "error boot-image-field-type"),
        ("filters as a text", proven(), json!({"filters": "x"}), "error boot-image-field-type"),
        ("two lines", rhel().vouched(), json!({"id": "a\nb"}), "error bad-boot-image"),
        ("stream without AWS", without("/images/aws"), json!({"id": OLD}), "skip not-in-stream"),
        (
            "stream without regions",
            without("/images/aws/regions"),
            json!({"id": OLD}),
            "skip region-not-in-stream",
        ),
        (
            "stream without the image",
            without("/images/aws/regions/us-east-1/image"),
            json!({"id": OLD}),
            "skip region-not-in-stream",
        ),
        ("stream without images", without("/images"), json!({"id": OLD}), "skip not-in-stream"),
    ];
    for (what, fixture, ami, want) in cases {
        let outcome = fixture.machine_api("AWS", &spec(ami.clone()));
        assert_eq!(outcome.line, want, "{what}");
        let after = if want == change { json!({"id": NEW}) } else { ami };
        if !want.contains('→') || want == change {
            assert_eq!(outcome.after, spec(after), "{what}");
        }
    }
}

#[test]
fn the_region_of_a_set() {
    let with = |placement: Value| {
        let mut spec = spec(json!({"id": OLD}));
        spec["placement"] = placement;
        spec
    };
    let cases = [
        ("another", json!({"region": "mars-1"}), "skip region-not-in-stream"),
        ("none", json!({}), "error boot-image-field-missing"),
        ("empty", json!({"region": ""}), "error boot-image-field-missing"),
        ("a list", json!([]), "error boot-image-field-missing"),
        ("a number", json!({"region": 1}), "error boot-image-field-type"),
    ];
    for (what, placement, want) in cases {
        let outcome = Fixture::rhel().proven(OLD).machine_api("AWS", &with(placement));
        assert_eq!(outcome.line, want, "{what}");
    }
}

#[test]
fn cluster_api() {
    let new = "ami-0e427520b5a1b312e";
    let fedora = || Fixture::fedora().region("us-east-1");
    let change = format!("{OLD} → {new}");
    let cases = [
        ("proven", fedora().proven(OLD), json!({"id": OLD}), &*change),
        (
            "proven, with a leftover",
            fedora().proven(OLD),
            json!({"id": OLD, "eksLookupType": "x"}),
            &change,
        ),
        ("not proven", fedora(), json!({"id": OLD}), "skip unproven-image"),
        ("current", fedora(), json!({"id": new}), &format!("current {new}")),
        ("no id", fedora().vouched(), json!({}), "skip looked-up-image"),
        (
            "EKS",
            fedora().vouched(),
            json!({"eksLookupType": "AmazonLinux"}),
            "skip looked-up-image",
        ),
        ("null", fedora().vouched(), Value::Null, "skip looked-up-image"),
        ("no region", Fixture::fedora().proven(OLD), json!({"id": OLD}), "skip no-region"),
        ("an empty region", fedora().region("").proven(OLD), json!({"id": OLD}), "skip no-region"),
        (
            "a strange region",
            fedora().region("x").proven(OLD),
            json!({"id": OLD}),
            "skip region-not-in-stream",
        ),
        ("a text", fedora().proven(OLD), json!("x"), "error boot-image-field-type"),
    ];
    for (what, fixture, ami, want) in cases {
        let before = template(ami.clone());
        let outcome = fixture.cluster_api(TemplateKind::Aws, &before);
        assert_eq!(outcome.line, want, "{what}");
        let mut after = ami;
        if want == change {
            after["id"] = json!(new);
        }
        assert_eq!(outcome.after, template(after), "{what}");
    }
}
