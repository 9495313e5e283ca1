//! The image that clusters run: what others take it as, and that what is in it runs.

use std::fs;
use std::process::Command;

use crate::harness::{MOSB_IMAGE, mosb_image, run};

#[test]
fn an_archive_with_both_names_and_no_history_of_this_machine() {
    let archive = format!("oci-archive:{}", mosb_image().display());
    let config = run("skopeo", ["inspect", "--config", &archive]).json();
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/mosb");
    assert_eq!(config["created"], "1970-01-01T00:00:00Z");
    assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 2);
    let index = run(
        "tar",
        ["-xOf", mosb_image().to_str().unwrap(), "index.json"],
    )
    .json();
    let names = &index["manifests"][0]["annotations"];
    assert_eq!(names["io.containerd.image.name"], MOSB_IMAGE);
    assert_eq!(names["org.opencontainers.image.ref.name"], "tested");
}

#[test]
fn the_program_runs_in_it_as_anybody_and_buildah_as_root() {
    let folder = tempfile::tempdir().unwrap();
    let layout = folder.path().join("layout");
    let reference = format!("oci:{}:i", layout.display());
    let archive = format!("oci-archive:{}", mosb_image().display());
    run("skopeo", ["copy", "--quiet", &archive, &reference]);
    let bundle = folder.path().join("bundle");
    let image = format!("{}:i", layout.display());
    run(
        "umoci",
        [
            "unpack".as_ref(),
            "--image".as_ref(),
            image.as_ref(),
            bundle.as_os_str(),
        ],
    );
    let root = bundle.join("rootfs");
    for user in ["0:0", "65532:65532", "1000740000:0"] {
        let within = |program: &str| {
            let output = Command::new("chroot")
                .arg(format!("--userspec={user}"))
                .args([root.to_str().unwrap(), program, "--version"])
                .env_clear()
                .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                .env("HOME", "/root")
                .output()
                .unwrap();
            assert!(output.status.success(), "{user}: {program}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let version = within("/usr/bin/mosb");
        assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
        if user != "0:0" {
            // buildah is only ever root, in a user namespace.
            continue;
        }
        let version = within("/usr/bin/buildah");
        let minor = version.split(['.', ' ']).nth(3).unwrap();
        assert!(minor.parse::<u32>().unwrap() >= 33, "{version}");
    }
    // What reading a registry's certificate and its name needs.
    for file in ["etc/ssl/certs/ca-certificates.crt", "etc/nsswitch.conf"] {
        assert!(fs::metadata(root.join(file)).unwrap().len() > 0, "{file}");
    }
    let listed = run("du", ["-sm".as_ref(), root.as_os_str()]).text();
    let megabytes: u32 = listed.split('\t').next().unwrap().parse().unwrap();
    assert!(megabytes < 250, "{megabytes} MB: what was it made with?");
}
