//! Where the tools of the machine read a login while an image is staged, and the
//! [settings](super::placed_settings) of its pull.
//!
//! ostree's container code reads one file for all registries, the first of [`AUTH_FILES`]. If the
//! machine has none, the first is a link to our file. If it has one, that file stays as it is, and
//! only the process that pulls sees our file in its place, with the machine's logins for other
//! registries in it. Invariant: our files are below [`FOLDER`], in memory, and each one that may have
//! a password is for root alone. The unit that pulls removes them when it ends, also if this process
//! was killed. A process that is killed before there is a unit leaves them; the next command of ours
//! removes them.

use std::os::fd::OwnedFd;

use crate::error::Error;
use crate::host_root::HostRoot;
use crate::placed_settings;
use crate::pull_access::{LOGIN_FILE, PullAccess};

/// In the order in which ostree's container code looks for them.
const AUTH_FILES: [&str; 3] =
    ["/run/ostree/auth.json", "/etc/ostree/auth.json", "/usr/lib/ostree/auth.json"];
/// The directory of our files.
const FOLDER: &str = "/run/mosb-rollout";
const FILE: &str = "/run/mosb-rollout/auth.json";
/// The text of the link to our file.
const LINK: &str = "../mosb-rollout/auth.json";
/// Lets rpm-ostree's daemon see our files.
const DAEMON_DROP_IN: &str = "/run/systemd/system/rpm-ostreed.service.d/mosb-rollout.conf";

/// A login and settings that the tools read. They are removed on drop, unless the unit removes them.
#[derive(Debug)]
pub(crate) struct PlacedLogin<'a> {
    root: &'a HostRoot,
    /// The machine's own file that must be hidden from the process that pulls.
    over: Option<&'static str>,
    /// What shows our settings to the process that pulls.
    settings: Vec<String>,
    handed_over: bool,
    /// The lock of [`FOLDER`]: the login is in use before there is a unit.
    lock: Option<OwnedFd>,
}

impl<'a> PlacedLogin<'a> {
    pub fn new(root: &'a HostRoot, access: &PullAccess) -> Result<Self, Error> {
        remove(root)?;
        let mut own = None;
        let places = access.login.as_ref().map_or(&[][..], |_| &AUTH_FILES);
        for path in places.iter().copied() {
            if let Some(bytes) = root.read(path, LOGIN_FILE)? {
                own = Some((path, bytes));
                break;
            }
        }
        // From here on it is removed, also if one of the next steps fails.
        let mut placed = Self {
            root,
            over: own.as_ref().map(|own| own.0),
            settings: placed_settings::properties(&access.settings),
            handed_over: false,
            lock: None,
        };
        root.make_private_folder(FOLDER)?;
        placed.lock = root.lock_folder(FOLDER)?;
        placed_settings::place(root, &access.settings)?;
        if let Some(login) = &access.login {
            let file = match &own {
                Some((_, bytes)) => login.over(Some(bytes)),
                None => login.to_bytes(),
            };
            root.write(FILE, file.expose(), 0o600)?;
            if placed.over.is_none() {
                root.make_link(AUTH_FILES[0], LINK)?;
            }
        }
        Ok(placed)
    }

    /// The properties of the unit that pulls.
    pub fn unit_properties(&self) -> Vec<String> {
        let login = self.over.map(|own| format!("BindReadOnlyPaths={FILE}:{own}"));
        login.into_iter().chain(self.settings.iter().cloned()).collect()
    }

    /// Shows the files to rpm-ostree's daemon. Returns whether the daemon must be started anew.
    pub fn show_to_daemon(&self) -> Result<bool, Error> {
        let properties = self.unit_properties();
        if properties.is_empty() {
            return Ok(false);
        }
        // `-`: without the file, the daemon starts as before.
        let lines = properties.iter().map(|property| property.replacen('=', "=-", 1) + "\n");
        let text = format!("[Service]\n{}", lines.collect::<String>());
        self.root.write(DAEMON_DROP_IN, text.as_bytes(), 0o644)?;
        Ok(true)
    }

    /// The unit has started and removes the files: it may still need them when this process is
    /// killed.
    pub fn hand_over(mut self) {
        self.handed_over = true;
    }
}

impl Drop for PlacedLogin<'_> {
    fn drop(&mut self) {
        if !self.handed_over
            && let Err(error) = remove(self.root)
        {
            tracing::error!("{error}");
        }
    }
}

/// The command of the unit that runs whenever it has ended.
pub(crate) fn cleanup_property() -> String {
    format!("ExecStopPost=/usr/bin/rm -rf {FOLDER} {DAEMON_DROP_IN}")
}

/// Whether there is a login, or a part of one, that no running process is placing.
pub(crate) fn is_left(root: &HostRoot) -> Result<bool, Error> {
    if !root.exists(FOLDER) {
        return Ok(is_shown_to_daemon(root));
    }
    Ok(root.lock_folder(FOLDER)?.is_some())
}

/// Whether rpm-ostree's daemon sees our files when it starts.
pub(crate) fn is_shown_to_daemon(root: &HostRoot) -> bool {
    root.exists(DAEMON_DROP_IN)
}

/// Removes what a login needed, if there is any. The link without the file is harmless, so the unit
/// leaves it.
pub(crate) fn remove(root: &HostRoot) -> Result<(), Error> {
    root.remove_tree(FOLDER)?;
    root.remove_written(DAEMON_DROP_IN)?;
    if root.link(AUTH_FILES[0]).as_deref() == Some(LINK) {
        root.remove(AUTH_FILES[0])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;

    const OURS: &str = r#"{"auths":{"reg.example/os":{"auth":"b3VyczpodXNo"}}}"#;
    const OWN: &str = r#"{"auths":{"quay.io":{"auth":"b3duOm93bg=="}}}"#;

    fn login() -> PullAccess {
        access(Some(OURS), None)
    }

    fn access(login: Option<&str>, settings: Option<&str>) -> PullAccess {
        let dir = tempfile::tempdir().unwrap();
        let [login, settings] = [("login", login), ("settings", settings)].map(|(name, text)| {
            let path = dir.path().join(name);
            std::fs::write(&path, text?).unwrap();
            Some(path)
        });
        PullAccess::read(login.as_deref(), settings.as_deref()).unwrap()
    }

    /// All files and links below a directory.
    fn files(dir: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                files(&path, found);
            } else {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                found.insert(path.display().to_string(), text);
            }
        }
    }

    fn snapshot(dir: &Path) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        files(dir, &mut found);
        found
    }

    #[test]
    fn without_own_login_the_machine_links_to_ours() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        let placed = PlacedLogin::new(&root, &login()).unwrap();
        assert_eq!(root.text(AUTH_FILES[0], 1000).unwrap().as_deref(), Some(OURS));
        assert_eq!(placed.unit_properties(), Vec::<String>::new());
        assert!(!placed.show_to_daemon().unwrap());
        drop(placed);
        assert_eq!(snapshot(dir.path()), BTreeMap::new());
    }

    #[test]
    fn own_logins_stay_and_only_units_see_ours() {
        for own in AUTH_FILES {
            let dir = tempfile::tempdir().unwrap();
            let root = HostRoot::open(dir.path()).unwrap();
            root.write(own, OWN.as_bytes(), 0o600).unwrap();
            let before = snapshot(dir.path());
            let placed = PlacedLogin::new(&root, &login()).unwrap();
            assert_eq!(root.text(own, 1000).unwrap().as_deref(), Some(OWN));
            let properties = placed.unit_properties();
            assert_eq!(properties, [format!("BindReadOnlyPaths={FILE}:{own}")]);
            let ours = root.text(FILE, 1000).unwrap().unwrap();
            assert!(ours.contains("quay.io") && ours.contains("reg.example/os"), "{ours}");
            assert!(placed.show_to_daemon().unwrap());
            let drop_in = root.text(DAEMON_DROP_IN, 1000).unwrap().unwrap();
            assert!(drop_in.contains(&format!("=-{FILE}:{own}")), "{drop_in}");
            drop(placed);
            assert_eq!(snapshot(dir.path()), before, "{own}");
        }
    }

    #[test]
    fn what_a_killed_write_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        let files = [FILE, DAEMON_DROP_IN].map(|file| format!("{file}.mosb-new"));
        for file in &files {
            root.write(file, OURS.as_bytes(), 0o600).unwrap();
        }
        assert!(is_left(&root).unwrap());
        drop(PlacedLogin::new(&root, &login()).unwrap());
        assert_eq!(snapshot(dir.path()), BTreeMap::new());
        assert!(!root.exists(FOLDER));
        assert!(!is_left(&root).unwrap());
    }

    #[test]
    fn logins_of_ended_processes_are_leftovers() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        assert!(!is_left(&root).unwrap());
        let placed = PlacedLogin::new(&root, &login()).unwrap();
        assert!(!is_left(&root).unwrap());
        placed.hand_over();
        // A process that another test starts has the lock, too, until it becomes its program.
        let is_left_soon = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            is_left(&root).unwrap()
        });
        assert!(is_left_soon);
        remove(&root).unwrap();
        root.write(DAEMON_DROP_IN, b"", 0o644).unwrap();
        assert!(is_left(&root).unwrap());
    }

    #[test]
    fn logins_of_killed_runs_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        PlacedLogin::new(&root, &login()).unwrap().hand_over();
        assert!(root.exists(FILE));
        // The unit's own command removes the directory and leaves the link.
        std::fs::remove_dir_all(dir.path().join(&FOLDER[1..])).unwrap();
        assert!(!root.exists(AUTH_FILES[0]));
        PlacedLogin::new(&root, &login()).unwrap().hand_over();
        assert!(root.exists(AUTH_FILES[0]));
        remove(&root).unwrap();
        assert_eq!(snapshot(dir.path()), BTreeMap::new());
    }

    const SETTINGS: &str = r#"{
        "registry": { "location": "reg.example/os", "insecure": false, "blocked": false,
            "mirrors": [{ "location": "mirror.example/os", "insecure": true }] },
        "authorities": { "everywhere": "-----BEGIN CERTIFICATE-----\n",
            "hosts": { "reg.example": "", "mirror.example": "" } },
        "proxy": { "httpsProxy": "http://user:hush@proxy.example:3128" },
        "signatures": { "policy.json": "ours", "registries.d/os.yaml": "docker: {}" }
    }"#;

    fn mode(dir: &Path, path: &str) -> u32 {
        use std::os::unix::fs::PermissionsExt as _;
        dir.join(&path[1..]).metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn settings_hide_the_machines_and_go_with_logins() {
        for login in [None, Some(OURS)] {
            let dir = tempfile::tempdir().unwrap();
            let root = HostRoot::open(dir.path()).unwrap();
            root.write("/etc/containers/policy.json", b"own", 0o644).unwrap();
            let before = snapshot(dir.path());
            let placed = PlacedLogin::new(&root, &access(login, Some(SETTINGS))).unwrap();
            let environment = "/run/mosb-rollout/environment";
            let containers = "/run/mosb-rollout/containers:/etc/containers";
            let want = [
                format!("BindReadOnlyPaths={containers}"),
                format!("EnvironmentFile={environment}"),
            ];
            assert_eq!(placed.unit_properties(), want);
            let text = root.text(environment, 1000).unwrap().unwrap();
            assert!(text.contains("user:hush@proxy.example"), "{text}");
            assert_eq!((mode(dir.path(), environment), mode(dir.path(), FOLDER)), (0o600, 0o700));
            let given = "/run/mosb-rollout/given";
            let conf = format!("{given}/registries.conf.d/zz-mosb-rollout.conf");
            let text = root.text(&conf, 1000).unwrap().unwrap();
            assert!(text.contains("mirror.example/os"), "{text}");
            // skopeo runs as another user.
            assert_eq!(mode(dir.path(), &conf), 0o644);
            for (name, want) in [("policy.json", "ours"), ("registries.d/os.yaml", "docker: {}")] {
                let file = format!("{given}/{name}");
                assert_eq!(root.text(&file, 1000).unwrap().as_deref(), Some(want));
                assert_eq!(mode(dir.path(), &file), 0o644);
            }
            for host in ["reg.example", "mirror.example"] {
                let folder = format!("{given}/certs.d/{host}");
                assert_eq!(mode(dir.path(), &format!("{folder}/mosb-rollout.crt")), 0o644);
                assert_eq!(mode(dir.path(), &folder), 0o755);
            }
            assert!(placed.show_to_daemon().unwrap());
            let drop_in = root.text(DAEMON_DROP_IN, 1000).unwrap().unwrap();
            let want = format!(
                "[Service]\nBindReadOnlyPaths=-{containers}\nEnvironmentFile=-{environment}\n"
            );
            assert_eq!(drop_in, want);
            drop(placed);
            assert_eq!(snapshot(dir.path()), before);
            assert!(!root.exists(FOLDER));
        }
    }

    #[test]
    fn a_proxy_alone_leaves_the_machines_settings() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        let settings = r#"{"proxy":{"httpsProxy":"http://proxy.example:3128"}}"#;
        let placed = PlacedLogin::new(&root, &access(None, Some(settings))).unwrap();
        assert_eq!(placed.unit_properties(), ["EnvironmentFile=/run/mosb-rollout/environment"]);
        assert_eq!(snapshot(dir.path()).len(), 1, "the environment");
        drop(placed);
        let placed = PlacedLogin::new(&root, &access(Some(OURS), Some("{}"))).unwrap();
        assert_eq!(placed.unit_properties(), Vec::<String>::new());
    }
}
