//! Disks and arrays.

use serde_json::Value;

use super::super::object::Object;
use super::super::version::SpecV2;
use super::shape::{Fields, clean_field, cleaned, copy};

/// Of 512 bytes, which nearly all disks have. The config doesn't say, and spec 3 only has MiB.
const SECTORS_IN_MIB: i64 = 2048;

/// Translates one of `storage.disks`.
pub(super) fn disk(o: &Object<'_, '_>) -> Fields {
    let mut disk = copy(o, &["partitions"]);
    clean_field(&mut disk, "device");
    let (mut in_sectors, mut in_mib) = (false, false);
    let partitions = o.each("partitions", |partition| {
        let any_set = |keys: [&str; 2]| keys.into_iter().any(|key| partition.is_set(key));
        in_sectors |= any_set(["size", "start"]);
        in_mib |= any_set(["sizeMiB", "startMiB"]);
        translate_partition(partition)
    });
    if in_sectors && in_mib {
        let message = "mix sectors and MiB on one disk; give all in sizeMiB and startMiB";
        o.problem("partitions", "bad-disk", message);
    } else if in_sectors {
        let message = "are given in sectors, which are taken as 512 bytes; give sizeMiB and startMiB, which spec 2.3.0 and later have";
        o.warn("partitions", "sectors-of-512", message);
    }
    disk.insert("partitions".to_owned(), partitions.into());
    disk
}

fn translate_partition(o: &Object<'_, '_>) -> Value {
    let mut partition = copy(o, &["size", "start"]);
    // Before 2.3.0, a number that is not set is 0, and an empty label is none.
    let has_mib = o.spec() >= SpecV2::V2_3.into();
    for (key, in_mib) in [("size", "sizeMiB"), ("start", "startMiB")] {
        let sectors = o.integer(key);
        if sectors.is_some_and(|sectors| sectors % SECTORS_IN_MIB != 0) {
            let message = "must be a multiple of 2048 sectors, 1 MiB: spec 3 has no smaller unit";
            o.problem(key, "bad-disk", message);
        }
        if sectors.is_some() || !has_mib {
            partition.insert(in_mib.to_owned(), (sectors.unwrap_or(0) / SECTORS_IN_MIB).into());
        }
    }
    if !has_mib && o.text("label") == Some("") {
        partition.remove("label");
    }
    partition.into()
}

/// Translates one of `storage.raid`.
pub(super) fn raid(o: &Object<'_, '_>) -> Fields {
    let mut array = copy(o, &["devices"]);
    let devices: Vec<_> = o.texts("devices").into_iter().map(cleaned).collect();
    array.insert("devices".to_owned(), devices.into());
    array
}

#[cfg(test)]
mod tests {
    use super::super::tests::{are_refused, become_these, warned};
    use serde_json::{Value, json};

    fn disk(partitions: Value) -> Value {
        json!({ "storage": { "disks": [{ "device": "/dev/sda", "partitions": partitions }] } })
    }

    #[test]
    fn disks_and_arrays_are_translated() {
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
    fn invalid_disks_are_rejected() {
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
