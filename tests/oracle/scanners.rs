//! Scanners read what mosb makes: syft finds the packages in an image that its SBOM lists, and converts
//! that SBOM; grype finds a vulnerability by either.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mosb_tests::{Mosb, Registry, finish, grype, syft, vulnerability_database};
use serde_json::{Value, json};

use super::packages::{WORKER, build, registry};
use super::sbom::sbom;

/// A vulnerability that exists only here.
const VULNERABILITY: &str = "CVE-2026-0001";

/// Where syft finds packages that a package manager installed. It also finds programs, modules in
/// them, and notes in them of the packages that they were built for.
const PACKAGE_MANAGERS: [&str; 2] = ["rpm-db-cataloger", "dpkg-db-cataloger"];

/// A package URL without what syft has in another way: the package of sources, and the version of
/// Debian, which it takes from `/etc/debian_version`.
fn package_url(url: &str) -> String {
    let (name, qualifiers) = url.split_once('?').unwrap_or((url, ""));
    let is_ours = |one: &&str| !["upstream=", "distro="].iter().any(|key| one.starts_with(key));
    let qualifiers: Vec<_> = qualifiers.split('&').filter(is_ours).collect();
    format!("{name}?{}", qualifiers.join("&"))
}

/// The package URLs of our document.
fn listed(sbom: &Value) -> BTreeSet<String> {
    let packages = sbom["packages"].as_array().unwrap().iter();
    let of_os = packages.filter(|package| package.get("primaryPackagePurpose").is_none());
    of_os
        .map(|package| {
            package_url(package["externalRefs"][0]["referenceLocator"].as_str().unwrap())
        })
        .collect()
}

/// Those of the packages in what syft writes that fit.
fn found(document: &Value, fits: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let packages = document["artifacts"].as_array().unwrap().iter();
    let fitting = packages.filter(|package| fits(package));
    fitting.map(|package| package_url(package["purl"].as_str().unwrap())).collect()
}

/// What grype finds in an image or by an SBOM, as `vulnerability package version`.
fn vulnerabilities(home: &Path, source: &[&str]) -> Vec<String> {
    let mut command = grype(home);
    command.args(["-q", "-o", "json"]).args(source);
    let found = finish(&mut command, &[]).ok().json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let matches = found["matches"].as_array().unwrap().iter().map(|it| {
        let artifact = &it["artifact"];
        let (name, version) = (text(&artifact["name"]), text(&artifact["version"]));
        format!("{} {name} {version}", text(&it["vulnerability"]["id"]))
    });
    matches.collect()
}

/// Gives grype a database in which versions of usbguard before this one are vulnerable.
fn import_database(home: &Path, fixed: &str) {
    let directory = home.join(fixed);
    fs::create_dir(&directory).unwrap();
    let mut write = vulnerability_database();
    write.arg(&directory).args([VULNERABILITY, "debian", "12", "usbguard", fixed]);
    finish(&mut write, &[]).ok();
    let mut import = grype(home);
    import.args(["db", "import", "-q"]).arg(directory.join("vulnerability.db"));
    finish(&mut import, &[]).ok();
}

#[test]
#[ignore = "make test-all: syft and grype take long to build"]
fn syft_and_grype_read_images_and_sboms() {
    let (mosb, registry) = (Mosb::new(), registry());
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str| home.path().join(name);
    let key = file("os.key");
    mosb.run(["keys", "new", key.to_str().unwrap()]).ok();
    let config = || json!({ "ignition": { "version": "3.5.0" } });
    let mut images = Vec::new();
    let with_packages = || json!({ "extensions": ["usbguard"], "config": config() });
    for (method, spec, more) in [
        ("direct", json!({ "config": config() }), &[][..]),
        ("prepared", with_packages(), &[]),
        ("containerfile", with_packages(), &["--method", "containerfile"]),
    ] {
        let arguments = [&["--sign-key", key.to_str().unwrap()], more].concat();
        let result = build(&mosb, &registry, spec, &arguments).ok().json();
        assert_eq!(result["method"], method, "{result:#}");
        let sbom = sbom(&registry, &result);
        let document = file(method);
        fs::write(&document, sbom.to_string()).unwrap();
        let listed = listed(&sbom);
        let has_usbguard = listed.iter().any(|url| url.contains("/usbguard@"));
        assert_eq!(has_usbguard, method != "direct", "{listed:?}");
        let image = image(&registry, &result);
        let mut scan = syft(home.path());
        scan.args(["scan", "-q", &image, "-o", "syft-json"]);
        let scanned = finish(&mut scan, &[]).ok().json();
        let is_installed =
            |package: &Value| PACKAGE_MANAGERS.iter().any(|it| package["foundBy"] == *it);
        assert_eq!(found(&scanned, is_installed), listed, "{method}");

        let mut convert = syft(home.path());
        convert.args(["convert", "-q"]).arg(&document).args(["-o", "syft-json"]);
        let converted = finish(&mut convert, &[]).ok().json();
        let is_of_os = |package: &Value| package["type"] == "rpm" || package["type"] == "deb";
        assert_eq!(found(&converted, is_of_os), listed, "{method}");
        images.push(image);
    }
    let sources = ["direct", "prepared", "containerfile"]
        .map(|method| format!("sbom:{}", file(method).display()));
    for (fixed, is_vulnerable) in [("1.2-1", true), ("1.1-1", false)] {
        import_database(home.path(), fixed);
        let [direct, prepared, containerfile] =
            sources.each_ref().map(|source| vulnerabilities(home.path(), &[source]));
        let found = format!("{VULNERABILITY} usbguard 1.1-1");
        let want: &[String] = if is_vulnerable { &[found] } else { &[] };
        assert!(direct.is_empty(), "{direct:?}");
        assert_eq!([&prepared[..], &containerfile], [want; 2], "fixed in {fixed}");
        // In the image it takes the version of Debian, too, from `/etc/debian_version`.
        let image = ["--distro", "debian:12", images.last().unwrap()];
        let in_image = vulnerabilities(home.path(), &image);
        assert_eq!(in_image, want, "fixed in {fixed}");
    }
}

/// The image of a result, for syft and grype.
fn image(registry: &Registry, result: &Value) -> String {
    let digest = result["digest"].as_str().unwrap();
    format!("registry:{}@{digest}", registry.repository(WORKER))
}
