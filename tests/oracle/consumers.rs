//! Other programs read the images of `mosb build`: skopeo, umoci, buildah, crane.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use mosb_tests::build_fixture::{BuildFixture, NAME, assert_refused, assert_valid, config, os};
use mosb_tests::parts::CRANE;
use mosb_tests::{
    Access, Compression, Finished, Image, Layout, Mosb, Registry, Server, Snapshot, Transport,
    Tree, run,
};

/// A base with layers that all of them read. umoci does not support zstd.
fn base() -> Image {
    let more = Tree::new().file("usr/lib/more", 0o644, "x".repeat(70_000)).tar();
    Image::new()
        .layer(Compression::Gzip, os().tar())
        .layer(Compression::Gzip, more)
        .label("org.opencontainers.image.version", "1")
        .label("containers.bootc", "1")
}

/// Arguments for the credentials and certificates of a registry.
fn login(registry: &Registry) -> Vec<String> {
    let mut login = vec!["--authfile".to_owned(), registry.authfile().display().to_string()];
    if registry.certificates().join("ca.crt").exists() {
        login.extend(["--cert-dir".to_owned(), registry.certificates().display().to_string()]);
    }
    login
}

fn build(mosb: &Mosb, base: &str, target: &str, more: &[String]) -> Finished {
    let arguments = ["build", "-", "--base", base, "--output", target, "-o", "json"];
    let arguments = arguments.into_iter().chain(more.iter().map(String::as_str));
    mosb.run_with(arguments, config().as_bytes())
}

/// The tree of an image from a direct reading of its layers.
fn tree(layout: &Layout, tag: &str) -> Snapshot {
    let layers = layout.layers(tag).into_iter();
    layers.fold(Snapshot::default(), |tree, layer| tree.with_layer(layer).unwrap())
}

/// Asserts that umoci unpacks the image of a layout to this tree.
fn unpacks_to(layout: &Layout, tag: &str, want: &Snapshot) {
    let bundle = tempfile::tempdir().unwrap();
    let to = bundle.path().join("bundle");
    let image = format!("{}:{tag}", layout.directory.display());
    run("umoci", ["unpack", "--image", &image, to.to_str().unwrap()]);
    Snapshot::of(&to.join("rootfs")).assert_same(want, "umoci unpack");
}

/// Checks the fields that a script would use.
fn check_result(result: &Value, repository: &str, base: &Value) {
    assert_valid(result, "BuildResult");
    let digest = result["digest"].as_str().unwrap();
    assert_eq!(result["image"], format!("{repository}@{digest}"));
    assert_eq!((&result["renderedConfig"], &result["pool"]), (&json!(NAME), &json!("worker")));
    assert_eq!((&result["method"], &result["reasons"]), (&json!("direct"), &json!([])));
    assert_eq!(result["base"]["manifest"], *base);
    assert_eq!(result["baseTree"]["source"], "computed");
    let tags = result["tags"].as_array().unwrap();
    assert_eq!((tags.len(), &tags[0]), (2, &json!(NAME)));
    let hex = tags[1].as_str().unwrap().strip_prefix("worker-").unwrap();
    assert!(hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit()), "{hex}");
    assert_eq!(result["inputs"].as_str().unwrap().len(), 64);
}

/// Checks that the labels and the manifest match the result and that the base's labels are
/// unchanged.
fn check_image(config: &Value, manifest: &Value, result: &Value, base: &str) {
    let labels = &config["config"]["Labels"];
    assert_eq!(labels["mosb.dev/inputs"], result["inputs"], "{labels:#}");
    assert_eq!(labels["mosb.dev/format"], mosb_plan::plan::FORMAT.to_string());
    assert_eq!(labels["org.opencontainers.image.version"], "1");
    assert_eq!(labels["containers.bootc"], "1");
    assert_eq!(labels["org.opencontainers.image.base.digest"], result["base"]["manifest"]);
    assert_eq!(labels["org.opencontainers.image.base.name"], base);
    assert_eq!(labels["baseOSContainerImage"], base);
    let annotations = &manifest["annotations"];
    // A base in a layout has no name for other tools.
    let named = base.contains('/').then_some("org.opencontainers.image.base.name");
    for key in ["org.opencontainers.image.base.digest"].into_iter().chain(named) {
        assert_eq!(annotations[key], labels[key], "{annotations:#}");
    }
    assert_eq!(annotations.as_object().unwrap().len(), 1 + usize::from(named.is_some()));
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 3);
    assert_eq!(layers[2]["digest"], result["layer"]["digest"]);
    assert_eq!(layers[2]["size"], result["layer"]["size"]);
    assert_eq!(config["rootfs"]["diff_ids"][2], result["layer"]["diffId"]);
}

/// A registry with the base, and a user.
struct Place {
    registry: Registry,
    fixture: BuildFixture,
}

impl Place {
    fn new(server: Server, access: Access, transport: Transport) -> Self {
        let registry = Registry::start(server, access, transport);
        let fixture = BuildFixture::with(&base());
        registry.push(&fixture.base, "base", "acme/base:v1");
        Self { registry, fixture }
    }

    /// Builds, checks the messages, and reads the image by skopeo and umoci.
    fn build_and_read(&self) -> Value {
        let (registry, fixture) = (&self.registry, &self.fixture);
        let digestfile = fixture.mosb.home().join("digest");
        let mut more = login(registry);
        more.extend(["--digestfile".to_owned(), digestfile.display().to_string()]);
        let target = registry.repository("acme/os");
        let finished = build(
            &fixture.mosb,
            &registry.repository("acme/base:v1"),
            &format!("{target}:mine"),
            &more,
        )
        .ok();
        let result = finished.json();
        check_result(&result, &target, &json!(fixture.base.digest("base")));
        let notice = &result["warnings"][0];
        assert_eq!(notice["code"], "target-tag-ignored", "{result:#}");
        let message = notice["message"].as_str().unwrap();
        assert!(message.contains("\"mine\" is ignored"), "{message}");
        assert_eq!(
            std::fs::read_to_string(digestfile).unwrap(),
            result["digest"].as_str().unwrap()
        );
        assert!(
            result["bytesPushed"].as_u64().unwrap() < 64 << 10,
            "the base's layers were sent again"
        );

        for tag in result["tags"].as_array().unwrap() {
            let image = format!("acme/os:{}", tag.as_str().unwrap());
            let inspected = registry.inspect(&image, &registry.authfile()).ok().json();
            assert_eq!(inspected["Digest"], result["digest"]);
            assert_eq!(inspected["Labels"]["mosb.dev/inputs"], result["inputs"]);
        }
        assert_ne!(registry.inspect("acme/os:mine", &registry.authfile()).code(), Some(0));
        let copy = Layout::at(fixture.mosb.home().join("copy"));
        registry.pull(&format!("acme/os:{NAME}"), &copy.reference("copy"));
        let manifest = copy.json(&copy.digest("copy"));
        let config = copy.json(manifest["config"]["digest"].as_str().unwrap());
        let base = registry.repository(&format!("acme/base@{}", fixture.base.digest("base")));
        check_image(&config, &manifest, &result, &base);
        unpacks_to(&copy, "copy", &tree(&copy, "copy"));
        result
    }

    /// A wrong password or none leads to one error message and exit code 1.
    fn refuses_strangers(&self) {
        let (registry, fixture) = (&self.registry, &self.fixture);
        let wrong = registry.wrong_authfile().display().to_string();
        let mut strangers = login(registry);
        strangers[1] = wrong.clone();
        let (base, target) = (registry.repository("acme/base:v1"), registry.repository("acme/os"));
        let finished = build(&fixture.mosb, &base, &target, &strangers);
        assert_refused(
            &finished,
            "wrong password",
            1,
            "denied",
            &["acme/base", "401", &wrong, "--authfile"],
        );
        let finished = build(&fixture.mosb, &base, &target, &strangers[2..]);
        assert_refused(
            &finished,
            "no password",
            1,
            "denied",
            &["acme/base", "401", "without credentials"],
        );
        strangers.extend(["--push-authfile".to_owned(), wrong.clone()]);
        strangers[1] = registry.authfile().display().to_string();
        let finished = build(&fixture.mosb, &base, &target, &strangers);
        assert_refused(
            &finished,
            "wrong password to push",
            1,
            "denied",
            &["acme/os", "401", &wrong],
        );
        assert!(!finished.stderr.contains("not-a-secret"), "{}", finished.stderr);
    }
}

#[test]
fn debian_registry_with_basic_auth_and_tls() {
    let place = Place::new(Server::Debian, Access::Basic, Transport::Https);
    place.build_and_read();
    place.refuses_strangers();
    // An authority that did not sign the certificate.
    let other = Registry::start(Server::Debian, Access::Anyone, Transport::Https);
    let mut strange = login(&place.registry);
    strange[3] = other.certificates().display().to_string();
    let base = place.registry.repository("acme/base:v1");
    let finished = build(&place.fixture.mosb, &base, &place.fixture.target(), &strange);
    assert_refused(
        &finished,
        "unknown CA",
        3,
        "untrusted-tls",
        &[place.registry.address(), "--cert-dir"],
    );
}

#[test]
fn distribution_with_tokens() {
    let place = Place::new(Server::Distribution, Access::Token, Transport::Http);
    place.build_and_read();
    place.refuses_strangers();
}

fn crane(arguments: &[&str]) -> Finished {
    run(CRANE.program().to_str().unwrap(), arguments.iter().copied())
}

#[test]
fn crane_and_buildah_read_it() {
    let place = Place::new(Server::Distribution, Access::Anyone, Transport::Http);
    let result = place.build_and_read();
    let image = place.registry.repository(&format!("acme/os:{NAME}"));
    let digest = crane(&["digest", &image]).text();
    assert_eq!(json!(digest.trim()), result["digest"]);
    crane(&["validate", "--remote", &image]);
    let config = crane(&["config", &image]).json();
    assert_eq!(config["config"]["Labels"]["mosb.dev/inputs"], result["inputs"]);
    let tarball = place.fixture.mosb.home().join("crane.tar");
    crane(&["pull", &image, tarball.to_str().unwrap()]);
    crane(&["validate", "--tarball", tarball.to_str().unwrap()]);

    let copy = Layout::at(place.fixture.mosb.home().join("copy"));
    let want = tree(&copy, "copy");
    let from = format!("docker://{image}");
    let mounted = Buildah::new().tree(&["--tls-verify=false", &from]);
    mounted.assert_same(&want, "buildah from, mount");
}

/// buildah with a store of its own.
struct Buildah(tempfile::TempDir);

impl Buildah {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn run(&self, arguments: &[&str]) -> String {
        let place = |name: &str| self.0.path().join(name).display().to_string();
        let store = ["--storage-driver=vfs", "--root", &place("root"), "--runroot", &place("run")]
            .map(str::to_owned);
        let arguments = store.into_iter().chain(arguments.iter().map(|word| (*word).to_owned()));
        run("buildah", arguments).text().trim().to_owned()
    }

    /// The tree of a container of an image.
    fn tree(&self, image: &[&str]) -> Snapshot {
        let container = self.run(&[&["from", "--quiet"], image].concat());
        let mounted = PathBuf::from(self.run(&["mount", &container]));
        let snapshot = Snapshot::of(&mounted);
        self.run(&["rm", &container]);
        snapshot
    }
}

#[test]
fn a_layout_is_read_by_all() {
    let fixture = BuildFixture::with(&base());
    let finished =
        build(&fixture.mosb, &fixture.reference(), &format!("{}:mine", fixture.target()), &[]).ok();
    let result = finished.json();
    check_result(&result, &fixture.target(), &json!(fixture.base.digest("base")));
    let layout = Layout::at(fixture.output());
    let tags: Vec<_> = layout
        .index()
        .iter()
        .map(|entry| entry["annotations"]["org.opencontainers.image.ref.name"].clone())
        .collect();
    assert_eq!(json!(tags), result["tags"]);
    let manifest = layout.json(&layout.digest(NAME));
    let config = layout.json(manifest["config"]["digest"].as_str().unwrap());
    check_image(&config, &manifest, &result, &fixture.base.digest("base"));
    let want = tree(&layout, NAME);
    unpacks_to(&layout, NAME, &want);
    let inspected = run("skopeo", ["inspect", &layout.reference(NAME)]).json();
    assert_eq!(inspected["Digest"], result["digest"]);
    run(
        "skopeo",
        [
            "--insecure-policy",
            "copy",
            "--quiet",
            &layout.reference(NAME),
            &format!("dir:{}", fixture.mosb.home().join("dir").display()),
        ],
    );
    // buildah derives a name from the folder's, and rejects capital letters in it.
    let name = format!("mosb-consumers-{}", std::process::id());
    let small = tempfile::Builder::new().prefix(&name).rand_bytes(0).tempdir().unwrap();
    let copied = small.path().join("output");
    run("cp", ["-r".as_ref(), fixture.output().as_os_str(), copied.as_os_str()]);
    let image = Layout::at(copied).reference(NAME);
    Buildah::new().tree(&[&image]).assert_same(&want, "buildah from, mount");
    // mosb reads it too.
    let info = fixture
        .mosb
        .run(["inspect", &format!("{}:{NAME}", fixture.target()), "-o", "json"])
        .ok()
        .json();
    assert_valid(&info, "ImageInfo");
}

#[test]
fn bases_of_docker_and_of_other_places() {
    let place = Place::new(Server::Debian, Access::Anyone, Transport::Http);
    let elsewhere = Registry::plain();
    elsewhere.push_docker(&place.fixture.base, "base", "other/docker:v1");
    place.registry.push_docker(&place.fixture.base, "base", "acme/docker:v1");
    let os = place.registry.repository("acme/os");
    let docker = "application/vnd.docker.distribution.manifest.v2+json";
    for (what, base, most) in [
        ("in another repository", place.registry.repository("acme/docker:v1"), 16 << 10),
        ("in another registry", elsewhere.repository("other/docker:v1"), 1 << 20),
    ] {
        let mosb = Mosb::new();
        let result = build(&mosb, &base, &os, &[]).ok().json();
        assert_valid(&result, "BuildResult");
        assert!(result["bytesPushed"].as_u64().unwrap() < most, "{what}: {result:#}");
        let image = format!("{os}@{}", result["digest"].as_str().unwrap());
        let manifest = crane(&["manifest", "--insecure", &image]).json();
        assert_eq!(manifest["mediaType"], docker, "{what}");
        crane(&["validate", "--insecure", "--remote", &image]);
        let tree = Buildah::new().tree(&["--tls-verify=false", &format!("docker://{image}")]);
        assert!(tree.0.contains_key("var/usrlocal/bin/tool"), "{what}");
    }
}

#[test]
fn an_index_is_built_upon_by_platform() {
    let fixture = BuildFixture::with(&base());
    let index = fixture.base.put_index("all", &[base().architecture("arm64"), base()]);
    let registry = Registry::start(Server::Distribution, Access::Anyone, Transport::Http);
    registry.push(&fixture.base, "all", "acme/all:v1");
    let all = registry.repository("acme/all:v1");
    let more = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let refused = build(&fixture.mosb, &all, &fixture.target(), &[]);
    assert_refused(
        &refused,
        "no platform",
        2,
        "platform-ambiguous",
        &["linux/amd64", "linux/arm64", "--platform"],
    );
    let result =
        build(&fixture.mosb, &all, &fixture.target(), &more("--platform linux/arm64")).ok().json();
    assert_eq!(result["base"]["index"], index);
    assert_ne!(result["base"]["manifest"], index);
    let output: &Path = &fixture.output();
    let copied = Command::new("skopeo")
        .args(["inspect", "--config"])
        .arg(format!("oci:{}:{NAME}", output.display()))
        .output()
        .unwrap();
    let config: Value = serde_json::from_slice(&copied.stdout).unwrap();
    assert_eq!(config["architecture"], "arm64");
    let base = format!(
        "{}@{}",
        registry.repository("acme/all"),
        result["base"]["manifest"].as_str().unwrap()
    );
    assert_eq!(config["config"]["Labels"]["org.opencontainers.image.base.name"], base);
}
