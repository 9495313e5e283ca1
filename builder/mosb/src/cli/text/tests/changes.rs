//! What changes from one config or image to another.

use mosb_plan::plan::diff;
use mosb_types::Finding;

use super::{RENDERED, digest, live, looks_like};
use crate::cli::objects::*;

#[test]
fn changes() {
    let content = |of: &str, size| diff::ContentState { size, digest: digest(of) };
    let file = |mode: &str, of| diff::PathState {
        kind: "file",
        mode: Some(mode.to_owned()),
        content: Some(content(of, 2048)),
        ..Default::default()
    };
    let setting = |field: &str, change, from: Option<&str>, to: Option<&str>| diff::SettingChange {
        field: field.to_owned(),
        change,
        from: from.map(str::to_owned),
        to: to.map(str::to_owned),
    };
    let path = |path: &str, change, what: &[&'static str], from, to| diff::PathChange {
        path: path.to_owned(),
        changed: diff::Changed { change, what: what.to_vec(), from, to },
    };
    let link = diff::PathState {
        kind: "symlink",
        target: Some("../usr/share/zoneinfo/UTC".to_owned()),
        ..Default::default()
    };
    let unit = diff::UnitState {
        enabled: Some(true),
        content: Some(content("unit", 300)),
        dropins: [("10-a.conf".to_owned(), content("a", 20))].into(),
        ..Default::default()
    };
    let changed = diff::UnitState {
        enabled: None,
        masked: Some(true),
        content: None,
        dropins: [("20-b.conf".to_owned(), content("b", 21))].into(),
    };
    let side =
        |operand: &str| Side { operand: operand.to_owned(), rendered_config: RENDERED.to_owned() };
    let differs = Diff {
        from: side("old.yaml"),
        to: side("new.yaml"),
        same: false,
        changes: diff::Diff {
            settings: vec![
                setting(
                    "base",
                    diff::Change::Changed,
                    Some("quay.io/os/base:1"),
                    Some("quay.io/os/base:2"),
                ),
                setting("spec.config.passwd", diff::Change::Changed, None, None),
                setting("spec.kernelArguments", diff::Change::Removed, Some("a=1 b"), None),
            ],
            paths: vec![
                path(
                    "/etc/chrony.conf",
                    diff::Change::Changed,
                    &["content", "mode"],
                    Some(file("0644", "one")),
                    Some(file("0600", "two")),
                ),
                path("/etc/localtime", diff::Change::Added, &[], None, Some(link)),
                path("/etc/old", diff::Change::Removed, &[], Some(file("0644", "one")), None),
            ],
            units: vec![
                diff::UnitChange {
                    name: "kubelet.service".to_owned(),
                    changed: diff::Changed {
                        change: diff::Change::Changed,
                        what: vec!["enabled", "masked", "content", "dropins"],
                        from: Some(unit.clone()),
                        to: Some(changed),
                    },
                },
                diff::UnitChange {
                    name: "new.service".to_owned(),
                    changed: diff::Changed {
                        change: diff::Change::Added,
                        what: Vec::new(),
                        from: None,
                        to: Some(unit),
                    },
                },
            ],
            notes: vec![Finding::new("var-file", "/opt/x is removed").path("/opt/x")],
            cost: diff::ChangeCost {
                disruption: diff::Disruption::Reinstall,
                live: None,
                unreconcilable: vec![
                    Finding::new("needs-reinstall", "it is changed")
                        .object("spec.config.storage.disks[/dev/sda]"),
                ],
            },
        },
    };
    looks_like("diff", &differs);
    let changes = diff::Diff { cost: live(), ..diff::Diff::default() };
    looks_like("diff-live", &Diff { changes, ..differs.clone() });
    let same = Diff { same: true, changes: diff::Diff::default(), ..differs };
    looks_like("diff-same", &same);
}
