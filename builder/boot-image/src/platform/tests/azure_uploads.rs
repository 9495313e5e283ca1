//! Uploaded images: of the installer, and of an administrator.

use serde_json::json;

use super::*;

const RELEASE: &str = "42.20250609.3.0";
const INSTALLED: &str = "/resourceGroups/demo-x7k2p-rg/providers/Microsoft.Compute/galleries\
                         /gallery_demo_x7k2p/images/demo-x7k2p-gen2/versions/latest";

fn uploaded(id: &str) -> Value {
    json!({"publisher": "", "offer": "", "sku": "", "version": "", "resourceID": id})
}

fn gallery(name: &str, version: &str) -> String {
    format!(
        "/subscriptions/s-1/resourceGroups/images/providers/Microsoft.Compute/galleries/mine/images\
         /{name}/versions/{version}"
    )
}

#[test]
fn what_the_installer_uploaded() {
    let group = "/resourceGroups/demo-x7k2p-rg/providers/Microsoft.Compute";
    let gen2 = format!("{INSTALLED} → azureopenshift:aro4:9_6-v2:9.6.20260210");
    let gen1 = INSTALLED.replace("-gen2", "");
    let image = format!("{group}/images/demo-x7k2p");
    let gen1_of = |id: &str| format!("{id} → azureopenshift:aro4:aro_9_6:9.6.20260210");
    let with_subscription = format!("/subscriptions/s-1{gen1}");
    let mine = gallery("fcos", "1.0.0");
    let cases = [
        ("generation 2", INSTALLED.to_owned(), gen2),
        ("generation 1", gen1.clone(), gen1_of(&gen1)),
        ("without a gallery", image.clone(), gen1_of(&image)),
        ("with the subscription", with_subscription.clone(), gen1_of(&with_subscription)),
        ("an administrator's gallery", mine, "skip unproven-image".to_owned()),
        (
            "another image of the group",
            format!("{group}/images/mine"),
            "skip unproven-image".to_owned(),
        ),
        ("another gallery", INSTALLED.replace("gallery_", "g_"), "skip unproven-image".to_owned()),
        ("no resource id", "mine".to_owned(), "skip unproven-image".to_owned()),
    ];
    for (what, id, want) in cases {
        let spec = json!({"image": uploaded(&id), "vmSize": "x"});
        assert_eq!(Fixture::rhel().machine_api("Azure", &spec).line, want, "{what}");
        let proven = Fixture::rhel().proven(&id).machine_api("Azure", &spec);
        assert!(proven.line.contains(" → azureopenshift:aro4:"), "{what}: {}", proven.line);
    }
    let spec = json!({"image": uploaded(INSTALLED), "vmSize": "x"});
    let outcome = Fixture::rhel().machine_api("Azure", &spec);
    let want = json!({
        "image": {
            "publisher": "azureopenshift", "offer": "aro4", "sku": "9_6-v2",
            "version": "9.6.20260210", "resourceID": "", "type": "MarketplaceNoPlan",
        },
        "vmSize": "x",
    });
    assert_eq!(outcome.after, want);
}

/// An administrator's map decides where a stream has no marketplace, and for images that it lists.
#[test]
fn by_the_administrators_map() {
    let (old, new) = (gallery("fcos", "41.0.1"), gallery("fcos", "42.0.1"));
    let (gen1, gen2) = ("/x/images/fcos-41".to_owned(), "/x/images/fcos-42-gen2".to_owned());
    let unversioned = ("/x/images/fcos-41".to_owned(), "/x/images/fcos-42".to_owned());
    let both = |old: &str, new: &str| {
        Fixture::fedora().mapped("41.20250105.3.0", old).mapped(RELEASE, new)
    };
    let only = |new: &str| Fixture::fedora().mapped(RELEASE, new);
    let change = format!("{old} → {new}");
    let cases = [
        ("of the map", both(&old, &new), &old, change.clone()),
        ("current", both(&old, &new), &new, format!("current {new}")),
        (
            "current in another case",
            both(&old, &new),
            &new.to_uppercase(),
            format!("current {}", new.to_uppercase()),
        ),
        ("proven", only(&new).proven(&old), &old, change.clone()),
        ("vouched", only(&new).vouched(), &old, change),
        ("not proven", only(&new), &old, "skip unproven-image".to_owned()),
        ("no map", Fixture::fedora().vouched(), &old, "skip no-image-for-release".to_owned()),
        (
            "another definition",
            both(&old, &gallery("x", "1")),
            &old,
            "skip custom-image".to_owned(),
        ),
        ("another generation", both(&gen1, &gen2), &gen1, "skip custom-image".to_owned()),
        ("out of the gallery", both(&old, &gen2), &old, "skip custom-image".to_owned()),
        (
            "without a gallery",
            both(&unversioned.0, &unversioned.1),
            &unversioned.0,
            format!("{} → {}", unversioned.0, unversioned.1),
        ),
        (
            "no artifact",
            both(&old, &new).on(Architecture::Aarch64),
            &old,
            "skip not-in-stream".to_owned(),
        ),
    ];
    for (what, fixture, id, want) in cases {
        let spec = json!({"image": uploaded(id), "vmSize": "x"});
        let outcome = fixture.machine_api("Azure", &spec);
        assert_eq!(outcome.line, want, "{what}");
        let template = |id: &str| json!({"template": {"spec": {"image": {"id": id}, "x": 1}}});
        let by_id = fixture.cluster_api(TemplateKind::Azure, &template(id));
        assert_eq!(by_id.line, want, "{what}, Cluster API");
        if let Some((_, to)) = want.split_once(" → ") {
            assert_eq!(outcome.after["image"], uploaded(to), "{what}");
            assert_eq!(by_id.after, template(to), "{what}, Cluster API");
        }
    }
    let listed = Fixture::rhel().mapped("9.6.20260210-0", &new).mapped("9.4.20250101-0", &old);
    let outcome = listed.machine_api("Azure", &json!({"image": uploaded(&old)}));
    assert_eq!(outcome.line, format!("{old} → {new}"), "the map wins over a marketplace");
}

#[test]
fn galleries_of_templates() {
    let community = "/communityGalleries/fcos-1234/images/fcos/versions";
    let (old, new) = (format!("{community}/41.0.1"), format!("{community}/42.0.1"));
    let map = |old: &str, new: &str| {
        Fixture::fedora().mapped("41.20250105.3.0", old).mapped(RELEASE, new)
    };
    let private = json!({"subscriptionID": "s-1", "resourceGroup": "images", "gallery": "mine", "name": "fcos", "version": "41.0.1", "plan": {"x": 1}});
    let public = json!({"gallery": "fcos-1234", "name": "fcos", "version": "41.0.1"});
    let (old_private, new_private) = (gallery("fcos", "41.0.1"), gallery("fcos", "42.0.1"));
    let latest = json!({"gallery": "fcos-1234", "name": "fcos", "version": "latest"});
    let half = json!({"gallery": "fcos-1234", "version": "1"});
    let looked_up = "skip looked-up-image".to_owned();
    let missing = "error boot-image-field-missing".to_owned();
    let cases = [
        (
            "private",
            "computeGallery",
            private.clone(),
            map(&old_private, &new_private),
            format!("{old_private} → {new_private}"),
        ),
        (
            "shared",
            "sharedGallery",
            private,
            map(&old_private, &new_private),
            format!("{old_private} → {new_private}"),
        ),
        ("community", "computeGallery", public.clone(), map(&old, &new), format!("{old} → {new}")),
        (
            "not proven",
            "computeGallery",
            public,
            map(&old_private, &new),
            "skip unproven-image".to_owned(),
        ),
        ("the newest", "computeGallery", latest, map(&old, &new).vouched(), looked_up),
        ("without a name", "computeGallery", half, map(&old, &new), missing),
    ];
    for (what, field, mut value, fixture, want) in cases {
        let template = |value: &Value| json!({"template": {"spec": {"image": {field: value}}}});
        let outcome = fixture.cluster_api(TemplateKind::Azure, &template(&value));
        assert_eq!(outcome.line, want, "{what}");
        if want.contains('→') {
            value["version"] = json!("42.0.1");
        }
        assert_eq!(outcome.after, template(&value), "{what}");
    }
}
