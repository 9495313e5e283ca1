//! Whether the store has enough space; checked before anything is pulled.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::Error;
use super::store;
use mosb_plan::plan::Base;

const MIB: u64 = 1024 * 1024;
/// An OS tree unpacked is about three times its compressed layers.
const UNPACKED: u64 = 3;
/// The size that a build adds: packages, a kernel and its initramfs.
const BUILD: u64 = 512 * MIB;

/// How a store saves layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// Each layer once.
    Overlay,
    /// Each layer as a copy of all below it, and each stage too.
    Vfs,
}

impl Driver {
    /// From `--storage-driver`; every driver but `vfs` shares layers.
    pub fn new(name: Option<&str>) -> Self {
        match name {
            Some("vfs") => Self::Vfs,
            _ => Self::Overlay,
        }
    }
}

/// About how many bytes a store needs for a build on a base with these layers, given by their
/// compressed sizes from the lowest up.
pub fn needed(driver: Driver, layers: &[u64]) -> u64 {
    let unpacked = |sizes: &[u64]| {
        sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size)).saturating_mul(UNPACKED)
    };
    let all = unpacked(layers);
    let stored = match driver {
        Driver::Overlay => all,
        // The copies of the layers, then the working container and the image committed from it.
        Driver::Vfs => (1..=layers.len())
            .map(|count| unpacked(&layers[..count]))
            .fold(0, u64::saturating_add)
            .saturating_add(all.saturating_mul(2)),
    };
    stored.saturating_add(BUILD)
}

/// The free space for a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeSpace {
    /// The store, or the nearest directory above it that exists.
    pub path: PathBuf,
    pub available: u64,
}

impl FreeSpace {
    /// The free space for the store of a driver below a cache directory. Creates nothing.
    ///
    /// # Errors
    /// The file system can't be queried.
    pub fn of(cache_dir: &Path, driver: Option<&str>) -> Result<Self, Error> {
        let cache_dir = std::path::absolute(cache_dir).map_err(super::files::io(cache_dir))?;
        let root = store::places(&cache_dir, driver).root();
        let there = root.ancestors().find(|path| path.exists());
        let path = there.unwrap_or(&root).to_owned();
        let stat =
            rustix::fs::statvfs(&path).map_err(|error| super::files::io(&path)(error.into()))?;
        Ok(Self { path, available: stat.f_bavail.saturating_mul(stat.f_frsize) })
    }
}

/// Rejects a build that would run out of space.
///
/// # Errors
/// A build on this base needs more space.
pub fn check_space(base: &Base, driver: Option<&str>, free: &FreeSpace) -> Result<(), Error> {
    let layers = base.manifest.get("layers").and_then(Value::as_array);
    let sizes: Vec<u64> =
        layers.into_iter().flatten().filter_map(|layer| layer.get("size")?.as_u64()).collect();
    let needed = needed(Driver::new(driver), &sizes);
    if free.available < needed {
        return Err(Error::NoSpace {
            path: free.path.clone(),
            available: free.available / MIB,
            needed: needed / MIB,
            driver: driver.unwrap_or("overlay").to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vfs_keeps_a_copy_for_each_layer() {
        let build = BUILD / MIB;
        for (driver, layers, want) in [
            (Driver::Overlay, &[100, 50][..], 450),
            (Driver::Vfs, &[100, 50], 300 + 450 + 2 * 450),
            (Driver::Vfs, &[], 0),
        ] {
            let sizes: Vec<_> = layers.iter().map(|mib| mib * MIB).collect();
            assert_eq!(needed(driver, &sizes) / MIB, want + build, "{driver:?} {layers:?}");
        }
        assert_eq!(needed(Driver::Vfs, &[u64::MAX, 1]), u64::MAX);
    }
}
