//! A base of a realistic size on which instructions can run: a generated one with a Debian on top.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::base::{self, Shape, TAG, VERSION};
use mosb_tests::parts::DEBIAN_ROOT;
use mosb_tests::{Layout, base_image, run};

/// The layout of a generated base with the layers of the Debian above its own.
pub fn layout(shape: &Shape) -> Layout {
    let debian = DEBIAN_ROOT.directory();
    let debian = debian.file_name().expect("a part has a name").display().to_string();
    let name = format!("bench-base-{}-{VERSION}-{debian}", shape.name);
    base::cached(&name, |directory| {
        let (lower, upper) = (base::layout(shape), base_image());
        for layout in [&lower, &upper] {
            let manifest = layout.blob_path(&layout.digest(TAG));
            let blobs = manifest.ancestors().nth(2).expect("blobs/sha256/…");
            // Both are beside it, and only read.
            let words = ["--recursive", "--link", "--no-clobber"];
            let words = words.map(AsRef::as_ref).into_iter();
            run("cp", words.chain([blobs.as_os_str(), directory.as_os_str()]));
        }
        put_both(directory, [&lower, &upper]);
    })
}

fn put_both(directory: &Path, layouts: [&Layout; 2]) {
    let manifests = layouts.map(|layout| layout.json(&layout.digest(TAG)));
    let configs = [0, 1]
        .map(|at| layouts[at].json(manifests[at]["config"]["digest"].as_str().expect("a digest")));
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let diff_ids = configs.each_ref().map(|config| list(&config["rootfs"]["diff_ids"])).concat();
    let layers = manifests.each_ref().map(|manifest| list(&manifest["layers"])).concat();
    let [_, mut config] = configs;
    config["rootfs"]["diff_ids"] = json!(diff_ids);
    // buildah compares its length with the number of layers.
    config["history"] = json!(vec![json!({ "created_by": "packages" }); layers.len()]);
    let blobs = directory.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let config = base::put(&blobs, "application/vnd.oci.image.config.v1+json", &config);
    let manifest = json!({ "schemaVersion": 2, "config": config, "layers": layers,
        "mediaType": "application/vnd.oci.image.manifest.v1+json" });
    base::put_image(directory, &manifest);
}
