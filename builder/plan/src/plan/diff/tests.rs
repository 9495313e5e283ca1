//! Tests each change separately, and that no secret is shown.

use super::*;
use mosb_api::RenderedConfig;
use mosb_image::Digest;
use serde_json::{Value, json};

fn config(change: impl Fn(&mut Value)) -> RenderedConfig {
    let mut object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "rendered-worker-0123456789abcdef0123456789abcdef" },
        "spec": {
            "osImageURL": "quay.io/os/base:1", "kernelArguments": ["a=1"], "kernelType": "default",
            "config": {
                "ignition": { "version": "3.5.0" },
                "passwd": { "users": [{ "name": "core", "passwordHash": "$6$secret" }] },
                "storage": { "files": [{ "path": "/etc/a", "mode": 420, "contents": { "source": "data:,secret" } }],
                             "links": [{ "path": "/etc/l", "target": "a" }] },
                "systemd": { "units": [{ "name": "x.service", "enabled": true,
                                         "contents": "[Service]\nExecStart=/x\n[Install]\nWantedBy=y.target\n" }] },
            },
        },
    });
    change(&mut object);
    RenderedConfig::from_value(object).unwrap()
}

/// One line for each change.
fn changes(diff: &Diff) -> Vec<String> {
    let settings =
        diff.settings.iter().map(|s| format!("{:?} {} {:?} {:?}", s.change, s.field, s.from, s.to));
    let paths = diff
        .paths
        .iter()
        .map(|p| format!("{:?} {} {:?}", p.changed.change, p.path, p.changed.what));
    let units = diff
        .units
        .iter()
        .map(|u| format!("{:?} {} {:?}", u.changed.change, u.name, u.changed.what));
    settings.chain(paths).chain(units).collect()
}

fn diff(from: &RenderedConfig, to: &RenderedConfig) -> Diff {
    let sides = [from, to].map(|config| Side::of_config(config).unwrap());
    Diff::between(&sides[0], &sides[1]).unwrap()
}

#[test]
fn each_change_is_reported_without_secrets() {
    type Edit = fn(&mut Value);
    let before = config(|_| ());
    for (what, edit, want) in [
        ("nothing", (|_| ()) as Edit, &[][..]),
        (
            "an empty list",
            |o| o["spec"]["extensions"] = json!([]),
            &["Changed spec (other words, same meaning) None None"],
        ),
        (
            "name",
            |o| o["metadata"]["name"] = json!("rendered-worker-ffffffffffffffffffffffffffffffff"),
            &[
                "Changed metadata.name Some(\"rendered-worker-0123456789abcdef0123456789abcdef\") Some(\"rendered-worker-ffffffffffffffffffffffffffffffff\")",
            ],
        ),
        (
            "base",
            |o| o["spec"]["osImageURL"] = json!("quay.io/os/base:2"),
            &[
                "Changed base Some(\"quay.io/os/base:1\") Some(\"quay.io/os/base:2\")",
                "Changed spec.osImageURL Some(\"quay.io/os/base:1\") Some(\"quay.io/os/base:2\")",
            ],
        ),
        (
            "arguments gone",
            |o| o["spec"]["kernelArguments"] = Value::Null,
            &["Removed spec.kernelArguments Some(\"a=1\") None"],
        ),
        (
            "kernel",
            |o| o["spec"]["kernelType"] = json!("realtime"),
            &["Changed spec.kernelType Some(\"default\") Some(\"realtime\")"],
        ),
        (
            "a password",
            |o| {
                o["spec"]["config"]["passwd"]["users"][0]["passwordHash"] = json!("$6$other-secret")
            },
            &["Changed spec.config.passwd None None"],
        ),
        (
            "content and mode",
            |o| {
                o["spec"]["config"]["storage"]["files"][0] = json!({ "path": "/etc/a", "mode": 384, "contents": { "source": "data:,secret2" } })
            },
            &["Changed /etc/a [\"content\", \"mode\"]"],
        ),
        (
            "a link becomes a file, a directory comes",
            |o| {
                o["spec"]["config"]["storage"]["links"] = json!([]);
                let files = o["spec"]["config"]["storage"]["files"].as_array_mut();
                files.unwrap().push(json!({ "path": "/etc/l" }));
                o["spec"]["config"]["storage"]["directories"] = json!([{ "path": "/etc/d" }]);
            },
            &["Added /etc/d []", "Changed /etc/l [\"type\", \"target\"]"],
        ),
        (
            "the same bytes in other words",
            |o| {
                o["spec"]["config"]["storage"]["files"][0]["contents"]["source"] =
                    json!("data:;base64,c2VjcmV0")
            },
            &["Changed spec (other words, same meaning) None None"],
        ),
        (
            "unit",
            |o| o["spec"]["config"]["systemd"]["units"][0] = json!({ "name": "x.service", "mask": true, "dropins": [{ "name": "d.conf", "contents": "[Unit]\n" }] }),
            &["Changed x.service [\"enabled\", \"masked\", \"content\", \"dropins\"]"],
        ),
        ("unit gone", |o| o["spec"]["config"]["systemd"] = json!({}), &["Removed x.service []"]),
    ] {
        let diff = diff(&before, &config(edit));
        assert_eq!(changes(&diff), want, "{what}");
        assert_eq!(diff.is_same(), want.is_empty(), "{what}");
        let text = serde_json::to_string(&diff).unwrap();
        assert!(!text.contains("secret"), "{what}: {text}");
    }
}

#[test]
fn base_is_compared_by_digest_not_name() {
    let digest = Digest::of(b"base");
    let config = config(|o| o["spec"]["osImageURL"] = json!(format!("quay.io/os/base@{digest}")));
    let from_config = Side::of_config(&config).unwrap();
    for (what, name, base, same) in [
        ("same name", format!("quay.io/os/base@{digest}"), None, true),
        ("a layout's", digest.to_string(), None, true),
        ("by tag, label has the digest", "quay.io/os/base:1".to_owned(), Some(digest), true),
        ("other", "quay.io/os/base:1".to_owned(), Some(Digest::of(b"other")), false),
        ("not known", "quay.io/os/base:1".to_owned(), None, false),
    ] {
        let image = Side::on_base(&config, Some(&name), base).unwrap();
        assert_eq!(Diff::between(&image, &from_config).unwrap().is_same(), same, "{what}");
    }
}

#[test]
fn what_a_change_costs_a_machine() {
    type Edit = fn(&mut Value);
    let before = config(|_| ());
    for (what, edit, want) in [
        ("nothing", (|_| ()) as Edit, (Disruption::None, &[][..])),
        (
            "a name",
            |o| o["metadata"]["name"] = json!("rendered-worker-ffffffffffffffffffffffffffffffff"),
            (Disruption::Live, &[]),
        ),
        (
            "a key",
            |o| o["spec"]["config"]["passwd"]["users"][0]["sshAuthorizedKeys"] = json!(["secret"]),
            (Disruption::Live, &[]),
        ),
        (
            "a key and an argument",
            |o| {
                o["spec"]["config"]["passwd"]["users"][0]["sshAuthorizedKeys"] = json!(["secret"]);
                o["spec"]["kernelArguments"] = json!([]);
            },
            (Disruption::Reboot, &[]),
        ),
        (
            "a file",
            |o| o["spec"]["config"]["storage"]["files"] = json!([]),
            (Disruption::SoftReboot, &[]),
        ),
        (
            "a parameter of the kernel",
            |o| {
                let path = json!({ "path": "/etc/sysctl.d/a.conf" });
                o["spec"]["config"]["storage"]["files"] = json!([path]);
            },
            (Disruption::Reboot, &[]),
        ),
        ("a kernel", |o| o["spec"]["kernelType"] = json!("realtime"), (Disruption::Reboot, &[])),
        ("extensions", |o| o["spec"]["extensions"] = json!(["x"]), (Disruption::Reboot, &[])),
        (
            "an argument that Ignition sets",
            |o| {
                let arguments = json!({ "shouldExist": ["a"] });
                o["spec"]["config"]["kernelArguments"] = arguments;
            },
            (Disruption::Reboot, &[]),
        ),
        ("an argument", |o| o["spec"]["kernelArguments"] = json!([]), (Disruption::Reboot, &[])),
        (
            "a base",
            |o| o["spec"]["osImageURL"] = json!("quay.io/os/base:2"),
            (Disruption::Reboot, &[]),
        ),
        (
            "a disk, a user and a file",
            |o| {
                o["spec"]["config"]["storage"] = json!({ "disks": [{ "device": "/dev/sda" }] });
                let users = o["spec"]["config"]["passwd"]["users"].as_array_mut();
                users.unwrap().push(json!({ "name": "eve" }));
            },
            (
                Disruption::Reinstall,
                &["spec.config.storage.disks[/dev/sda]", "spec.config.passwd.users[eve]"],
            ),
        ),
        ("FIPS", |o| o["spec"]["fips"] = json!(true), (Disruption::Reinstall, &["spec.fips"])),
    ] {
        let diff = diff(&before, &config(edit));
        let fields = diff.cost.unreconcilable.iter().filter_map(|found| found.object.as_deref());
        assert_eq!((diff.cost.disruption, &*fields.collect::<Vec<_>>()), want, "{what}");
    }
    let rebuilt = Side::on_base(&before, Some("quay.io/os/base:2"), None).unwrap();
    let diff = Diff::between(&rebuilt, &Side::of_config(&before).unwrap()).unwrap();
    assert_eq!(diff.cost.disruption, Disruption::Reboot, "another base of the same config");
}

#[test]
fn another_os_costs_a_kernel_boot() {
    use Disruption::{Live, None, Reboot, Reinstall, SoftReboot};
    for (disruption, want) in [
        (None, Reboot),
        (Live, Reboot),
        (SoftReboot, Reboot),
        (Reboot, Reboot),
        (Reinstall, Reinstall),
    ] {
        let mut diff = Diff::default();
        diff.cost.disruption = disruption;
        assert_eq!(diff.on_other_os().cost.disruption, want, "{disruption:?}");
    }
}

#[test]
fn what_a_running_machine_could_take_is_listed() {
    let with = |paths: &[&str]| {
        let files: Vec<Value> = paths.iter().map(|path| json!({ "path": path })).collect();
        config(|object| object["spec"]["config"]["storage"]["files"] = json!(files))
    };
    let policy = "/etc/containers/policy.json";
    let (none, live) = (with(&[]), with(&[policy]));
    let cost = diff(&none, &live).cost;
    assert_eq!(cost.disruption, Disruption::SoftReboot);
    assert!(cost.live.unwrap().paths.iter().eq([policy]));
    assert_eq!(diff(&none, &with(&[policy, "/etc/a"])).cost.live, None);
    let rebuilt = Side::on_base(&live, Some("quay.io/os/base:2"), None).unwrap();
    let diff = Diff::between(&Side::of_config(&none).unwrap(), &rebuilt).unwrap();
    assert_eq!(diff.cost.live, None, "on another base");
}

#[test]
fn what_becomes_of_paths_below_var_is_noted() {
    let with = |paths: &[(&str, u32)]| {
        let file = |(path, mode): &(&str, u32)| json!({ "path": path, "mode": mode });
        let files: Vec<Value> = paths.iter().map(file).collect();
        config(|object| object["spec"]["config"]["storage"]["files"] = json!(files))
    };
    let (both, one) = ([("/opt/a", 1), ("/etc/b", 1), ("/usr/local/bin/c", 1)], [("/opt/a", 2)]);
    for (what, from, to, want) in [
        ("nothing changes", &both[..], &both[..], &[][..]),
        ("nothing below /var", &[], &[("/etc/b", 1)], &[]),
        ("added", &[], &both, &["var-file /opt/a", "var-file /usr/local/bin/c"]),
        ("one remains", &both, &one, &["var-file /opt/a", "var-file /usr/local/bin/c"]),
        ("none remains", &one, &[("/etc/b", 1)], &["var-file /opt/a"]),
    ] {
        let notes = diff(&with(from), &with(to)).notes;
        let notes =
            notes.iter().map(|note| format!("{} {}", note.code, note.path.as_ref().unwrap()));
        assert_eq!(notes.collect::<Vec<_>>(), want, "{what}");
    }
}
