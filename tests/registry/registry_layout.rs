//! Inconsistent layouts are rejected. Layouts stay complete with several writers, and after a
//! writer was killed.

use std::os::unix::fs::symlink;

use mosb_image::Digest;

use mosb_tests::registry_fixture::{anonymous_client, base, plan_on, source, target};
use mosb_tests::{Compression, Image, Layout, Tree};
use mosb_types::Diagnostic as _;

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_layout_is_refused() {
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), "secret of this machine").unwrap();
    type Spoil = fn(&Layout, &std::path::Path);
    let layer = |layout: &Layout| {
        let manifest = layout.json(&layout.digest("v1"));
        layout.blob_path(manifest["layers"][1]["digest"].as_str().unwrap())
    };
    let spoils: [(&str, Spoil, &str); 4] = [
        (
            "a manifest that is a link",
            |l, o| {
                let path = l.blob_path(&l.digest("v1"));
                std::fs::remove_file(&path).unwrap();
                symlink(o, path).unwrap();
            },
            "bad-layout",
        ),
        (
            "a folder of blobs that is a link",
            |l, _| {
                std::fs::rename(l.directory.join("blobs"), l.directory.join("else")).unwrap();
                symlink("else", l.directory.join("blobs")).unwrap();
            },
            "bad-layout",
        ),
        (
            "another manifest",
            |l, _| std::fs::write(l.blob_path(&l.digest("v1")), "{}").unwrap(),
            "digest-mismatch",
        ),
        (
            "no layout",
            |l, _| std::fs::remove_file(l.directory.join("oci-layout")).unwrap(),
            "bad-layout",
        ),
    ];
    for (what, spoil, want) in spoils {
        let directory = tempfile::tempdir().unwrap();
        let layout = base(directory.path(), 1 << 10);
        let image = source(&layout.reference("v1"));
        spoil(&layout, outside.path());
        let error = anonymous_client().resolve(&image, None).await.unwrap_err();
        assert_eq!(error.code(), want, "{what}: {error}");
    }
    let layers: [(&str, Spoil, &str); 3] = [
        (
            "a layer that is a link",
            |_, path| {
                std::fs::remove_file(path).unwrap();
                symlink("/etc/hostname", path).unwrap();
            },
            "bad-layout",
        ),
        ("a short layer", |_, path| std::fs::write(path, "x").unwrap(), "size-mismatch"),
        (
            "a changed layer",
            |_, path| {
                let mut bytes = std::fs::read(path).unwrap();
                bytes[600] ^= 1;
                std::fs::write(path, bytes).unwrap();
            },
            "digest-mismatch",
        ),
    ];
    for (what, spoil, want) in layers {
        let directory = tempfile::tempdir().unwrap();
        let layout = base(&directory.path().join("base"), 1 << 10);
        let resolved =
            anonymous_client().resolve(&source(&layout.reference("v1")), None).await.unwrap();
        spoil(&layout, &layer(&layout));
        let out = directory.path().join("out");
        let place = target(&format!("oci:{}", out.display()));
        let error =
            anonymous_client().push(&place, &plan_on(&resolved, "x", &["new"])).await.unwrap_err();
        assert_eq!(error.code(), want, "{what}: {error}");
        assert!(!out.join("index.json").exists(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_one_layout_keep_all_tags() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(&directory.path().join("base"), 1 << 20);
    let out = directory.path().join("out");
    let place = format!("oci:{}", out.display());
    let writers = (0..16).map(|n| {
        let (place, from) = (place.clone(), layout.reference("v1"));
        tokio::spawn(async move {
            let client = anonymous_client();
            let resolved = client.resolve(&source(&from), None).await.unwrap();
            let plan = plan_on(&resolved, &n.to_string(), &["moves", &format!("stays-{n}")]);
            client.push(&target(&place), &plan).await.unwrap();
            Digest::of(&plan.manifest)
        })
    });
    let mut digests = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        digests.push(writer.await.unwrap());
    }
    for (n, want) in digests.iter().enumerate() {
        let image = source(&format!("{place}:stays-{n}"));
        let found = anonymous_client().resolve(&image, None).await.unwrap();
        assert_eq!(found.manifest, *want, "{n}");
    }
    let moved = anonymous_client().resolve(&source(&format!("{place}:moves")), None).await.unwrap();
    assert!(digests.contains(&moved.manifest));
    let error = anonymous_client().resolve(&source(&place), None).await.unwrap_err();
    assert_eq!(error.code(), "layout-ambiguous", "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_asks_for_a_platform() {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(directory.path());
    let image = |architecture: &str| {
        let tar = Tree::new().file("etc/arch", 0o644, architecture).tar();
        Image::new().architecture(architecture).layer(Compression::Gzip, tar)
    };
    layout.put_index("all", &[image("amd64"), image("arm64")]);
    layout.put("one", &image("s390x"));
    let client = anonymous_client();
    for (tag, platform, want) in [
        ("all", None, Err("platform-ambiguous")),
        ("all", Some("linux/arm64"), Ok("linux/arm64")),
        ("all", Some("linux/ppc64le"), Err("platform-missing")),
        ("one", None, Ok("linux/s390x")),
        ("one", Some("linux/s390x"), Ok("linux/s390x")),
        ("one", Some("linux/amd64"), Err("platform-missing")),
    ] {
        let wanted = platform.map(|p: &str| p.parse().unwrap());
        let found = client.resolve(&source(&layout.reference(tag)), wanted.as_ref()).await;
        let found = found.map(|r| r.platform.unwrap().to_string()).map_err(|e| e.code());
        assert_eq!(found.as_deref().map_err(|e| *e), want, "{tag} {platform:?}");
    }
}
