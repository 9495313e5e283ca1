//! Disks and arrays.

use serde_json::Value;

use super::super::fields::Object;
use super::super::places::clean;
use super::super::version::SpecV2;
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
    let mut fields =
        object([("number", number(number_or_next)), ("typeGuid", filled(o.text("typeGuid")))]);
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
    let mut units = Units { sectors: size.is_some() || start.is_some(), mib: false };
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
    fields.extend(object([("sizeMiB", number(size_mib)), ("startMiB", number(start_mib))]));
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

#[cfg(test)]
mod tests {
    use super::super::tests::{are_refused, become_these, warned};
    use serde_json::{Value, json};

    fn disk(partitions: Value) -> Value {
        json!({ "storage": { "disks": [{ "device": "/dev/sda", "partitions": partitions }] } })
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
        assert_eq!(warned("2.0.0", disk(one)), ["storage.disks[0].partitions: sectors-of-512"]);
        let none = json!([{ "number": 1, "sizeMiB": 1 }]);
        assert_eq!(warned("2.3.0", disk(none)), [""; 0]);
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
                &["storage.disks[0].device: bad-disk", "storage.raid[0].devices[0]: bad-raid"],
            ),
        ]);
    }
}
