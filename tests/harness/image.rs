//! The image with the tested program for clusters. Its recipe `containerfiles/image` is the one of
//! `make image`. Debian and buildah are a part that is built once; each run adds the program within
//! seconds.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::child::run;
use super::make::{hash, lock};
use super::parts::{MOSB_ROOT, source};

/// The image's name in containerd after `ctr images import`.
pub const MOSB_IMAGE: &str = "mosb.test/mosb:tested";

/// The recipe's path relative to `tests/`. The version of the part is a hash of it.
pub const RECIPE: &str = "../containerfiles/image";

/// The image as a read-only OCI archive with the name [`MOSB_IMAGE`].
#[track_caller]
pub fn mosb_image() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let program = Path::new(crate::program());
        let version = hash([program.to_owned()], [MOSB_ROOT.version()]);
        let shared = crate::program::shared_directory();
        let folder = shared.join("mosb-image");
        let archive = folder.join(format!("{version}.tar"));
        fs::create_dir_all(&shared).unwrap();
        // Test programs that run at the same time make one image.
        let _lock = lock(&shared.join(".mosb-image.lock"));
        if !archive.exists() {
            // This removes images with earlier programs.
            fs::remove_dir_all(&folder).ok();
            fs::create_dir_all(&folder).unwrap();
            mosb_image_of(program, &archive);
        }
        archive
    })
    .clone()
}

/// Builds the image with this program, also if the archive exists.
#[track_caller]
pub fn mosb_image_of(program: &Path, archive: &Path) {
    let layout = mosb_root();
    recipe(["archive".as_ref(), layout.as_path(), program, MOSB_IMAGE.as_ref(), archive]);
}

/// The image without the program, as a read-only OCI layout with the tag `root`.
#[track_caller]
pub fn mosb_root() -> PathBuf {
    MOSB_ROOT.directory().join("layout")
}

/// Builds the part: the image without the program, as an OCI layout with the tag `root`. It builds
/// it twice and requires equal results, so that single test runs need not check that.
pub fn make(directory: &Path) {
    let [layout, again] = ["layout", "again"].map(|name| directory.join(name));
    recipe(["root".as_ref(), &layout]);
    recipe(["root".as_ref(), &again]);
    let index = |layout: &Path| fs::read_to_string(layout.join("index.json")).unwrap();
    assert_eq!(index(&layout), index(&again), "another image");
    fs::remove_dir_all(again).unwrap();
}

#[track_caller]
fn recipe<const N: usize>(arguments: [&Path; N]) {
    run(source(RECIPE).to_str().unwrap(), arguments);
}
