//! The section `systemd`: units and drop-ins.

use std::collections::HashMap;

use super::config::{Dropin, Systemd, Unit};
use super::error::shown;
use super::object::Object;
use super::storage::{NAME_MAX, WHITEOUT};
use super::unit_text;

pub(super) fn read(root: &Object<'_, '_>) -> Systemd {
    let systemd = root.object("systemd");
    let units = systemd.each("units", unit);
    if systemd.is_readable() {
        warn_of_templates(&systemd, &units);
    }
    Systemd { units }
}

fn unit(o: &Object<'_, '_>) -> Unit {
    let name = o.text("name").unwrap_or_default().to_owned();
    if o.can_read("name") {
        check_unit_name(o, &name);
    }
    let (enabled, mask) = (o.bool("enabled"), o.bool("mask"));
    let contents = o.text("contents").map(str::to_owned);
    let text = contents.as_deref().unwrap_or_default();
    match unit_text::check(text) {
        Err(problem) => o.problem(
            "contents",
            "bad-unit",
            format!("unit {} is not a unit file: {problem}", shown(&name)),
        ),
        Ok(found) if enabled == Some(true) && !text.is_empty() && !found.install => {
            let message = format!(
                "unit {} is enabled, but has no [Install] section, so that enabling does nothing",
                shown(&name)
            );
            o.warn("contents", "no-install-section", message);
        }
        Ok(_) => {}
    }
    let dropins = o.each("dropins", |o| dropin(o, &name));
    Unit { name, enabled, mask, contents, dropins }
}

fn dropin(o: &Object<'_, '_>, unit: &str) -> Dropin {
    let name = o.text("name").unwrap_or_default().to_owned();
    let contents = o.text("contents").map(str::to_owned);
    if let Err(problem) = unit_text::check(contents.as_deref().unwrap_or_default()) {
        o.problem(
            "contents",
            "bad-unit",
            format!(
                "drop-in {} of unit {} is not a unit file: {problem}",
                shown(&name),
                shown(unit)
            ),
        );
    }
    if o.is_readable() {
        if extension(&name) != Some("conf") {
            o.problem(
                "name",
                "bad-dropin-name",
                format!("{} of unit {} must end in `.conf`", shown(&name), shown(unit)),
            );
        } else if name.len() > NAME_MAX
            || name.contains(|c: char| c == '/' || c.is_control())
            || name.starts_with(WHITEOUT)
        {
            let message = format!(
                "{} of unit {} must be a file name, without slashes and control characters, and not begin with `.wh.`",
                shown(&name),
                shown(unit)
            );
            o.problem("name", "unsafe-dropin-name", message);
        }
    }
    Dropin { name, contents }
}

fn check_unit_name(o: &Object<'_, '_>, name: &str) {
    const TYPES: [&str; 12] = [
        "service",
        "socket",
        "device",
        "mount",
        "automount",
        "swap",
        "target",
        "path",
        "timer",
        "snapshot",
        "slice",
        "scope",
    ];
    if !extension(name).is_some_and(|ext| TYPES.contains(&ext)) {
        let message = format!("{} must end in a type of unit, as `.service`", shown(name));
        return o.problem("name", "bad-unit-name", message);
    }
    // As in `systemd.unit(5)`. Any other name would leave the directory, break a line of the
    // preset, or not load.
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    if !name.chars().all(allowed) || name.starts_with(['.', '@']) || name.len() > NAME_MAX {
        let message = format!(
            "{} is not a name that systemd would load: letters, digits and `:-_.\\@`, at most 255, none of `.@` first; see systemd-escape(1)",
            shown(name)
        );
        o.problem("name", "unsafe-unit-name", message);
    }
}

/// The text after the last dot of the last component.
fn extension(name: &str) -> Option<&str> {
    name.rsplit('/').next().and_then(|last| last.rsplit_once('.')).map(|(_, ext)| ext)
}

/// Warns of enabled instances whose template has no `[Install]` section.
fn warn_of_templates(systemd: &Object<'_, '_>, units: &[Unit]) {
    let by_name: HashMap<&str, &Unit> = units.iter().map(|u| (u.name.as_str(), u)).collect();
    for (index, unit) in units.iter().enumerate().filter(|(_, u)| u.enabled == Some(true)) {
        let Some((prefix, _)) = unit.name.strip_suffix(".service").and_then(split_instance) else {
            continue;
        };
        let template = format!("{prefix}@.service");
        let text =
            by_name.get(template.as_str()).and_then(|t| t.contents.as_deref()).unwrap_or_default();
        if !text.is_empty() && unit_text::check(text).is_ok_and(|found| !found.install) {
            let message = format!(
                "unit {} is enabled, but its template {template} has no [Install] section, so that enabling does nothing",
                shown(&unit.name)
            );
            systemd.warn_in("units", index, "contents", "no-install-section", message);
        }
    }
}

/// `x@y` as `x` and `y`, both not empty.
fn split_instance(name: &str) -> Option<(&str, &str)> {
    let at = name.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at)?;
    let (prefix, instance) = (&name[..at], &name[at + 1..]);
    (!instance.is_empty()).then_some((prefix, instance))
}
