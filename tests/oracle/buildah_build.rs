//! Containerfile builds by the real buildah, on the Debian root with the real Ignition.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use mosb_build::buildah;
use mosb_image::signature_policy::SignaturePolicy;
use mosb_registry::Target;
use mosb_tests::buildah_fixture::{BuildahFixture, NAME, block_on, container_build, plan};

use mosb_tests::{
    Access, Kind, Layout, Mosb, Registry, Sandbox, Server, Snapshot, Transport, base_image,
    registry_fixture, run, wait,
};
use mosb_types::Diagnostic as _;

/// The time limit of another test.
const CLEAN: Duration = Duration::from_secs(180);
const CURRENT_CONFIG: &str = "etc/machine-config-daemon/currentconfig";

fn service(name: &str, enabled: bool) -> Value {
    json!({ "name": name, "enabled": enabled, "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n" })
}

fn config() -> Value {
    json!({
        "ignition": { "version": "3.5.0" },
        "storage": {
            "directories": [{ "path": "/var/lib/x", "mode": 0o700 }],
            "files": [
                { "path": "/etc/sysctl.d/90.conf", "contents": { "source": "data:,vm.x%3D1%0A" } },
                { "path": "/usr/local/bin/tool", "mode": 0o755, "contents": { "source": "data:,%23!/bin/sh" } },
                { "path": "/etc/debian_version", "append": [{ "source": "data:,appended" }] },
            ],
            "links": [{ "path": "/etc/link", "target": "/nowhere/$HOME;x" }],
        },
        "systemd": { "units": [
            service("z.service", true),
            service("a.service", true),
            { "name": "getty@.service", "dropins": [{ "name": "x.conf", "contents": "[Unit]\n" }] },
            { "name": "systemd-timesyncd.service", "mask": true },
        ] },
    })
}

/// The tree that the real tools produce from the Debian root.
fn real(config: &Value, after: &str, units: &[&str]) -> Snapshot {
    let sandbox = Sandbox::new();
    sandbox.ignition_apply(&config.to_string()).unwrap();
    sandbox.shell(after);
    for unit in units {
        sandbox.preset(&[unit]);
    }
    sandbox.snapshot()
}

/// Removes the files that only a build writes.
fn without_current_config(mut tree: Snapshot) -> Snapshot {
    let file = tree.0.remove(CURRENT_CONFIG).expect("the config in the image");
    assert_eq!((file.mode, file.uid, file.gid), (0o600, 0, 0));
    tree.0.remove("etc/machine-config-daemon").unwrap();
    tree
}

fn sorted_preset() -> &'static str {
    "cd /etc/systemd/system-preset && sort -k 2,2 -o 20-ignition.preset 20-ignition.preset"
}

#[test]
fn the_tree_is_what_ignition_and_systemctl_make() {
    let fixture = BuildahFixture::new();
    let base = fixture.base();
    let image = fixture.build(&plan(&config(), None, &base), &base, "image").unwrap();
    let want = real(&config(), sorted_preset(), &["z.service", "a.service"]);
    want.assert_same(&without_current_config(image.tree.clone()), "the tree");
    assert!(matches!(image.tree.0["etc/link"].kind, Kind::Link { .. }));
    assert!(image.tree.0.contains_key("etc/systemd/system/multi-user.target.wants/a.service"));

    let again = BuildahFixture::new();
    let same = again.build(&plan(&config(), None, &base), &base, "image").unwrap();
    assert_eq!(same.digest(), image.digest(), "another store, another time");
    let left: Vec<_> = fs::read_dir(fixture.cache().join("buildah/work")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Storage with full copies of layers instead of mounts, and a base in a `dir:` folder as well as
/// in a layout.
#[test]
fn storage_without_mounts_makes_the_same_tree() {
    let fixture = BuildahFixture::new();
    let layout = fixture.base();
    let want = fixture.build(&plan(&config(), None, &layout), &layout, "image").unwrap();
    let mut fixture = BuildahFixture::new();
    fixture.options.storage_driver = Some("vfs".to_owned());
    let folder = format!("dir:{}", fixture.directory.path().join("base").display());
    let copied = run("skopeo", ["copy", "--quiet", &layout.source.to_string(), &folder]);
    copied.ok();
    for (output, base) in [("layout", layout), ("folder", fixture.resolve(&folder))] {
        let image = fixture.build(&plan(&config(), None, &base), &base, output).unwrap();
        want.tree.assert_same(&image.tree, output);
        let layers = image.layout.layers(NAME).len();
        assert_eq!(layers, base.layers.len() + 1, "{output}");
        assert_eq!(image.built.layers.len(), 1, "{output}: the base's are its own");
    }
    assert_eq!(fixture.containers(), "");
    assert!(fixture.cache().join("buildah/store-vfs/vfs").is_dir());
}

/// A base without the label of sealed images.
#[test]
fn the_first_step_refuses_a_sealed_base() {
    const SEAL: &str = "FROM base\nRUN mkdir -p /boot/EFI/Linux && touch /boot/EFI/Linux/6.1.efi\n";
    let fixture = BuildahFixture::new();
    let base = fixture.base();
    let error = fixture.build(&plan(&config(), Some(SEAL), &base), &base, "image").unwrap_err();
    let error = error.to_string();
    let reason = "mosb: sealed-base: the base has a unified kernel, /boot/EFI/Linux/6.1.efi, ";
    assert!(error.contains(reason), "{error}");
    let sealed_again = format!("{SEAL}\nFROM configs\nRUN true\n");
    fixture.build(&plan(&config(), Some(&sealed_again), &base), &base, "image").unwrap();
}

/// Becomes `nobody`, which gets additional user IDs only by newuidmap, with a copy of the program
/// in its own home.
const AS_UNPRIVILEGED: &str = "\
echo nobody:100000:65536 > ids
mount --bind ids /etc/subuid
mount --bind ids /etc/subgid
cp \"$1\" program
shift
chown -R nobody: \"$HOME\"
exec setpriv --reuid=nobody --regid=nogroup --clear-groups ./program \"$@\"";

#[test]
fn a_build_needs_no_root() {
    let launcher = ["unshare", "--mount", "--propagation=private", "sh", "-euc"];
    let mosb = Mosb::new().within(launcher.into_iter().chain([AS_UNPRIVILEGED, "sh"]));
    let work = mosb.home().join("work");
    let base = base_image().reference("base");
    let copy = format!("oci:{}:base", work.join("base").display());
    run("skopeo", ["copy", "--quiet", &base, &copy]).ok();
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": NAME },
        "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": [
            { "path": "/etc/a", "mode": 0o640, "user": { "id": 7 }, "contents": { "source": "data:,a" } },
        ] } } },
    });
    fs::write(work.join("worker.yaml"), config.to_string()).unwrap();
    let line = "build worker.yaml --base oci:base:base --output oci:out --method containerfile";
    mosb.run(line.split(' ')).ok();
    let mut tree = Snapshot::default();
    for layer in Layout::at(work.join("out")).layers(NAME) {
        tree = tree.with_layer(layer).unwrap();
    }
    let file = &tree.0["etc/a"];
    assert_eq!((file.mode, file.uid), (0o640, 7));
    let base = Sandbox::new().snapshot();
    assert_eq!(tree.0["usr"], base.0["usr"]);
    mosb.run(["cache", "prune"]).ok();
    let storage = fs::read_dir(mosb.home().join("cache/mosb/buildah")).unwrap();
    let left: Vec<_> = storage.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
}

#[test]
fn enabled_instances_get_their_lines_and_links() {
    let mut config = json!({ "ignition": { "version": "3.5.0" }, "systemd": { "units": [service("m.service", true)] } });
    let plain = config.clone();
    let units = config["systemd"]["units"].as_array_mut().unwrap();
    units.push(json!({ "name": "getty@tty8.service", "enabled": true }));
    units.push(json!({ "name": "getty@tty9.service", "enabled": true }));
    let fixture = BuildahFixture::new();
    let base = fixture.base();
    let image = fixture.build(&plan(&config, None, &base), &base, "image").unwrap();
    let line = "cd /etc/systemd/system-preset && sed -i '1i enable getty@.service tty8 tty9' 20-ignition.preset";
    let want = real(&plain, line, &["m.service", "getty@tty8.service", "getty@tty9.service"]);
    want.assert_same(&without_current_config(image.tree), "the tree");
}

#[test]
fn files_that_buildah_mounts_over_are_the_configs() {
    let file = |path: &str, text: &str| json!({ "path": path, "mode": 0o640, "overwrite": true, "contents": { "source": format!("data:,{text}") } });
    let mut hosts = file("/etc/hosts", "hosts");
    hosts["user"] = json!({ "id": 7 });
    hosts["group"] = json!({ "name": "daemon" });
    let config = json!({ "ignition": { "version": "3.5.0" }, "storage": {
        "files": [file("/etc/hostname", "web"), hosts],
        "links": [{ "path": "/etc/resolv.conf", "target": "../run/systemd/resolve/stub-resolv.conf", "overwrite": true }],
    } });
    let want = real(&config, "true", &[]);
    let fixture = BuildahFixture::new();
    let base = fixture.base();
    for (output, own) in [("alone", None), ("with steps", Some("RUN true\n"))] {
        let image = fixture.build(&plan(&config, own, &base), &base, output).unwrap();
        want.assert_same(&without_current_config(image.tree), output);
    }
}

/// A policy that rejects all images except those of one registry.
fn policy(registry: &str, requirement: Value) -> SignaturePolicy {
    let policy = json!({
        "default": [{ "type": "reject" }],
        "transports": { "docker": { registry: [requirement] } },
    });
    SignaturePolicy::parse(policy.to_string().as_bytes()).unwrap()
}

#[test]
fn buildah_pulls_nothing_that_a_policy_rejects() {
    let registry = Registry::plain();
    registry.push(&base_image(), "base", "os/base:v1");
    let mut fixture = BuildahFixture::new();
    fixture.client = registry_fixture::client(&registry);
    let base = fixture.resolve(&registry.repository("os/base:v1"));
    let plan = plan(&json!({ "ignition": { "version": "3.5.0" } }), Some("RUN true\n"), &base);
    fixture.options.signature_policy =
        Some(policy(registry.address(), json!({ "type": "reject" })).without_signatures());
    let error = fixture.build(&plan, &base, "image").unwrap_err();
    assert_eq!(error.code(), "program-failed", "{error}");
    assert!(error.to_string().contains("is rejected by policy"), "{error}");
}

#[test]
fn between_registries_only_new_blobs_are_sent() {
    for (access, transport) in
        [(Access::Basic, Transport::Https), (Access::Anyone, Transport::Http)]
    {
        let registry = Registry::start(Server::Debian, access, transport);
        registry.push(&base_image(), "base", "os/base:v1");
        let mut fixture = BuildahFixture::new();
        let secret = fixture.directory.path().join("entitlement");
        fs::create_dir(&secret).unwrap();
        fs::write(secret.join("key"), "hush").unwrap();
        fixture.client = registry_fixture::client(&registry);
        fixture.options.authfile = Some(registry.authfile());
        fixture.options.cert_dir = (transport == Transport::Https).then(|| registry.certificates());
        let repositories = fixture.directory.path().join("repositories");
        fs::create_dir(&repositories).unwrap();
        fs::write(repositories.join("site.repo"), "site").unwrap();
        let volumes = [
            format!("{}:/etc/pki/entitlement:ro", secret.display()),
            format!("{}:/etc/yum.repos.d:copy", repositories.display()),
            format!("{}:/run/secrets/rhsm:copy", secret.display()),
        ];
        fixture.options.volumes = volumes.map(|volume| volume.parse().unwrap()).into();
        // The policy has OpenShift's form. The buildah of Debian 12 would reject all images that
        // need a sigstore signature.
        let signed = json!({ "type": "sigstoreSigned", "keyData": "eA==" });
        let policy = policy(registry.address(), signed);
        fixture.options.signature_policy = Some(policy.without_signatures());
        let base = fixture.resolve(&registry.repository("os/base:v1"));
        // mosb's own step with extensions, and a package with its own repository.
        let own = "RUN test \"$(cat /etc/pki/entitlement/key)\" = hush && test -r /run/secrets/rhsm/key\n\
            RUN cd /etc/yum.repos.d && test \"$(cat site.repo)\" = site && echo own > own.repo && chmod 644 own.repo && echo more >> site.repo\n\
            RUN test -e /etc/yum.repos.d/own.repo && rm /etc/yum.repos.d/own.repo\n\
            RUN ! touch /etc/pki/entitlement/new\n";
        let plan = plan(&config(), Some(own), &base);
        let target: Target = registry.repository("os/out").parse().unwrap();
        let made = container_build(&plan);
        let building = buildah::build(
            &fixture.client,
            &made,
            &base,
            &target,
            None,
            &fixture.options,
            |_, line| println!("{line}"),
        );
        let built = block_on(building).unwrap();
        let layers: u64 = built.layers.iter().map(|layer| layer.size).sum();
        assert!(layers < 64 << 10, "{layers}");
        let made = fixture.resolve(&built.pushed.image.unwrap().value().to_string());
        assert_eq!(made.layers[..base.layers.len()], base.layers[..]);
        assert_eq!(made.layers.len(), base.layers.len() + 1);
        let pulled = fixture.directory.path().join("pulled");
        let name = format!("os/out:{NAME}");
        registry.pull(&name, &format!("oci:{}:x", pulled.display()));
        let mut tree = Snapshot::default();
        for layer in Layout::at(pulled).layers("x") {
            tree = tree.with_layer(layer).unwrap();
        }
        for path in ["etc/pki/entitlement/key", "etc/yum.repos.d/site.repo", "run/secrets/rhsm/key"]
        {
            assert!(!tree.0.contains_key(path), "{path}");
        }
        assert!(tree.0.contains_key("usr/local/bin/tool"));
        let repository = fs::read(repositories.join("site.repo")).unwrap();
        assert_eq!(repository, b"site", "the steps had a copy");
    }
}

#[test]
fn the_administrators_containerfile_sees_the_config() {
    let text = "FROM configs AS final\nRUN test -x /usr/local/bin/tool && echo made > /usr/share/made\nENV A=b\n";
    let fixture = BuildahFixture::new();
    let base = fixture.base();
    let image = fixture.build(&plan(&config(), Some(text), &base), &base, "image").unwrap();
    assert!(matches!(&image.tree.0["usr/share/made"].kind, Kind::File { size: 5, .. }));
    for mounted in ["etc/hosts", "etc/hostname", "etc/resolv.conf", "run/mosb"] {
        let base = Sandbox::new().snapshot();
        assert_eq!(image.tree.0.get(mounted), base.0.get(mounted), "{mounted}");
    }
    assert_eq!(image.built.layers.len(), 2);
    let config =
        image.layout.json(&image.digest())["config"]["digest"].as_str().unwrap().to_owned();
    let config = image.layout.json(&config);
    assert_eq!(config["config"]["Labels"]["machineconfigpool"], "worker");
    assert!(config["config"]["Env"].as_array().unwrap().contains(&json!("A=b")));
}

#[test]
fn stages_run_before_and_after_the_config() {
    let prepared = "\
FROM scratch AS tools
COPY --from=base /etc/debian_version /version
FROM base
COPY --from=tools /version /usr/share/before
RUN test ! -e /usr/local/bin/tool && echo early > /etc/sysctl.d/90.conf && echo early > /etc/early
";
    let last = "\
FROM configs AS final
COPY --from=tools /version /usr/share/after
RUN test -x /usr/local/bin/tool && echo late >> /etc/early
";
    let mut config = config();
    config["storage"]["files"][0]["overwrite"] = json!(true);
    let fixture = BuildahFixture::new();
    let base = fixture.base();
    let plain = fixture.build(&plan(&config, None, &base), &base, "plain").unwrap();
    for (output, text, early, added) in [
        ("prepared", prepared.to_owned(), 6, &["etc/early", "usr/share/before"][..]),
        (
            "both",
            format!("{prepared}{last}"),
            11,
            &["etc/early", "usr/share/after", "usr/share/before"],
        ),
    ] {
        let mut made = fixture.build(&plan(&config, Some(&text), &base), &base, output).unwrap();
        let found: Vec<_> =
            made.tree.0.keys().filter(|path| !plain.tree.0.contains_key(*path)).cloned().collect();
        assert_eq!(found, added, "{output}");
        let size = |path: &str, want: u64| {
            let kind = &made.tree.0[path].kind;
            assert!(matches!(kind, Kind::File { size, .. } if *size == want), "{path}: {kind:?}");
        };
        size("etc/early", early);
        // The config replaces it.
        size("etc/sysctl.d/90.conf", 7);
        for path in added {
            made.tree.0.remove(*path);
        }
        plain.tree.assert_same(&made.tree, output);
    }
}

#[test]
fn failures_are_explained() {
    let fixture = BuildahFixture::new();
    let base = fixture.base();
    for (what, text, reason, words) in [
        ("a step", "RUN echo the cause >&2; exit 7\n", "program-failed", "the cause"),
        ("here-document", "RUN <<EOF\ntrue\nEOF\n", "buildah-too-old", "1.33.0"),
    ] {
        if reason == "buildah-too-old"
            && block_on(buildah::version()).unwrap() >= buildah::Version(1, 33, 0)
        {
            continue;
        }
        let plan = plan(&json!({ "ignition": { "version": "3.5.0" } }), Some(text), &base);
        let error = fixture.build(&plan, &base, "image").unwrap_err();
        assert_eq!(error.code(), reason, "{what}: {error}");
        assert!(error.to_string().contains(words), "{what}: {error}");
        assert!(!fixture.directory.path().join("image").exists(), "{what}");
    }
}

#[test]
fn a_killed_build_leaves_nothing_behind() {
    let fixture = BuildahFixture::new();
    let base = fixture.base();
    // The quotes distinguish the step's output from the line in which buildah prints the step.
    let slow = plan(&config(), Some("RUN echo be''gan; sleep 300\n"), &base);
    fixture.interrupt(&slow, &base, "began");
    assert_ne!(fixture.containers(), "", "the killed build left a container");
    let left = || fs::read_dir(fixture.cache().join("buildah/work")).unwrap().count();
    // The first build with an exclusive lock on the store cleans up. buildah inherits the lock, and
    // so do child processes that other tests of this process start at the same time.
    wait("a clean store", CLEAN, || {
        fixture.build(&plan(&config(), None, &base), &base, "image").unwrap();
        (left() == 0).then_some(())
    });
    assert_eq!(fixture.containers(), "");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let cache = fixture.cache().to_str().unwrap();
    let merged: Vec<_> =
        mounts.lines().filter(|line| line.contains(cache) && line.contains("/merged")).collect();
    assert!(merged.is_empty(), "{merged:?}");
}
