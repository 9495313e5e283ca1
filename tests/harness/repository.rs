//! The path of the repository.

use std::path::Path;

/// The top-level directory of the repository.
pub fn repository() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the tests are a package below the top level")
}
