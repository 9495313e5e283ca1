//! Paths below `/var`.

use super::*;

/// What the image has for these paths below `/usr`, and the list in it.
fn brought(
    base: &BaseTree,
    storage: Value,
    paths: &[&str],
) -> (Vec<String>, Vec<String>, Option<String>) {
    let config = json!({ "ignition": { "version": "3.6.0" }, "storage": storage });
    let config = mosb_ignition::parse(&config).unwrap().config;
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    let additions = Additions { var_paths: Some(&paths), ..Additions::default() };
    let applied = apply(base, Some(&config), Bytes::from_static(b"{}"), additions, true).unwrap();
    assert_eq!(applied.reasons, []);
    let list = "/usr/lib/mosb/var-files/list".parse().unwrap();
    let list = match applied.tree.content(&list) {
        Content::Known(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
        Content::NotRetained | Content::NoFile => None,
    };
    let lines = lines(&applied).into_iter().filter(|line| line.contains(" /usr/"));
    let short = |line: String| line.split(" [").next().unwrap_or_default().to_owned();
    let lines = lines.map(|line| short(line.split(" #!").next().unwrap_or_default().to_owned()));
    (lines.collect(), applied.var_files, list)
}

#[test]
fn paths_below_var_have_copies_and_a_list() {
    let base = base();
    let file = |path: &str, mode: u32| json!({ "path": path, "mode": mode, "contents": { "source": "data:,x" } });
    let storage = json!({
        "files": [file("/usr/local/bin/x", 0o4755), file("/opt/x", 0o644), file("/var/cache/y", 0o600)],
        "directories": [{ "path": "/usr/local/a b", "mode": 0o700, "user": { "name": "core" } }],
        "links": [{ "path": "/var/l", "target": "$(x) y" },
            { "path": "/var/hard", "target": "/usr/local/bin/x", "hard": true }],
    });
    let paths =
        ["/opt/x", "/usr/local/a b", "/usr/local/bin/x", "/var/cache/y", "/var/hard", "/var/l"];
    let (lines, paths, list) = brought(&base, storage, &paths);
    let x = Digest::of(b"x").hex();
    let l = Digest::of(b"$(x) y").hex();
    let want = ["/var/cache/y", "/var/hard", "/var/l", "/var/usrlocal/a b", "/var/usrlocal/bin/x"];
    assert_eq!(paths, want);
    let want = [
        format!("f 600 0 0 {x} /var/cache/y"),
        format!("f 4755 0 0 {x} /var/hard"),
        format!("l 777 0 0 {l} /var/l"),
        "d 700 1000 0 - /var/usrlocal/a b".to_owned(),
        format!("f 4755 0 0 {x} /var/usrlocal/bin/x"),
    ];
    assert_eq!(list.unwrap().lines().collect::<Vec<_>>(), want);
    let content =
        |sum: &str, text: &str| format!("f /usr/lib/mosb/var-files/content/{sum} 600 0:0 {text}");
    let mut want = [
        "d /usr/lib/mosb 755 0:0".to_owned(),
        "d /usr/lib/mosb/var-files 755 0:0".to_owned(),
        "f /usr/lib/mosb/var-files/apply 755 0:0".to_owned(),
        "d /usr/lib/mosb/var-files/content 755 0:0".to_owned(),
        content(&x, "x"),
        content(&l, "$(x) y"),
        "f /usr/lib/systemd/system/mosb-var-files.service 644 0:0".to_owned(),
        "d /usr/lib/systemd/system/sysinit.target.wants 755 0:0".to_owned(),
        "l /usr/lib/systemd/system/sysinit.target.wants/mosb-var-files.service ../mosb-var-files.service 0:0".to_owned(),
    ];
    let made = |line: &String| line.contains("mosb") || line.contains("sysinit");
    let mut lines: Vec<_> =
        lines.into_iter().filter(|line| made(line) && !line.contains("/var-files/list ")).collect();
    want.sort();
    lines.sort();
    assert_eq!(lines, want);
}

/// Its unit removes what an earlier image brought.
#[test]
fn with_nothing_below_var_the_list_is_empty() {
    let base = base();
    let storage = json!({ "files": [{ "path": "/opt/x" }] });
    let (lines, paths, list) = brought(&base, storage, &["/opt/x", "/var/none", "/none/x"]);
    assert_eq!((paths.len(), list.as_deref()), (0, Some("")));
    let is_unit = |line: &&String| line.contains("mosb-var-files.service 644 ");
    assert_eq!(lines.iter().filter(is_unit).count(), 1, "{lines:?}");
}

#[test]
fn image_brings_boot_check_to_machines() {
    let base = base();
    let additions = Additions { boot_check: true, ..Additions::default() };
    let applied = apply(&base, None, Bytes::from_static(b"{}"), additions, true).unwrap();
    let short = |line: String| line.split(" [").next().unwrap_or_default().to_owned();
    let lines = lines(&applied).into_iter().filter(|line| line.contains("mosb"));
    let lines: Vec<_> =
        lines.map(|line| short(line.split(" #!").next().unwrap_or_default().to_owned())).collect();
    let units = "/usr/lib/systemd/system";
    let want = [
        "d /usr/lib/mosb 755 0:0".to_owned(),
        "f /usr/lib/mosb/boot-check 755 0:0".to_owned(),
        format!(
            "l {units}/boot-complete.target.requires/mosb-boot-check.service ../mosb-boot-check.service 0:0"
        ),
        format!("f {units}/mosb-boot-check.service 644 0:0"),
        format!("f {units}/mosb-boot-guard.service 644 0:0"),
        format!(
            "l {units}/sysinit.target.wants/mosb-boot-guard.service ../mosb-boot-guard.service 0:0"
        ),
    ];
    assert_eq!(lines, want);
}
