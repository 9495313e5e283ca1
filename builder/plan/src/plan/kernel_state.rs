//! What of a file system the kernel takes on and keeps until it boots: a soft reboot starts the user
//! space of another image alone, so a change there needs a kernel boot.

/// Files and folders below [`PREFIXES`]: parameters, modules with their options, and the SELinux
/// policy. A parameter that is not set any more keeps its value, and a loaded module its options.
const KERNEL_STATE: [&str; 5] =
    ["modprobe.d", "modules-load.d", "selinux", "sysctl.conf", "sysctl.d"];
/// Where these are read from, without a slash at either end. An ostree deployment has the `/etc` of its
/// image below `/usr`.
const PREFIXES: [&str; 4] = ["etc", "usr/etc", "usr/lib", "usr/local/lib"];
/// What an image boots with.
const BOOT_FOLDERS: [&str; 3] = ["boot", "usr/lib/bootc", "usr/lib/modules"];

/// Whether a path of a config or an image is of the kernel, of what it boots with, or of what it keeps until it
/// boots.
pub fn is_kept_by_kernel(path: &str) -> bool {
    let path = path.trim_start_matches('/');
    let is_below = |path: &str, folder: &str| {
        path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut rests =
        PREFIXES.iter().filter_map(|prefix| path.strip_prefix(prefix)?.strip_prefix('/'));
    rests.any(|rest| KERNEL_STATE.iter().any(|name| is_below(rest, name)))
        || BOOT_FOLDERS.iter().any(|folder| is_below(path, folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_the_kernel_keeps_are_known() {
        for (path, want) in [
            ("/etc/sysctl.d/99-x.conf", true),
            ("/etc/sysctl.conf", true),
            ("/etc/sysctl.conf.d/x", false),
            ("/usr/lib/modprobe.d/a.conf", true),
            ("usr/etc/modprobe.d/a.conf", true),
            ("/usr/local/lib/sysctl.d/a.conf", true),
            ("/etc/selinux/config", true),
            ("/usr/lib/modules/6.1/extra/a.ko", true),
            ("/usr/lib/bootc/kargs.d/a.toml", true),
            ("/boot/a", true),
            ("/etc/a", false),
            ("/opt/etc/sysctl.d/a", false),
            ("/etc/systemd/system/sysctl.d", false),
        ] {
            assert_eq!(is_kept_by_kernel(path), want, "{path}");
        }
    }
}
