//! What a Containerfile build runs for extensions, another kernel and the trust store works on an
//! ostree-native base, with the real rpm, dnf and p11-kit.
//!
//! Two programs of the base are stand-ins: rpm-ostree, which calls dnf, and update-ca-trust, which
//! calls `trust` as Fedora's does.

use std::fs;

use serde_json::{Value, json};

use mosb_tests::{
    Access, Certificate, Finished, Layout, Mosb, Registry, Server, Transport, ostree_import,
    package_images,
};

const NAME: &str = "rendered-worker-0123456789abcdef0123456789abcdef";

/// A registry with the base and the extensions image.
#[track_caller]
fn registry() -> Registry {
    let registry = Registry::start(Server::Debian, Access::Anyone, Transport::Http);
    let images = package_images();
    registry.push(&images, "base", "acme/os:base");
    registry.push(&images, "extensions", "acme/extensions:v1");
    registry
}

/// Builds a config with these fields of `spec` into the layout `output`.
#[track_caller]
fn build(mosb: &Mosb, registry: &Registry, mut spec: Value, more: &[&str]) -> Finished {
    spec["baseOSExtensionsContainerImage"] =
        json!(format!("{}/acme/extensions:v1", registry.address()));
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": NAME }, "spec": spec,
    });
    let base = format!("{}/acme/os:base", registry.address());
    let output = format!("oci:{}", mosb.home().join("output").display());
    let mut arguments = vec!["build", "-", "--base", &base, "--output", &output];
    arguments.extend(["--tls-verify=false", "--isolation", "chroot", "-o", "json"]);
    arguments.extend(more);
    mosb.run_with(arguments, config.to_string().as_bytes())
}

#[test]
fn extensions_and_a_kernel_are_installed_and_the_trust_store_is_compiled() {
    let (mosb, registry) = (Mosb::new(), registry());
    let [of_config, of_bundle] = ["of-config", "of-bundle"]
        .map(|name| Certificate::authority(mosb.home(), name).certificate);
    let text = |path| fs::read_to_string(path).unwrap();
    let source: String = text(&of_config).bytes().map(|byte| format!("%{byte:02x}")).collect();
    let spec = json!({
        "extensions": ["usbguard", "ipsec"],
        "kernelType": "realtime",
        "config": {
            "ignition": { "version": "3.5.0" },
            "storage": { "files": [{
                "path": "/etc/pki/ca-trust/source/anchors/acme.crt", "mode": 0o644,
                "contents": { "source": format!("data:,{source}") },
            }] },
        },
    });
    let bundle = of_bundle.to_str().unwrap();
    let result = build(&mosb, &registry, spec, &["--trust-bundle", bundle]).ok().json();
    assert_eq!(result["method"], "containerfile", "{result:#}");

    // What a machine has that takes the image.
    let layout = Layout::at(mosb.home().join("output"));
    let machine = ostree_import(&layout.reference(NAME), &[]).unwrap();
    let has = |path: &str| machine.path().join(path).symlink_metadata().is_ok();
    let read = |path: &str| fs::read_to_string(machine.path().join(path)).unwrap();
    for path in [
        "usr/lib/systemd/system/usbguard.service",
        "usr/lib/systemd/system/ipsec.service",
        "usr/share/NetworkManager-libreswan",
        "usr/share/openvswitch3.5-ipsec",
        "usr/lib/modules/6.1.0_rt/kernel-rt-core",
        "usr/lib/modules/6.1.0_rt/kernel-rt-kvm",
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
