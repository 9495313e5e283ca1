//! Builds the tested program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::repository;

/// The path of `mosb`, built with the profile of the tests. Cargo sets `CARGO_BIN_EXE_mosb` only
/// for tests in the package of the program.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let profile = profile_directory();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--bin=mosb"]).current_dir(repository());
        if profile.ends_with("release") {
            // Benchmarks measure the program as it is released. Tests use a program that shares its
            // compiled crates with them.
            build.args(["--release", "--package=mosb"]);
        }
        // The test runner needs this variable for `--report-time`, but here it would recompile many
        // crates.
        build.env("CARGO_TARGET_DIR", target_directory()).env_remove("RUSTC_BOOTSTRAP");
        assert!(build.status().unwrap().success(), "the program can't be built");
        profile.join("mosb")
    })
}

/// A directory below the target directory for files that tests share.
pub fn shared_directory() -> PathBuf {
    target_directory().join("tmp")
}

fn target_directory() -> &'static Path {
    profile_directory().parent().unwrap()
}

/// The directory of programs, such as `target/debug`. Tests are in its subdirectory `deps`.
fn profile_directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        let own = own.parent().unwrap();
        if own.ends_with("deps") { own.parent().unwrap().to_owned() } else { own.to_owned() }
    })
}
