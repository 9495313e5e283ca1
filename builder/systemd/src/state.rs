//! Whether a unit is enabled, as `systemctl is-enabled` reports it.

use mosb_image::TreePath;
use mosb_image::overlay::Overlay;
use mosb_image::tree::Kind;

use super::chroot;
use super::dialect::{CONFIG, Dialect, path};
use super::error::{Failure, Unsupported, split_failure};
use super::name::{NameKind, UnitName};
use super::search::{Mode, Search, Unit};

/// What `systemctl is-enabled` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnabledState {
    Enabled,
    EnabledRuntime,
    Linked,
    LinkedRuntime,
    /// `alias`: the name is a link to another unit.
    Alias,
    Masked,
    MaskedRuntime,
    /// `static`: nothing in `[Install]`.
    Static,
    /// `indirect`: not itself enabled, but another name or instance is, or it only names others in
    /// `Also=`.
    Indirect,
    Disabled,
    Generated,
    Transient,
    /// There is no such unit: an error, or `not-found` since systemd 254.
    NotFound,
    /// The unit can't be read: an error, and nothing printed.
    Bad,
}

impl EnabledState {
    /// Whether `systemctl is-enabled` exits with 0.
    pub fn is_success(self) -> bool {
        match self {
            Self::Enabled
            | Self::EnabledRuntime
            | Self::Alias
            | Self::Static
            | Self::Indirect
            | Self::Generated => true,
            Self::Linked
            | Self::LinkedRuntime
            | Self::Masked
            | Self::MaskedRuntime
            | Self::Disabled
            | Self::Transient
            | Self::NotFound
            | Self::Bad => false,
        }
    }

    /// The word it prints, if it prints one.
    pub fn word(self) -> Option<&'static str> {
        Some(match self {
            Self::Enabled => "enabled",
            Self::EnabledRuntime => "enabled-runtime",
            Self::Linked => "linked",
            Self::LinkedRuntime => "linked-runtime",
            Self::Alias => "alias",
            Self::Masked => "masked",
            Self::MaskedRuntime => "masked-runtime",
            Self::Static => "static",
            Self::Indirect => "indirect",
            Self::Disabled => "disabled",
            Self::Generated => "generated",
            Self::Transient => "transient",
            Self::NotFound | Self::Bad => return None,
        })
    }
}

/// The state of a unit.
pub(super) fn state(
    tree: &Overlay<'_>,
    dialect: &Dialect,
    name: &UnitName,
) -> Result<EnabledState, Unsupported> {
    let mode = Mode { load: true, follow_config: true };
    let unit = match split_failure(Search { tree, dialect }.unit(name, mode))? {
        Ok(unit) => unit,
        Err(Failure::NotFound) => return Ok(EnabledState::NotFound),
        Err(_) => return Ok(EnabledState::Bad),
    };
    if unit.masked {
        return Ok(if is_runtime(&unit.path) {
            EnabledState::MaskedRuntime
        } else {
            EnabledState::Masked
        });
    }
    if name.as_str() != unit.path.name() && unit.name.kind() != NameKind::Instance {
        return Ok(EnabledState::Alias);
    }
    if unit.is_transient() {
        let made_by_manager = unit.path.parent() == Some(path("/run/systemd/transient"));
        return Ok(if made_by_manager { EnabledState::Transient } else { EnabledState::Generated });
    }
    let links = Links { tree, dialect, unit: &unit };
    if let Some(state) = links.find(Names::OfInstall)? {
        return Ok(state);
    }
    if links.find(Names::All)?.is_some() {
        return Ok(EnabledState::Indirect);
    }
    Ok(if unit.install.has_rules() {
        EnabledState::Disabled
    } else if unit.install.also.is_empty() {
        EnabledState::Static
    } else {
        EnabledState::Indirect
    })
}

fn is_runtime(file: &TreePath) -> bool {
    path("/run").holds(file)
}

/// Which links are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Those that enabling would make: the unit's name, its aliases, its default instance.
    OfInstall,
    All,
}

struct Links<'a> {
    tree: &'a Overlay<'a>,
    dialect: &'a Dialect,
    unit: &'a Unit,
}

/// The state by the links of one unit directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InDirectory {
    Enabled,
    /// Only a link of the unit's own name to a file of that name.
    Linked,
    Nothing,
}

impl Links<'_> {
    /// The state by the links in all unit directories; those in `/etc` come first, those of the
    /// vendor are only used for instances.
    fn find(&self, names: Names) -> Result<Option<EnabledState>, Unsupported> {
        let (mut runtime, mut vendor, mut linked, mut linked_runtime) =
            (false, false, false, false);
        let mut below_unit = false;
        for directory in self.dialect.unit_directories() {
            let config = directory == path(CONFIG);
            match self.directory(&directory, names, below_unit)? {
                InDirectory::Enabled if config => return Ok(Some(EnabledState::Enabled)),
                InDirectory::Enabled if is_runtime(&directory) => runtime = true,
                InDirectory::Enabled => vendor = true,
                InDirectory::Linked if config => linked = true,
                InDirectory::Linked if is_runtime(&directory) => linked_runtime = true,
                InDirectory::Linked | InDirectory::Nothing => {}
            }
            below_unit |= self.unit.path.parent() == Some(directory);
        }
        let instance = self.unit.name.kind() == NameKind::Instance;
        Ok(match (runtime, vendor && instance, linked, linked_runtime) {
            (true, ..) => Some(EnabledState::EnabledRuntime),
            (_, true, ..) => Some(EnabledState::Static),
            (_, _, true, _) => Some(EnabledState::Linked),
            (.., true) => Some(EnabledState::LinkedRuntime),
            (false, false, false, false) => None,
        })
    }

    fn directory(
        &self,
        directory: &TreePath,
        names: Names,
        below_unit: bool,
    ) -> Result<InDirectory, Unsupported> {
        let mut result = InDirectory::Nothing;
        for (child, found) in chroot::list(self.tree, directory)? {
            match (found.kind, &found.target) {
                (Kind::Directory, _) if self.is_wants(child.name()) => {
                    for (link, found) in chroot::list(self.tree, &child)? {
                        if found.kind == Kind::Symlink && self.is_wanted(link.name(), names) {
                            return Ok(InDirectory::Enabled);
                        }
                    }
                }
                (Kind::Symlink, Some(target)) => {
                    let own = self.unit.name.as_str();
                    let named = child.name() == own && !below_unit;
                    let leads = target.rsplit('/').next() == Some(own);
                    if named && leads {
                        result = InDirectory::Linked;
                    } else if (named || leads)
                        && (names == Names::All || self.is_of_install(child.name()))
                    {
                        return Ok(InDirectory::Enabled);
                    }
                }
                _ => {}
            }
        }
        Ok(result)
    }

    fn is_wants(&self, directory: &str) -> bool {
        let suffix = directory.rsplit_once('.').map(|(_, suffix)| suffix);
        match suffix {
            Some("wants" | "requires") => true,
            Some("upholds") => self.dialect.upholds(),
            _ => false,
        }
    }

    /// In a wants directory only the name of the link is used.
    fn is_wanted(&self, link: &str, names: Names) -> bool {
        let Ok(link) = link.parse::<UnitName>() else {
            return false;
        };
        let own = link == self.unit.name || link.template().as_ref() == Some(&self.unit.name);
        own && (names == Names::All || self.is_of_install(link.as_str()))
    }

    fn is_of_install(&self, link: &str) -> bool {
        let install = &self.unit.install;
        link == self.unit.name.as_str()
            || install.alias.iter().any(|alias| alias == link)
            || link == install.effective_name(&self.unit.name).as_str()
    }
}
