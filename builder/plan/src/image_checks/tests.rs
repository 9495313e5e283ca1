use serde_json::{Value, json};

use super::*;
use crate::plan::BaseName;
use mosb_api::OwnCheck;
use mosb_api::image_checks::ImageCheckSettings;
use mosb_image::{DiffId, Digest};

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

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Passed(_) => "passed",
        Verdict::Failed(_) => "failed",
        Verdict::Unknown(_) => "unknown",
    }
}

fn sentence(verdict: Verdict) -> String {
    match verdict {
        Verdict::Passed(message) | Verdict::Unknown(message) => message,
        Verdict::Failed(CheckFailure { message, remedy, .. }) => format!("{message}; {remedy}"),
    }
}

#[test]
fn bootable_images_are_recognised_by_their_labels() {
    for (labels, want) in [
        (json!({ "containers.bootc": "1" }), "passed"),
        (json!({ "ostree.bootable": "true" }), "passed"),
        (json!({ "ostree.bootable": "false" }), "failed"),
        (json!({ "ostree.commit": "abc" }), "failed"),
        (json!({}), "failed"),
    ] {
        assert_eq!(word(&labelled_bootable(&labelled(labels.clone()))), want, "{labels}");
    }
}

#[test]
fn the_architecture_is_the_machines() {
    let is = image("arm64", json!({}), json!({}));
    for (wanted, want) in [
        (None, "unknown"),
        (Some("linux/arm64"), "passed"),
        (Some("linux/arm64/v8"), "passed"),
        (Some("linux/amd64"), "failed"),
    ] {
        let wanted: Option<Platform> = wanted.map(|text| text.parse().unwrap());
        let wanted = wanted.as_ref().map(|wanted| (wanted, "the machines are"));
        let wanted = wanted.ok_or("no OS image");
        assert_eq!(word(&architecture(&is, wanted)), want, "{wanted:?}");
    }
    let wanted = "linux/amd64".parse().unwrap();
    assert_eq!(
        sentence(architecture(&is, Ok((&wanted, "the machines are")))),
        "acme/os is for linux/arm64, not for linux/amd64 as the machines are; build it for linux/amd64"
    );
    assert_eq!(
        sentence(architecture(&is, Err("it can't be read"))),
        "it is for linux/arm64, and what the machines are is not known: it can't be read"
    );
}

#[test]
fn the_release_is_judged_where_both_say_so() {
    let (passed, failed, unknown) = ("passed", "failed", "unknown");
    let version = |text: &str| json!({ "version": text });
    let rhcos = |text: &str| json!({ "io.openshift.build.versions": format!("kernel=5.14, machine-os={text}") });
    let none = || json!({});
    for (what, labels, annotations, stock, release, want) in [
        ("the same base", json!({ "baseOSContainerImage": STOCK }), none(), none(), None, passed),
        (
            "the same base, by annotation",
            none(),
            json!({ "org.opencontainers.image.base.digest": STOCK.split_once('@').unwrap().1 }),
            none(),
            None,
            passed,
        ),
        (
            "the older builder's label",
            json!({ "releaseversion": "4.20.3" }),
            none(),
            none(),
            Some("4.20.0"),
            passed,
        ),
        (
            "of another release",
            json!({ "releaseversion": "4.19.3" }),
            none(),
            none(),
            Some("4.20.0-rc.1"),
            failed,
        ),
        (
            "the release is not explain",
            json!({ "releaseversion": "4.19.3" }),
            none(),
            none(),
            None,
            unknown,
        ),
        (
            "another day",
            version("418.94.202501221327-0"),
            none(),
            version("418.94.202502031400-0"),
            None,
            passed,
        ),
        (
            "another release",
            version("417.94.202501221327-0"),
            none(),
            version("418.94.202501221327-0"),
            None,
            failed,
        ),
        (
            "of OpenShift's build system",
            rhcos("9.6.20250523-0"),
            none(),
            rhcos("9.6.20250611-0"),
            None,
            passed,
        ),
        (
            "of OpenShift's build system, another",
            rhcos("9.6.20250523-0"),
            none(),
            rhcos("10.0.20250611-0"),
            None,
            failed,
        ),
        ("Fedora", version("41.20250105.3.0"), none(), version("42.20250401.3.0"), None, failed),
        (
            "somebody's own version",
            version("1.0.0"),
            none(),
            version("418.94.202501221327-0"),
            None,
            unknown,
        ),
        (
            "somebody's own version over the OS's",
            json!({ "org.opencontainers.image.version": "2.1", "version": "418.94.202501221327-0" }),
            none(),
            version("418.94.202501221327-0"),
            None,
            passed,
        ),
        ("the cluster's has none", version("418.94.202501221327-0"), none(), none(), None, unknown),
    ] {
        let cluster =
            Cluster { base: Some(STOCK.parse().unwrap()), release: release.map(str::to_owned) };
        let image = image("amd64", labels, annotations);
        let verdict = self::release(&image, &cluster, Ok(&labelled(stock)));
        assert_eq!(word(&verdict), want, "{what}: {verdict:?}");
    }
    let cluster = Cluster::default();
    let verdict = self::release(
        &labelled(version("417.94.202501221327-0")),
        &cluster,
        Ok(&labelled(version("418.94.202501221327-0"))),
    );
    assert_eq!(
        sentence(verdict),
        "acme/os is of 417.94.202501221327-0, and the cluster is of 418.94.202501221327-0; build it again on the cluster's OS image, or install the release that it was built for"
    );
    let unread = Err("the cluster's OS image can't be read");
    assert_eq!(word(&self::release(&labelled(none()), &cluster, unread)), unknown);
}

/// An image with these layers, of these sizes.
fn layered(layers: &[(&str, u64)]) -> Base {
    let sizes: Vec<Value> = layers.iter().map(|(_, size)| json!({ "size": size })).collect();
    let diff_ids: Vec<DiffId> = layers.iter().map(|(id, _)| DiffId::of(id.as_bytes())).collect();
    let config = json!({ "os": "linux", "architecture": "amd64", "rootfs": { "diff_ids": diff_ids },
        "config": { "Labels": { "containers.bootc": "1" } } });
    Base::new(
        BaseName::from_layout(Digest::of(b"")),
        "acme/os".to_owned(),
        None,
        json!({ "layers": sizes }).to_string().as_bytes(),
        config.to_string().as_bytes(),
    )
    .unwrap()
}

fn facts<'a>(image: &'a Base, base: &'a Base, cluster: &'a Cluster) -> Facts<'a> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    static UNREAD: Verdict = Verdict::Unknown(String::new());
    Facts {
        image,
        base: Ok(base),
        contents: Err("not read"),
        platform: Err("no node"),
        cluster,
        stock: Err("none"),
        kubernetes: Ok("v1.33.2+k3s1".parse().unwrap()),
        held_packages: &NONE,
        max_size_mib: None,
        signature: &UNREAD,
    }
}

#[test]
fn base_layers_are_the_lowest_ones() {
    let cluster = Cluster::default();
    let base = layered(&[("a", 1), ("b", 1)]);
    for (layers, want) in [
        (&["a", "b", "c"][..], "passed"),
        (&["a", "b"], "passed"),
        (&["a", "c", "b"], "failed"),
        (&["a"], "failed"),
        (&["squashed"], "failed"),
    ] {
        let layers: Vec<_> = layers.iter().map(|layer| (*layer, 1)).collect();
        let image = layered(&layers);
        let facts = facts(&image, &base, &cluster);
        assert_eq!(word(&check(CheckName::BaseLayers, facts)), want, "{layers:?}");
        let unknown = Facts { base: Err("built elsewhere"), ..facts };
        assert_eq!(word(&check(CheckName::BaseLayers, unknown)), "unknown");
    }
}

#[test]
fn size_is_bounded_for_any_manifest() {
    let cluster = Cluster::default();
    const MIB: u64 = 1 << 20;
    for (sizes, limit, want) in [
        (&[MIB, MIB][..], Some(2), "passed"),
        (&[MIB, MIB + 1], Some(2), "failed"),
        (&[u64::MAX, u64::MAX], Some(u32::MAX), "failed"),
        (&[u64::MAX], None, "passed"),
    ] {
        let layers: Vec<_> = sizes.iter().map(|size| ("a", *size)).collect();
        let image = layered(&layers);
        let facts = Facts { max_size_mib: limit, ..facts(&image, &image, &cluster) };
        assert_eq!(word(&check(CheckName::Size, facts)), want, "{sizes:?}");
    }
}

fn with_packages(packages: &[(&str, &str)]) -> Contents {
    let packages = packages.iter();
    let packages = packages.map(|(name, is)| ((*name).to_owned(), vec![(*is).to_owned()]));
    Contents {
        kernels: vec!["6.1".to_owned()],
        unified_kernel: None,
        packages: Some(packages.collect()),
    }
}

#[test]
fn kubelet_is_not_newer_nor_too_old() {
    let (image, cluster) = (layered(&[("a", 1)]), Cluster::default());
    for (name, version, want) in [
        ("kubelet", "1.33.9-1.1", "passed"),
        ("kubelet", "1:1.30.0", "passed"),
        ("kubelet", "1.29.9", "failed"),
        ("kubelet", "1.34.0", "failed"),
        ("openshift-kubelet", "4.20.0-202509230726", "passed"),
        ("openshift-kubelet", "4.21.0", "failed"),
        ("kubernetes1.33", "1.33.2-1.fc42", "passed"),
        ("kubernetes1.34-kubelet", "1.34.1", "failed"),
        ("kubernetes1.34-client", "1.34.1", "unknown"),
        ("kubelet", "99999999999999.1", "unknown"),
        ("kubelet", "stable", "unknown"),
    ] {
        let contents = with_packages(&[(name, version), ("bash", "9.9")]);
        let facts = Facts { contents: Ok(&contents), ..facts(&image, &image, &cluster) };
        let verdict = check(CheckName::KubeletSkew, facts);
        assert_eq!(word(&verdict), want, "{name} {version}: {verdict:?}");
        let unknown = Facts { kubernetes: Err("it does not answer"), ..facts };
        assert_eq!(word(&check(CheckName::KubeletSkew, unknown)), "unknown");
    }
}

#[test]
fn held_packages_have_their_version() {
    let (image, cluster) = (layered(&[("a", 1)]), Cluster::default());
    let contents = with_packages(&[("kernel", "6.1.140-1.el9"), ("bash", "5.2")]);
    for (name, held, want) in [
        ("kernel", "6.1.140-1.el9", "passed"),
        ("kernel", "6.1.140", "passed"),
        ("kernel", "6.1.14", "failed"),
        ("kernel", "6.1.141", "failed"),
        ("zsh", "1", "passed"),
    ] {
        let packages = [(name.to_owned(), held.to_owned())].into();
        let facts = Facts {
            contents: Ok(&contents),
            held_packages: &packages,
            ..facts(&image, &image, &cluster)
        };
        let verdict = check(CheckName::PackagesHeld, facts);
        assert_eq!(word(&verdict), want, "{name} {held}: {verdict:?}");
        let unknown = Facts { contents: Err("a Containerfile was run"), ..facts };
        assert_eq!(word(&check(CheckName::PackagesHeld, unknown)), "unknown");
    }
}

#[test]
fn bootable_image_has_kernel_and_no_seal() {
    let (image, cluster) = (layered(&[("a", 1)]), Cluster::default());
    let booted = with_packages(&[]);
    for (what, contents, want) in [
        ("a kernel", booted.clone(), "passed"),
        ("none", Contents { kernels: Vec::new(), ..booted.clone() }, "failed"),
        (
            "sealed",
            Contents { unified_kernel: Some("boot/EFI/Linux/6.1.efi".to_owned()), ..booted },
            "failed",
        ),
    ] {
        let facts = Facts { contents: Ok(&contents), ..facts(&image, &image, &cluster) };
        assert_eq!(word(&check(CheckName::Bootable, facts)), want, "{what}");
        let unread = Facts { contents: Err("not read"), ..facts };
        assert_eq!(word(&check(CheckName::Bootable, unread)), "passed");
    }
}

#[test]
fn list_by_hand_names_what_only_clusters_know() {
    let base = labelled(json!({ "containers.bootc": "1" }));
    let contents = Contents::default();
    let cluster = Cluster::default();
    let platform = "linux/arm64".parse().unwrap();
    let unsigned = Verdict::Failed(CheckFailure {
        code: "signature-not-accepted",
        message: "it has no signature".to_owned(),
        remedy: "sign it".to_owned(),
    });
    let facts = Facts {
        contents: Ok(&contents),
        platform: Ok((&platform, "--platform says")),
        kubernetes: Err("no cluster is asked"),
        max_size_mib: Some(1),
        signature: &unsigned,
        ..facts(&base, &base, &cluster)
    };
    let own = [("lint".to_owned(), OwnCheck::default())].into();
    let modes = [(CheckName::KubeletSkew, CheckMode::Off), (CheckName::Bootable, CheckMode::Block)];
    let settings = ImageCheckSettings { modes: modes.into(), own, ..ImageCheckSettings::default() };
    let of = |facts: Result<Facts<'_>, &str>| -> Vec<_> {
        let made = by_hand(facts, &settings).into_iter();
        made.map(|made| {
            let result = made.verdict.result(&made.name, made.mode);
            (made.name, result.verdict.as_str(), result.is_blocking())
        })
        .collect()
    };
    let found = of(Ok(facts));
    let want = [
        ("base-layers", "passed", false),
        ("bootable", "failed", true),
        ("architecture", "failed", true),
        ("release", "unknown", false),
        ("packages-held", "passed", false),
        ("size", "passed", false),
        ("signature", "failed", true),
        ("lint", "unknown", false),
    ];
    assert_eq!(found, want.map(|(check, verdict, blocks)| (check.to_owned(), verdict, blocks)));
    let unknown: Vec<_> = found.into_iter().map(|(check, ..)| (check, "unknown", false)).collect();
    assert_eq!(of(Err("it is not built")), unknown);
}
