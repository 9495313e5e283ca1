//! Runs each target of `fuzz/` for a few seconds. `make fuzz` runs them longer.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use tar::EntryType;

use mosb_image::packages::{rpm_database, rpm_header};
use mosb_tests::{Tree, fuzz_targets};

#[test]
fn no_target_finds_anything() {
    let seconds = env::var("MOSB_FUZZ_SECONDS").unwrap_or_else(|_| "5".to_owned());
    let package = mosb_tests::repository().join("fuzz");
    let programs = fuzz_targets();
    let mut targets: Vec<_> = fs::read_dir(package.join("targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_owned())
        .collect();
    targets.sort();
    assert!(targets.len() >= 5, "{targets:?}");
    for target in targets {
        // The fuzzer writes its findings here, and the failure names the file.
        let found = tempfile::tempdir().unwrap();
        let corpus = found.path().join("corpus");
        fs::create_dir(&corpus).unwrap();
        let seeds = match package.join("seeds").join(&target) {
            checked_in if checked_in.exists() => checked_in,
            _ if target == "packages" => databases(&found.path().join("seeds")),
            _ => layers(&found.path().join("seeds")),
        };
        let mut command = Command::new(programs.join(&target));
        command
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", found.path().display()))
            .args(["-timeout=10", "-rss_limit_mb=1024", "-verbosity=0"])
            .args([&corpus, &seeds]);
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{target:?}: {}\n{stderr}\nkept: {}",
            output.status,
            found.keep().display()
        );
        // A target without coverage would pass too, but would find no new inputs.
        let new = fs::read_dir(corpus).unwrap().count();
        assert!(new > 0, "{target:?} came to nothing beside its seeds\n{stderr}");
    }
}

/// Layers for the initial corpus.
fn layers(directory: &Path) -> PathBuf {
    fs::create_dir(directory).unwrap();
    let long = format!("etc/{}", "n".repeat(120));
    let plain = Tree::new()
        .directory("etc", 0o755)
        .file("etc/f", 0o640, "x")
        .owned(1, 1)
        .hard_link("etc/h", "etc/f")
        .link("l", "etc/f");
    let odd = Tree::new()
        .file(&long, 0o644, "y")
        .file("etc/.wh.f", 0o644, "")
        .file("etc/.wh..wh..opq", 0o644, "")
        // A PAX record that renames the next entry.
        .special("x", EntryType::XHeader)
        .file("./../etc//g", 0o4644, "10 path=g\n");
    fs::write(directory.join("plain"), plain.tar()).unwrap();
    fs::write(directory.join("odd"), odd.tar()).unwrap();
    directory.to_owned()
}

/// Package databases for the initial corpus.
fn databases(directory: &Path) -> PathBuf {
    fs::create_dir(directory).unwrap();
    let headers = [
        rpm_header("bind", Some(32), "9.18", "x86_64", 900),
        rpm_header("gpg-pubkey", None, "a15b79cc", "", 0),
    ];
    fs::write(directory.join("rpm"), rpm_database(&headers)).unwrap();
    let status = "Package: a\nStatus: install ok installed\nArchitecture: all\nVersion: 1:2\nDescription: x\n y\n\n";
    fs::write(directory.join("dpkg"), status.repeat(2)).unwrap();
    directory.to_owned()
}
