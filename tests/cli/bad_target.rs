//! A target that can't be written leads to one error message, and existing files are not changed.

use std::fs;

use mosb_tests::Layout;
use mosb_tests::build_fixture::{BuildFixture, assert_refused, assert_whole, config, names};

#[test]
fn a_bad_target_is_refused() {
    let fixture = BuildFixture::new();
    let cases: [(&str, &str, &str, &[&str]); 7] = [
        ("no folder", "oci:", "bad-reference", &["\"oci:\"", "write oci:DIR"]),
        ("a dir:", "dir:x", "bad-reference", &["\"dir:x\"", "write oci:DIR"]),
        ("no host", "fedora", "bad-reference", &["\"fedora\"", "host/repository"]),
        ("a digest", "quay.io/a/b@sha256:0", "bad-reference", &["quay.io/a/b@sha256:0"]),
        ("a newline", "quay.io/a\nb", "bad-reference", &["a\\nb"]),
        ("a way out", "quay.io/../b", "bad-reference", &["quay.io/../b"]),
        ("capitals", "quay.io/A", "bad-reference", &["quay.io/A"]),
    ];
    for (what, target, code, words) in cases {
        let finished = fixture.build(config().as_bytes(), &["--output", target]);
        assert_refused(&finished, what, 2, code, words);
        fixture.assert_clean(what);
    }
}

#[test]
fn files_in_an_output_folder_are_not_deleted() {
    let fixture = BuildFixture::new();
    let home = fixture.mosb.home();
    let target = |name: &str| format!("oci:{}", home.join(name).display());
    fs::create_dir(home.join("photos")).unwrap();
    fs::write(home.join("photos/cat.jpg"), "x").unwrap();
    fs::write(home.join("file"), "x").unwrap();
    let cases: [(&str, &str, i32, &str, &[&str]); 3] = [
        ("other files", "photos", 2, "bad-layout", &["photos", "new or empty folder"]),
        ("a file", "file", 2, "file-error", &["file", "exists", "check the name"]),
        ("below a file", "file/x", 2, "file-error", &["file/x", "check the name"]),
    ];
    for (what, name, exit, code, words) in cases {
        let finished = fixture.build(config().as_bytes(), &["--output", &target(name)]);
        assert_refused(&finished, what, exit, code, words);
        fixture.assert_clean(what);
    }
    assert_eq!(names(&home.join("photos")), ["cat.jpg"]);
    assert_eq!(fs::read(home.join("file")).unwrap(), b"x");
    // The program checks the digest's file before it builds.
    for (what, file, cause) in [
        ("no folder", "none/digest", "its folder is not there"),
        ("a folder", "photos", "it is a folder"),
    ] {
        let file = home.join(file).display().to_string();
        let finished = fixture.build(config().as_bytes(), &["--digestfile", &file]);
        assert_refused(&finished, what, 2, "unwritable-file", &[&file, cause, "check that"]);
        assert!(!fixture.output().exists(), "{what}");
    }
}

/// A fixture whose output is on a separate file system with these mount options, and a file that
/// lists the files left on it.
fn on_a_disk(options: &str) -> BuildFixture {
    let mut fixture = BuildFixture::new();
    fs::create_dir(fixture.output()).unwrap();
    let script = format!(
        "mount -t tmpfs -o {options} tmpfs \"$1\"\nlisting=$2\nshift 2\ncode=0\n\"$@\" || code=$?\n\
         find {} -type f > \"$listing\"\nexit $code",
        fixture.output().display()
    );
    let (output, left) = (fixture.output(), fixture.mosb.home().join("left"));
    let launcher = ["unshare", "--mount", "--propagation=private", "sh", "-euc", &script, "sh"];
    let launcher = launcher.map(str::to_owned).into_iter();
    fixture.mosb =
        fixture.mosb.within(launcher.chain([output, left].map(|path| path.display().to_string())));
    fixture
}

fn left(fixture: &BuildFixture) -> String {
    fs::read_to_string(fixture.mosb.home().join("left")).unwrap()
}

#[test]
fn an_unwritable_disk_is_named() {
    let fixture = on_a_disk("ro");
    let finished = fixture.build(config().as_bytes(), &[]);
    assert_refused(
        &finished,
        "read-only",
        2,
        "file-error",
        &["output", "Read-only file system", "choose a folder"],
    );
    assert_eq!(left(&fixture), "");
}

#[test]
fn a_full_disk_leaves_no_half_image() {
    let mut sizes = (4..400).step_by(8);
    let mut refused = 0;
    loop {
        let size = sizes.next().expect("an image that fits");
        let fixture = on_a_disk(&format!("size={size}k"));
        let finished = fixture.build(config().as_bytes(), &[]);
        let what = format!("{size} KiB");
        fixture.assert_clean(&what);
        if finished.code() == Some(0) {
            break;
        }
        assert_refused(
            &finished,
            &what,
            1,
            "file-error",
            &["output", "No space left", "free disk space"],
        );
        assert!(
            !left(&fixture).contains("index.json") && !left(&fixture).contains(".mosb-tmp"),
            "{what}: {}",
            left(&fixture)
        );
        refused += 1;
    }
    assert!(refused > 4, "{refused}");
}

#[test]
fn an_unwritable_cache_is_a_warning() {
    let fixture = BuildFixture::new();
    fs::write(fixture.mosb.home().join("cache"), "a file").unwrap();
    let result = fixture.build(config().as_bytes(), &[]).ok().json();
    let warnings = result["warnings"].as_array().unwrap();
    let has_warning = warnings.iter().any(|warning| warning["code"] == "base-tree-cache");
    assert!(has_warning, "{result:#}");
    assert_whole(&Layout::at(fixture.output()), "built all the same");
}
