//! The systemd units of a tree.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{ContentState, UnitState};
use mosb_image::overlay::Overlay;
use mosb_image::tree::retained::{UNIT_DIRECTORIES, is_drop_in, is_unit};
use mosb_image::tree::{BaseTree, Entry, Kind};
use mosb_systemd::{Dialect, EnabledState};

/// The units by name, as the first directory has them in which systemd looks. Whether one is enabled is
/// left out if nothing can enable it, or `systemctl` would have to be run.
pub(super) fn units(tree: &BaseTree) -> BTreeMap<String, UnitState> {
    let mut units: BTreeMap<String, UnitState> = BTreeMap::new();
    let mut can_be_enabled = BTreeSet::new();
    // The least important first, so that others replace what it has.
    for directory in UNIT_DIRECTORIES.into_iter().rev() {
        for (name, entry) in tree.children(directory) {
            let text = String::from_utf8_lossy(name).into_owned();
            let path = format!("{directory}/{text}");
            if is_unit(name) {
                if has_install(tree, &path) {
                    can_be_enabled.insert(text.clone());
                }
                let unit = units.entry(text).or_default();
                unit.masked = is_null(&entry).then_some(true);
                unit.content = content(tree, &path, &entry);
            } else if let Some(unit) = text.strip_suffix(".d") {
                let files = tree.children(&path).into_iter();
                let drop_ins = files.filter(|(file, _)| is_drop_in(name, file));
                let unit = unit.to_owned();
                for (file, entry) in drop_ins {
                    let file = String::from_utf8_lossy(file).into_owned();
                    if has_install(tree, &format!("{path}/{file}")) {
                        can_be_enabled.insert(unit.clone());
                    }
                    let state = content(tree, &format!("{path}/{file}"), &entry);
                    let drop_ins = &mut units.entry(unit.clone()).or_default().dropins;
                    drop_ins.insert(file, state.unwrap_or(ContentState { size: 0, digest: None }));
                }
            }
        }
    }
    let overlay = Overlay::new(tree);
    // A state that only systemctl can decide is left out.
    let dialect = Dialect::detect(&overlay).ok().flatten();
    // Others are never enabled or disabled, and most units are such.
    let units_to_ask = units.iter_mut().filter(|(name, _)| can_be_enabled.contains(*name));
    for (name, unit) in units_to_ask {
        let state = dialect.and_then(|dialect| dialect.is_enabled(&overlay, name).ok());
        unit.enabled = state.and_then(is_enabled);
    }
    units
}

fn is_enabled(state: EnabledState) -> Option<bool> {
    match state {
        EnabledState::Enabled | EnabledState::EnabledRuntime => Some(true),
        EnabledState::Disabled => Some(false),
        _ => None,
    }
}

fn has_install(tree: &BaseTree, path: &str) -> bool {
    const SECTION: &[u8] = b"[Install]";
    tree.content(path).is_some_and(|text| text.windows(SECTION.len()).any(|at| at == SECTION))
}

/// A link to `/dev/null` or an empty file masks a unit.
fn is_null(entry: &Entry<'_>) -> bool {
    entry.target == Some(b"/dev/null") || (entry.kind == Kind::File && entry.size == 0)
}

/// A file's content; of another name of a unit, there is none.
fn content(tree: &BaseTree, path: &str, entry: &Entry<'_>) -> Option<ContentState> {
    let sized = || ContentState { size: entry.size, digest: None };
    let is_file = entry.kind == Kind::File && entry.size > 0;
    is_file.then(|| tree.content(path).map_or_else(sized, ContentState::of))
}
