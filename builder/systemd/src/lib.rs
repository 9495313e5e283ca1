//! What `systemctl` does to a tree without a running systemd: `is-enabled`, `disable` and `preset`, as in a chroot of it.
//!
//! In come an [`Overlay`] and unit names; out come the state of a unit, or the overlay with the links of `[Install]` made and removed.
//! The invariant: either the tree ends as the base's own `systemctl` would leave it, or the answer is [`Undecided`] and says what only
//! running it can tell. Modelled on systemd 252 and 257, by their manuals and by looking at what they do (`tests/systemd_presets.rs` does
//! so again); where they differ, [`Dialect`] says how.

mod chroot;
mod dialect;
mod disable;
mod enable;
mod glob;
mod install;
mod name;
mod presets;
mod search;
mod specifier;
mod state;
mod text;
mod undecided;

use std::collections::BTreeSet;

use mosb_image::overlay::Overlay;
use mosb_types::Finding;

pub use dialect::Dialect;
pub use state::EnabledState;
pub use undecided::Undecided;

use name::{UnitName, mangle};
use presets::{Presets, Wish};
use search::{Mode, Search};
use undecided::{Stop, failed};

/// The state of a unit by the base's own `systemctl`; [`EnabledState::NotFound`] if it has none, as the caller then gets no success either.
///
/// # Errors
/// What can't be told without running it.
pub fn is_enabled(tree: &Overlay<'_>, unit: &str) -> Result<EnabledState, Undecided> {
    match Dialect::detect(tree)? {
        Some(dialect) => dialect.is_enabled(tree, unit),
        None => Ok(EnabledState::NotFound),
    }
}

/// Removes the links of a unit and of those that it names in `Also=`, as the base's own `systemctl disable` does; nothing if it has none.
///
/// # Errors
/// What can't be told without running it; the tree is then unchanged.
pub fn disable(tree: &mut Overlay<'_>, unit: &str) -> Result<(), Undecided> {
    match Dialect::detect(tree)? {
        Some(dialect) => dialect.disable(tree, unit),
        None => Ok(()),
    }
}

/// Enables or disables each of these units by the first preset line that is about it, one `systemctl preset` for each, so that one that
/// can't be enabled doesn't stop the others. The findings are warnings: `unit-not-found`, `unit-masked`, `unit-generated`, `unit-alias`,
/// `unit-no-install`, `unit-bad-link`, `unit-not-readable`, `unit-bad-install`, `unit-bad-name`, `unit-link-refused`,
/// `preset-not-readable`, `no-systemctl`.
///
/// # Errors
/// What can't be told without running it; the units before it are done then.
pub fn preset(tree: &mut Overlay<'_>, units: &[String]) -> Result<Vec<Finding>, Undecided> {
    match Dialect::detect(tree)? {
        Some(dialect) => dialect.preset(tree, units),
        None if units.is_empty() => Ok(Vec::new()),
        None => Ok(vec![Finding::new(
            "no-systemctl",
            "the base has no systemctl, so no unit is enabled or disabled in the image",
        )]),
    }
}

impl Dialect {
    /// [`is_enabled`] by this systemd.
    ///
    /// # Errors
    /// As there.
    pub fn is_enabled(&self, tree: &Overlay<'_>, unit: &str) -> Result<EnabledState, Undecided> {
        match mangle(unit) {
            Ok(name) => state::state(tree, self, &name),
            Err(_) => Ok(EnabledState::Bad),
        }
    }

    /// [`disable`] by this systemd.
    ///
    /// # Errors
    /// As there.
    pub fn disable(&self, tree: &mut Overlay<'_>, unit: &str) -> Result<(), Undecided> {
        let Ok(name) = mangle(unit) else {
            return Ok(());
        };
        let names = disable::names(tree, self, name)?;
        disable::remove_links(tree, &names)
    }

    /// [`preset`] by this systemd.
    ///
    /// # Errors
    /// As there.
    pub fn preset(
        &self,
        tree: &mut Overlay<'_>,
        units: &[String],
    ) -> Result<Vec<Finding>, Undecided> {
        let mut findings = Vec::new();
        for unit in units {
            let Ok(name) = mangle(unit) else {
                findings.push(
                    Finding::new("unit-bad-name", format!("{unit:?} is no unit name")).object(unit),
                );
                continue;
            };
            match failed(self.preset_one(tree, &name))? {
                Ok(found) => findings.extend(found),
                Err(failure) => {
                    let message = format!("{unit} is neither enabled nor disabled: {failure}");
                    findings.push(Finding::new(failure.code(), message).object(unit));
                }
            }
        }
        Ok(findings)
    }

    fn preset_one(&self, tree: &mut Overlay<'_>, name: &UnitName) -> Result<Vec<Finding>, Stop> {
        let presets = Presets::read(tree, self)?;
        let mode = Mode { load: false, follow_config: true };
        let unit = Search { tree, dialect: self }.unit(name, mode)?;
        let say = |code, message| vec![Finding::new(code, message).object(name.to_string())];
        if unit.name != *name {
            return Ok(say(
                "unit-alias",
                format!("{name} is an alias of {}, and presets are about real names", unit.name),
            ));
        }
        match presets.wish(name) {
            Wish::Ignore => Ok(Vec::new()),
            Wish::Disable if unit.masked => {
                Ok(say("unit-masked", format!("{name} keeps its links: masked by {}", unit.path)))
            }
            Wish::Disable => {
                disable::remove_links(tree, &BTreeSet::from([name.clone()]))?;
                Ok(Vec::new())
            }
            Wish::Enable => enable::enable(tree, self, std::slice::from_ref(name)),
            Wish::EnableInstances(instances) => enable::enable(tree, self, &instances),
        }
    }
}
