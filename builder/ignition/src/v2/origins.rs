//! Where the parts of a translation come from, so that what is wrong with them is told in the words of the config as it was written.

use std::collections::HashMap;

use serde_json::Value;

use mosb_types::Finding;

/// Places of the translation, each with the place of the config that it was made of.
#[derive(Debug, Default)]
pub(super) struct Origins {
    places: HashMap<String, String>,
    apart: bool,
    joined: bool,
}

impl Origins {
    /// For a translation where entries of one name are not joined, so that spec 3 sees them all.
    pub fn apart() -> Self {
        Self { apart: true, ..Self::default() }
    }

    /// Whether any entry was joined with an earlier one.
    pub fn joined(&self) -> bool {
        self.joined
    }

    /// What stands at `to`, and all within, was made of what stands at `from`.
    pub fn add(&mut self, to: impl Into<String>, from: impl Into<String>) {
        let (to, from) = (to.into(), from.into());
        if to != from {
            self.places.insert(to, from);
        }
    }

    /// The same finding, about the place in the config as it was written.
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

/// Where in a list of the translation each name stands.
#[derive(Debug, Default)]
pub(super) struct Places(HashMap<Option<Value>, usize>);

impl Places {
    /// The place of the name: `next` the first time.
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
    fn the_innermost_place_that_is_known_counts() {
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
            let told = origins.relocate(Finding::new("bad-path", "").object(place));
            assert_eq!(told.object.as_deref(), Some(want), "{place}");
        }
    }
}
