use serde_json::{Value, json};

use super::*;
use mosb_plan::plan::BaseName;

const STOCK: &str =
    "quay.example/os@sha256:220a60ecd4a3c32c282622a625a54db9ba0ff55b5ba9c29c7064a2bc358b6a3e";

fn image(architecture: &str, labels: Value, annotations: Value) -> Base {
    let manifest = json!({ "layers": [], "annotations": annotations });
    let config = json!({
        "os": "linux", "architecture": architecture,
        "config": { "Labels": labels }, "rootfs": { "diff_ids": [] },
    });
    let manifest = manifest.to_string();
    Base::new(
        BaseName::from_layout(Digest::of(b"")),
        "acme/os".to_owned(),
        None,
        manifest.as_bytes(),
        config.to_string().as_bytes(),
    )
    .unwrap()
}

fn labelled(labels: Value) -> Base {
    image("amd64", labels, json!({}))
}

#[test]
fn bootable_images_are_recognised_by_their_labels() {
    for (labels, want) in [
        (json!({ "containers.bootc": "1" }), Outcome::Passed),
        (json!({ "ostree.bootable": "true" }), Outcome::Passed),
        (json!({ "ostree.bootable": "false" }), Outcome::Failed),
        (json!({ "ostree.commit": "abc" }), Outcome::Failed),
        (json!({}), Outcome::Failed),
    ] {
        assert_eq!(bootable(&labelled(labels.clone())).outcome, want, "{labels}");
    }
}

#[test]
fn the_architecture_is_the_machines() {
    let is = image("arm64", json!({}), json!({}));
    for (wanted, want) in [
        (None, Outcome::Skipped),
        (Some("linux/arm64"), Outcome::Passed),
        (Some("linux/arm64/v8"), Outcome::Passed),
        (Some("linux/amd64"), Outcome::Failed),
    ] {
        let wanted: Option<Platform> = wanted.map(|text| text.parse().unwrap());
        let wanted = wanted.as_ref().map(|wanted| (wanted, "the machines are"));
        let wanted = wanted.ok_or("no OS image");
        assert_eq!(architecture(&is, wanted).outcome, want, "{wanted:?}");
    }
    let wanted = "linux/amd64".parse().unwrap();
    assert_eq!(
        architecture(&is, Ok((&wanted, "the machines are"))).sentence(),
        "acme/os is for linux/arm64, not for linux/amd64 as the machines are; build it for linux/amd64"
    );
    assert_eq!(
        architecture(&is, Err("it can't be read")).sentence(),
        "it is for linux/arm64, and what the machines are is not known: it can't be read"
    );
}

#[test]
fn the_release_is_judged_where_both_say_so() {
    use Outcome::{Failed, Passed, Skipped};
    let version = |text: &str| json!({ "version": text });
    let rhcos = |text: &str| json!({ "io.openshift.build.versions": format!("kernel=5.14, machine-os={text}") });
    let none = || json!({});
    for (what, labels, annotations, stock, release, want) in [
        ("the same base", json!({ "baseOSContainerImage": STOCK }), none(), none(), None, Passed),
        (
            "the same base, by annotation",
            none(),
            json!({ "org.opencontainers.image.base.digest": STOCK.split_once('@').unwrap().1 }),
            none(),
            None,
            Passed,
        ),
        (
            "the older builder's label",
            json!({ "releaseversion": "4.20.3" }),
            none(),
            none(),
            Some("4.20.0"),
            Passed,
        ),
        (
            "of another release",
            json!({ "releaseversion": "4.19.3" }),
            none(),
            none(),
            Some("4.20.0-rc.1"),
            Failed,
        ),
        (
            "the release is not explain",
            json!({ "releaseversion": "4.19.3" }),
            none(),
            none(),
            None,
            Skipped,
        ),
        (
            "another day",
            version("418.94.202501221327-0"),
            none(),
            version("418.94.202502031400-0"),
            None,
            Passed,
        ),
        (
            "another release",
            version("417.94.202501221327-0"),
            none(),
            version("418.94.202501221327-0"),
            None,
            Failed,
        ),
        (
            "of OpenShift's build system",
            rhcos("9.6.20250523-0"),
            none(),
            rhcos("9.6.20250611-0"),
            None,
            Passed,
        ),
        (
            "of OpenShift's build system, another",
            rhcos("9.6.20250523-0"),
            none(),
            rhcos("10.0.20250611-0"),
            None,
            Failed,
        ),
        ("Fedora", version("41.20250105.3.0"), none(), version("42.20250401.3.0"), None, Failed),
        (
            "somebody's own version",
            version("1.0.0"),
            none(),
            version("418.94.202501221327-0"),
            None,
            Skipped,
        ),
        (
            "somebody's own version over the OS's",
            json!({ "org.opencontainers.image.version": "2.1", "version": "418.94.202501221327-0" }),
            none(),
            version("418.94.202501221327-0"),
            None,
            Passed,
        ),
        ("the cluster's has none", version("418.94.202501221327-0"), none(), none(), None, Skipped),
    ] {
        let cluster =
            Cluster { base: Some(STOCK.parse().unwrap()), release: release.map(str::to_owned) };
        let image = image("amd64", labels, annotations);
        let check = self::release(&image, &cluster, &Ok(labelled(stock)));
        assert_eq!(check.outcome, want, "{what}: {}", check.message);
    }
    let cluster = Cluster::default();
    let check = self::release(
        &labelled(version("417.94.202501221327-0")),
        &cluster,
        &Ok(labelled(version("418.94.202501221327-0"))),
    );
    assert_eq!(
        check.sentence(),
        "acme/os is of 417.94.202501221327-0, and the cluster is of 418.94.202501221327-0; build it again on the cluster's OS image, or install the release that it was built for"
    );
    let unread = Err("the cluster's OS image can't be read".to_owned());
    let check = self::release(&labelled(none()), &cluster, &unread);
    assert_eq!(check.outcome, Skipped);
}
