//! Builds the fuzz targets with the coverage that libFuzzer needs.

use std::path::PathBuf;
use std::process::Command;

use super::parts::cache;
use super::repository;

/// The compiler flags that cargo-fuzz sets for coverage. The sanitizer is not set: it needs a
/// nightly compiler and finds nothing in a program without unsafe code.
const COVERAGE: [&str; 6] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Builds every target and returns the directory of the programs. The results are stored with the
/// parts, outside the checkout, because every dependency is compiled with coverage too.
pub fn fuzz_targets() -> PathBuf {
    let results = cache().join("fuzz");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--profile=fuzz", "--target", TRIPLE])
        .current_dir(repository().join("fuzz"))
        .env("CARGO_TARGET_DIR", &results)
        .env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\x1f"))
        .env_remove("RUSTC_BOOTSTRAP")
        .status()
        .unwrap();
    assert!(status.success(), "the fuzz targets don't build: {status}");
    results.join(TRIPLE).join("fuzz")
}
