//! File systems.

use std::collections::HashSet;

use super::super::object::Object;
use super::super::places::clean;
use super::super::version::SpecV2;
use super::origins::Origins;
use super::shape::{Fields, clean_field, copy};

/// Translates `storage.filesystems`: those to make, and the names of all but `root`.
pub(super) fn translate<'v>(
    storage: &Object<'v, '_>,
    origins: &mut Origins,
) -> (Vec<Fields>, HashSet<&'v str>) {
    let read = storage.each("filesystems", filesystem);
    let names = read.iter().map(|(name, _)| *name).collect();
    let mut made = Vec::new();
    for (index, (_, mount)) in read.into_iter().enumerate() {
        if let Some(mount) = mount {
            let to = format!("storage.filesystems[{}]", made.len());
            origins.add(to, format!("storage.filesystems[{index}].mount"));
            made.push(mount);
        }
    }
    (made, names)
}

fn filesystem<'v>(o: &Object<'v, '_>) -> (&'v str, Option<Fields>) {
    let name = o.text("name").unwrap_or_default();
    let path = o.text("path");
    let mounted = o.is_set("mount");
    let mount = translate_mount(&o.object("mount"), mounted);
    if !o.is_readable() {
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
            o.problem("path", "bad-filesystem", "must be absolute: begin with a slash");
        }
        // The root of the machine, and its mount point while Ignition runs: both are the file
        // system `root` already.
        (false, Some(path)) if name == "root" && ["/", "/sysroot"].contains(&&*clean(path)) => {}
        (false, Some(_)) => {
            let message = "spec 3 can't refer to existing file systems; remove this one, and give its files by their whole path on `root`";
            o.problem("path", "no-spec3-equal", message);
        }
    }
    (name, None)
}

fn translate_mount(o: &Object<'_, '_>, mounted: bool) -> Fields {
    if o.is_set("create") {
        let message = "spec 3 has no `create`; give wipeFilesystem and options in its place, which spec 2.1.0 and later have";
        o.problem("create", "no-spec3-equal", message);
    }
    let is_known = match o.text("format").unwrap_or_default() {
        "ext4" | "btrfs" | "xfs" => true,
        "swap" | "vfat" => o.spec() >= SpecV2::V2_1.into(),
        _ => false,
    };
    if mounted && o.is_readable() && !is_known {
        let message = "must be ext4, btrfs or xfs, or, since spec 2.1.0, swap or vfat";
        o.problem("format", "bad-filesystem", message);
    }
    let mut mount = copy(o, &["create"]);
    clean_field(&mut mount, "device");
    mount
}

#[cfg(test)]
mod tests {
    use super::super::tests::{are_refused, become_these};
    use serde_json::{Value, json};

    fn filesystems(filesystems: Value) -> Value {
        json!({ "storage": { "filesystems": filesystems } })
    }

    #[test]
    fn file_systems_are_translated() {
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
    fn invalid_file_systems_are_rejected() {
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
