//! An image, and the paths of its layers.

use super::{RENDERED, digest, hex, looks_like, paths};
use crate::cli::objects::*;

#[test]
fn an_image() {
    let manifest = serde_json::json!({ "layers": [
        { "digest": digest("one"), "size": 700_000_000, "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip" },
        { "digest": digest("layer"), "size": 20_480, "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip" },
    ] });
    let config = |labels: serde_json::Value| {
        serde_json::json!({
            "os": "linux", "architecture": "arm64", "variant": "v8", "created": "1970-01-01T00:00:00Z", "config": { "Labels": labels },
            "history": [{ "created_by": "ostree" }, { "created_by": "ENV", "empty_layer": true }, { "created_by": "mosb build" }],
            "rootfs": { "type": "layers", "diff_ids": [digest("one, unpacked"), digest("layer, unpacked")] },
        })
    };
    let info = |labels| {
        ImageInfo::new(
            format!("oci:out@{}", digest("image")),
            digest("image"),
            None,
            &manifest,
            &config(labels),
        )
    };
    let built = serde_json::json!({
        "machineconfig": RENDERED, "machineconfigpool": "worker", "mosb.dev/inputs": hex("inputs"), "mosb.dev/format": "1",
        "baseOSContainerImage": "quay.io/fedora/fedora-coreos:stable", "org.opencontainers.image.base.digest": digest("base"),
    });
    looks_like("inspect", &info(built));
    looks_like("inspect-other", &info(serde_json::Value::Null));
}

#[test]
fn files_of_an_image() {
    let list = FileList {
        image: format!("oci:out@{}", digest("image")),
        layers: vec![FileLayer { digest: digest("layer"), config: true, paths: paths() }],
    };
    looks_like("files", &list);
}
