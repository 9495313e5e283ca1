//! The image that clusters run, with the program that is tested now: Debian and buildah are a part,
//! made once; the program is put on top for each run, in seconds. The recipe is the one of `make
//! image`, `containerfiles/image`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::child::run;
use super::make::hash;
use super::parts::{MOSB_ROOT, source};

/// What containerd calls the image after `ctr images import`.
pub const MOSB_IMAGE: &str = "mosb.test/mosb:tested";

/// Beside `tests/`; the part's version is a hash of it.
pub const RECIPE: &str = "../containerfiles/image";

/// The image as an OCI archive that is called [`MOSB_IMAGE`]; to be read only.
#[track_caller]
pub fn mosb_image() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let program = Path::new(crate::program());
        let version = hash([program.to_owned()], [MOSB_ROOT.version()]);
        let folder = crate::program::shared_directory().join("mosb-image");
        let archive = folder.join(format!("{version}.tar"));
        if !archive.exists() {
            // Earlier programs' images; another run may remove them at the same time.
            fs::remove_dir_all(&folder).ok();
            fs::create_dir_all(&folder).unwrap();
            mosb_image_of(program, &archive);
        }
        archive
    })
    .clone()
}

/// Makes the image with this program, whatever was made before.
#[track_caller]
pub fn mosb_image_of(program: &Path, archive: &Path) {
    let layout = mosb_root();
    recipe(["archive".as_ref(), layout.as_path(), program, MOSB_IMAGE.as_ref(), archive]);
}

/// The image without the program, as an OCI layout with the tag `root`; to be read only.
#[track_caller]
pub fn mosb_root() -> PathBuf {
    MOSB_ROOT.directory().join("layout")
}

/// Makes the part: the image without the program, as an OCI layout with the tag `root`. Twice, as
/// it must be the same each time, which is seen here rather than in each test run.
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
