//! Units that change the OS of a machine by themselves, beside a roll-out.

use mosb_ignition as ignition;
use mosb_image::overlay::Overlay;
use mosb_image::path::TreePath;
use mosb_image::tree::BaseTree;
use mosb_types::Finding;

/// Units that bring another OS to a machine and reboot it: of bootc (enabled in the bases of Fedora and
/// CentOS), of Fedora CoreOS, and of rpm-ostree. A timer starts the service of its name.
pub const UPDATE_UNITS: [&str; 3] =
    ["bootc-fetch-apply-updates.timer", "zincati.service", "rpm-ostreed-automatic.timer"];

/// Where links enable units: those of the machine, and those that only a mask stops.
const OF_MACHINE: [&str; 2] = ["/etc/systemd/system", "/usr/etc/systemd/system"];
const OF_VENDOR: [&str; 1] = ["/usr/lib/systemd/system"];

/// The units that base or config enable and the config does not mask.
pub(super) fn findings(
    ignition: Option<&ignition::Config>,
    base: Option<&BaseTree>,
) -> Vec<Finding> {
    let enabled = |unit: &&'static str| {
        let of_config = ignition
            .into_iter()
            .flat_map(|config| &config.systemd.units)
            .find(|one| one.name == *unit);
        let enabled = of_config.and_then(|one| one.enabled);
        if of_config.is_some_and(|one| one.mask == Some(true)) {
            None
        } else if enabled == Some(true) {
            Some((*unit, "config"))
        } else {
            let tree = Overlay::new(base?);
            is_enabled(&tree, unit, enabled.is_none()).then_some((*unit, "base"))
        }
    };
    let finding = |(unit, whose)| {
        let message = format!(
            "the {whose} enables this unit, which brings another OS to a machine by itself and reboots it, without a drain, also into what a roll-out has staged; mask it: a unit of this name with mask: true in a MachineConfig of the pool"
        );
        Finding::new("updates-itself", message).object(unit)
    };
    UPDATE_UNITS.iter().filter_map(enabled).map(finding).collect()
}

/// Whether a link enables a unit of the base. If the config does not disable it (`by_default`), links
/// of the machine count too, and the presets of the base, which a machine applies at its first boot.
fn is_enabled(tree: &Overlay<'_>, unit: &str, by_default: bool) -> bool {
    let is_masked = OF_MACHINE.iter().any(|folder| {
        let file = at(&format!("{folder}/{unit}")).and_then(|path| tree.get(&path));
        file.is_some_and(|file| file.target.as_deref() == Some("/dev/null"))
    });
    if is_masked {
        return false;
    }
    if has_link(tree, &OF_VENDOR, unit) {
        return true;
    }
    by_default && (has_link(tree, &OF_MACHINE, unit) || is_preset(tree, unit))
}

fn has_link(tree: &Overlay<'_>, folders: &[&str], unit: &str) -> bool {
    folders.iter().filter_map(|folder| at(folder)).any(|folder| {
        tree.children(&folder).iter().any(|name| {
            let enables = [".wants", ".requires", ".upholds"].iter().any(|end| name.ends_with(end));
            let link = enables.then(|| at(&format!("{folder}/{name}/{unit}"))).flatten();
            link.is_some_and(|link| tree.get(&link).is_some())
        })
    })
}

/// Whether presets of the base enable it. Where only systemctl can tell, it counts as not enabled.
fn is_preset(tree: &Overlay<'_>, unit: &str) -> bool {
    let has_file = OF_VENDOR.iter().chain(&OF_MACHINE).any(|folder| {
        at(&format!("{folder}/{unit}")).is_some_and(|path| tree.get(&path).is_some())
    });
    let mut tree = tree.clone();
    has_file
        && mosb_systemd::preset(&mut tree, &[unit.to_owned()]).is_ok()
        && has_link(&tree, &OF_MACHINE, unit)
}

fn at(path: &str) -> Option<TreePath> {
    path.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::tree::OwnedEntry;
    use serde_json::json;

    const TIMER: &str = UPDATE_UNITS[0];

    fn base(entries: &[(&str, OwnedEntry)]) -> BaseTree {
        let unit = OwnedEntry::file(b"[Timer]\n[Install]\nWantedBy=timers.target\n");
        let own = [(format!("usr/lib/systemd/system/{TIMER}"), unit)];
        let more = entries.iter().map(|(path, entry)| ((*path).to_owned(), entry.clone()));
        let systemd = [(
            "usr/lib/systemd/libsystemd-shared-257.so".to_owned(),
            OwnedEntry { content: None, ..OwnedEntry::file(b"") },
        )];
        let program = [("usr/bin/systemctl".to_owned(), OwnedEntry::file(b""))];
        let preset = [(
            "usr/lib/systemd/system-preset/99-default.preset".to_owned(),
            OwnedEntry::file(b"disable *\n"),
        )];
        let all = own.into_iter().chain(systemd).chain(program).chain(preset).chain(more);
        BaseTree::from_entries(all.map(|(path, entry)| (path.into_bytes(), entry)))
    }

    #[test]
    fn unit_that_updates_machine_is_found_unless_masked() {
        let link = || OwnedEntry::symlink("../x");
        let vendor = format!("usr/lib/systemd/system/default.target.wants/{TIMER}");
        let etc = format!("etc/systemd/system/timers.target.wants/{TIMER}");
        let masked = format!("etc/systemd/system/{TIMER}");
        let none = json!({});
        let mask = json!({ "mask": true, "enabled": true });
        let (on, off) = (json!({ "enabled": true }), json!({ "enabled": false }));
        for (what, entries, unit, want) in [
            ("only installed", vec![], &none, None),
            ("by the vendor", vec![(&*vendor, link())], &none, Some("base")),
            ("in /etc", vec![(&*etc, link())], &none, Some("base")),
            ("in /etc, and disabled", vec![(&*etc, link())], &off, None),
            ("by the vendor, and disabled", vec![(&*vendor, link())], &off, Some("base")),
            ("by the vendor, and masked", vec![(&*vendor, link())], &mask, None),
            (
                "masked in the base",
                vec![(&*vendor, link()), (&*masked, OwnedEntry::symlink("/dev/null"))],
                &none,
                None,
            ),
            ("by the config", vec![], &on, Some("config")),
            ("by the config, and masked", vec![], &mask, None),
            (
                "at the first boot",
                vec![(
                    "usr/lib/systemd/system-preset/50-os.preset",
                    OwnedEntry::file(format!("enable {TIMER}\n").as_bytes()),
                )],
                &none,
                Some("base"),
            ),
        ] {
            let mut unit = unit.clone();
            unit["name"] = json!(TIMER);
            let config =
                json!({ "ignition": { "version": "3.5.0" }, "systemd": { "units": [unit] } });
            let config = ignition::parse(&config).unwrap().config;
            let found = findings(Some(&config), Some(&base(&entries)));
            let found: Vec<_> =
                found.iter().map(|one| (one.object.as_deref(), &*one.message)).collect();
            match want {
                None => assert!(found.is_empty(), "{what}: {found:?}"),
                Some(whose) => {
                    assert_eq!(found.len(), 1, "{what}: {found:?}");
                    assert_eq!(found[0].0, Some(TIMER), "{what}");
                    assert!(found[0].1.starts_with(&format!("the {whose} enables")), "{what}");
                }
            }
        }
        assert!(findings(None, None).is_empty());
    }
}
