//! A pool whose base gets another image under its tag: reported, held, built on, not followed back. On
//! a real API server, with a real registry.

use serde_json::{Value, json};

use crate::test_cluster::{Cluster, SOON};
use mosb_tests::{
    Compression, Daemon, Layout, MOSB_IMAGE, SecureWeb, Tree, build_fixture, reply, wait,
};

const NEWER: &str = "NewerBase";

/// Pushes a base of this version, made in this month, under the pool's own tag. Its digest.
fn push_base(cluster: &Cluster, version: &str, month: u8) -> String {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(&folder.path().join("base"));
    let kernel = format!("usr/lib/modules/6.1.{version}/vmlinuz");
    let package = format!(
        "Package: os\nStatus: install ok installed\nVersion: {version}\nArchitecture: all\n"
    );
    let os = Tree::new().file(&kernel, 0o644, "kernel").file("var/lib/dpkg/status", 0o644, package);
    let image = build_fixture::base()
        .layer(Compression::Plain, os.tar())
        .label("org.opencontainers.image.version", version)
        .label("org.opencontainers.image.created", &format!("2026-{month:02}-01T00:00:00Z"))
        .label("containers.bootc", "1");
    let digest = layout.put("base", &image);
    cluster
        .node
        .registry()
        .push(&layout.reference("base"), &format!("{}-base:stable", cluster.pool));
    digest
}

impl Cluster {
    fn annotate_config(&self, key: &str, value: Option<&str>) {
        let change = json!({ "metadata": { "annotations": { format!("mosb.dev/{key}"): value } } });
        self.patch(&format!("machineosconfig/{}", self.pool), &change);
    }

    fn annotation(&self, key: &str) -> Option<String> {
        let config = self.config();
        config["metadata"]["annotations"][format!("mosb.dev/{key}")].as_str().map(str::to_owned)
    }

    /// Waits until the condition `NewerBase` has this reason.
    #[track_caller]
    fn wait_for_base(&self, reason: &str) -> Value {
        self.wait_for_newer("reason", reason)
    }

    #[track_caller]
    fn wait_for_newer(&self, field: &str, value: &str) -> Value {
        let of = |config: &Value| {
            let all = config["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.into_iter().find(|one| one["type"] == NEWER)
        };
        let is = |config: &Value| of(config).is_some_and(|one| one[field] == value);
        of(&self.node.wait(&format!("machineosconfig/{}", self.pool), SOON, is)).unwrap()
    }

    /// The version and digest of the base that the current build was planned on.
    fn built_on(&self) -> (String, String) {
        let build = self.current();
        let annotation = |key: &str| {
            build["metadata"]["annotations"][key].as_str().unwrap_or_default().to_owned()
        };
        let base = annotation("mosb.dev/base");
        let digest = base.rsplit_once('@').map(|(_, digest)| digest.to_owned());
        (annotation("mosb.dev/base-version"), digest.unwrap_or_default())
    }

    /// What `mosb builds` says of the OS in an image.
    fn os_of(&self, image: &str) -> Value {
        let listed = self.mosb(&["builds", &self.pool, "-o", "json"]).ok().json();
        let mut builds = listed["builds"].as_array().unwrap().iter();
        builds.find(|build| build["image"] == image).unwrap()["os"].clone()
    }

    fn base(&self, arguments: &[&str]) -> Value {
        let arguments = [&["base"], arguments, &["-o", "json"]].concat();
        self.mosb(&arguments).ok().json()
    }
}

#[test]
fn a_base_is_followed_held_and_taken_back() {
    let mut cluster = Cluster::new("base");
    let pool = cluster.pool.clone();
    let one = push_base(&cluster, "1", 1);
    let tag = cluster.node.registry().repository(&format!("{pool}-base:stable"));
    cluster.render_on(&tag, "first");
    cluster.start();
    cluster.opt_in(None);
    let first = cluster.image_after("");
    assert_eq!(cluster.built_on(), ("1".to_owned(), one.clone()));

    // The tag moves, and nothing else does.
    let two = push_base(&cluster, "2", 2);
    cluster.annotate_config("follow-base", Some("notify"));
    let newer = cluster.wait_for_base("Newer");
    assert_eq!(newer["status"], "True");
    let message = newer["message"].as_str().unwrap();
    for part in [&*tag, &one, &two, "version 1", "version 2", "mosb base update"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let view = cluster.base(&["status", &pool])["bases"][0].clone();
    assert_eq!((&view["follow"], &view["version"]), (&json!("notify"), &json!("1")), "{view}");
    assert_eq!(view["newer"]["reason"], "Newer", "{view}");
    assert_eq!(cluster.builds().len(), 1);

    // Held: a change of the config is built on the base of the first image.
    assert_eq!(cluster.base(&["hold", &pool])["changed"], true);
    assert_eq!(cluster.base(&["hold", &pool])["changed"], false);
    assert_eq!(cluster.annotation("base"), Some(format!("{tag}@{one}")));
    cluster.render_on(&tag, "second");
    let second = cluster.image_after(&first);
    assert_eq!(cluster.file(&second, "/etc/story"), "second");
    assert_eq!(cluster.built_on(), ("1".to_owned(), one.clone()));

    // By hand.
    assert_eq!(cluster.base(&["update", &pool])["changed"], true);
    let third = cluster.image_after(&second);
    assert_eq!(cluster.file(&third, "/etc/story"), "second");
    assert_eq!(cluster.built_on(), ("2".to_owned(), two.clone()));
    assert_eq!(cluster.wait_for_base("UpToDate")["status"], "False");
    // What of the OS changes with it is told; a change of the config changes nothing of it.
    let (_, from) = second.split_once('@').unwrap();
    let kernel = json!({ "from": "6.1.1", "to": "6.1.2" });
    assert_eq!(cluster.os_of(&third), json!({ "from": from, "kernel": kernel, "packages": 1 }));
    assert_eq!([&first, &second].map(|image| cluster.os_of(image)), [Value::Null, Value::Null]);
    let table = cluster.mosb(&["builds", &pool]).ok().text();
    assert!(table.contains("kernel 6.1.1 → 6.1.2, 1 package"), "{table}");
    let made = format!("made {third}; OS: kernel 6.1.1 → 6.1.2, 1 package");
    let is_made = |event: &Value| event["message"].as_str().is_some_and(|it| it.ends_with(&made));
    // Events come last in a pass.
    wait(&format!("an event with {made:?}"), SOON, || {
        let events = cluster.node.api().list(Some("default"), "events", "");
        events.iter().any(is_made).then_some(())
    });
    let held = (cluster.annotation("hold-base"), cluster.annotation("update-base"));
    assert_eq!(held, (None, None));
    cluster.assert_events(&[("MachineOSConfig", "NewerBase"), ("MachineOSConfig", "BaseRecorded")]);

    // The tag moves back.
    assert_eq!(push_base(&cluster, "1", 1), one);
    cluster.base(&["update", &pool]);
    assert_eq!(cluster.wait_for_base("TagMovedBack")["status"], "False");
    assert_eq!(cluster.built_on(), ("2".to_owned(), two));

    // By itself, by a controller that remembers nothing.
    cluster.stop();
    let three = push_base(&cluster, "3", 3);
    cluster.annotate_config("follow-base", Some("build"));
    cluster.start();
    let fourth = cluster.image_after(&third);
    assert_eq!(cluster.built_on(), ("3".to_owned(), three));
    cluster.wait_for_base("UpToDate");

    // By digest, and held.
    cluster.base(&["update", &pool, "--to", &one]);
    let fifth = cluster.image_after(&fourth);
    assert_eq!(fifth, second, "the same config on the same base is the same image");
    cluster.wait_for_base("Held");
    let refused = cluster.mosb(&["base", "update", "nobody"]);
    assert!(refused.stderr.contains("nobody"), "{}", refused.stderr);

    // Nobody looks any more.
    cluster.annotate_config("follow-base", None);
    let has_none = |config: &Value| !config["status"].to_string().contains(NEWER);
    cluster.node.wait(&format!("machineosconfig/{pool}"), SOON, has_none);
}

/// Where mosb renders, the base is that of the next rendered config.
#[test]
fn the_base_of_a_rendered_pool_is_followed() {
    let cluster = Cluster::new("rendered-base");
    let pool = cluster.pool.clone();
    let one = push_base(&cluster, "1", 1);
    let repository = cluster.node.registry().repository(&format!("{pool}-base"));
    let tag = format!("{repository}:stable");
    cluster.settings_with(&json!({ "baseOSContainerImage": tag }));
    let role = json!({ "machineconfiguration.openshift.io/role": pool });
    let file = json!({ "path": "/etc/story", "contents": { "source": "data:,rendered" } });
    let config = json!({ "ignition": { "version": "3.5.0" }, "storage": { "files": [file] } });
    let member = format!("00-{pool}");
    cluster.node.apply(
        &json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": member, "labels": role }, "spec": { "config": config } })
        .to_string(),
    );
    let selector = json!({ "spec": { "machineConfigSelector": { "matchLabels": role } } });
    cluster.patch(&format!("machineconfigpool/{pool}"), &selector);
    let mut command = cluster.mosb_command(&["controller", "--render", "--verbose"]);
    command.args(["--builder-image", MOSB_IMAGE, "--listen", "127.0.0.1:0"]);
    let listens = |line: &str| line.contains("listening on").then_some(());
    let (_controller, ()) = Daemon::start(command, listens);
    cluster.opt_in(None);
    let first = cluster.image_after("");
    assert_eq!(cluster.built_on(), ("1".to_owned(), one.clone()));

    let two = push_base(&cluster, "2", 2);
    cluster.annotate_config("follow-base", Some("build"));
    let second = cluster.image_after(&first);
    assert_eq!(cluster.built_on(), ("2".to_owned(), two.clone()));
    assert_eq!(cluster.file(&second, "/etc/story"), "rendered");
    cluster.wait_for_base("UpToDate");
    let object = cluster.node.get(&format!("machineconfigpool/{pool}"));
    let rendered = object["spec"]["configuration"]["name"].as_str().unwrap();
    let rendered = cluster.node.get(&format!("machineconfig/{rendered}"));
    assert_eq!(rendered["spec"]["osImageURL"], format!("{repository}@{two}"));

    // Back to the first base, which is held.
    cluster.base(&["update", &pool, "--to", &one]);
    assert_eq!(cluster.image_after(&second), first);
    cluster.wait_for_base("Held");
    cluster.node.kubectl(&["delete", "machineconfig", &member]).ok();
}

/// Stream metadata as Fedora CoreOS publishes it, from a server with a certificate of the settings.
#[test]
fn stream_metadata_over_https_names_the_base() {
    let mut cluster = Cluster::new("stream");
    let pool = cluster.pool.clone();
    let one = push_base(&cluster, "1", 1);
    let tag = cluster.node.registry().repository(&format!("{pool}-base:stable"));
    let folder = tempfile::tempdir().unwrap();
    let web = SecureWeb::start(folder.path(), &[]);
    let publish = |version: &str, digest: &str| {
        let release = format!("builds/{version}");
        std::fs::create_dir_all(folder.path().join(&release)).unwrap();
        let location = web.url(&format!("{release}/x86_64/os.iso"));
        let metal = json!({ "release": version, "formats": { "iso": { "disk": { "location": location } } } });
        let stream = json!({ "stream": "stable",
            "architectures": { "x86_64": { "artifacts": { "metal": metal } } } });
        let image = json!({ "image": tag, "digest-ref": format!("{tag}@{digest}") });
        let images = json!({ "release": version,
            "architectures": { "x86_64": { "oci-image": image } } });
        for (name, document) in
            [(format!("{release}/release.json"), images), ("stable.json".to_owned(), stream)]
        {
            let answer = reply(200, &[], document.to_string().as_bytes());
            std::fs::write(folder.path().join(name), answer).unwrap();
        }
    };
    publish("43.1.0", &one);
    cluster.render_on(&tag, "first");
    let settings = |cluster: &Cluster, more: &Value| {
        let mut all = json!({ "baseStream": web.url("stable.json"), "baseStreamMinutes": 1 });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        cluster.settings_with(&all);
    };
    settings(&cluster, &json!({}));
    cluster.start();
    cluster.opt_in(None);
    cluster.image_after("");
    assert_eq!(cluster.built_on(), ("1".to_owned(), one));

    // The certificate is not one of the system.
    cluster.annotate_config("follow-base", Some("notify"));
    let unknown = cluster.wait_for_newer("status", "Unknown");
    let message = unknown["message"].as_str().unwrap();
    assert!(message.contains(&web.url("stable.json")), "{message}");

    // The tag names the third image, and the stream the second.
    let two = push_base(&cluster, "2", 2);
    push_base(&cluster, "3", 3);
    publish("43.2.0", &two);
    let authority = String::from_utf8(web.authority()).unwrap();
    settings(&cluster, &json!({ "additionalTrustBundle": authority }));
    let newer = cluster.wait_for_base("Newer");
    let message = newer["message"].as_str().unwrap();
    assert!(message.contains(&two), "{message}");
}

#[test]
fn an_os_image_of_its_own_is_said_of_a_pool() {
    let mut cluster = Cluster::new("own-os");
    let pool = cluster.pool.clone();
    let repository = cluster.node.registry().repository(&format!("{pool}-base"));
    let own = format!("{repository}@{}", push_base(&cluster, "1", 1));
    let release = format!("{repository}@{}", push_base(&cluster, "2", 2));
    cluster.settings_with(&json!({ "baseOSContainerImage": release }));
    let source = format!("99-{pool}-own");
    cluster.node.apply(
        &json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": source }, "spec": { "osImageURL": own } })
        .to_string(),
    );
    let rendered = cluster.render_on(&own, "one");
    let sources = json!({ "spec": { "configuration": { "source": [{ "name": source }] } } });
    cluster.patch(&format!("machineconfigpool/{pool}"), &sources);
    cluster.start();
    assert_eq!(overridden(&cluster.node.get(&format!("machineconfigpool/{pool}"))), None);

    // As the renderer marks it.
    let mark = "machineconfiguration.openshift.io/os-image-url-overridden";
    let marked = json!({ "metadata": { "annotations": { mark: "true" } } });
    cluster.patch(&format!("machineconfig/{rendered}"), &marked);
    let is = |reason: &'static str| {
        move |pool: &Value| overridden(pool).is_some_and(|one| one["reason"] == reason)
    };
    let older =
        cluster.node.wait(&format!("machineconfigpool/{pool}"), SOON, is("OlderThanRelease"));
    let message = cluster.message(&older, "OSOverridden");
    for part in [&*source, &own, "version 1", "version 2"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let status = cluster.mosb(&["status", &pool, "-o", "json"]).ok().json();
    assert_eq!(status["pools"][0]["osOverridden"], message.as_str());

    let plain = json!({ "metadata": { "annotations": { mark: null } } });
    cluster.patch(&format!("machineconfig/{rendered}"), &plain);
    cluster.node.wait(&format!("machineconfigpool/{pool}"), SOON, is("AsExpected"));
    cluster.node.kubectl(&["delete", "machineconfig", &source]).ok();
}

fn overridden(pool: &Value) -> Option<Value> {
    let all = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|one| one["type"] == "OSOverridden")
}
