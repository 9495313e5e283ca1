//! The script with which a machine makes what the pull of an image sees in place of its own
//! `/etc/containers`: at its first boot, and in a roll-out.

/// Its arguments: `ETC GIVEN OUT`.
pub const COPY_CONTAINERS: &str = include_str!("copy_containers.sh");

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn copy(dir: &Path) -> std::process::Output {
        let script = dir.join("script");
        std::fs::write(&script, COPY_CONTAINERS).unwrap();
        let paths = ["etc", "given", "run/out"].map(|name| dir.join(name));
        std::process::Command::new("sh").arg(script).args(paths).output().unwrap()
    }

    #[test]
    fn copy_has_machine_and_given_settings_changing_neither() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str, mode: u32| {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), text).unwrap();
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        write("etc/containers/policy.json", "policy", 0o644);
        write("etc/elsewhere/first/own.crt", "own", 0o644);
        write("etc/elsewhere/first/own.key", "key", 0o600);
        std::fs::create_dir_all(path("etc/containers/certs.d")).unwrap();
        symlink("../../elsewhere/first", path("etc/containers/certs.d/first")).unwrap();
        symlink("/nowhere", path("etc/containers/dangling")).unwrap();
        write("etc/docker/certs.d/second:5000/docker.crt", "docker", 0o644);
        write("etc/docker/certs.d/first/hidden.crt", "hidden", 0o644);
        write("given/certs.d/first/ours.crt", "ours", 0o600);
        write("given/certs.d/second:5000/ours.crt", "ours", 0o644);
        write("given/registries.conf.d/ours.conf", "mirrors", 0o644);
        // The second time, a try that was killed left something.
        for _ in 0..2 {
            let output = copy(dir.path());
            assert!(output.status.success(), "{output:?}");
            let mode = |name: &str| {
                let found = path("run/out").join(name).symlink_metadata();
                found.ok().map(|found| found.permissions().mode() & 0o7777)
            };
            for (name, want) in [
                ("", Some(0o755)),
                ("policy.json", Some(0o644)),
                ("certs.d/first/own.crt", Some(0o644)),
                ("certs.d/first/own.key", Some(0o600)),
                ("certs.d/first/ours.crt", Some(0o644)),
                ("certs.d/first/hidden.crt", None),
                ("certs.d/second:5000/docker.crt", Some(0o644)),
                ("certs.d/second:5000/ours.crt", Some(0o644)),
                ("registries.conf.d/ours.conf", Some(0o644)),
                ("dangling", None),
            ] {
                assert_eq!(mode(name), want, "{name}");
            }
            assert_eq!(path("run").metadata().unwrap().permissions().mode() & 0o7777, 0o700);
            assert!(!path("etc/elsewhere/first/ours.crt").exists());
            assert!(!path("etc/docker/certs.d/second:5000/ours.crt").exists());
            write("run/out.new/half", "", 0o644);
        }
        // Settings that are not there any more.
        std::fs::remove_dir_all(path("given")).unwrap();
        assert!(copy(dir.path()).status.success());
        assert!(!path("run/out").exists());
    }

    #[test]
    fn machine_without_settings_gets_the_mount_directory() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("given/registries.conf.d")).unwrap();
        assert!(copy(dir.path()).status.success());
        assert_eq!(std::fs::read_dir(dir.path().join("etc/containers")).unwrap().count(), 0);
        assert!(dir.path().join("run/out/registries.conf.d").exists());
        // What is not a setting is not copied into memory.
        let large = std::fs::File::create(dir.path().join("etc/containers/large")).unwrap();
        std::io::Write::write_all(&mut &large, &vec![1; 17 << 20]).unwrap();
        let output = copy(dir.path());
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("KiB"), "{output:?}");
    }
}
