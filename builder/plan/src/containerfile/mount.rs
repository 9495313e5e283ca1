//! `RUN --mount`: its options, as buildah reads them.

use super::administrator::Since;
use super::flags::shown;

/// The kinds of mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bind,
    Cache,
    Tmpfs,
    Secret,
    Ssh,
}

/// A mount, of which the options are checked.
#[derive(Debug)]
pub(super) struct Mount<'a> {
    kind: Kind,
    from: Option<&'a str>,
    source: &'a str,
    /// What only later versions know.
    pub later: Vec<(String, Since)>,
}

const SWITCHES: [&str; 7] = ["ro", "readonly", "rw", "readwrite", "Z", "z", "U"];
const MOUNT_FLAGS: [&str; 3] = ["nosuid", "nodev", "noexec"];
const PROPAGATION: [&str; 6] = ["shared", "rshared", "private", "rprivate", "slave", "rslave"];

impl<'a> Mount<'a> {
    /// Reads the value of the flag. A mount with a variable in it is not checked.
    ///
    /// # Errors
    /// A kind or an option that buildah has not, a target that is missing, a secret that the step
    /// must have.
    pub fn read(text: &'a str) -> Result<Option<Self>, String> {
        if text.contains('$') {
            return Ok(None);
        }
        let options = || {
            text.split(',').map(|option| {
                let option = option.trim_matches('"');
                option.split_once('=').map_or((option, None), |(key, value)| (key, Some(value)))
            })
        };
        let kind = options().find(|(key, _)| *key == "type").and_then(|(_, value)| value);
        let kind = match kind.unwrap_or("bind") {
            "bind" => Kind::Bind,
            "cache" => Kind::Cache,
            "tmpfs" => Kind::Tmpfs,
            "secret" => Kind::Secret,
            "ssh" => Kind::Ssh,
            other => {
                return Err(format!(
                    "--mount=type={}: must be bind, cache, tmpfs, secret or ssh",
                    shown(other)
                ));
            }
        };
        let mut mount = Self { kind, from: None, source: "", later: Vec::new() };
        let (mut target, mut id, mut is_required) = (None, None, false);
        for (key, value) in options() {
            match (mount.accepts(key, value), value) {
                (false, _) => {
                    let option = value.map_or(key.to_owned(), |value| format!("{key}={value}"));
                    return Err(format!(
                        "--mount: {} is not an option that buildah knows for type {}; leave it out",
                        shown(&option),
                        kind.as_str()
                    ));
                }
                (true, None | Some("")) if key == "from" => {
                    return Err("--mount: from must name a stage or an image".to_owned());
                }
                (true, Some(value)) => match key {
                    "from" => mount.from = Some(value),
                    "src" | "source" => mount.source = value,
                    "target" | "dst" | "destination" => target = Some(value),
                    "id" => id = Some(value),
                    "required" => is_required = value != "false" && value != "0",
                    _ => {}
                },
                (true, None) => is_required |= key == "required",
            }
        }
        match (kind, target) {
            (Kind::Bind | Kind::Cache | Kind::Tmpfs, None | Some("")) => {
                return Err("--mount: target is missing; name the directory to mount to".to_owned());
            }
            (Kind::Bind | Kind::Cache | Kind::Tmpfs, Some(target)) if !target.starts_with('/') => {
                mount.later.push(("RUN --mount with a relative target".to_owned(), (1, 30)));
            }
            (Kind::Secret, _) if id.is_none() => {
                return Err("--mount=type=secret: id is missing".to_owned());
            }
            _ => {}
        }
        if is_required {
            return Err(format!(
                "--mount=type={}: required, and a build by mosb has none; give the step a file by --volume or in a Secret of the cluster settings",
                kind.as_str()
            ));
        }
        Ok(Some(mount))
    }

    /// Whether buildah knows an option. Options of later versions are noted.
    fn accepts(&mut self, key: &str, value: Option<&str>) -> bool {
        let number = |radix| value.is_some_and(|value| u32::from_str_radix(value, radix).is_ok());
        let is_plain = |value: Option<&str>| value.is_none();
        let target = matches!(key, "target" | "dst" | "destination") && value.is_some();
        let source = matches!(key, "src" | "source") && value.is_some();
        let is_switch = [&SWITCHES[..], &PROPAGATION, &MOUNT_FLAGS].concat().contains(&key);
        let of_bind = is_switch && value.is_none()
            || key == "bind-propagation" && value.is_some_and(|value| PROPAGATION.contains(&value));
        if key == "type" {
            return true;
        }
        match self.kind {
            Kind::Bind => match key {
                "relabel" => self.is_later("relabel", (1, 31), value.is_some()),
                "no-dereference" => self.is_later("no-dereference", (1, 35), is_plain(value)),
                "from" | "consistency" => true,
                "bind-nonrecursive" => is_plain(value),
                _ => target || source || of_bind,
            },
            Kind::Cache => match key {
                "from" => true,
                "id" => value.is_some(),
                "sharing" => matches!(value, Some("shared" | "locked")),
                "mode" => number(8),
                "uid" | "gid" => number(10),
                _ => target || source || of_bind,
            },
            Kind::Tmpfs => match key {
                "ro" | "readonly" | "tmpcopyup" => is_plain(value),
                "tmpfs-mode" | "tmpfs-size" => value.is_some(),
                _ => target || MOUNT_FLAGS.contains(&key) && value.is_none(),
            },
            Kind::Secret | Kind::Ssh => match key {
                "id" => value.is_some(),
                "required" => true,
                "mode" => number(8),
                "uid" | "gid" => number(10),
                _ => target,
            },
        }
    }

    fn is_later(&mut self, option: &str, since: Since, fits: bool) -> bool {
        self.later.push((format!("RUN --mount=…{option}"), since));
        fits
    }

    /// The path of the build context that it mounts.
    pub fn context_path(&self) -> Option<&'a str> {
        (self.kind == Kind::Bind && self.from.is_none()).then_some(self.source)
    }

    /// A secret or a socket that the step may do without, and that no build has.
    pub fn is_absent(&self) -> bool {
        matches!(self.kind, Kind::Secret | Kind::Ssh)
    }

    /// Whether `from` must be a stage.
    pub fn is_cache(&self) -> bool {
        self.kind == Kind::Cache
    }
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Cache => "cache",
            Self::Tmpfs => "tmpfs",
            Self::Secret => "secret",
            Self::Ssh => "ssh",
        }
    }
}
