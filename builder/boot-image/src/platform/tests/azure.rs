//! Images of the marketplace.

use serde_json::json;

use super::*;

type Fields<'a> = [&'a str; 4];

fn image([publisher, offer, sku, version]: Fields<'_>) -> Value {
    json!({"publisher": publisher, "offer": offer, "sku": sku, "version": version})
}

/// As the Machine API has it after an update.
fn updated(fields: Fields<'_>, image_type: &str) -> Value {
    let mut image = image(fields);
    image["resourceID"] = json!("");
    image["type"] = json!(image_type);
    image
}

fn spec(image: Value) -> Value {
    json!({"image": image, "vmSize": "Standard_D4s_v3", "osDisk": {"diskSizeGB": 128}, "x": [1]})
}

fn template(image: Value) -> Value {
    json!({"template": {"spec": {"image": image, "vmSize": "Standard_D4s_v3"}}})
}

const VERSION: &str = "9.6.20260210";
const NO_PLAN: &str = "MarketplaceNoPlan";
const WITH_PLAN: &str = "MarketplaceWithPlan";

/// The image in use, and the one of the stream, for each plan and generation.
fn successors() -> Vec<(&'static str, Architecture, Fields<'static>, Fields<'static>, &'static str)>
{
    let x86 = Architecture::X86_64;
    let mut all = vec![
        (
            "no plan, generation 1",
            x86,
            ["azureopenshift", "aro4", "aro_418", "418.94.20250122"],
            ["azureopenshift", "aro4", "aro_9_6", VERSION],
            NO_PLAN,
        ),
        (
            "no plan, generation 2",
            x86,
            ["azureopenshift", "aro4", "418-v2", "418.94.20250122"],
            ["azureopenshift", "aro4", "9_6-v2", VERSION],
            NO_PLAN,
        ),
        (
            "no plan, generation 2 by another name",
            x86,
            ["AzureOpenShift", "aro4", "418-Gen2", "418.94.20250122"],
            ["azureopenshift", "aro4", "9_6-v2", VERSION],
            NO_PLAN,
        ),
        (
            "ARM",
            Architecture::Aarch64,
            ["azureopenshift", "aro4", "418-arm", "418.94.20250122"],
            ["azureopenshift", "aro4", "aro_9_6_arm64", VERSION],
            NO_PLAN,
        ),
    ];
    for (offer, gen1) in [
        ("rh-ocp-worker", "rh-ocp-worker-gen1"),
        ("rh-opp-worker", "rh-opp-worker-gen1"),
        ("rh-oke-worker", "rh-oke-worker-gen1"),
    ] {
        for publisher in ["redhat", "redhat-limited"] {
            for sku in [offer, gen1] {
                all.push((
                    "a plan",
                    x86,
                    [publisher, offer, sku, "413.92.2023101700"],
                    [publisher, offer, sku, VERSION],
                    WITH_PLAN,
                ));
            }
        }
    }
    all
}

#[test]
fn each_plan_and_generation() {
    for (what, architecture, old, new, image_type) in successors() {
        let fixture = Fixture::rhel().on(architecture);
        let what = format!("{what}: {old:?}");
        let want = format!("{} → {}", old.join(":"), new.join(":"));
        let outcome = fixture.machine_api("Azure", &spec(image(old)));
        assert_eq!(outcome.line, want, "{what}");
        assert_eq!(outcome.after, spec(updated(new, image_type)), "{what}");

        let again = fixture.machine_api("Azure", &outcome.after);
        assert_eq!(again.line, format!("current {}", new.join(":")), "{what}");

        let outcome =
            fixture.cluster_api(TemplateKind::Azure, &template(json!({"marketplace": image(old)})));
        assert_eq!(outcome.line, want, "{what}, Cluster API");
        let mut after = image(new);
        if image_type == WITH_PLAN {
            after["thirdPartyImage"] = json!(true);
        }
        assert_eq!(outcome.after, template(json!({"marketplace": after})), "{what}, Cluster API");
        let again = fixture.cluster_api(TemplateKind::Azure, &outcome.after);
        assert_eq!(again.line, format!("current {}", new.join(":")), "{what}, Cluster API");
    }
}

#[test]
fn a_set_without_a_type_gets_one_once() {
    let new = ["azureopenshift", "aro4", "9_6-v2", VERSION];
    let outcome = Fixture::rhel().machine_api("Azure", &spec(image(new)));
    assert_eq!(outcome.line, format!("{0} → {0}", new.join(":")));
    assert_eq!(outcome.after, spec(updated(new, NO_PLAN)));
}

#[test]
fn what_is_left_alone() {
    let plan = "/architectures/x86_64/rhel-coreos-extensions/marketplace/azure/no-purchase-plan";
    let rhel = Fixture::rhel;
    let (gen1, gen2) = (
        ["azureopenshift", "aro4", "aro_418", "418.94.20250122"],
        ["azureopenshift", "aro4", "418-v2", "418.94.20250122"],
    );
    let latest = ["azureopenshift", "aro4", "418-v2", "latest"];
    let without = |path: &str| rhel().without(RHEL, &format!("{plan}{path}"));
    let custom = ["cncf-upstream", "capi", "ubuntu-2204-gen1", "133.1.20250601"];
    let other_offer = ["redhat", "rhel", "9-lvm-gen2", "9.6.0"];
    let unknown = ("error unknown-marketplace-image", "skip custom-image");
    let both = |code| (code, code);
    let cases = [
        ("an unknown publisher", rhel(), custom, unknown),
        ("an unknown offer", rhel(), other_offer, unknown),
        ("the newest one", rhel(), latest, both("skip looked-up-image")),
        ("no such plan", without(""), gen2, both("skip not-in-stream")),
        (
            "no generation 1 any more",
            without("/hyperVGen1"),
            gen1,
            both("skip generation-not-in-stream"),
        ),
        ("no generation 2", without("/hyperVGen2"), gen2, both("skip not-in-stream")),
        ("half an image", without("/hyperVGen2/sku"), gen2, both("skip not-in-stream")),
        ("no plans at all", Fixture::fedora(), gen2, both("skip not-in-stream")),
        ("POWER", rhel().on(Architecture::Ppc64le), gen2, both("skip azure-architecture")),
        ("Z", rhel().on(Architecture::S390x), gen2, both("skip azure-architecture")),
        (
            "no SKU",
            rhel(),
            ["azureopenshift", "aro4", "", "1"],
            both("error boot-image-field-missing"),
        ),
    ];
    for (what, fixture, fields, (machine_api, cluster_api)) in cases {
        let outcome = fixture.machine_api("Azure", &spec(image(fields)));
        assert_eq!(outcome.line, machine_api, "{what}");
        let template = template(json!({"marketplace": image(fields)}));
        let outcome = fixture.cluster_api(TemplateKind::Azure, &template);
        assert_eq!(outcome.line, cluster_api, "{what}, Cluster API");
    }
}

#[test]
fn security_types() {
    let old = image(["azureopenshift", "aro4", "418-v2", "418.94.20250122"]);
    let cases = [
        ("set", json!("ConfidentialVM"), "skip security-type"),
        ("a number", json!(1), "error boot-image-field-type"),
        (
            "empty",
            json!(""),
            "azureopenshift:aro4:418-v2:418.94.20250122 → azureopenshift:aro4:9_6-v2:9.6.20260210",
        ),
    ];
    for (what, security_type, want) in cases {
        let mut spec = spec(old.clone());
        spec["securityProfile"] = json!({"settings": {"securityType": security_type}});
        assert_eq!(Fixture::rhel().machine_api("Azure", &spec).line, want, "{what}");
        let mut template = template(json!({"marketplace": old}));
        template["template"]["spec"]["securityProfile"] = json!({"securityType": security_type});
        let outcome = Fixture::rhel().cluster_api(TemplateKind::Azure, &template);
        assert_eq!(outcome.line, want, "{what}, Cluster API");
    }
}

#[test]
fn template_without_image_or_with_a_wrong_one() {
    let cases = [
        ("none", Value::Null, "skip looked-up-image"),
        ("empty", json!({}), "skip looked-up-image"),
        ("a text", json!("x"), "error boot-image-field-type"),
        ("marketplace as a list", json!({"marketplace": []}), "error boot-image-field-type"),
        ("an empty marketplace", json!({"marketplace": {}}), "error boot-image-field-missing"),
    ];
    for (what, image, want) in cases {
        let outcome = Fixture::rhel().cluster_api(TemplateKind::Azure, &template(image));
        assert_eq!(outcome.line, want, "{what}");
    }
    let cases = [
        ("none", Value::Null, "error boot-image-field-missing"),
        ("empty", json!({}), "error boot-image-field-missing"),
        ("a text", json!("x"), "error boot-image-field-type"),
    ];
    for (what, image, want) in cases {
        let outcome = Fixture::rhel().machine_api("Azure", &spec(image));
        assert_eq!(outcome.line, want, "{what}, Machine API");
    }
}

#[test]
fn third_party_follows_the_plan() {
    let new = image(["azureopenshift", "aro4", "9_6-v2", VERSION]);
    let mut wrong = new.clone();
    wrong["thirdPartyImage"] = json!(true);
    wrong["unknown"] = json!("kept");
    let outcome =
        Fixture::rhel().cluster_api(TemplateKind::Azure, &template(json!({"marketplace": wrong})));
    let mut want = wrong;
    want["thirdPartyImage"] = json!(false);
    assert_eq!(outcome.after, template(json!({"marketplace": want})));
}
