//! `systemd.units`: unit files, drop-ins, masks, the preset file, and then the `[Install]` links.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use super::{Applier, ApplyError};
use crate::plan::method::Reason;
use mosb_ignition::{Systemd, Unit};
use mosb_image::overlay::{Content, Meta, Node};
use mosb_image::tree::Kind;
use mosb_systemd::{self as systemd, EnabledState};
use mosb_types::Finding;

/// Where Ignition writes which units are enabled and disabled.
pub(super) const PRESET_FILE: &str = "/etc/systemd/system-preset/20-ignition.preset";
const UNITS: &str = "/etc/systemd/system";

/// A line of the preset file before it is written.
struct Preset {
    enabled: bool,
    /// A unit, or a template with its instances behind it.
    what: String,
}

impl Applier<'_> {
    /// Writes the units of a config, in its order, and the preset file.
    pub(super) fn units(&mut self, config: &Systemd) -> Result<(), ApplyError> {
        let mut presets: BTreeMap<String, Preset> = BTreeMap::new();
        for unit in &config.units {
            self.unit(unit)?;
            if let Some(enabled) = unit.enabled {
                let state = if enabled { "enabled" } else { "disabled" };
                match instance_of(&unit.name) {
                    // The instances of a template share a line, in the order of the config.
                    Some((template, instance)) => presets
                        .entry(format!("{template}-{state}"))
                        .and_modify(|preset| preset.what += &format!(" {instance}"))
                        .or_insert_with(|| Preset {
                            enabled,
                            what: format!("{template} {instance}"),
                        }),
                    None => presets
                        .entry(format!("{}-{state}", unit.name))
                        .or_insert_with(|| Preset { enabled, what: unit.name.clone() }),
                };
            }
            match unit.mask {
                Some(true) => self.mask(unit)?,
                Some(false) => self.unmask(unit)?,
                None => {}
            }
        }
        for preset in presets.values() {
            self.preset_line(preset)?;
        }
        Ok(())
    }

    fn unit(&mut self, unit: &Unit) -> Result<(), ApplyError> {
        for dropin in &unit.dropins {
            if let Some(contents) = &dropin.contents {
                let path = format!("{UNITS}/{}.d/{}", unit.name, dropin.name);
                self.write_unit_file(&path, contents)?;
            }
        }
        match unit.contents.as_deref() {
            None | Some("") => Ok(()),
            Some(contents) => self.write_unit_file(&format!("{UNITS}/{}", unit.name), contents),
        }
    }

    fn write_unit_file(&mut self, path: &str, contents: &str) -> Result<(), ApplyError> {
        let at = self.paths.join(&self.tree, path).map_err(|stop| stop.of(path))?;
        let real = self.place(&at).map_err(|stop| stop.of(path))?;
        self.write(path, real, Bytes::copy_from_slice(contents.as_bytes()), 0o644)
    }

    fn mask(&mut self, unit: &Unit) -> Result<(), ApplyError> {
        let path = format!("{UNITS}/{}", unit.name);
        let at = self.paths.join(&self.tree, &path).map_err(|stop| stop.of(&path))?;
        let real = self.place(&at).map_err(|stop| stop.of(&path))?;
        if self.tree.get(&real).is_some() {
            self.tree.remove(&real);
        }
        let gid = self.inherit_ownership(&real.parent().unwrap_or_default(), 0o777, false).gid;
        let meta = Meta { mode: 0o777, uid: 0, gid };
        self.tree.put(real, Node::Symlink { meta, target: "/dev/null".to_owned() });
        Ok(())
    }

    fn unmask(&mut self, unit: &Unit) -> Result<(), ApplyError> {
        let path = format!("{UNITS}/{}", unit.name);
        let at = self.paths.join(&self.tree, &path).map_err(|stop| stop.of(&path))?;
        if let Some(exact) = self.paths.exact(&self.tree, &at).map_err(|stop| stop.of(&path))?
            && self
                .tree
                .get(&exact)
                .is_some_and(|found| found.target.as_deref() == Some("/dev/null"))
        {
            self.tree.remove(&exact);
        }
        Ok(())
    }

    /// Adds a line to the preset file. A unit is only disabled if it is enabled at this moment, and
    /// then loses its links first.
    fn preset_line(&mut self, preset: &Preset) -> Result<(), ApplyError> {
        if !preset.enabled {
            // Instances are asked about as the one word they are in the line, which is what
            // Ignition does.
            let disabled = systemd::is_enabled(&self.tree, &preset.what).and_then(|state| {
                if state.is_success() {
                    systemd::disable(&mut self.tree, &preset.what).map(|()| true)
                } else {
                    Ok(false)
                }
            });
            match disabled {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(undecided) => {
                    self.undecided(&preset.what, &undecided);
                    return Ok(());
                }
            }
        }
        let at = self.paths.join(&self.tree, PRESET_FILE).map_err(|stop| stop.of(PRESET_FILE))?;
        let real = self.place(&at).map_err(|stop| stop.of(PRESET_FILE))?;
        let there = self.tree.get(&real);
        let meta = match &there {
            Some(found) if found.kind == Kind::File => found.meta,
            Some(_) => {
                return Err(ApplyError::AppendTo {
                    path: PRESET_FILE.to_owned(),
                    found: "something that is not a file",
                });
            }
            None => self.inherit_ownership(&real.parent().unwrap_or_default(), 0o644, false),
        };
        let mut content = match self.tree.content(&real) {
            Content::Known(bytes) => BytesMut::from(bytes.as_ref()),
            Content::NoFile => BytesMut::new(),
            Content::NotRetained => {
                self.reasons.push(Reason::AppendToBase(PRESET_FILE.to_owned()));
                return Ok(());
            }
        };
        let verb = if preset.enabled { "enable" } else { "disable" };
        content.extend_from_slice(format!("{verb} {}\n", preset.what).as_bytes());
        let content = content.freeze();
        self.tree.rewrite(&real, Node::File { meta, content });
        Ok(())
    }

    /// What `systemctl preset` does for exactly the units that the config enables or disables.
    pub(super) fn presets(&mut self, config: &Systemd) {
        for unit in config.units.iter().filter(|unit| unit.enabled.is_some()) {
            match systemd::preset(&mut self.tree, std::slice::from_ref(&unit.name)) {
                Ok(findings) => {
                    let findings = findings.into_iter();
                    let new: Vec<Finding> =
                        findings.filter(|finding| !self.warnings.contains(finding)).collect();
                    self.warnings.extend(new);
                }
                Err(undecided) => self.undecided(&unit.name, &undecided),
            }
        }
        for unit in config.units.iter().filter(|unit| unit.enabled == Some(false)) {
            if matches!(systemd::is_enabled(&self.tree, &unit.name), Ok(EnabledState::Enabled)) {
                let message = format!(
                    "{}: the config disables it, and the base's presets enable it; mask it to keep it from running",
                    unit.name
                );
                self.warnings
                    .push(Finding::new("enabled-by-base", message).object(unit.name.clone()));
            }
        }
    }

    fn undecided(&mut self, unit: &str, undecided: &systemd::Unsupported) {
        let reason = Reason::Unit { unit: unit.to_owned(), why: undecided.to_string() };
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }
}

/// The units that the config enables or disables, in its order.
pub(in crate::plan) fn preset_units(config: &Systemd) -> Vec<String> {
    config
        .units
        .iter()
        .filter(|unit| unit.enabled.is_some())
        .map(|unit| unit.name.clone())
        .collect()
}

/// `foo@bar.service` taken apart into `foo@.service` and `bar`.
pub fn instance_of(name: &str) -> Option<(String, &str)> {
    let (prefix, rest) = name.split_once('@')?;
    let (instance, suffix) = rest.rsplit_once('.')?;
    Some((format!("{prefix}@.{suffix}"), instance))
}

#[cfg(test)]
mod tests {
    use super::instance_of;

    #[test]
    fn instance_is_text_between_at_and_the_type() {
        assert_eq!(instance_of("foo@bar.service"), Some(("foo@.service".to_owned(), "bar")));
        assert_eq!(instance_of("foo@a.b.service"), Some(("foo@.service".to_owned(), "a.b")));
        assert_eq!(instance_of("foo@.service"), Some(("foo@.service".to_owned(), "")));
        assert_eq!(instance_of("foo.service"), None);
    }
}
