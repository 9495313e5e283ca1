//! Disks, arrays, file systems and encrypted volumes: checked as in Ignition; only their names are
//! returned.

use std::collections::HashSet;

use crate::error::shown;
use crate::object::{Object, RemoteSources};
use crate::places::check_path;
use crate::version::SpecVersion;
use crate::{resource, url};

/// Checks one of `storage.disks`; returns its device.
pub(super) fn disk(o: &Object<'_, '_>) -> String {
    let device = o.text("device").unwrap_or_default();
    let partitions = o.each("partitions", partition);
    if o.is_readable() {
        match check_path(device) {
            Err(_) if device.is_empty() => o.problem("device", "bad-disk", "a disk needs a device"),
            checked => {
                if let Err(message) = checked {
                    o.problem("device", "bad-disk", message);
                }
                check_partitions(o, &partitions);
            }
        }
    }
    device.to_owned()
}

/// The fields that are compared between the partitions of a disk.
#[derive(Debug)]
struct Partition<'v> {
    number: i64,
    label: Option<&'v str>,
    should_exist: Option<bool>,
    start: Option<i64>,
    size: Option<i64>,
}

impl Partition<'_> {
    /// First and last MiB, if both are known and representable.
    fn extent(&self) -> Option<(i64, i64)> {
        let (start, size) = (self.start.filter(|start| *start > 0)?, self.size?);
        Some((start, start.checked_add((size - 1).max(0))?))
    }
}

fn partition<'v>(o: &Object<'v, '_>) -> Partition<'v> {
    let (label, guid, type_guid) = (o.text("label"), o.text("guid"), o.text("typeGuid"));
    let number = o.integer("number").unwrap_or(0);
    let (size, start) = (o.integer("sizeMiB"), o.integer("startMiB"));
    let should_exist = o.bool("shouldExist");
    if o.is_readable() {
        let guids = [guid, type_guid].into_iter().flatten().any(|g| !g.is_empty());
        if should_exist == Some(false)
            && (label.is_some() || guids || start.is_some() || size.is_some())
        {
            o.problem_here(
                "bad-disk",
                "must not exist, but is described; leave out all but its number",
            );
        }
        let end = start.unwrap_or(0).checked_add(size.unwrap_or(0));
        if end.is_none()
            || start.is_some_and(i64::is_negative)
            || size.is_some_and(i64::is_negative)
        {
            o.problem_here(
                "unusable-disk",
                "lies outside of any disk; give a start and size of at least 0",
            );
        }
        if number == 0 && label.is_none() {
            o.problem_here("bad-disk", "needs a number of at least 1, or a label");
        }
        if label.is_some_and(|l| l.len() > 36 || l.contains(':')) {
            o.problem("label", "bad-disk", "must be at most 36 bytes, without a colon");
        }
        for (key, value) in [("guid", guid), ("typeGuid", type_guid)] {
            if value.is_some_and(|v| !v.is_empty() && !is_guid(v)) {
                o.problem(
                    key,
                    "bad-disk",
                    "must have the form 01234567-89AB-CDEF-EDCB-A98765432101",
                );
            }
        }
    }
    Partition { number, label, should_exist, start, size }
}

fn is_guid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

fn check_partitions(disk: &Object<'_, '_>, partitions: &[Partition<'_>]) {
    let (mut numbers, mut labels) = (HashSet::new(), HashSet::new());
    for (index, partition) in partitions.iter().enumerate() {
        if partition.number != 0 && !numbers.insert(partition.number) {
            disk.problem_in("partitions", index, "bad-disk", "has the number of another partition");
        }
        if partition.label.is_some_and(|label| !labels.insert(label)) {
            disk.problem_in("partitions", index, "bad-disk", "has the label of another partition");
        }
    }
    let mut extents: Vec<_> = partitions
        .iter()
        .enumerate()
        .filter_map(|(i, p)| p.extent().map(|extent| (extent, i)))
        .collect();
    extents.sort_unstable();
    for pair in extents.windows(2) {
        let [((_, end), _), ((start, _), index)] = pair else {
            continue;
        };
        if start <= end {
            disk.problem_in("partitions", *index, "bad-disk", "overlaps another partition");
        }
    }
    if partitions.iter().any(|p| p.number == 0)
        && partitions.iter().any(|p| p.should_exist == Some(false))
    {
        let message = "a partition must not exist, so all need a number";
        disk.problem("partitions", "bad-disk", message);
    }
}

/// Checks one of `storage.raid`; returns its name.
pub(super) fn raid(o: &Object<'_, '_>) -> String {
    let name = o.text("name").unwrap_or_default();
    let (level, spares) = (o.text("level").unwrap_or_default(), o.integer("spares"));
    let devices = o.texts("devices");
    if o.is_readable() {
        match level {
            "linear" | "raid0" | "0" | "stripe" if spares.unwrap_or(0) != 0 => {
                o.problem("level", "bad-raid", "has no use for spares; leave them out");
            }
            "linear" | "raid0" | "0" | "stripe" | "raid1" | "1" | "mirror" | "raid4" | "4"
            | "raid5" | "5" | "raid6" | "6" | "raid10" | "10" => {}
            _ => o.problem(
                "level",
                "bad-raid",
                "must be linear, raid0, raid1, raid4, raid5, raid6 or raid10",
            ),
        }
        if devices.is_empty() {
            o.problem("devices", "bad-raid", "an array needs devices");
        }
        for (index, device) in devices.iter().enumerate() {
            if let Err(message) = check_path(device) {
                o.problem_in("devices", index, "bad-raid", message);
            }
        }
    }
    name.to_owned()
}

/// Checks one of `storage.filesystems`; returns its device.
pub(super) fn filesystem(o: &Object<'_, '_>) -> String {
    let device = o.text("device").unwrap_or_default();
    let [format, label, path, uuid] =
        ["format", "label", "path", "uuid"].map(|key| o.text(key).filter(|text| !text.is_empty()));
    let wipe = o.bool("wipeFilesystem") == Some(true);
    let options = !o.texts("options").is_empty();
    let mount_options = !o.texts("mountOptions").is_empty();
    if !o.is_readable() {
        return device.to_owned();
    }
    for (key, path) in [("device", Some(device)), ("path", path)] {
        if let Some(Err(message)) = path.map(check_path) {
            o.problem(key, "bad-filesystem", message);
        }
    }
    let version = o.version();
    let longest_label = match format {
        None => {
            if [label, path, uuid].iter().any(Option::is_some) || wipe || options || mount_options {
                o.problem(
                    "format",
                    "bad-filesystem",
                    "is needed for the other fields of the file system",
                );
            }
            None
        }
        Some("ext4") => Some(16),
        Some("btrfs") => Some(256),
        Some("xfs") => Some(12),
        Some("swap") => Some(15),
        Some("vfat") => Some(11),
        Some("none") if version >= SpecVersion::V3_3 => None,
        Some(_) => {
            o.problem(
                "format",
                "bad-filesystem",
                "must be ext4, btrfs, xfs, swap or vfat, or, since spec 3.3.0, none",
            );
            None
        }
    };
    if let (Some(longest), Some(label)) = (longest_label, label)
        && label.len() > longest
    {
        o.problem("label", "bad-filesystem", format!("must be at most {longest} bytes"));
    }
    device.to_owned()
}

/// Checks one of `storage.luks`; returns its name.
pub(super) fn luks(o: &Object<'_, '_>) -> String {
    let text = |key| o.text(key).unwrap_or_default();
    // The machine fetches it, not the build.
    let key = resource::read(&o.object("keyFile"), RemoteSources::Allowed).source;
    let has_key = key.is_some_and(|source| !source.is_empty());
    let is_bound = is_bound(&o.object("clevis"));
    if o.is_readable() {
        if text("name").contains('/') {
            o.problem("name", "bad-luks", "must not hold a slash");
        }
        if text("label").len() > 47 {
            o.problem("label", "bad-luks", "must be at most 47 bytes");
        }
        if let Err(message) = check_path(text("device")) {
            o.problem("device", "bad-luks", message);
        }
        if o.object("cex").bool("enabled") == Some(true) {
            if is_bound {
                o.problem("cex", "bad-luks", "can't be used with clevis; keep one");
            }
            if has_key {
                o.problem("cex", "bad-luks", "can't be used with a key file; keep one");
            }
        }
    }
    text("name").to_owned()
}

/// Checks `clevis`; returns whether it binds the volume to anything.
fn is_bound(clevis: &Object<'_, '_>) -> bool {
    let tang = !clevis.each("tang", check_tang).is_empty();
    let threshold = clevis.integer("threshold").unwrap_or(0) != 0;
    let others = tang || threshold || clevis.bool("tpm2") == Some(true);
    let custom = clevis.object("custom");
    check_custom(&custom);
    let has_pin = custom.text("pin").is_some_and(|pin| !pin.is_empty());
    // In spec 3.2 an empty object counted too.
    let has_custom = clevis.version() == SpecVersion::V3_2 && clevis.is_set("custom");
    if clevis.is_readable() && others && (has_custom || has_pin) {
        clevis.problem_here(
            "bad-luks",
            "uses custom together with tpm2, tang or threshold; keep one",
        );
    }
    others || has_pin
}

fn check_custom(custom: &Object<'_, '_>) {
    let [pin, config] = ["pin", "config"].map(|key| custom.text(key).unwrap_or_default());
    let network = custom.bool("needsNetwork") == Some(true) && custom.version() > SpecVersion::V3_2;
    if !custom.is_readable() || (pin.is_empty() && config.is_empty() && !network) {
        return;
    }
    if custom.version() < SpecVersion::V3_6 && !matches!(pin, "tpm2" | "tang" | "sss") {
        let message = format!("{} must be tpm2, tang or sss; spec 3.6.0 takes others", shown(pin));
        custom.problem("pin", "bad-luks", message);
    } else if pin.is_empty() {
        custom.problem("pin", "bad-luks", "is needed for a custom pin");
    }
    if config.is_empty() {
        custom.problem("config", "bad-luks", "is needed for a custom pin");
    }
}

fn check_tang(o: &Object<'_, '_>) {
    let text = |key| o.text(key).unwrap_or_default();
    if !o.is_readable() {
        return;
    }
    if !matches!(url::scheme(text("url")).as_deref(), Some("http" | "https")) {
        o.problem("url", "bad-luks", "must be a URL that begins with http:// or https://");
    }
    if text("thumbprint").is_empty() {
        o.problem("thumbprint", "bad-luks", "is needed");
    }
    let advertisement = text("advertisement");
    if !advertisement.is_empty()
        && serde_json::from_str::<serde::de::IgnoredAny>(advertisement).is_err()
    {
        o.problem("advertisement", "bad-luks", "must be JSON");
    }
}
