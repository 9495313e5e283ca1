use super::*;
use expect_test::expect_file;

const FEDORA: &str = include_str!("../../../../testdata/boot-image/fedora-coreos.json");
const RHEL: &str = include_str!("../../../../testdata/boot-image/rhel-coreos.json");

fn data<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

#[test]
fn streams_by_label() {
    let streams = format!(r#"{{"rhel-9": {RHEL}, "rhel-10": {{"stream": "rhel-10.0"}}}}"#);
    let both = Golden::parse(&data([("stream", RHEL), ("streams", &streams)])).unwrap();
    let one = Golden::parse(&data([("stream", RHEL)])).unwrap();
    let fedora = Golden::parse(&data([("stream", FEDORA)])).unwrap();
    let only_streams = Golden::parse(&data([("streams", &streams)])).unwrap();
    let cases = [
        ("no label", &both, None, Some("rhel-9.6")),
        ("an empty label", &both, Some(""), Some("rhel-9.6")),
        ("the default", &both, Some("rhel-9"), Some("rhel-9.6")),
        ("another", &both, Some("rhel-10"), Some("rhel-10.0")),
        ("an unknown one", &both, Some("rhel-8"), None),
        ("before there were names", &one, Some("rhel-9"), Some("rhel-9.6")),
        ("by the stream's own name", &one, Some("rhel-9.6"), Some("rhel-9.6")),
        ("another before there were names", &one, Some("rhel-10"), None),
        ("Fedora", &fedora, Some("stable"), Some("stable")),
        ("another of Fedora", &fedora, Some("testing"), None),
        ("only names, no label", &only_streams, None, Some("rhel-9.6")),
    ];
    for (what, golden, label, want) in cases {
        let stream = golden.stream(label);
        assert_eq!(stream.ok().and_then(|one| one.stream.as_deref()), want, "{what}");
    }
    let want = Skip::OsStream { label: "rhel-8".to_owned() };
    assert_eq!(both.stream(Some("rhel-8")), Err(want));
}

#[test]
fn versions_and_the_stamp() {
    let mut all = data([("stream", "{}"), ("releaseVersion", "4.20.1\n")]);
    let golden = Golden::parse(&all).unwrap();
    assert_eq!((golden.release_version(), golden.stamp()), (Some("4.20.1"), None));
    all.insert("MCOVersionHash".to_owned(), "abc".to_owned());
    assert_eq!(Golden::parse(&all).unwrap().stamp(), None);
    all.insert("MCOReleaseImageVersion".to_owned(), "4.20.1".to_owned());
    let (version_hash, release_image_version) = ("abc".to_owned(), "4.20.1".to_owned());
    let want = Stamp { version_hash, release_image_version };
    assert_eq!(Golden::parse(&all).unwrap().stamp(), Some(&want));
}

#[test]
fn bad_config_maps() {
    let large = format!("\"{}\"", "x".repeat(MAX_BYTES));
    let nested = "[".repeat(100_000);
    let cases = [
        ("no data", data([]), "no-stream"),
        ("blank", data([("stream", " \n")]), "no-stream"),
        ("names without a default", data([("streams", r#"{"x": {}}"#)]), "no-stream"),
        ("no JSON", data([("stream", "<html>")]), "bad-stream"),
        ("a list", data([("stream", "[]")]), "bad-stream"),
        ("deep", data([("stream", &nested)]), "bad-stream"),
        ("a wrong type", data([("stream", r#"{"architectures": 7}"#)]), "bad-stream"),
        ("streams as a list", data([("stream", "{}"), ("streams", "[{}]")]), "bad-stream"),
        ("too large", data([("stream", &large)]), "stream-too-large"),
    ];
    for (what, data, want) in cases {
        let error = Golden::parse(&data).unwrap_err();
        assert_eq!(error.code(), want, "{what}: {error}");
        assert!(error.to_string().len() < 400, "{what}");
    }
}

/// Each part of a real stream may be missing.
#[test]
fn any_part_of_a_stream_may_be_missing() {
    for text in [FEDORA, RHEL] {
        let whole: Value = serde_json::from_str(text).unwrap();
        let mut paths = Vec::new();
        collect_paths(&whole, "", &mut paths);
        assert!(paths.len() > 60, "{}", paths.len());
        for path in paths {
            let mut less = whole.clone();
            let (parent, key) = path.rsplit_once('/').unwrap();
            let parent = less.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            parent.remove(&key.replace("~1", "/").replace("~0", "~")).unwrap();
            let golden = Golden::parse(&data([("stream", &less.to_string())]));
            let golden = golden.unwrap_or_else(|error| panic!("without {path}: {error}"));
            // It must not panic.
            golden.releases();
        }
    }
}

fn collect_paths(value: &Value, at: &str, paths: &mut Vec<String>) {
    for (key, child) in value.as_object().into_iter().flatten() {
        let path = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        collect_paths(child, &path, paths);
        paths.push(path);
    }
}

#[test]
fn releases_of_all_streams() {
    let streams = format!(r#"{{"rhel-9": {RHEL}}}"#);
    let golden = Golden::parse(&data([("stream", FEDORA), ("streams", &streams)])).unwrap();
    let releases = golden.releases();
    assert_eq!(releases.len(), 12, "{releases:?}");
    let amis = releases.keys().filter(|image| image.starts_with("ami-"));
    assert_eq!(amis.count(), 6);
    let gcp = "projects/rhcos-cloud/global/images/rhcos-9-6-20260210-0-gcp-x86-64";
    assert_eq!(releases[gcp].as_str(), "9.6.20260210-0");
}

#[test]
fn a_config_map_from_a_published_stream() {
    let made = golden_config_map("x", FEDORA, "mosb-system", None).unwrap();
    let pretty = serde_json::to_string_pretty(&made).unwrap() + "\n";
    expect_file!["../../../../testdata/boot-image/golden.json"].assert_eq(&pretty);
    let data: BTreeMap<String, String> = serde_json::from_value(made["data"].clone()).unwrap();
    let golden = Golden::parse(&data).unwrap();
    assert_eq!(golden.release_version(), Some("42.20250609.3.0"));
    assert_eq!(golden.stream(None), Ok(&serde_json::from_str(FEDORA).unwrap()));
    // Nothing that mosb does not read is lost.
    let stream: Value = serde_json::from_str(&data["stream"]).unwrap();
    assert_eq!(stream, serde_json::from_str::<Value>(FEDORA).unwrap());
    // Blanks and order of the file don't matter.
    let again = golden_config_map("x", &stream.to_string(), "mosb-system", None).unwrap();
    assert_eq!(again, made);
}

#[test]
fn files_that_are_no_stream() {
    let cases = [
        ("empty", "", "bad-stream"),
        ("a page", "<html>", "bad-stream"),
        ("no architectures", r#"{"stream": "stable"}"#, "empty-stream"),
        ("metadata of releases", r#"{"releases": []}"#, "empty-stream"),
    ];
    for (what, text, want) in cases {
        let error = golden_config_map("file.json", text, "x", None).unwrap_err();
        assert_eq!(error.code(), want, "{what}");
        assert!(error.to_string().starts_with("file.json "), "{what}: {error}");
    }
}

#[test]
fn the_release_of_a_golden_config_map() {
    let rhel: Release = "9.6.20260210-0".parse().unwrap();
    let stream = |releases: [&str; 2]| {
        let artifact = |release| json!({"artifacts": {"aws": {"release": release}}});
        let [one, other] = releases.map(artifact);
        json!({"architectures": {"x86_64": one, "aarch64": other}}).to_string()
    };
    let (old, new, testing) = ("41.20250105.3.0", "42.20250609.3.0", "42.20250609.2.0");
    let cases = [
        ("stated", stream([new, new]), Some(&rhel), Some("9.6.20260210-0")),
        ("the stream's", stream([new, new]), None, Some(new)),
        ("the newest", stream([old, new]), None, Some(new)),
        ("the newest, the other way", stream([new, old]), None, Some(new)),
        ("not comparable", stream([new, testing]), None, None),
        ("not readable", stream(["x", "y"]), None, None),
    ];
    for (what, stream, version, want) in cases {
        let made = golden_config_map("x", &stream, "mosb-system", version).unwrap();
        assert_eq!(made["data"]["releaseVersion"].as_str(), want, "{what}");
    }
}
