//! The image for clusters: other programs accept it, and its content runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use mosb_tests::{MOSB_IMAGE, mosb_image, mosb_image_of, mosb_root, run};

#[test]
fn an_archive_tells_nothing_of_this_machine() {
    let archive = format!("oci-archive:{}", mosb_image().display());
    let config = run("skopeo", ["inspect", "--config", &archive]).json();
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/mosb");
    assert_eq!(config["created"], "1970-01-01T00:00:00Z");
    assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 2);
    let index = run("tar", ["-xOf", mosb_image().to_str().unwrap(), "index.json"]).json();
    let names = &index["manifests"][0]["annotations"];
    assert_eq!(names["io.containerd.image.name"], MOSB_IMAGE);
    assert_eq!(names["org.opencontainers.image.ref.name"], "tested");
}

#[test]
fn any_user_runs_it_and_root_buildah() {
    let folder = tempfile::tempdir().unwrap();
    let layout = folder.path().join("layout");
    let reference = format!("oci:{}:i", layout.display());
    let archive = format!("oci-archive:{}", mosb_image().display());
    run("skopeo", ["copy", "--quiet", &archive, &reference]);
    let bundle = folder.path().join("bundle");
    let image = format!("{}:i", layout.display());
    run("umoci", ["unpack".as_ref(), "--image".as_ref(), image.as_ref(), bundle.as_os_str()]);
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
            // buildah always runs as root in a user namespace.
            continue;
        }
        let version = within("/usr/bin/buildah");
        let minor = version.split(['.', ' ']).nth(3).unwrap();
        assert!(minor.parse::<u32>().unwrap() >= 33, "{version}");
    }
    // The program needs these files for a registry's certificate and name.
    for file in ["etc/ssl/certs/ca-certificates.crt", "etc/nsswitch.conf"] {
        assert!(fs::metadata(root.join(file)).unwrap().len() > 0, "{file}");
    }
    let listed = run("du", ["-sm".as_ref(), root.as_os_str()]).text();
    let megabytes: u32 = listed.split('\t').next().unwrap().parse().unwrap();
    assert!(megabytes < 250, "{megabytes} MB: what was it made with?");
}

/// The program's timestamp, file name and folder do not affect the image.
#[test]
fn made_twice_it_is_the_same_image() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("renamed");
    fs::copy(mosb_tests::program(), &program).unwrap();
    run("touch", ["--date=2001-02-03", program.to_str().unwrap()]);
    let again = folder.path().join("again.tar");
    mosb_image_of(&program, &again);
    assert!(fs::read(&again).unwrap() == fs::read(mosb_image()).unwrap());
}

fn bill_of_materials(file: &Path) -> Value {
    let script = mosb_tests::repository().join("containerfiles/sbom");
    run(script.to_str().unwrap(), [mosb_root().as_path(), file]);
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

#[test]
fn the_bill_of_materials_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one.json", "other.json"].map(|name| folder.path().join(name));
    let bill = bill_of_materials(&one);
    bill_of_materials(&other);
    assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap());
    assert_eq!(bill["bomFormat"], "CycloneDX");
    assert_eq!(bill["metadata"]["component"]["version"], env!("CARGO_PKG_VERSION"));

    let components = bill["components"].as_array().unwrap();
    let references: BTreeSet<_> = components.iter().map(|one| one["bom-ref"].as_str()).collect();
    assert_eq!(references.len(), components.len(), "a bom-ref twice");
    let of = |start: &str| -> Vec<&Value> {
        let purl = |one: &&Value| one["purl"].as_str().is_some_and(|purl| purl.starts_with(start));
        components.iter().filter(purl).collect()
    };
    let names = |of: &[&Value]| -> BTreeSet<String> {
        let name = |one: &&Value| one["name"].as_str().unwrap().to_owned();
        of.iter().map(name).collect()
    };

    // dpkg itself reads the root.
    let bundle = folder.path().join("bundle");
    let image = format!("{}:root", mosb_root().display());
    let unpack = ["unpack", "--image", &image, bundle.to_str().unwrap()];
    run("umoci", unpack);
    let database = format!("--admindir={}/rootfs/var/lib/dpkg", bundle.display());
    let listed =
        run("dpkg-query", [&*database, "--show", "--showformat=${Package}\\t${Version}\\n"]);
    let packages = of("pkg:deb/debian/");
    let documented: BTreeSet<String> = packages
        .iter()
        .map(|one| {
            format!("{}\t{}", one["name"].as_str().unwrap(), one["version"].as_str().unwrap())
        })
        .collect();
    assert_eq!(documented, listed.text().lines().map(str::to_owned).collect());
    assert!(names(&packages).contains("buildah"), "{documented:?}");

    let crates = of("pkg:cargo/");
    for one in &crates {
        assert!(one["licenses"][0]["expression"].is_string(), "{one}");
        let sum = one["hashes"][0]["content"].as_str();
        let own = one["name"].as_str().unwrap().starts_with("mosb");
        assert!(own || sum.is_some_and(|sum| sum.len() == 64), "{one}");
    }
    let names = names(&crates);
    for linked in ["aws-lc-sys", "kube", "mosb", "tar", "zlib-rs"] {
        assert!(names.contains(linked), "{linked}");
    }
    for other in ["expect-test", "proptest", "serde_derive", "cc"] {
        assert!(!names.contains(other), "{other} is not in the program");
    }
}
