//! `pyspdxtools` validates the SBOM of each kind of build, and the packages in it are those that rpm lists
//! on a machine with the image.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mosb_tests::parts::PYSPDXTOOLS;
use mosb_tests::{Finished, Mosb, Registry, finish, limited, ostree_import, package_images, run};
use mosb_trust::AttachmentKind;
use serde_json::{Value, json};

use super::packages::{WORKER, build, installed, machine, registry};

/// As a document has a package.
const PACKAGE: &str = "%{NAME} %{EVR}\\n";

fn pyspdxtools(document: &Path) -> Finished {
    let mut command = limited("python3");
    command.args(["-m", "spdx_tools.spdx.clitools.pyspdxtools", "--infile"]).arg(document);
    command.env("PYTHONPATH", PYSPDXTOOLS.directory());
    finish(&mut command, &[])
}

/// The SBOM that is attached to the image of a result.
pub(super) fn sbom(registry: &Registry, result: &Value) -> Value {
    let tag = AttachmentKind::Attestation.tag(&result["digest"].as_str().unwrap().parse().unwrap());
    let name = format!("docker://{}:{tag}", registry.repository(WORKER));
    let manifest = run("skopeo", ["inspect", "--raw", "--tls-verify=false", &name]).json();
    let mut layers = manifest["layers"].as_array().unwrap().iter();
    let kind = "https://spdx.dev/Document";
    let layer = layers.find(|layer| layer["annotations"]["predicateType"] == kind).unwrap();
    let envelope = fs::read(registry.blob_path(layer["digest"].as_str().unwrap())).unwrap();
    let envelope: Value = serde_json::from_slice(&envelope).unwrap();
    let statement = STANDARD.decode(envelope["payload"].as_str().unwrap()).unwrap();
    let mut statement: Value = serde_json::from_slice(&statement).unwrap();
    statement["predicate"].take()
}

/// The packages of a document, as [`PACKAGE`] has them: all, and those that are not the base's.
fn packages(sbom: &Value) -> [BTreeSet<String>; 2] {
    let relationships = sbom["relationships"].as_array().unwrap();
    let is_own = |id: &Value| {
        relationships.contains(&json!({
            "spdxElementId": "SPDXRef-image", "relationshipType": "CONTAINS",
            "relatedSpdxElement": id,
        }))
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (mut all, mut own) = (BTreeSet::new(), BTreeSet::new());
    for package in sbom["packages"].as_array().unwrap() {
        if package.get("primaryPackagePurpose").is_none() {
            let url = &package["externalRefs"][0]["referenceLocator"];
            assert!(text(url).starts_with("pkg:rpm/"), "{package:#}");
            let line = format!("{} {}", text(&package["name"]), text(&package["versionInfo"]));
            if is_own(&package["SPDXID"]) {
                own.insert(line.clone());
            }
            all.insert(line);
        }
    }
    [all, own]
}

#[test]
fn sboms_of_all_builds_are_valid() {
    let (mosb, registry) = (Mosb::new(), registry());
    let (key, document) = (mosb.home().join("os.key"), mosb.home().join("os.spdx.json"));
    let key = key.to_str().unwrap();
    mosb.run(["keys", "new", key]).ok();
    let config = || json!({ "ignition": { "version": "3.5.0" } });
    let direct = || json!({ "config": config() });
    let with_packages = || json!({ "extensions": ["usbguard"], "config": config() });
    let base = ostree_import(&package_images().reference("base"), &[]).unwrap();
    let of_base: BTreeSet<_> = installed(&base, PACKAGE).into_iter().collect();
    let mut of_prepared = BTreeSet::new();
    for (method, spec, more) in [
        ("direct", direct(), &[][..]),
        ("prepare-only", with_packages(), &["--prepare-only"]),
        ("prepared", with_packages(), &[]),
        ("containerfile", with_packages(), &["--method", "containerfile"]),
    ] {
        let arguments = [&["--sign-key", key], more].concat();
        let result = build(&mosb, &registry, spec, &arguments).ok().json();
        let is_prepared_base = result.get("method").is_none();
        assert!(is_prepared_base || result["method"] == method, "{method}: {result:#}");
        let sbom = sbom(&registry, &result);
        fs::write(&document, sbom.to_string()).unwrap();
        assert_eq!(pyspdxtools(&document).code(), Some(0), "{method}: {sbom:#}");

        let machine = machine(&mosb, &registry, &result);
        let of_machine: BTreeSet<_> = installed(&machine, PACKAGE).into_iter().collect();
        let below = if method == "prepared" { &of_prepared } else { &of_base };
        let own: BTreeSet<_> = of_machine.difference(below).cloned().collect();
        assert_eq!(packages(&sbom), [of_machine.clone(), own.clone()], "{method}");
        let brings_packages = ["prepare-only", "containerfile"].contains(&method);
        assert_eq!(
            own.iter().any(|line| line.starts_with("usbguard ")),
            brings_packages,
            "{own:?}"
        );
        if is_prepared_base {
            of_prepared = of_machine;
        }

        let without = sbom.to_string().replacen("documentNamespace", "nameSpace", 1);
        fs::write(&document, without).unwrap();
        assert_ne!(pyspdxtools(&document).code(), Some(0), "{method}: without a namespace");
    }
}
