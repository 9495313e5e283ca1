use expect_test::expect_file;
use mosb_image::RepoRef;
use mosb_types::canonical_json;
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
    let sbom = Sbom { image, bases, created: CREATED, version: "0.1.0", layers };
    serde_json::to_string(&sbom.document()).unwrap()
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
