//! A small image that holds one file: what mosb writes beside the images of machines. No machine
//! can boot it.

use serde_json::{Value, json};
use tar::{Builder, Header};

use crate::push::{BlobFrom, BlobToPush, PushPlan};
use mosb_image::gzip::compress;
use mosb_image::media_type::{OCI_CONFIG, OCI_LAYER_GZIP, OCI_MANIFEST};
use mosb_image::{BlobRef, DiffId};
use mosb_types::canonical_json;

/// The same input gives the same bytes.
pub(crate) fn small_image(file: &str, content: &[u8], labels: &Value, tag: String) -> PushPlan {
    let mut tar = Builder::new(Vec::new());
    let mut header = Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    let packed = tar
        .append_data(&mut header, file, content)
        .and_then(|()| tar.into_inner())
        .and_then(|tar| {
            let mut layer = Vec::new();
            let made = compress(&tar[..], &mut layer)?;
            Ok((layer, made.diff_id))
        });
    let (layer, diff_id): (Vec<u8>, DiffId) = packed.expect("writing to memory can't fail");
    let config = canonical_json(&json!({
        "architecture": "unknown", "os": "linux",
        "config": { "Labels": labels },
        "rootfs": { "type": "layers", "diff_ids": [diff_id] },
    }));
    let blob = |media_type: &str, bytes: Vec<u8>| BlobToPush {
        blob: BlobRef::of(media_type, &bytes),
        from: BlobFrom::Bytes(bytes.into()),
    };
    let (layer, config) = (blob(OCI_LAYER_GZIP, layer), blob(OCI_CONFIG, config));
    let manifest = canonical_json(&json!({
        "schemaVersion": 2, "mediaType": OCI_MANIFEST,
        "config": config.blob, "layers": [layer.blob],
    }));
    PushPlan {
        manifest: manifest.into(),
        media_type: OCI_MANIFEST.to_owned(),
        blobs: vec![layer, config],
        tags: vec![tag],
        protected_tag: None,
    }
}
