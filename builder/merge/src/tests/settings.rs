//! The fields beside the Ignition config, and the images.

use super::*;
use mosb_api::KernelType;

#[test]
fn settings_are_merged() {
    // Row 70 of docs/reference/behaviours.md.
    let configs = vec![
        config(
            "a",
            "worker",
            json!({ "fips": true, "kernelType": "64k-pages", "kernelArguments": ["a=1", "quiet"] }),
        ),
        config("b", "worker", json!({ "kernelType": "realtime", "extensions": ["usbguard"] })),
        config(
            "c",
            "worker",
            json!({ "kernelType": "default", "kernelArguments": ["quiet"], "extensions": ["usbguard", "sysstat"] }),
        ),
        config("d", "worker", json!({ "fips": false, "kernelArguments": null, "config": null })),
    ];
    let rendered = rendered(&request("worker", configs));
    assert_eq!(
        rendered.object["spec"],
        json!({
            "baseOSExtensionsContainerImage": "", "config": { "ignition": { "version": "3.5.0" } },
            "extensions": ["usbguard", "usbguard", "sysstat"], "fips": true,
            "kernelArguments": ["a=1", "quiet", "quiet"], "kernelType": "realtime", "osImageURL": "",
        })
    );
    assert_eq!(rendered.config.kernel_type, KernelType::Realtime);
    let metadata = &rendered.object["metadata"];
    assert!(metadata.get("ownerReferences").is_none());
    assert_eq!(metadata["annotations"], json!({ labels::GENERATED_BY_CONTROLLER_VERSION: "mosb" }));
}

#[test]
fn the_last_administrator_names_the_images() {
    let (release, mine, other) = (
        format!("quay.io/release@{DIGEST}"),
        format!("quay.io/mine@{DIGEST}"),
        format!("quay.io/other@{DIGEST}"),
    );
    let names = |name: &str, image: &str| config(name, "worker", json!({ "osImageURL": image }));
    let generated = |name: &str, image: &str| {
        let mut one = names(name, image);
        let annotations = &mut one.config.metadata.annotations;
        annotations.insert(labels::GENERATED_BY_CONTROLLER_VERSION.to_owned(), "x".to_owned());
        one
    };
    let controller = json!({
        "metadata": { "annotations": { labels::RELEASE_IMAGE_VERSION: "4.20.0" } },
        "spec": { "baseOSContainerImage": release, "baseOSExtensionsContainerImage": other },
    });
    let with = |configs: Vec<Component>| Request {
        controller_config: Some(serde_json::from_value(controller.clone()).unwrap()),
        ..request("worker", configs)
    };
    for (what, configs, want, overridden) in [
        ("nobody", vec![names("a", "")], &release, false),
        ("generated", vec![generated("a", &mine)], &release, false),
        ("one", vec![names("a", &mine), generated("b", &other)], &mine, true),
        ("two", vec![names("a", &mine), names("b", &other)], &other, true),
        ("the same", vec![names("a", &release)], &release, false),
    ] {
        let rendered = rendered(&with(configs));
        assert_eq!(rendered.object["spec"]["osImageURL"], json!(want), "{what}");
        assert_eq!(
            rendered.object["spec"]["baseOSExtensionsContainerImage"],
            json!(other),
            "{what}"
        );
        let annotations = &rendered.object["metadata"]["annotations"];
        assert_eq!(
            annotations.get(labels::OS_IMAGE_URL_OVERRIDDEN).is_some(),
            overridden,
            "{what}"
        );
        assert_eq!(annotations[labels::RELEASE_IMAGE_VERSION], "4.20.0");
        let is_reported = rendered.warnings.iter().any(|it| it.code == "os-image-overridden");
        assert_eq!(is_reported, overridden, "{what}");
    }
    let component = rendered(&with(vec![names("10-prebuiltimage-osimageurl-worker", &mine)]));
    assert_eq!(component.object["spec"]["osImageURL"], json!(mine));
    assert!(component.warnings.is_empty(), "{:?}", component.warnings);
    let tagged = with(vec![names("a", "quay.io/mine:v1")]);
    let want = ("image-not-pinned".to_owned(), "a.yaml: a: spec.osImageURL".to_owned());
    assert_eq!(problems(&tagged), [want]);
    let want = Unpinned {
        reference: "quay.io/mine:v1".parse().unwrap(),
        image: "quay.io/mine:v1".to_owned(),
        place: "a.yaml: a: spec.osImageURL".to_owned(),
    };
    assert_eq!(unpinned(&tagged), [want]);
    let pinned = Request { pins: [("quay.io/mine:v1".to_owned(), mine.clone())].into(), ..tagged };
    assert_eq!(rendered(&pinned).object["spec"]["osImageURL"], json!(mine));
    let given = Request { os_image: Some(other.clone()), ..with(vec![names("a", "")]) };
    assert_eq!(rendered(&given).object["spec"]["osImageURL"], json!(other));
}
