//! The program under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::repository;

/// `mosb`, built with the profile of the tests. cargo sets `CARGO_BIN_EXE_mosb` only for tests of
/// the program's own package.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let profile = profile_directory();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--bin=mosb"]).current_dir(repository());
        if profile.ends_with("release") {
            // What is measured is the program as it is released; what is tested shares its crates
            // with the tests.
            build.args(["--release", "--package=mosb"]);
        }
        // Such as `--report-time` wants for the tests, and as would have many crates compiled anew.
        build.env("CARGO_TARGET_DIR", target_directory()).env_remove("RUSTC_BOOTSTRAP");
        assert!(build.status().unwrap().success(), "the program can't be built");
        profile.join("mosb")
    })
}

/// For files that tests make for other tests: below the target directory.
pub fn shared_directory() -> PathBuf {
    target_directory().join("tmp")
}

fn target_directory() -> &'static Path {
    profile_directory().parent().unwrap()
}

/// `target/debug`, where cargo puts programs; the tests' own are in its `deps`.
fn profile_directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        let own = own.parent().unwrap();
        if own.ends_with("deps") { own.parent().unwrap().to_owned() } else { own.to_owned() }
    })
}
