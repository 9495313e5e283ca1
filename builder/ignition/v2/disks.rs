//! Disks, arrays and file systems.

use std::collections::HashSet;

use serde_json::Value;

use super::super::fields::Object;
use super::super::places::clean;
use super::super::version::SpecV2;
use super::origins::Origins;
use super::shape::{Fields, filled, list, number, object, text, texts, truth};

/// Of the 512 bytes that nearly all disks have. The config doesn't say, and spec 3 knows MiB only.
const SECTORS_IN_MIB: i64 = 2048;

/// A path as spec 3 wants it written. One that is not absolute is left for spec 3 to complain of.
pub(super) fn cleaned(path: Option<&str>) -> Option<Value> {
    path.map(|path| match path.starts_with('/') {
        true => clean(path).into(),
        false => path.into(),
    })
}

/// Reads `storage.disks`.
pub(super) fn disks(storage: &mut Object<'_, '_>) -> Option<Value> {
    list(storage.each("disks", |o| {
        let device = cleaned(o.text("device"));
        let wipe = truth(o.truth("wipeTable"));
        let partitions = o.each("partitions", partition);
        let (in_sectors, in_mib) = (
            partitions.iter().any(|(_, units)| units.sectors),
            partitions.iter().any(|(_, units)| units.mib),
        );
        if in_sectors && in_mib {
            let message = "mix sectors and MiB on one disk; give all in sizeMiB and startMiB";
            o.problem("partitions", "bad-disk", message);
        } else if in_sectors {
            let message = "are given in sectors, which are taken as 512 bytes; give sizeMiB and startMiB, which spec 2.3.0 and later have";
            o.warn("partitions", "sectors-of-512", message);
        }
        let partitions = partitions.into_iter().map(|(p, _)| p.into()).collect();
        object([
            ("device", device),
            ("wipeTable", wipe),
            ("partitions", list(partitions)),
        ])
        .into()
    }))
}

/// How a partition says where it lies.
struct Units {
    sectors: bool,
    mib: bool,
}

fn partition(o: &mut Object<'_, '_>) -> (Fields, Units) {
    let number_or_next = o.number("number").filter(|number| *number != 0);
    let label = o.text("label");
    let (size, start) = (o.number("size"), o.number("start"));
    let mut fields = object([
        ("number", number(number_or_next)),
        ("typeGuid", filled(o.text("typeGuid"))),
    ]);
    if o.has("guid", SpecV2::V2_1) {
        fields.extend(object([("guid", filled(o.text("guid")))]));
    }
    for (key, sectors) in [("size", size), ("start", start)] {
        if sectors.is_some_and(|sectors| sectors % SECTORS_IN_MIB != 0) {
            let message = "must be a multiple of 2048 sectors, 1 MiB: spec 3 has no smaller unit";
            o.problem(key, "bad-disk", message);
        }
    }
    let mib = |sectors: Option<i64>| sectors.map(|sectors| sectors / SECTORS_IN_MIB);
    let (mut size_mib, mut start_mib) = (mib(size), mib(start));
    let mut units = Units {
        sectors: size.is_some() || start.is_some(),
        mib: false,
    };
    if o.has("sizeMiB", SpecV2::V2_3) {
        let given = (o.number("sizeMiB"), o.number("startMiB"));
        units.mib = given.0.is_some() || given.1.is_some();
        (size_mib, start_mib) = (size_mib.or(given.0), start_mib.or(given.1));
        let exists = o.truth("shouldExist").map(Value::from);
        let wipe = truth(o.truth("wipePartitionEntry"));
        fields.extend(object([
            ("label", text(label)),
            ("shouldExist", exists),
            ("wipePartitionEntry", wipe),
        ]));
    } else {
        // An unsaid number is 0 there, and an empty label is none.
        (size_mib, start_mib) = (size_mib.or(Some(0)), start_mib.or(Some(0)));
        fields.extend(object([("label", filled(label))]));
    }
    fields.extend(object([
        ("sizeMiB", number(size_mib)),
        ("startMiB", number(start_mib)),
    ]));
    (fields, units)
}

/// Reads `storage.raid`.
pub(super) fn raid(storage: &mut Object<'_, '_>) -> Option<Value> {
    list(storage.each("raid", |o| {
        let devices = o.texts("devices").into_iter().map(Some);
        let mut fields = object([
            ("name", text(o.text("name"))),
            ("level", text(o.text("level"))),
            ("devices", list(devices.filter_map(cleaned).collect())),
            ("spares", number(o.number("spares").filter(|n| *n != 0))),
        ]);
        if o.has("options", SpecV2::V2_2) {
            fields.extend(object([("options", texts(o.texts("options")))]));
        }
        fields.into()
    }))
}

/// Reads `storage.filesystems`: those that are made, and the names of all but `root`.
pub(super) fn filesystems<'v>(
    storage: &mut Object<'v, '_>,
    origins: &mut Origins,
) -> (Option<Value>, HashSet<&'v str>) {
    let read = storage.each("filesystems", filesystem);
    let names = read.iter().map(|(name, _)| *name).collect();
    let mut made = Vec::new();
    for (index, (_, mount)) in read.into_iter().enumerate() {
        if let Some(mount) = mount {
            let to = format!("storage.filesystems[{}]", made.len());
            origins.moved(to, format!("storage.filesystems[{index}].mount"));
            made.push(mount.into());
        }
    }
    (list(made), names)
}

fn filesystem<'v>(o: &mut Object<'v, '_>) -> (&'v str, Option<Fields>) {
    let name = o.text("name").unwrap_or_default();
    let path = o.text("path");
    let mounted = o.given("mount");
    let mount = read_mount(&mut o.object("mount"), mounted);
    if !o.sound() {
        return (name, None);
    }
    match (mounted, path) {
        (false, None) => o.problem_here("bad-filesystem", "needs a mount or a path"),
        (true, Some(_)) => {
            o.problem_here("bad-filesystem", "has both a mount and a path; keep one")
        }
        (true, None) if name == "root" => {
            let message = "spec 3 can't make the root file system by its name; write a spec 3 config that gives the device the path `/`";
            o.problem("mount", "no-spec3-equal", message);
        }
        (true, None) => return (name, Some(mount)),
        (false, Some(path)) if !path.starts_with('/') => {
            o.problem(
                "path",
                "bad-filesystem",
                "must be absolute: begin with a slash",
            );
        }
        // Where the root of the machine lies while Ignition runs: what `root` stands for anyway.
        (false, Some(path)) if name == "root" && clean(path) == "/sysroot" => {}
        (false, Some(_)) => {
            let message = "spec 3 has no file systems that are there already; remove this one, and give its files by their whole path on `root`";
            o.problem("path", "no-spec3-equal", message);
        }
    }
    (name, None)
}

fn read_mount(o: &mut Object<'_, '_>, given: bool) -> Fields {
    let (device, format) = (
        cleaned(o.text("device")),
        o.text("format").unwrap_or_default(),
    );
    let mut fields = object([("device", device), ("format", filled(Some(format)))]);
    let create = o.given("create");
    let mut old = o.object("create");
    old.truth("force");
    old.texts("options");
    old.finish();
    let newer = o.has("wipeFilesystem", SpecV2::V2_1);
    if newer {
        fields.extend(object([
            ("label", text(o.text("label"))),
            ("uuid", text(o.text("uuid"))),
            ("options", texts(o.texts("options"))),
            ("wipeFilesystem", truth(o.truth("wipeFilesystem"))),
        ]));
    }
    if create {
        let message = "spec 3 has no `create`; give wipeFilesystem and options in its place, which spec 2.1.0 and later have";
        o.problem("create", "no-spec3-equal", message);
    }
    let known = match format {
        "ext4" | "btrfs" | "xfs" => true,
        "swap" | "vfat" => newer,
        _ => false,
    };
    if given && o.sound() && !known {
        let message = "must be ext4, btrfs or xfs, or, since spec 2.1.0, swap or vfat";
        o.problem("format", "bad-filesystem", message);
    }
    o.finish();
    fields
}

#[cfg(test)]
mod tests {
    use super::super::tests::{are_refused, become_these, warned};
    use serde_json::{Value, json};

    fn disk(partitions: Value) -> Value {
        json!({ "storage": { "disks": [{ "device": "/dev/sda", "partitions": partitions }] } })
    }

    fn filesystems(filesystems: Value) -> Value {
        json!({ "storage": { "filesystems": filesystems } })
    }

    #[test]
    fn what_becomes_of_disks_and_arrays() {
        become_these([
            (
                "sectors",
                "2.2.0",
                disk(
                    json!([{ "number": 1, "label": "a", "start": 2048, "size": 4096, "guid": "", "typeGuid": "" }, { "number": 2, "label": "" }, { "number": 3 }]),
                ),
                disk(
                    json!([{ "number": 1, "label": "a", "startMiB": 1, "sizeMiB": 2 }, { "number": 2, "startMiB": 0, "sizeMiB": 0 }, { "number": 3, "startMiB": 0, "sizeMiB": 0 }]),
                ),
            ),
            (
                "newer fields",
                "2.3.0",
                disk(
                    json!([{ "label": "a", "sizeMiB": 5, "wipePartitionEntry": true, "shouldExist": true }]),
                ),
                disk(
                    json!([{ "label": "a", "sizeMiB": 5, "wipePartitionEntry": true, "shouldExist": true }]),
                ),
            ),
            (
                "sectors still",
                "2.4.0",
                disk(
                    json!([{ "number": 2, "label": "", "start": 4096 }, { "number": 3, "size": 0, "wipePartitionEntry": false }]),
                ),
                disk(
                    json!([{ "number": 2, "label": "", "startMiB": 2 }, { "number": 3, "sizeMiB": 0 }]),
                ),
            ),
            (
                "an unclean device, and an array",
                "2.2.0",
                json!({ "storage": {
                    "disks": [{ "device": "/dev//sda/", "wipeTable": true }],
                    "raid": [{ "name": "r", "level": "raid1", "devices": ["/dev/./b", "/dev/a"], "spares": 0, "options": ["--x", "--x"] }],
                } }),
                json!({ "storage": {
                    "disks": [{ "device": "/dev/sda", "wipeTable": true }],
                    "raid": [{ "name": "r", "level": "raid1", "devices": ["/dev/b", "/dev/a"], "options": ["--x", "--x"] }],
                } }),
            ),
        ]);
        let one = json!([{ "number": 1, "start": 2048 }]);
        assert_eq!(
            warned("2.0.0", disk(one)),
            ["storage.disks[0].partitions: sectors-of-512"]
        );
        let none = json!([{ "number": 1, "sizeMiB": 1 }]);
        assert_eq!(warned("2.3.0", disk(none)), [""; 0]);
    }

    #[test]
    fn what_becomes_of_file_systems() {
        become_these([
            (
                "all fields",
                "2.1.0",
                filesystems(
                    json!([{ "name": "root", "path": "/sysroot/" }, { "name": "a", "mount": { "device": "/dev//a", "format": "swap", "label": "l", "uuid": "u", "options": ["-x"], "wipeFilesystem": true } }]),
                ),
                filesystems(
                    json!([{ "device": "/dev/a", "format": "swap", "label": "l", "uuid": "u", "options": ["-x"], "wipeFilesystem": true }]),
                ),
            ),
            (
                "without a name",
                "2.4.0",
                filesystems(
                    json!([{ "mount": { "device": "/dev/a", "format": "ext4", "wipeFilesystem": false, "create": null } }]),
                ),
                filesystems(json!([{ "device": "/dev/a", "format": "ext4" }])),
            ),
        ]);
    }

    #[test]
    fn which_disks_are_refused() {
        are_refused([
            (
                "half a MiB",
                "2.0.0",
                disk(json!([{ "number": 1, "start": 1024, "size": 100 }])),
                &[
                    "storage.disks[0].partitions[0].size: bad-disk",
                    "storage.disks[0].partitions[0].start: bad-disk",
                ],
            ),
            (
                "both units",
                "2.3.0",
                disk(json!([{ "number": 1, "size": 2048 }, { "number": 2, "sizeMiB": 1 }])),
                &["storage.disks[0].partitions: bad-disk"],
            ),
            (
                "overlapping",
                "2.2.0",
                disk(
                    json!([{ "number": 1, "start": 2048, "size": 4096 }, { "number": 2, "start": 4096, "size": 2048 }]),
                ),
                &["storage.disks[0].partitions[1]: bad-disk"],
            ),
            (
                "neither number nor label",
                "2.2.0",
                disk(json!([{ "label": "" }])),
                &["storage.disks[0].partitions[0]: bad-disk"],
            ),
            (
                "a relative device",
                "2.2.0",
                json!({ "storage": { "disks": [{ "device": "sda" }], "raid": [{ "name": "r", "level": "1", "devices": ["sdb"] }] } }),
                &[
                    "storage.disks[0].device: bad-disk",
                    "storage.raid[0].devices[0]: bad-raid",
                ],
            ),
        ]);
    }

    #[test]
    fn which_file_systems_are_refused() {
        let mount = |format: &str| json!({ "device": "/dev/a", "format": format });
        let create = json!({ "device": "/dev/a", "format": "ext4", "create": { "force": true } });
        are_refused([
            (
                "nothing",
                "2.0.0",
                filesystems(json!([{ "name": "a" }])),
                &["storage.filesystems[0]: bad-filesystem"],
            ),
            (
                "both",
                "2.0.0",
                filesystems(json!([{ "name": "a", "mount": mount("ext4"), "path": "/" }])),
                &["storage.filesystems[0]: bad-filesystem"],
            ),
            (
                "a mounted root",
                "2.0.0",
                filesystems(json!([{ "name": "root", "mount": mount("ext4") }])),
                &["storage.filesystems[0].mount: no-spec3-equal"],
            ),
            (
                "root elsewhere",
                "2.0.0",
                filesystems(json!([{ "name": "root", "path": "/mnt" }])),
                &["storage.filesystems[0].path: no-spec3-equal"],
            ),
            (
                "another path",
                "2.0.0",
                filesystems(json!([{ "name": "oem", "path": "/usr/share/oem" }])),
                &["storage.filesystems[0].path: no-spec3-equal"],
            ),
            (
                "a relative path",
                "2.0.0",
                filesystems(json!([{ "name": "oem", "path": "oem" }])),
                &["storage.filesystems[0].path: bad-filesystem"],
            ),
            (
                "create",
                "2.0.0",
                filesystems(json!([{ "name": "a", "mount": create }])),
                &["storage.filesystems[0].mount.create: no-spec3-equal"],
            ),
            (
                "a newer format",
                "2.0.0",
                filesystems(json!([{ "name": "a", "mount": mount("vfat") }])),
                &["storage.filesystems[0].mount.format: bad-filesystem"],
            ),
            (
                "a format of spec 3",
                "2.4.0",
                filesystems(json!([{ "name": "a", "mount": mount("none") }])),
                &["storage.filesystems[0].mount.format: bad-filesystem"],
            ),
            (
                "no format",
                "2.4.0",
                filesystems(json!([{ "name": "a", "mount": { "device": "/dev/a" } }])),
                &["storage.filesystems[0].mount.format: bad-filesystem"],
            ),
            (
                "a long label",
                "2.4.0",
                filesystems(
                    json!([{ "name": "root", "path": "/sysroot" }, { "name": "a", "mount": { "device": "/dev/a", "format": "xfs", "label": "0123456789abc" } }]),
                ),
                &["storage.filesystems[1].mount.label: bad-filesystem"],
            ),
        ]);
    }
}
