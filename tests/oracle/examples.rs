//! An example of `docs/examples` that the parts of the tests can build: with the real buildah, dnf and
//! rpm.

use std::fs;

use mosb_tests::{Example, Layout, package_images, package_repository};

/// The commands of its page, with the vendor's repository and key in place.
#[test]
fn the_agent_of_the_examples_is_installed() {
    let example = Example::new("agent", &package_images(), "base");
    let file = example.at("repos/acme.repo");
    let text = fs::read_to_string(&file).unwrap();
    let ours = text.replace("https://packages.example.com/acme/", "file:///srv/acme");
    assert_ne!(ours, text);
    fs::write(file, ours).unwrap();
    fs::create_dir(example.at("keys")).unwrap();
    let key = "RPM-GPG-KEY-acme";
    fs::copy(package_repository().join(key), example.at("keys").join(key)).unwrap();
    example.render();
    let volume = format!("{}:/srv/acme:ro", package_repository().display());
    let more = ["--isolation", "chroot", "--volume", &volume];
    let built = example.run("build", &more);
    assert_eq!(built["prepared"]["reused"], false, "{built:#}");
    let copy = Layout::at(example.mosb.home().join("image"));
    let image = format!("acme/worker-os@{}", built["digest"].as_str().unwrap());
    example.registry.pull(&image, &copy.reference("image"));
    let machine = mosb_tests::ostree_import(&copy.reference("image"), &[]).unwrap();
    let read = |path: &str| fs::read_to_string(machine.path().join(path)).unwrap();
    assert_eq!(read("usr/bin/acme-tool"), "#!/bin/sh\necho tool\n");
    assert_eq!(read("usr/etc/acme-tool.conf"), "server=collector.example.com\n");
    let wants = "usr/etc/systemd/system/multi-user.target.wants/acme-tool.service";
    assert!(fs::symlink_metadata(machine.path().join(wants)).is_ok(), "it is enabled");
    // The repository and its key were there for the command only.
    for left in ["usr/etc/yum.repos.d/acme.repo", "usr/etc/pki/rpm-gpg/RPM-GPG-KEY-acme"] {
        assert!(!machine.path().join(left).exists(), "{left}");
    }

    // Other settings: nothing is installed again.
    let settings = example.at("machineconfigs/50-agent.yaml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(settings, text.replace("collector", "other")).unwrap();
    example.render();
    assert_eq!(example.run("build", &more)["prepared"]["reused"], true);
}
