//! Pushes from every kind of source to every kind of registry, with the minimum of transferred
//! data.

use mosb_image::Digest;
use mosb_registry::{Destination, Error, MovedTag, former_tag};

use mosb_tests::registry_fixture::{
    anonymous_client, base, client, options_for, plan_on, source, target,
};
use mosb_tests::{Access, FaultProxy, Image, Layout, Registry, Server, Transport, run};
use mosb_types::Diagnostic as _;

const REGISTRIES: [(Server, Access, Transport); 6] = [
    (Server::Debian, Access::Anyone, Transport::Http),
    (Server::Debian, Access::Basic, Transport::Https),
    (Server::Distribution, Access::Anyone, Transport::Http),
    (Server::Distribution, Access::Token, Transport::Http),
    (Server::Distribution, Access::Token, Transport::Https),
    (Server::Olareg, Access::Anyone, Transport::Http),
];

/// Reads the whole image by skopeo, which verifies every blob.
#[track_caller]
fn whole(registry: &Registry, image: &str) {
    let to = tempfile::tempdir().unwrap();
    registry.pull(image, &format!("dir:{}", to.path().display()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_built_upon_in_every_registry() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(directory.path(), 6 << 20);
    for (server, access, transport) in REGISTRIES {
        let what = format!("{server:?} {access:?} {transport:?}");
        let registry = Registry::start(server, access, transport);
        registry.push(&layout, "v1", "acme/base:v1");
        for (from, to) in [
            (registry.repository("acme/base:v1"), "acme/base"),
            (registry.repository("acme/base:v1"), "other/os"),
            (layout.reference("v1"), "third/os"),
        ] {
            let client = client(&registry);
            let resolved = client.resolve(&source(&from), None).await.unwrap();
            assert_eq!(resolved.manifest.to_string(), layout.digest("v1"), "{what}");
            let plan = plan_on(&resolved, to, &["moves", "stays"]);
            let place = target(&registry.repository(to));
            let pushed =
                client.push(&place, &plan).await.unwrap_or_else(|e| panic!("{what} {to}: {e}"));
            let digest = Digest::of(&plan.manifest);
            assert_eq!(*pushed.digest.value(), digest, "{what} {to}");
            assert!(pushed.moved_tags.is_empty(), "{what} {to}");
            let image = pushed.image.unwrap().value().to_string();
            assert_eq!(image, format!("{}@{digest}", registry.repository(to)), "{what}");
            for tag in ["moves", "stays"] {
                let found = registry.inspect(&format!("{to}:{tag}"), &registry.authfile()).ok();
                assert_eq!(found.json()["Digest"], digest.to_string(), "{what} {to}:{tag}");
            }
            whole(&registry, &format!("{to}:moves"));

            let again = client.with_new_stats();
            again.push(&place, &plan).await.unwrap();
            assert_eq!(again.transfer_stats().pushed(), 0, "{what} {to}: pushed again");
            let other = plan_on(&resolved, &format!("{to}, changed"), &["moves", "new"]);
            let other = again.push(&place, &other).await.unwrap();
            let name = former_tag("moves", &digest);
            let former = format!("{to}:{name}");
            let moved =
                MovedTag { tag: "moves".to_owned(), former: digest, former_tag: Some(name) };
            assert_eq!(other.moved_tags, [moved], "{what} {to}");
            let found = registry.inspect(&former, &registry.authfile()).ok();
            assert_eq!(found.json()["Digest"], digest.to_string(), "{what} {former}");
        }
        if access != Access::Anyone {
            let options = options_for(&registry, &registry.wrong_authfile());
            let wrong = mosb_registry::Client::new(&options).unwrap();
            let image = source(&registry.repository("acme/base:v1"));
            let error = wrong.resolve(&image, None).await.unwrap_err();
            assert!(matches!(error, Error::Denied { .. }), "{what}: {error}");
            assert!(error.to_string().contains("wrong.json"), "{what}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_of_another_platform_does_not_move() {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(&directory.path().join("base"));
    for platform in ["amd64", "arm64"] {
        layout.put(platform, &Image::new().architecture(platform));
    }
    let registry = Registry::plain();
    let client = anonymous_client();
    let written = format!("oci:{}", directory.path().join("written").display());
    for to in [registry.repository("acme/os"), written] {
        let place = target(&to);
        let [amd, arm] = ["amd64", "arm64"].map(|platform| layout.reference(platform));
        let amd = client.resolve(&source(&amd), None).await.unwrap();
        let arm = client.resolve(&source(&arm), None).await.unwrap();
        client.push(&place, &plan_on(&amd, "one", &["name"])).await.unwrap();
        let other = arm.platform.clone().unwrap();
        let planned = client.check_tag(&place, "name", &other).await.unwrap_err();
        let error = client.push(&place, &plan_on(&arm, "two", &["name"])).await.unwrap_err();
        assert!(matches!(error, Error::TagOfAnotherPlatform { .. }), "{to}: {error}");
        assert_eq!(planned.to_string(), error.to_string(), "{to}: before the build");
        assert!(error.to_string().contains(":name is an image for linux/amd64, and"), "{error}");
        let named = client.resolve(&source(&format!("{to}:name")), None).await.unwrap();
        assert_eq!(named.platform.unwrap().architecture(), "amd64", "{to}");
        // Other tags, and the same platform, are pushed.
        client.push(&place, &plan_on(&arm, "two", &["other"])).await.unwrap();
        let moved = client.push(&place, &plan_on(&amd, "three", &["name"])).await.unwrap();
        assert_eq!(moved.moved_tags.len(), 1, "{to}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_builds_image_gets_a_tag() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(directory.path(), 1 << 20);
    let registry = Registry::plain();
    let client = anonymous_client();
    let resolved = client.resolve(&source(&layout.reference("v1")), None).await.unwrap();
    let place = target(&registry.repository("acme/os"));
    let [one, two, three] = ["one", "two", "three"].map(|name| plan_on(&resolved, name, &["name"]));
    client.push(&place, &one).await.unwrap();
    // Both builds begin while the tag names the first image.
    let slow = client.begin_push(&place, &three.tags, 0).await.unwrap();
    client.push(&place, &two).await.unwrap();
    let pushed = slow.finish(&three, None).await.unwrap();
    let meanwhile = Digest::of(&two.manifest);
    let name = former_tag("name", &meanwhile);
    let found = registry.inspect(&format!("acme/os:{name}"), &registry.authfile()).ok();
    assert_eq!(found.json()["Digest"], meanwhile.to_string());
    let moved = MovedTag { tag: "name".to_owned(), former: meanwhile, former_tag: Some(name) };
    assert_eq!(pushed.moved_tags, [moved]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_copied_between_registries_and_layouts() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(&directory.path().join("base"), 20 << 20);
    let from = Registry::plain();
    let to = Registry::start(Server::Distribution, Access::Anyone, Transport::Http);
    from.push(&layout, "v1", "acme/base:v1");
    let client = anonymous_client();
    let resolved = client.resolve(&source(&from.repository("acme/base:v1")), None).await.unwrap();
    let plan = plan_on(&resolved, "x", &["new"]);
    client.push(&target(&to.repository("acme/os")), &plan).await.unwrap();
    whole(&to, "acme/os:new");

    let out = directory.path().join("out");
    let place = target(&format!("oci:{}", out.display()));
    let pushed = client.push(&place, &plan).await.unwrap();
    assert_eq!(*pushed.destination.to_string(), format!("oci:{}", out.display()));
    assert!(matches!(pushed.destination, Destination::Layout(_)) && pushed.image.is_none());
    let there = client.resolve(&source(&format!("oci:{}:new", out.display())), None).await.unwrap();
    assert_eq!(there.manifest, Digest::of(&plan.manifest));
    let read_by_skopeo = [
        format!("oci:{}:new", out.display()),
        format!("dir:{}", directory.path().join("dir").display()),
    ];
    let copy = ["--insecure-policy", "copy", "--quiet"].map(str::to_owned);
    run("skopeo", copy.into_iter().chain(read_by_skopeo));

    // The client reads a `dir:` folder that skopeo wrote.
    let read = client
        .resolve(&source(&format!("dir:{}", directory.path().join("dir").display())), None)
        .await
        .unwrap();
    assert_eq!(read.manifest, Digest::of(&plan.manifest));
    let again = plan_on(&read, "y", &["from-dir"]);
    client.push(&target(&to.repository("acme/from-dir")), &again).await.unwrap();
    whole(&to, "acme/from-dir:from-dir");
}

/// The method and kind of each request since the last rule, sorted.
fn requests(proxy: &FaultProxy) -> Vec<String> {
    let mut all: Vec<_> = proxy
        .seen()
        .iter()
        .map(|seen| {
            let path = seen.head.path().to_owned();
            let kind = path.split('/').rev().nth(1).unwrap_or_default().to_owned();
            format!("{} {kind}", seen.head.method)
        })
        .collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_onto_the_base_makes_few_requests() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::plain();
    let layout = base(directory.path(), 1 << 20);
    registry.push(&layout, "v1", "acme/base:v1");
    registry.push(&layout, "v1", "acme/other:v1");
    let proxy = FaultProxy::start(registry.address());
    proxy.rule(|_| None);
    let client = anonymous_client();
    let from = format!("{}/acme/base:v1", proxy.address());
    let resolved = client.resolve(&source(&from), None).await.unwrap();
    let plan = plan_on(&resolved, "few", &["moves", "stays"]);
    client.push(&target(&format!("{}/acme/base", proxy.address())), &plan).await.unwrap();
    assert_eq!(
        requests(&proxy),
        [
            "GET blobs",
            "GET manifests",
            "HEAD blobs",
            "HEAD blobs",
            "HEAD manifests",
            "HEAD manifests",
            "POST uploads",
            "POST uploads",
            "PUT manifests",
            "PUT manifests",
            "PUT uploads",
            "PUT uploads",
        ]
    );
    assert!(client.transfer_stats().pushed() < 16 << 10, "{}", client.transfer_stats().pushed());

    // A push to another repository mounts each layer of the base. A repeated push uploads nothing.
    proxy.rule(|_| None);
    client.push(&target(&format!("{}/acme/third", proxy.address())), &plan).await.unwrap();
    assert_eq!(requests(&proxy).iter().filter(|r| *r == "POST uploads").count(), 3 + 2);
    proxy.rule(|_| None);
    client.push(&target(&format!("{}/acme/base", proxy.address())), &plan).await.unwrap();
    assert_eq!(requests(&proxy), ["HEAD blobs", "HEAD blobs", "HEAD manifests", "HEAD manifests"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_push_leaves_no_upload() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::start(Server::Distribution, Access::Anyone, Transport::Http);
    let layout = base(directory.path(), 1 << 20);
    registry.push(&layout, "v1", "acme/base:v1");
    let proxy = FaultProxy::start(registry.address());
    let client = anonymous_client();
    let from = format!("{}/acme/base:v1", proxy.address());
    let resolved = client.resolve(&source(&from), None).await.unwrap();
    let mut plan = plan_on(&resolved, "early", &["moves", "stays"]);
    let place = target(&format!("{}/acme/base", proxy.address()));
    let lookups = ["HEAD manifests", "HEAD manifests"];
    let found = ["HEAD blobs", "HEAD blobs"];
    for (what, tags, started, finished) in [
        (
            "new",
            ["moves", "stays"],
            &["POST uploads", "POST uploads"][..],
            &["HEAD manifests", "PUT manifests", "PUT manifests", "PUT uploads", "PUT uploads"][..],
        ),
        ("there", ["moves", "stays"], &[], &[]),
        ("one tag is there", ["moves", "kept"], &[], &["PUT manifests"]),
        (
            "only the blobs are there",
            ["other", "names"],
            &["POST uploads", "POST uploads"],
            &["DELETE uploads", "DELETE uploads", "PUT manifests", "PUT manifests"],
        ),
    ] {
        proxy.rule(|_| None);
        plan.tags = tags.map(str::to_owned).to_vec();
        let push = client.begin_push(&place, &plan.tags, 2).await.unwrap();
        assert_eq!(requests(&proxy), [&lookups, started].concat(), "{what}");
        proxy.rule(|_| None);
        let pushed = push.finish(&plan, None).await.unwrap();
        assert_eq!(pushed.tags, plan.tags, "{what}");
        let mut want = [&found, finished].concat();
        want.sort_unstable();
        assert_eq!(requests(&proxy), want, "{what}");
    }
    whole(&registry, "acme/base:names");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_base_blob_is_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::start(Server::Distribution, Access::Anyone, Transport::Http);
    let layout = base(directory.path(), 1 << 20);
    registry.push(&layout, "v1", "acme/base:v1");
    let client = anonymous_client();
    let here = client.resolve(&source(&registry.repository("acme/base:v1")), None).await.unwrap();
    let elsewhere = client.resolve(&source(&layout.reference("v1")), None).await.unwrap();
    let mut plan = plan_on(&here, "gone", &["new"]);
    // The registry itself has lost the blob, and the plan has no other source.
    std::fs::remove_file(registry.blob_path(&here.layers[1].digest.to_string())).unwrap();
    let error = client.push(&target(&registry.repository("acme/base")), &plan).await.unwrap_err();
    assert_eq!(error.code(), "not-found", "{error}");
    // The plan names another source of the same blob.
    plan.blobs[1].from = mosb_registry::BlobFrom::Store(elsewhere.store.clone());
    client.push(&target(&registry.repository("acme/base")), &plan).await.unwrap();
    whole(&registry, "acme/base:new");
}
