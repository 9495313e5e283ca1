//! Maps places of a translation to places of the original, so that findings have the latter.

use std::collections::HashMap;

use serde_json::Value;

use mosb_types::Finding;

/// Places of the translation with their places in the original.
#[derive(Debug, Default)]
pub(super) struct Origins {
    places: HashMap<String, String>,
    apart: bool,
    joined: bool,
}

impl Origins {
    /// For a translation without joining, so that all entries are checked by the rules of spec 3.
    pub fn apart() -> Self {
        Self { apart: true, ..Self::default() }
    }

    /// Whether any entry was joined with an earlier one.
    pub fn joined(&self) -> bool {
        self.joined
    }

    /// The value at `to`, with everything in it, comes from `from`.
    pub fn add(&mut self, to: impl Into<String>, from: impl Into<String>) {
        let (to, from) = (to.into(), from.into());
        if to != from {
            self.places.insert(to, from);
        }
    }

    /// The same finding with the place in the original.
    pub fn relocate(&self, mut finding: Finding) -> Finding {
        let Some(place) = finding.object.as_deref() else {
            return finding;
        };
        let ends = place.match_indices(['.', '[']).map(|(at, _)| at).chain([place.len()]);
        let known = ends
            .filter_map(|end| Some((self.places.get(&place[..end])?, &place[end..])))
            .next_back();
        if let Some((origin, rest)) = known {
            finding.object = Some(format!("{origin}{rest}"));
        }
        finding
    }
}

/// The index of each name in a list of the translation.
#[derive(Debug, Default)]
pub(super) struct Places(HashMap<Option<Value>, usize>);

impl Places {
    /// The index of the name: `next` the first time.
    pub fn of(&mut self, name: Option<&Value>, next: usize, origins: &mut Origins) -> usize {
        if origins.apart {
            return next;
        }
        let place = *self.0.entry(name.cloned()).or_insert(next);
        origins.joined |= place != next;
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_known_place_is_used() {
        let mut origins = Origins::default();
        origins.add("a.b", "x");
        origins.add("a.b[1].c", "y[0]");
        origins.add("a.same", "a.same");
        for (place, want) in [
            ("a", "a"),
            ("a.b", "x"),
            ("a.b[0].c", "x[0].c"),
            ("a.b[1].c", "y[0]"),
            ("a.b[1].c.d", "y[0].d"),
            ("a.bc", "a.bc"),
            ("a.same", "a.same"),
        ] {
            let relocated = origins.relocate(Finding::new("bad-path", "").object(place));
            assert_eq!(relocated.object.as_deref(), Some(want), "{place}");
        }
    }
}
