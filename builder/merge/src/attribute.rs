//! Which MachineConfigs a place of the merged config comes from.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Component;
use mosb_ignition::{Document, Provenance};
use mosb_types::Finding;

/// The merged config, and the origin of its values.
#[derive(Debug)]
pub(super) struct Attributed<'a> {
    config: &'a Value,
    chosen: &'a [&'a Component],
    /// By the entry of a list, as `storage.files[/etc/motd]`.
    entries: BTreeMap<String, BTreeSet<usize>>,
    /// By the name of an entry, as `/etc/motd`.
    names: BTreeMap<String, BTreeSet<usize>>,
}

impl<'a> Attributed<'a> {
    pub fn new(
        merged: &'a Document,
        chosen: &'a [&'a Component],
        provenance: &[Provenance],
    ) -> Self {
        let (mut entries, mut names) = (BTreeMap::new(), BTreeMap::new());
        for value in provenance {
            let entry = entry(&value.place);
            let of_entry: &mut BTreeSet<_> = entries.entry(entry.to_owned()).or_default();
            of_entry.insert(value.from);
            if let Some((_, name)) = entry.split_once('[') {
                let name = name.trim_end_matches(']').to_owned();
                let of_name: &mut BTreeSet<_> = names.entry(name).or_default();
                of_name.insert(value.from);
            }
        }
        Self { config: merged.as_json(), chosen, entries, names }
    }

    /// A problem of the merged config, with the MachineConfigs that it comes from.
    pub fn finding(&self, mut finding: Finding) -> Finding {
        let place = finding.object.take().unwrap_or_default();
        let mut from = self.from(&place);
        // The other side of it is named in the message.
        let quoted = finding.message.split('"').skip(1).step_by(2);
        from.extend(quoted.filter_map(|name| self.names.get(name)).flatten());
        if let Some(path) = &finding.path {
            let unit = path.strip_prefix("/etc/systemd/system/").unwrap_or(path);
            let unit = unit.split_once(".d/").map_or(unit, |(unit, _)| unit);
            from.extend(self.names.get(path).into_iter().flatten());
            from.extend(self.names.get(unit).into_iter().flatten());
        }
        finding.object = Some(format!("{}: spec.config.{place}", self.names_of(&from)));
        finding
    }

    /// The MachineConfigs that a place comes from, as one text.
    pub fn origins(&self, place: &str) -> String {
        self.names_of(&self.from(place))
    }

    fn from(&self, place: &str) -> BTreeSet<usize> {
        let by_name = self.entries.get(entry(place));
        let found = by_name.or_else(|| self.entries.get(&self.by_name(entry(place))?));
        found.cloned().unwrap_or_default()
    }

    /// `storage.files[3]` as `storage.files[/etc/motd]`.
    fn by_name(&self, entry: &str) -> Option<String> {
        let (list, index) = entry.split_once('[')?;
        let index: usize = index.trim_end_matches(']').parse().ok()?;
        let items = list.split('.').try_fold(self.config, |value, key| value.get(key))?;
        let item = items.get(index)?;
        let key = ["path", "name", "device"];
        let name = key.iter().find_map(|key| item.get(key)?.as_str())?;
        Some(format!("{list}[{name}]"))
    }

    fn names_of(&self, from: &BTreeSet<usize>) -> String {
        if from.is_empty() {
            return "the merged config".to_owned();
        }
        let names: Vec<_> = from.iter().map(|from| self.chosen[*from].place("")).collect();
        names.join(", ")
    }
}

/// The place up to its first entry of a list; a place in no list as it is.
fn entry(place: &str) -> &str {
    // Names of entries may hold brackets; their fields are words.
    let Some((list, rest)) = place.split_once('[') else {
        return place;
    };
    let end = rest.find("].").or_else(|| rest.rfind(']'));
    end.map_or(place, |end| &place[..list.len() + 1 + end + 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_the_text_in_the_first_brackets() {
        for (place, want) in [
            ("storage.files[/etc/a].mode", "storage.files[/etc/a]"),
            ("storage.files[3].append[1].source", "storage.files[3]"),
            ("storage.files[/a[1]].mode", "storage.files[/a[1]]"),
            ("storage.files[/a]", "storage.files[/a]"),
            ("ignition.timeouts.httpTotal", "ignition.timeouts.httpTotal"),
            ("passwd.groups", "passwd.groups"),
        ] {
            assert_eq!(entry(place), want);
        }
    }
}
