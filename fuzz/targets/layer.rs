//! Any archive is a layer or an error, and the tree of what is accepted survives being written and read.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use mosb_image::layer::{Budget, Layer, list_layer, read_delta};
use mosb_image::tree::{BaseTree, Builder};
use mosb_image::{DiffId, Digest};

const BLOCK: usize = 512;

fuzz_target!(|data: &[u8]| {
    let mut archive = data.to_vec();
    archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    archive.chunks_exact_mut(BLOCK).for_each(correct);
    let layer = Layer {
        media_type: "application/vnd.oci.image.layer.v1.tar".to_owned(),
        digest: Digest::of(&archive),
        size: archive.len() as u64,
        diff_id: DiffId::of(&archive),
        annotations: BTreeMap::new(),
    };
    let listed = list_layer(&layer, archive.as_slice());
    let Ok(delta) = read_delta(&layer, archive.as_slice(), &Budget::default()) else {
        return;
    };
    assert!(listed.is_ok(), "read, but not listed: {listed:?}");
    let mut builder = Builder::default();
    if builder.apply(&delta).is_err() {
        return;
    }
    if let Ok(tree) = builder.finish() {
        let again = BaseTree::from_bytes(tree.as_bytes().to_vec());
        assert_eq!(again.map(|again| again.digest()).ok(), Some(tree.digest()));
    }
});

/// Gives a block that looks like a header the sum that it should have, which no mutation would find.
fn correct(block: &mut [u8]) {
    if block[257..262] == *b"ustar" {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}
