//! Selects the files whose content a base tree retains, because planning reads them.
//!
//! - [`FILES`]: users and groups, to look up owners by name, and os-release;
//! - units and drop-ins ([`UNIT_SUFFIXES`], `*.d/*.conf`) in [`UNIT_DIRECTORIES`], whose
//!   `[Install]` sections say which links enable them, and what links there lead to;
//! - `*.preset` in [`PRESET_DIRECTORIES`], and `*.conf` in [`SYSUSERS_DIRECTORIES`];
//! - small files below [`ETC_DIRECTORIES`], which a config may change without replacing them: then
//!   a layer repeats their content;
//! - the package databases of the topmost layer, as [`Listing`](crate::packages::Listing)s.
//!
//! Not retained: files of more than [`MAX_FILE_SIZE`] bytes, files beyond [`MAX_TOTAL_SIZE`] bytes
//! in total (in this order), and sparse files. The small files of the last group have limits of
//! their own, [`MAX_ETC_FILE_SIZE`] and [`MAX_ETC_TOTAL_SIZE`], so that they take nothing from the
//! others. Among them are not retained: files that lie deeper than [`MAX_ETC_DEPTH`]; and, because a
//! layer couldn't repeat all of the file, files with another name (a hard link) and files with
//! extended attributes.

/// Single files.
pub const FILES: [&str; 8] = [
    "etc/passwd",
    "etc/group",
    "usr/lib/passwd",
    "usr/lib/group",
    "usr/etc/passwd",
    "usr/etc/group",
    "etc/os-release",
    "usr/lib/os-release",
];

/// Where systemd looks for system units (systemd.unit(5)).
pub const UNIT_DIRECTORIES: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// Where systemd looks for system presets (systemd.preset(5)).
pub const PRESET_DIRECTORIES: [&str; 5] = [
    "etc/systemd/system-preset",
    "run/systemd/system-preset",
    "usr/local/lib/systemd/system-preset",
    "usr/lib/systemd/system-preset",
    "lib/systemd/system-preset",
];

/// Where systemd looks for users and groups that it makes at boot (sysusers.d(5)).
pub const SYSUSERS_DIRECTORIES: [&str; 2] = ["etc/sysusers.d", "usr/lib/sysusers.d"];

/// Where configuration is: `/etc`, and the place where ostree has the distribution's.
pub const ETC_DIRECTORIES: [&str; 2] = ["etc", "usr/etc"];

/// The suffixes of units that an Ignition config can name (systemd.unit(5)); a scope is never a
/// file.
pub const UNIT_SUFFIXES: [&str; 9] = [
    ".service",
    ".socket",
    ".timer",
    ".path",
    ".mount",
    ".automount",
    ".swap",
    ".target",
    ".slice",
];

/// Most bytes of one file; the longest unit files of real bases have a few KiB, group files of big
/// ones some tens.
pub const MAX_FILE_SIZE: u64 = 256 << 10;

/// Most bytes in all; a real base has less than 1 MiB.
pub const MAX_TOTAL_SIZE: u64 = 8 << 20;

/// Most bytes of one of the small files below `/etc`.
pub const MAX_ETC_FILE_SIZE: u64 = 64 << 10;

/// Most components of the path of such a file below `/etc`. Deeper are not files that people edit,
/// but many MB of modules of the SELinux policy and a copy of each certificate.
pub const MAX_ETC_DEPTH: usize = 4;

/// Most bytes of these files in all, those with the shortest paths first. Reading a base needs up to
/// three times as much memory for them, and must not need more than 6 MiB (`docs/direct-build.md`).
/// Real bases are expected to have less.
pub const MAX_ETC_TOTAL_SIZE: u64 = 2 << 20;

/// What a smaller one counts in this total, which thereby limits their number.
pub const MIN_ETC_FILE_COST: u64 = 1 << 10;

/// Paths below it are left out of a base tree.
pub const OSTREE_OBJECTS: &str = "sysroot/ostree/repo/objects";

/// Whether a name is that of a unit.
pub fn is_unit(name: &[u8]) -> bool {
    UNIT_SUFFIXES
        .iter()
        .any(|suffix| name.len() > suffix.len() && name.ends_with(suffix.as_bytes()))
}

/// Whether the content of a file is retained; paths as in a tar, without the leading slash.
pub fn is_retained(path: &[u8], size: u64, has_xattrs: bool) -> bool {
    is_for_decisions(path) && size <= MAX_FILE_SIZE
        || is_below_etc(path) && size <= MAX_ETC_FILE_SIZE && !has_xattrs
}

fn is_below_etc(path: &[u8]) -> bool {
    ETC_DIRECTORIES.iter().any(|directory| {
        let rest = path.strip_prefix(directory.as_bytes());
        let depth = |rest: &[u8]| rest.iter().filter(|b| **b == b'/').count();
        rest.is_some_and(|rest| {
            rest.starts_with(b"/") && (1..=MAX_ETC_DEPTH).contains(&depth(rest))
        })
    })
}

/// Whether the content of a file at this path decides something, whatever its size.
pub fn is_for_decisions(path: &[u8]) -> bool {
    let below = |directory: &&str| {
        let rest = path.strip_prefix(directory.as_bytes())?;
        rest.strip_prefix(b"/")
    };
    let preset = || {
        let mut names = PRESET_DIRECTORIES.iter().filter_map(below);
        names.any(|name| !name.contains(&b'/') && name.ends_with(b".preset"))
    };
    let sysusers = || {
        let mut names = SYSUSERS_DIRECTORIES.iter().filter_map(below);
        names.any(|name| !name.contains(&b'/') && name.ends_with(b".conf"))
    };
    let unit = || {
        let mut names = UNIT_DIRECTORIES.iter().filter_map(below);
        names.any(|name| match name.iter().position(|b| *b == b'/') {
            None => is_unit(name),
            Some(at) => is_drop_in(&name[..at], &name[at + 1..]),
        })
    };
    FILES.iter().any(|file| file.as_bytes() == path) || preset() || sysusers() || unit()
}

/// Whether `name` in the directory `directory` of a unit directory is a drop-in.
pub fn is_drop_in(directory: &[u8], name: &[u8]) -> bool {
    directory.ends_with(b".d") && !name.contains(&b'/') && name.ends_with(b".conf")
}

/// Whether bytes look like one of the retained files, at any path.
///
/// In an ostree-native image a unit is a hard link to an object whose name is a hash. Objects that
/// match are held in memory until the links are known; so are those whose link is the next entry. A
/// retained file of another layer that doesn't match costs a second read of that layer.
pub fn looks_retained(bytes: &[u8]) -> bool {
    let blank = |line: &&[u8]| !line.is_empty() && !matches!(line[0], b'#' | b';');
    let Some(line) = bytes.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).find(blank) else {
        return false;
    };
    let section = line.starts_with(b"[") && line.ends_with(b"]");
    let preset = line.starts_with(b"enable ") || line.starts_with(b"disable ");
    let sysusers = line.starts_with(b"u ") || line.starts_with(b"g ");
    let accounts = line.starts_with(b"root:");
    let release = line.starts_with(b"NAME=") || line.starts_with(b"PRETTY_NAME=");
    section || preset || sysusers || accounts || release
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_contents_that_a_plan_needs_are_retained() {
        let (most, etc) = (MAX_FILE_SIZE, MAX_ETC_FILE_SIZE);
        for (path, size, has_xattrs, want) in [
            ("etc/passwd", most, true, true),
            ("etc/passwd", most + 1, false, false),
            ("etc/passwd-", etc, false, true),
            ("etc/passwd-", etc + 1, false, false),
            ("etc/a/b/c", 0, false, true),
            ("etc/a/b/c", 0, true, false),
            ("etc/a/b/c/d", etc, false, true),
            ("etc/a/b/c/d/e", 0, false, false),
            ("usr/etc/a/b/c/d", etc, false, true),
            ("usr/etc/a/b/c/d/e", 0, false, false),
            ("usr/etc/a", etc, false, true),
            ("etc", 0, false, false),
            ("etcetera/a", 0, false, false),
            ("usr/share/etc/a", 0, false, false),
            ("etc/systemd/system/a.service", most, true, true),
            ("etc/systemd/system/a.wants/b.service", etc, false, true),
        ] {
            let what = format!("{path}, {size} bytes, {has_xattrs}");
            assert_eq!(is_retained(path.as_bytes(), size, has_xattrs), want, "{what}");
        }
        for (path, want) in [
            ("etc/passwd", true),
            ("etc/passwd-", false),
            ("etc/shadow", false),
            ("usr/lib/systemd/system/a.service", true),
            ("usr/lib/systemd/system/.service", false),
            ("usr/lib/systemd/system/a.wants/b.service", false),
            ("usr/lib/systemd/system/a.service.d/x.conf", true),
            ("usr/lib/systemd/system/service.d/x.conf", true),
            ("usr/lib/systemd/system/a.service.d/x/y.conf", false),
            ("usr/lib/systemd/user/a.service", false),
            ("etc/systemd/system-preset/20-a.preset", true),
            ("etc/systemd/system-preset/a/b.preset", false),
            ("usr/lib/sysusers.d/a.conf", true),
            ("usr/lib/sysusers.d/a/b.conf", false),
        ] {
            assert_eq!(is_for_decisions(path.as_bytes()), want, "{path}");
        }
    }

    #[test]
    fn retained_objects_are_recognised_by_their_content() {
        for (bytes, want) in [
            ("# (c)\n\n[Unit]\nDescription=x\n", true),
            ("enable sshd.service\n", true),
            ("root:x:0:0:root:/root:/bin/sh\n", true),
            ("#!/bin/sh\ntrue\n", false),
            ("\x7fELF", false),
            ("", false),
        ] {
            assert_eq!(looks_retained(bytes.as_bytes()), want, "{bytes:?}");
        }
    }
}
