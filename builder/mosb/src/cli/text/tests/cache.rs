//! The cache, and what is removed from it.

use super::{digest, looks_like};
use crate::cli::objects::*;

#[test]
fn the_cache() {
    let tree =
        |of: &str, size, unused_seconds| CachedTree { base: digest(of), size, unused_seconds };
    let list = CacheList {
        directory: "/home/core/.cache/mosb".to_owned(),
        size: 12_300_000,
        trees: vec![tree("new", 6_000_000, 5), tree("old", 6_300_000, 90_000)],
        buildah: Some(BuildahStore {
            directory: "/home/core/.cache/mosb/buildah".to_owned(),
            size: 3_400_000_000,
        }),
    };
    looks_like("cache-list", &list);
    let pruned = CachePrune {
        directory: "/home/core/.cache/mosb".to_owned(),
        removed: 1,
        size: 6_300_000,
        buildah: Some(PrunedStore {
            directory: "/home/core/.cache/mosb/buildah".to_owned(),
            size: 3_400_000_000,
            removed: false,
        }),
    };
    looks_like("cache-prune", &pruned);
}
