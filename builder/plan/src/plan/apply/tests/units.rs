//! Units, and the links that enable them.

use super::*;

#[test]
fn units_are_written_masked_and_unmasked() {
    let base = base();
    let units = json!([
        { "name": "a.service", "contents": "[Unit]\n", "dropins": [{ "name": "b.conf", "contents": "" }, { "name": "c.conf" }] },
        { "name": "b.service", "contents": "", "mask": true },
        { "name": "masked.service", "mask": false },
    ]);
    let applied = applied(&base, json!({}), units).unwrap();
    let want = [
        "f /etc/systemd/system/a.service 644 0:0 [Unit]",
        "d /etc/systemd/system/a.service.d 755 0:0",
        "f /etc/systemd/system/a.service.d/b.conf 644 0:0 ",
        "l /etc/systemd/system/b.service /dev/null 0:0",
        "- /etc/systemd/system/masked.service",
    ];
    assert_eq!(lines(&applied), want);
}

#[test]
fn an_alias_takes_nothing_away() {
    let base = base();
    for (alias, fine) in [(".wh.b.service", false), ("x.wh.service", true)] {
        let contents = format!("[Service]\nExecStart=/bin/true\n[Install]\nAlias={alias}\n");
        let units = json!([{ "name": "a.service", "enabled": true, "contents": contents }]);
        let applied = applied(&base, json!({}), units);
        if fine {
            assert!(applied.is_ok(), "{alias}")
        } else {
            assert!(matches!(applied, Err(ApplyError::Whiteout { .. })), "{alias}")
        }
    }
}
