use expect_test::expect_file;
use mosb_image::RepoRef;
use mosb_image::packages::{Effort, Installed, Listing, Manager, Packages};
use mosb_image::tree::{BaseTree, OwnedEntry};
use mosb_types::{Finding, canonical_json};
use serde_json::{Value, json};

use super::*;

const CREATED: &str = "2026-01-02T03:04:05Z";

fn named(repo: Option<&str>, content: &str) -> ImageName {
    let digest = Digest::of(content.as_bytes());
    let repo = repo.map(|repo| RepoRef::try_from(repo.to_owned()).unwrap());
    ImageName { repo, digest }
}

fn path(text: &str) -> TreePath {
    text.parse().unwrap()
}

fn write(image: &ImageName, bases: &[ImageName], layers: &[SbomLayer]) -> String {
    write_packages(image, bases, layers, None)
}

fn write_packages(
    image: &ImageName,
    bases: &[ImageName],
    layers: &[SbomLayer],
    packages: Option<&OsPackages>,
) -> String {
    let sbom = Sbom { image, bases, created: CREATED, version: "0.1.0", layers, packages };
    serde_json::to_string(&sbom.document()).unwrap()
}

/// What a tree with these lines in the status file of dpkg has.
fn installed(packages: &[(&str, &str)]) -> Installed {
    let paragraph = |(name, version): &(&str, &str)| {
        format!("Package: {name}\nStatus: install ok installed\nVersion: {version}\n\n")
    };
    let status: String = packages.iter().map(paragraph).collect();
    let listing = Listing::read(Manager::Dpkg, status.as_bytes(), Effort::Streaming).unwrap();
    Installed::of(&BaseTree::from_entries([
        (b"var/lib/dpkg/status".to_vec(), OwnedEntry::file(&listing.unwrap().to_bytes())),
        (b"etc/os-release".to_vec(), OwnedEntry::file(b"ID=debian\nVERSION_ID=12\n")),
    ]))
}

fn layer(files: Option<LayerFiles>) -> SbomLayer {
    SbomLayer { digest: Digest::of(b"layer"), files }
}

/// Compares with a golden document, which a person can read.
fn check(name: &str, document: &str) {
    let value: Value = serde_json::from_str(document).unwrap();
    assert_eq!(document.as_bytes(), canonical_json(&value), "its keys are sorted");
    let text = serde_json::to_string_pretty(&value).unwrap() + "\n";
    expect_file![format!("../../../../testdata/trust/{name}")].assert_eq(&text);
}

#[test]
fn a_direct_layer_is_listed_by_file() {
    let image = named(Some("registry.example.com/os/worker"), "image");
    let base = named(Some("quay.io/acme/base"), "base");
    let mut files = LayerFiles::default();
    files.list(path("/etc/motd"), b"hello\n");
    files.list(path("/usr/share/größe \"x\""), b"");
    files.leave_out(path("/etc/tls.key"));
    let document = write(&image, &[base], &[layer(Some(files))]);
    let described: Described = serde_json::from_str(&document).unwrap();
    assert_eq!(described.to_string(), "SPDX-2.3: 3 packages, 2 files, 1 file without hashes");
    check("sbom-direct.json", &document);
}

#[test]
fn layers_of_programs_are_named_only() {
    let image = named(None, "image");
    let bases = [named(None, "prepared"), named(None, "base")];
    check("sbom-run.json", &write(&image, &bases, &[layer(None)]));
}

#[test]
fn packages_are_those_of_the_image() {
    let image = named(Some("registry.example.com/os/prepared"), "prepared");
    let base = named(Some("quay.io/acme/base"), "base");
    let of_base = installed(&[("bash", "5.2"), ("openssl", "3.0"), ("removed", "1")]).packages;
    let installed = installed(&[("bash", "5.2"), ("openssl", "3.1"), ("usbguard", "1:1.1")]);
    let mut packages = OsPackages { installed, of_base: Some(of_base) };
    let base = std::slice::from_ref(&base);
    check("sbom-packages.json", &write_packages(&image, base, &[layer(None)], Some(&packages)));

    packages.of_base = None;
    let document = write_packages(&image, base, &[], Some(&packages));
    let document: Value = serde_json::from_str(&document).unwrap();
    let comment = "it is not known which of its packages its base has";
    assert_eq!(document["packages"][0]["comment"], comment);
    let contains = |it: &&Value| it["relationshipType"] == "CONTAINS";
    let owners = document["relationships"].as_array().unwrap().iter().filter(contains);
    let owners: Vec<_> = owners.map(|it| &it["spdxElementId"]).collect();
    assert_eq!(owners, [IMAGE; 3]);
}

#[test]
fn packages_that_are_missing_are_reported() {
    let image = named(None, "image");
    let comment = |packages: Option<OsPackages>| {
        let document = write_packages(&image, &[], &[], packages.as_ref());
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["packages"].as_array().unwrap().len(), 1);
        document["packages"][0]["comment"].clone()
    };
    let of = |installed| Some(OsPackages { installed, of_base: Some(Packages::default()) });
    let finding = Finding::new("package-database", "the rpm database can't be read");
    let unreadable = Installed { warnings: vec![finding], ..Installed::default() };
    assert_eq!(comment(of(unreadable)), "the rpm database can't be read");
    assert_eq!(comment(of(Installed::default())), "It has no package database of rpm or dpkg.");
    assert_eq!(comment(None), "Its packages are not listed: they could not be read.");
    let many: Vec<_> = (10_000..70_000).map(|number| format!("package-{number}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "1")).collect();
    let too_large = "Its 60000 packages are not listed: the document would be too large.";
    assert_eq!(comment(of(installed(&many))), too_large);
}

#[test]
fn a_document_of_many_packages_is_small() {
    let names: Vec<_> = (10_000..30_000).map(|number| format!("package+\"{number}")).collect();
    let names: Vec<_> = names.iter().map(|name| (name.as_str(), "1:2+3")).collect();
    let (image, base) = (named(None, "image"), named(None, "base"));
    let installed = installed(&names);
    for of_base in [installed.packages.clone(), Packages::default()] {
        let mut free = LISTS_LIMIT;
        let packages = OsPackages { installed: installed.clone(), of_base: Some(of_base) };
        assert!(Listed::new(Some(&packages), &mut free).comment.is_none());
        let (size, base) = (LISTS_LIMIT - free, std::slice::from_ref(&base));
        let actual = write_packages(&image, base, &[], Some(&packages)).len();
        assert!(actual < size + 2_000 && size < actual + actual / 20, "{actual} {size}");
    }
}

#[test]
fn a_document_of_many_files_is_small() {
    let image = named(None, "image");
    let many = |count: usize, path_end: &str| {
        let mut files = LayerFiles::default();
        for number in 10_000..10_000 + count {
            files.list(path(&format!("/etc/directory/{number}{path_end}")), b"");
        }
        let size = files.size();
        (write(&image, &[], &[layer(Some(files))]), size)
    };
    for end in ["", "\u{1}\"\\"] {
        let (document, size) = many(26_000, end);
        let actual = document.len();
        assert!(actual < size + 2_000 && size < actual + actual / 20, "{actual} {size}");
        assert!(actual < 8_000_000, "{actual}");
    }
    let (document, _) = many(80_000, "");
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document.get("files"), None);
    let layer = &document["packages"][1];
    assert_eq!(layer["filesAnalyzed"], json!(false));
    let comment = "Its 80000 files are not listed: the document would be too large.";
    assert_eq!(layer["comment"], comment);
}
