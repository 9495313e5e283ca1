//! Emulates `systemctl is-enabled`, `disable` and `preset` on a tree, as if run in a chroot.
//!
//! Input: an [`Overlay`] and unit names. Output: the state of a unit, or the overlay with the links
//! of `[Install]` created and removed. Invariant: either the tree ends as the base's own
//! `systemctl` would leave it, or the error is [`Unsupported`] with the reason why `systemctl` must
//! be run. Modelled on systemd 252 and 257, by their manuals and their behaviour, which
//! `tests/oracle/systemd_presets.rs` compares; [`Dialect`] holds the differences.

mod chroot;
mod dialect;
mod disable;
mod enable;
mod error;
mod install;
mod name;
mod presets;
mod search;
mod state;
mod text;

use std::collections::BTreeSet;

use mosb_image::overlay::Overlay;
use mosb_types::{Diagnostic as _, Finding};

pub use dialect::Dialect;
pub use error::Unsupported;
pub use state::EnabledState;

use error::{EmulationError, split_failure};
use name::{UnitName, mangle};
use presets::{PresetAction, Presets};
use search::{Mode, Search};

/// The state of a unit by the base's own `systemctl`; [`EnabledState::NotFound`] if it has
/// no `systemctl`.
///
/// # Errors
/// What can't be decided without running it.
pub fn is_enabled(tree: &Overlay<'_>, unit: &str) -> Result<EnabledState, Unsupported> {
    match Dialect::detect(tree)? {
        Some(dialect) => dialect.is_enabled(tree, unit),
        None => Ok(EnabledState::NotFound),
    }
}

/// Removes the links of a unit and of those that it names in `Also=`, as the base's own `systemctl
/// disable` does; nothing if it has none.
///
/// # Errors
/// What can't be decided without running it; the tree is then unchanged.
pub fn disable(tree: &mut Overlay<'_>, unit: &str) -> Result<(), Unsupported> {
    match Dialect::detect(tree)? {
        Some(dialect) => dialect.disable(tree, unit),
        None => Ok(()),
    }
}

/// Enables or disables each of these units by the first preset line that is about it, one
/// `systemctl preset` for each, so that one that can't be enabled doesn't stop the others. The
/// findings are warnings: `unit-not-found`, `unit-masked`, `unit-generated`, `unit-alias`,
/// `unit-no-install`, `unit-bad-link`, `unit-not-readable`, `unit-bad-install`, `unit-bad-name`,
/// `unit-link-refused`, `preset-not-readable`, `no-systemctl`.
///
/// # Errors
/// What can't be decided without running it; the units before it are done then.
pub fn preset(tree: &mut Overlay<'_>, units: &[String]) -> Result<Vec<Finding>, Unsupported> {
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
    pub fn is_enabled(&self, tree: &Overlay<'_>, unit: &str) -> Result<EnabledState, Unsupported> {
        match mangle(unit) {
            Ok(name) => state::state(tree, self, &name),
            Err(_) => Ok(EnabledState::Bad),
        }
    }

    /// [`disable`] by this systemd.
    ///
    /// # Errors
    /// As there.
    pub fn disable(&self, tree: &mut Overlay<'_>, unit: &str) -> Result<(), Unsupported> {
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
    ) -> Result<Vec<Finding>, Unsupported> {
        let mut findings = Vec::new();
        for unit in units {
            let Ok(name) = mangle(unit) else {
                findings.push(
                    Finding::new("unit-bad-name", format!("{unit:?} is not a unit name"))
                        .object(unit),
                );
                continue;
            };
            match split_failure(self.preset_one(tree, &name))? {
                Ok(found) => findings.extend(found),
                Err(failure) => {
                    let message = format!("{unit} is neither enabled nor disabled: {failure}");
                    findings.push(Finding::new(failure.code(), message).object(unit));
                }
            }
        }
        Ok(findings)
    }

    fn preset_one(
        &self,
        tree: &mut Overlay<'_>,
        name: &UnitName,
    ) -> Result<Vec<Finding>, EmulationError> {
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
        match presets.action(name) {
            PresetAction::Ignore => Ok(Vec::new()),
            PresetAction::Disable if unit.masked => {
                Ok(say("unit-masked", format!("{name} keeps its links: masked by {}", unit.path)))
            }
            PresetAction::Disable => {
                disable::remove_links(tree, &BTreeSet::from([name.clone()]))?;
                Ok(Vec::new())
            }
            PresetAction::Enable => enable::enable(tree, self, std::slice::from_ref(name)),
            PresetAction::EnableInstances(instances) => enable::enable(tree, self, &instances),
        }
    }
}
