//! What the SBOM of the controller has: that of a build by hand, with the packages that programs installed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::cluster_signatures::{Keys, SECRET};
use crate::test_cluster::Cluster;
use crate::test_cluster::build_pod::recorded;

/// Makes an image that the controller made and signed by hand, with the key `hand.key`: it is the
/// same image, and has the same SBOM.
#[track_caller]
pub fn assert_same_sbom(
    keys: &Keys,
    cluster: &Cluster,
    image: &str,
    rendered: &str,
    more: &[&str],
) {
    let config = cluster.node.get(&format!("machineconfig/{rendered}"));
    let (file, key) = (keys.file(&format!("{rendered}.json")), keys.file("hand.key"));
    std::fs::write(&file, config.to_string()).unwrap();
    let mut words = vec!["build", &*file, "--output", &*cluster.push, "--sign-key", &*key];
    words.extend(["--build-on=every-config", "-ojson"]);
    words.extend(more);
    let built = keys.run(cluster, &words).ok().json();
    assert_eq!(built["image"], image);
    let sboms = sboms(cluster, image);
    let [controllers, by_hand] = &sboms[..] else { panic!("{sboms:#?}") };
    assert_eq!(controllers, by_hand);
    assert!(!controllers["files"].as_array().unwrap().is_empty(), "{controllers:#}");
}

/// The SPDX documents that are attached to an image in the push repository, the oldest first.
pub fn sboms(cluster: &Cluster, image: &str) -> Vec<Value> {
    let registry = cluster.node.registry();
    let (_, digest) = image.split_once('@').unwrap();
    let tag = format!("{}.att", digest.replace(':', "-"));
    let read = |digest: &str| -> Value { serde_json::from_reader(registry.blob(digest)).unwrap() };
    let manifest = read(&registry.tagged(&cluster.pool, &tag));
    let layers = manifest["layers"].as_array().unwrap().iter();
    let sboms =
        layers.filter(|it| it["annotations"]["predicateType"] == "https://spdx.dev/Document");
    let document = |layer: &Value| {
        let envelope = read(layer["digest"].as_str().unwrap());
        let statement = STANDARD.decode(envelope["payload"].as_str().unwrap()).unwrap();
        serde_json::from_slice::<Value>(&statement).unwrap()["predicate"].clone()
    };
    sboms.map(document).collect()
}

/// The packages of an SBOM, each with what has it: the image, or its base.
fn packages(sbom: &Value) -> Vec<(&str, &str)> {
    let all = |field: &str| sbom[field].as_array().unwrap().iter();
    let owner = |package: &Value| {
        let contains = all("relationships").find(|it| {
            it["relationshipType"] == "CONTAINS" && it["relatedSpdxElement"] == package["SPDXID"]
        });
        contains.unwrap()["spdxElementId"].as_str().unwrap()
    };
    let is_package = |it: &&Value| it["SPDXID"].as_str().unwrap().starts_with("SPDXRef-package-");
    let packages = all("packages").filter(is_package);
    packages.map(|it| (it["name"].as_str().unwrap(), owner(it))).collect()
}

/// An instruction that has dpkg list a package.
fn install(name: &str) -> String {
    let entry = format!(
        "Package: {name}\\nStatus: install ok installed\\nVersion: 1\\nArchitecture: all\\n"
    );
    format!("RUN mkdir -p /var/lib/dpkg && printf '\\n{entry}' >> /var/lib/dpkg/status\n")
}

#[test]
fn packages_that_programs_installed_are_described() {
    let mut cluster = Cluster::new("signed-packages");
    let keys = Keys::new(&["os.key"]);
    keys.give(&cluster, "os.key");
    cluster.settings_with(&json!({ "signing": { "secret": SECRET } }));
    cluster.render("one");
    let last = format!("FROM configs\n{}", install("last"));
    cluster.opt_in(Some(&format!("FROM base\n{}{last}", install("prepared"))));
    cluster.start();

    let (image, of_base) = ("SPDXRef-image", "SPDXRef-base-1");
    let first = cluster.image_after("");
    let sbom = &sboms(&cluster, &first)[0];
    let want = [("last", image), ("prepared", of_base)];
    assert_eq!(packages(sbom), want, "{sbom:#}");
    let made = recorded(&cluster);
    let sbom = &sboms(&cluster, &format!("{}@{}", cluster.push, made[0]))[0];
    assert_eq!(packages(sbom), [("prepared", image)], "{sbom:#}");

    // No build recorded the tree of this base, until one puts a config directly on it.
    let comment = |sbom: &Value| sbom["packages"][0]["comment"].as_str().map(str::to_owned);
    cluster.opt_in(Some(&last));
    let second = cluster.image_after(&first);
    let sbom = &sboms(&cluster, &second)[0];
    assert_eq!(packages(sbom), [("last", image)], "{sbom:#}");
    assert!(comment(sbom).unwrap().contains("not known which of its packages"), "{sbom:#}");
    cluster.opt_in(None);
    let third = cluster.image_after(&second);
    cluster.opt_in(Some(&format!("FROM configs\n{}", install("later"))));
    let fourth = cluster.image_after(&third);
    let sbom = &sboms(&cluster, &fourth)[0];
    assert_eq!(packages(sbom), [("later", image)], "{sbom:#}");
    assert_eq!(comment(sbom), None, "{sbom:#}");
}
