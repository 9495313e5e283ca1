//! What a build runs for extensions, another kernel and the trust store works on an ostree-native
//! base, with the real rpm, dnf and p11-kit: once in a prepared base, or all at once.
//!
//! Two programs of the base are stand-ins: rpm-ostree, which calls dnf, and update-ca-trust, which
//! calls `trust` as Fedora's does.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use mosb_tests::{
    Access, Certificate, Checkout, Compression, Finished, Image, Layout, Mosb, Registry, Server,
    Transport, Tree, ostree_import, package_images, run, second_package_image,
};

const NAME: &str = "rendered-worker-0123456789abcdef0123456789abcdef";
/// The repository that images are pushed to.
pub(super) const WORKER: &str = "acme/worker";

/// A registry with the base and the extensions image.
#[track_caller]
pub(super) fn registry() -> Registry {
    let registry = Registry::start(Server::Debian, Access::Anyone, Transport::Http);
    let images = package_images();
    registry.push(&images, "base", "acme/os:base");
    registry.push(&images, "extensions", "acme/extensions:v1");
    registry
}

/// Builds a config with these fields of `spec` for the registry.
#[track_caller]
pub(super) fn build(mosb: &Mosb, registry: &Registry, spec: Value, more: &[&str]) -> Finished {
    let output = registry.repository(WORKER);
    let arguments = ["build", "-", "--output", &output, "--isolation", "chroot"];
    run_mosb(mosb, registry, spec, &[&arguments, more].concat())
}

#[track_caller]
fn run_mosb(mosb: &Mosb, registry: &Registry, mut spec: Value, arguments: &[&str]) -> Finished {
    spec["baseOSExtensionsContainerImage"] =
        json!(format!("{}/acme/extensions:v1", registry.address()));
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": NAME }, "spec": spec,
    });
    let base = format!("{}/acme/os:base", registry.address());
    let mut arguments = arguments.to_vec();
    arguments.extend(["--base", &base, "--tls-verify=false", "-o", "json"]);
    mosb.run_with(arguments, config.to_string().as_bytes())
}

/// Extensions, a kernel, a certificate, and what a config without them has too.
fn spec(certificate: &str, content: &str, enabled: &[&str]) -> Value {
    let source: String = certificate.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    let own = json!({ "name": "acme.service", "enabled": true, "contents": unit });
    let others = enabled.iter().map(|name| json!({ "name": name, "enabled": true }));
    let units: Vec<Value> = [own].into_iter().chain(others).collect();
    json!({
        "extensions": ["usbguard", "ipsec"],
        "kernelType": "realtime",
        "config": {
            "ignition": { "version": "3.5.0" },
            "storage": {
                "directories": [{ "path": "/etc/acme", "mode": 0o750 }],
                "files": [
                    { "path": ANCHOR, "mode": 0o640, "contents": { "source": format!("data:,{source}") } },
                    { "path": "/etc/acme/file", "mode": 0o600, "contents": { "source": format!("data:,{content}") } },
                    { "path": "/etc/debian_version", "append": [{ "source": "data:,acme" }] },
                ],
                "links": [{ "path": "/etc/acme/link", "target": "../pki" }],
            },
            "systemd": { "units": units },
        },
    })
}

const ANCHOR: &str = "/etc/pki/ca-trust/source/anchors/acme.crt";

/// What a machine has that takes the image of a result.
#[track_caller]
pub(super) fn machine(mosb: &Mosb, registry: &Registry, result: &Value) -> Checkout {
    let digest = result["digest"].as_str().unwrap();
    let (_, hex) = digest.split_once(':').unwrap();
    let copy = Layout::at(mosb.home().join(hex)).reference("image");
    registry.pull(&format!("{WORKER}@{digest}"), &copy);
    ostree_import(&copy, &[]).unwrap()
}

/// The labels of the image of a result.
fn labels(registry: &Registry, result: &Value) -> Value {
    let read = |digest: &Value| -> Value {
        let blob = registry.blob_path(digest.as_str().unwrap());
        serde_json::from_slice(&fs::read(blob).unwrap()).unwrap()
    };
    read(&read(&result["digest"])["config"]["digest"])["config"]["Labels"].take()
}

fn codes(result: &Value) -> Vec<&str> {
    let warnings = result["warnings"].as_array().unwrap();
    warnings.iter().map(|one| one["code"].as_str().unwrap()).collect()
}

/// The databases and logs of what installs packages: they have times, and packages in the order of the
/// command line.
fn is_made_anew(path: &str) -> bool {
    let var = "usr/share/factory/var/";
    path.starts_with("usr/share/rpm")
        || path
            .strip_prefix(var)
            .is_some_and(|path| path.starts_with("log/") || path.starts_with("lib/dnf/"))
}

#[test]
fn what_must_be_run_is_run_once() {
    let (mosb, registry) = (Mosb::new(), registry());
    let [of_config, of_bundle] = ["of-config", "of-bundle"]
        .map(|name| Certificate::authority(mosb.home(), name).certificate);
    let text = |path| fs::read_to_string(path).unwrap();
    let spec = |content: &str, enabled: &[&str]| spec(&text(&of_config), content, enabled);
    // Its step finds the packages, and nothing of the config.
    let own = mosb.home().join("Containerfile");
    let step = "test -x /usr/sbin/ipsec && test ! -e /etc/acme && echo own > /usr/share/own";
    fs::write(&own, format!("FROM base\nRUN {step}\n")).unwrap();
    let own = ["--containerfile", own.to_str().unwrap()];
    let bundle = ["--trust-bundle", of_bundle.to_str().unwrap()];
    let run = |mosb: &Mosb, spec, more: &[&str]| {
        build(mosb, &registry, spec, &[&own, &bundle, more].concat()).ok().json()
    };

    // Everything at once.
    let at_once = run(&mosb, spec("a", &[]), &["--method", "containerfile"]);
    assert_eq!(at_once["method"], "containerfile", "{at_once:#}");
    let one = machine(&mosb, &registry, &at_once);
    let has = |path: &str| one.path().join(path).symlink_metadata().is_ok();
    let read = |path: &str| fs::read_to_string(one.path().join(path)).unwrap();
    for path in [
        "usr/lib/systemd/system/usbguard.service",
        "usr/lib/systemd/system/ipsec.service",
        "usr/share/NetworkManager-libreswan",
        "usr/share/openvswitch3.5-ipsec",
        "usr/lib/modules/6.1.0_rt/kernel-rt-core",
        "usr/lib/modules/6.1.0_rt/kernel-rt-kvm",
        "usr/share/own",
    ] {
        assert!(has(path), "{path}");
    }
    assert!(!has("usr/lib/modules/6.1.0"), "the base's kernel");
    assert!(!has("usr/etc/yum.repos.d/coreos-extensions.repo"), "it is for the step only");
    assert!(read("usr/etc/passwd").contains("usbguard:x:970:"), "the user of a package");
    let store = read("usr/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem");
    for certificate in [&of_config, &of_bundle].map(text) {
        assert!(store.contains(certificate.trim()), "{certificate}\nis not in\n{store}");
    }
    assert!(!has("usr/lib/tmpfiles.d/usbguard.conf"), "its rule names a user");
    let rules = read("usr/lib/tmpfiles.d/usbguard_ipsec.conf");
    for directory in ["/var/log/usbguard 0755", "/var/lib/ipsec 0700", "/var/lib/ipsec/nss 0700"] {
        assert!(rules.contains(&format!("d {directory} root root\n")), "{directory}: {rules}");
    }

    // A prepared base, and one layer on it.
    let prepared = run(&mosb, spec("a", &[]), &["--prepare-only"]);
    let (image, inputs) = (&prepared["image"], &prepared["inputs"]);
    let tag = format!("prepared-{}", &inputs.as_str().unwrap()[..32]);
    assert_eq!(prepared["tag"], json!(tag));
    let itself = labels(&registry, &prepared);
    assert_eq!(&itself["mosb.dev/prepared-inputs"], inputs);
    assert_eq!(itself["machineconfig"], Value::Null);
    let bare = machine(&mosb, &registry, &prepared);
    let has = |path: &str| bare.path().join(path).symlink_metadata().is_ok();
    assert!(has("usr/share/own") && !has("usr/etc/acme"), "{itself:#}");
    let first = run(&mosb, spec("a", &[]), &[]);
    let use_of = |result: &Value| {
        let prepared = &result["prepared"];
        (result["method"].clone(), prepared["inputs"].clone(), prepared["reused"].clone())
    };
    let reused = (json!("prepared"), inputs.clone(), json!(true));
    assert_eq!((use_of(&first), &first["prepared"]["image"]), (reused.clone(), image), "{first:#}");
    for field in ["inputs", "tags"] {
        assert_eq!(first[field], at_once[field], "{field}");
    }
    let two = machine(&mosb, &registry, &first);
    let without_what_is_made_anew = |machine: &Checkout| {
        let mut snapshot = machine.snapshot();
        snapshot.0.retain(|path, _| !is_made_anew(path));
        snapshot
    };
    without_what_is_made_anew(&one).assert_same(&without_what_is_made_anew(&two), "at once");

    // Instructions that need the config are run on the same prepared base with the config's layer.
    let with_last = mosb.home().join("WithLast");
    let last =
        "test -x /usr/sbin/ipsec && cp /etc/acme/file /usr/share/last && ostree container commit";
    fs::write(&with_last, format!("FROM base\nRUN {step}\nFROM configs\nRUN {last}\n")).unwrap();
    let own_and_last = ["--containerfile", with_last.to_str().unwrap()];
    let both = build(&mosb, &registry, spec("a", &[]), &[&own_and_last[..], &bundle].concat());
    let both = both.ok().json();
    assert_eq!(both["method"], "last-part", "{both:#}");
    assert_eq!(both["prepared"], first["prepared"], "{both:#}");
    let mut of_both = without_what_is_made_anew(&machine(&mosb, &registry, &both));
    assert!(of_both.0.remove("usr/share/last").is_some());
    without_what_is_made_anew(&two).assert_same(&of_both, "without the last part");
    let labels_of_both = labels(&registry, &both);
    assert_eq!(labels_of_both["mosb.dev/prepared"], prepared["digest"]);
    assert_eq!(labels_of_both["mosb.dev/inputs"], both["inputs"]);

    // Another config: no program can be found but the test's own, and the unit of a package is enabled.
    let programs = mosb.home().join("programs");
    fs::create_dir(&programs).unwrap();
    symlink("/usr/bin/timeout", programs.join("timeout")).unwrap();
    let programs = programs.to_str().unwrap().to_owned();
    let mosb = mosb.with("PATH", &programs);
    let second = run(&mosb, spec("b", &["usbguard.service"]), &[]);
    assert_eq!((use_of(&second), &second["prepared"]["image"]), (reused.clone(), image));
    let unused = |result: &Value| codes(result).contains(&"option-unused");
    assert_eq!([unused(&prepared), unused(&second)], [false, true], "{prepared:#}\n{second:#}");
    let three = machine(&mosb, &registry, &second);
    let link = "usr/etc/systemd/system/basic.target.wants/usbguard.service";
    assert!(three.path().join(link).symlink_metadata().is_ok(), "{link}");
    let file = fs::read_to_string(three.path().join("usr/etc/acme/file")).unwrap();
    assert_eq!(file, "b");
    let labels = labels(&registry, &second);
    assert_eq!(labels["mosb.dev/prepared"], prepared["digest"]);
    assert_eq!(labels["machineconfig"], json!(NAME));
    assert_eq!(labels["mosb.dev/inputs"], second["inputs"]);

    // A plan runs nothing and records nothing.
    let plan = |mosb: &Mosb, bundle: &Path, more: &[&str]| {
        let output = registry.repository(WORKER);
        let arguments = ["plan", "-", "--output", &output, "--trust-bundle"];
        let arguments = [&arguments[..], &[bundle.to_str().unwrap()], &own, more].concat();
        run_mosb(mosb, &registry, spec("b", &["usbguard.service"]), &arguments).ok().json()
    };
    let given = ["--prepared", image.as_str().unwrap()];
    let elsewhere = Mosb::new().with("PATH", &programs);
    assert_eq!(use_of(&plan(&elsewhere, &of_bundle, &given)), reused);
    let unknown = (json!("prepared"), inputs.clone(), json!(false));
    assert_eq!(use_of(&plan(&elsewhere, &of_bundle, &[])), unknown);

    // Whoever builds: the same prepared base and config are the same image. A build records.
    let again = run(&elsewhere, spec("b", &["usbguard.service"]), &given);
    assert_eq!(again["digest"], second["digest"]);
    assert_eq!(use_of(&plan(&elsewhere, &of_bundle, &[])), reused);

    // A config that needs no prepared base, as a pipeline gives one to all configs.
    let plain = json!({ "config": { "ignition": { "version": "3.5.0" } } });
    let direct = build(&elsewhere, &registry, plain, &given).ok().json();
    assert_eq!(direct["method"], "direct");
    assert!(direct["warnings"].to_string().contains("--prepared"), "{direct:#}");

    // Another bundle is another prepared base.
    let other = Certificate::authority(mosb.home(), "other").certificate;
    let planned = plan(&mosb, &other, &[]);
    assert_ne!(&planned["prepared"]["inputs"], inputs);
    assert_eq!(planned["prepared"]["reused"], json!(false), "{planned:#}");
    let bundle = ["--trust-bundle", other.to_str().unwrap()];
    let refused = build(&mosb, &registry, spec("c", &[]), &[&bundle[..], &given].concat());
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
    assert!(refused.text().contains("other-prepared-inputs"), "{}", refused.text());

    // It is no longer in the registry.
    registry.forget(WORKER);
    let planned = plan(&mosb, &of_bundle, &[]);
    assert_eq!(use_of(&planned), unknown, "{planned:#}");
    assert!(codes(&planned).contains(&"prepared-missing"), "{planned:#}");
}

/// The packages in the database of a machine, as its own rpm lists them.
pub(super) fn installed(machine: &Checkout, format: &str) -> Vec<String> {
    let root = machine.path();
    let rpm = ["rpm", "--dbpath=/usr/share/rpm", "--query", "--all", "--queryformat", format];
    sorted_lines(run("chroot", [root.to_str().unwrap()].iter().chain(&rpm)))
}

fn sorted_lines(finished: Finished) -> Vec<String> {
    let mut lines: Vec<_> = finished.text().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The packages of an image, as mosb lists them.
fn listed(mosb: &Mosb, image: &str) -> Vec<String> {
    let inspect = ["inspect", image, "--packages", "--tls-verify=false", "-o", "json"];
    let os = mosb.run(inspect).ok().json()["os"].take();
    assert_eq!(os["warnings"], Value::Null);
    let field = |package: &Value, name: &str| package[name].as_str().unwrap_or("(none)").to_owned();
    let packages = os["packages"].as_array().unwrap();
    assert_eq!(os["packageCount"], packages.len());
    let line = |package: &Value| ["name", "version", "arch"].map(|it| field(package, it)).join(" ");
    let mut lines: Vec<_> = packages.iter().map(line).collect();
    lines.sort();
    lines
}

/// As mosb prints a package.
const PACKAGE: &str = "%{NAME} %{EVR} %{ARCH}\\n";

#[test]
fn packages_are_those_that_the_tools_list() {
    let mosb = Mosb::new();
    for images in [package_images(), second_package_image()] {
        let image = images.reference("base");
        let want = installed(&ostree_import(&image, &[]).unwrap(), PACKAGE);
        assert!(want.len() > 5, "{want:?}");
        assert_eq!(listed(&mosb, &image), want);
    }

    // The roots of the tests have no database of dpkg, but this machine does.
    let format = "--showformat=${Package} ${Version} ${Architecture}\\n";
    let want = sorted_lines(run("dpkg-query", ["--show", format]));
    let status = fs::read_to_string("/var/lib/dpkg/status").unwrap();
    let layout = Layout::create(&mosb.home().join("dpkg"));
    for (tag, path) in
        [("a", "var/lib/dpkg/status"), ("b", "usr/share/factory/var/lib/dpkg/status")]
    {
        let layer = Tree::new().file(path, 0o644, &status).tar();
        layout.put(tag, &Image::new().layer(Compression::Gzip, layer));
        assert_eq!(listed(&mosb, &layout.reference(tag)), want, "{path}");
    }
}

#[test]
fn packages_are_installed_anew_on_another_base() {
    let (mosb, registry) = (Mosb::new(), registry());
    let authority = Certificate::authority(mosb.home(), "authority").certificate;
    let spec = spec(&fs::read_to_string(authority).unwrap(), "a", &[]);
    let make = |more: &[&str]| build(&mosb, &registry, spec.clone(), more).ok().json();
    let first = make(&[]);
    registry.push(&second_package_image(), "base", "acme/os:base");
    let second = make(&[]);
    assert_eq!(second["method"], "prepared", "{second:#}");
    assert_eq!(second["prepared"]["reused"], false, "{second:#}");
    assert_ne!(second["prepared"]["inputs"], first["prepared"]["inputs"]);
    let again = make(&[]);
    assert_eq!((&again["digest"], &again["prepared"]["reused"]), (&second["digest"], &json!(true)));

    let image = |result: &Value| result["image"].as_str().unwrap().to_owned();
    let images = [&first, &second].map(image);
    let [first, second] = [first, second].map(|result| machine(&mosb, &registry, &result));
    let rpm = installed(&second, PACKAGE);
    let all = listed(&mosb, &images[1]);
    assert!(rpm.iter().all(|package| all.contains(package)), "{rpm:?}\n{all:?}");
    let diff = ["diff", &images[0], &images[1], "--tls-verify=false", "-o", "json"];
    let diff = mosb.run(diff).json();
    let added = json!([{ "name": "acme-agent", "to": "1.0-1" }]);
    assert_eq!(diff["os"]["packages"]["added"], added, "{:#}", diff["os"]["packages"]);
    let [of_first, of_second] = [&first, &second].map(|machine| installed(machine, "%{NVRA}\\n"));
    let extension = |packages: &[String]| packages.contains(&"usbguard-1.1-1.noarch".to_owned());
    assert!(extension(&of_first) && extension(&of_second), "{of_first:?}\n{of_second:?}");
    let agent = |packages: &[String]| packages.contains(&"acme-agent-1.0-1.noarch".to_owned());
    assert!(!agent(&of_first) && agent(&of_second), "{of_first:?}\n{of_second:?}");
    let kernels = |machine: &Checkout| -> Vec<_> {
        let found = fs::read_dir(machine.path().join("usr/lib/modules")).unwrap();
        found.map(|one| one.unwrap().file_name()).collect()
    };
    assert_eq!([kernels(&first), kernels(&second)], [["6.1.0_rt"], ["6.1.0_rt"]]);
}

#[test]
fn a_package_that_no_repository_has_is_named() {
    let (mosb, registry) = (Mosb::new(), registry());
    let spec =
        json!({ "extensions": ["kerberos"], "config": { "ignition": { "version": "3.5.0" } } });
    let failed = build(&mosb, &registry, spec, &[]);
    assert_eq!(failed.code(), Some(1), "{}", failed.stderr);
    assert!(failed.stderr.contains("krb5-workstation"), "{}", failed.stderr);
}

#[test]
fn a_unit_of_an_extension_is_enabled() {
    let (mosb, registry) = (Mosb::new(), registry());
    let unit = json!({ "name": "usbguard.service", "enabled": true });
    let spec = json!({
        "extensions": ["usbguard"],
        "config": { "ignition": { "version": "3.5.0" }, "systemd": { "units": [unit] } },
    });
    for method in ["containerfile", "auto"] {
        let built = build(&mosb, &registry, spec.clone(), &["--method", method]).ok().json();
        let machine = machine(&mosb, &registry, &built);
        let link = "usr/etc/systemd/system/basic.target.wants/usbguard.service";
        let target = fs::read_link(machine.path().join(link)).expect(method);
        assert!(target.ends_with("lib/systemd/system/usbguard.service"), "{method}: {target:?}");
    }
}
