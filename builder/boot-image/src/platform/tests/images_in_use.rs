//! The images of sets that are left alone.

use serde_json::json;

use super::*;

#[test]
fn a_skip_does_not_hide_the_image() {
    let gallery = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/x/images/y/versions/1.0.0";
    let urn = json!({"publisher": "azureopenshift", "offer": "aro4", "sku": "418", "version": "1"});
    let cases = [
        ("AWS", json!({"ami": {"id": "a"}, "placement": {"region": "r"}}), Some("a")),
        ("AWS", json!({"ami": {"id": "a", "arn": "b"}, "placement": {"region": "r"}}), None),
        ("AWS", json!({"ami": {"filters": [{}]}, "placement": {"region": "r"}}), None),
        (
            "GCP",
            json!({"disks": [{"boot": true, "image": "projects/mine/global/images/a"}]}),
            Some("projects/mine/global/images/a"),
        ),
        (
            "Azure",
            json!({"image": urn, "securityProfile": {"settings": {"securityType": "x"}}}),
            Some("azureopenshift:aro4:418:1"),
        ),
        ("Azure", json!({"image": {"resourceID": gallery}}), Some(gallery)),
        ("VSphere", json!({"template": "rhcos-1"}), Some("rhcos-1 (418.94.202511191518-0)")),
        ("VSphere", json!({"template": "other"}), Some("other")),
        ("BareMetal", json!({"image": {"url": "https://x/y"}}), Some("https://x/y")),
        ("OpenStack", json!({"image": "rhcos"}), Some("rhcos")),
        ("Nutanix", json!({"image": {"name": "rhcos"}}), None),
    ];
    let fixture = || Fixture::fedora().mapped("418.94.202511191518-0", "rhcos-1");
    for (platform, spec, want) in cases {
        let outcome = fixture().machine_api(platform, &spec);
        assert!(outcome.line.starts_with("skip "), "{platform} {spec}: {}", outcome.line);
        let image = outcome.image.map(|image| image.to_string());
        assert_eq!(image.as_deref(), want, "{platform} {spec}");
    }
    let volume = |source: Value| {
        json!({"virtualMachineTemplate": {"spec": {"template": {"spec": {
            "domain": {"devices": {"disks": [{"name": "a"}]}},
            "volumes": [{"name": "a", "containerDisk": source}] }}}}})
    };
    let of_gallery = json!({"subscriptionID": "s", "resourceGroup": "g", "gallery": "x",
        "name": "y", "version": "1.0.0"});
    let cases = [
        (TemplateKind::Aws, json!({"ami": {"id": "a"}}), Some("a")),
        (TemplateKind::Aws, json!({"ami": {}}), None),
        (TemplateKind::Gcp, json!({"imageFamily": "a"}), None),
        (TemplateKind::Azure, json!({"image": {"computeGallery": of_gallery}}), Some(gallery)),
        (TemplateKind::Azure, json!({"image": {"id": gallery}}), Some(gallery)),
        (TemplateKind::Azure, json!({}), None),
        (
            TemplateKind::VSphere,
            json!({"template": "rhcos-1", "snapshot": "s"}),
            Some("rhcos-1 (418.94.202511191518-0)"),
        ),
        (TemplateKind::OpenStack, json!({"image": {"id": "a"}}), Some("a")),
        (TemplateKind::OpenStack, json!({"image": {"filter": {"tags": ["a"]}}}), None),
        (TemplateKind::Metal3, json!({"image": {"url": "https://x/y"}}), Some("https://x/y")),
        (TemplateKind::Metal3, json!({"customDeploy": {"method": "x"}}), None),
        (TemplateKind::KubeVirt, volume(json!({"image": "quay.io/x/y:z"})), Some("quay.io/x/y:z")),
    ];
    for (kind, spec, want) in cases {
        let spec = json!({"template": {"spec": spec}});
        let outcome = fixture().cluster_api(kind, &spec);
        assert!(outcome.line.starts_with("skip "), "{kind:?} {spec}: {}", outcome.line);
        let image = outcome.image.map(|image| image.to_string());
        assert_eq!(image.as_deref(), want, "{kind:?} {spec}");
    }
}
