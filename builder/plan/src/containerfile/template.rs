//! Text with named holes.

use super::error::Error;

/// A section of `containerfiles/`, with holes `{{name}}`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Template {
    section: &'static str,
    text: &'static str,
}

impl Template {
    pub(super) const fn new(section: &'static str, text: &'static str) -> Self {
        Self { section, text }
    }

    /// The text with its holes filled. Every hole has a value, and every value a hole.
    pub(super) fn fill(&self, values: &[(&str, &str)]) -> Result<String, Error> {
        let error = |problem: String| Error::Template { section: self.section, problem };
        let mut used = vec![false; values.len()];
        let mut pieces = self.text.split("{{");
        let mut out = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (name, rest) = piece
                .split_once("}}")
                .ok_or_else(|| error(format!("a hole has no end before {piece:?}")))?;
            let at = values
                .iter()
                .position(|(known, _)| *known == name)
                .ok_or_else(|| error(format!("hole {name:?} has no value")))?;
            used[at] = true;
            out += values[at].1;
            out += rest;
        }
        match used.iter().position(|used| !used) {
            Some(at) => Err(error(format!("value {:?} has no hole", values[at].0))),
            None => Ok(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_and_values_must_fit() {
        for (what, text, values, want) in [
            ("none", "a", &[][..], Some("a")),
            ("twice", "{{a}}-{{a}}", &[("a", "1")], Some("1-1")),
            ("a value is not read again", "{{a}}", &[("a", "{{b}}")], Some("{{b}}")),
            ("unfilled", "{{a}}", &[], None),
            ("unknown", "", &[("a", "1")], None),
            ("open", "{{a", &[("a", "1")], None),
        ] {
            let filled = Template::new("x", text).fill(values);
            assert_eq!(filled.ok().as_deref(), want, "{what}");
        }
    }
}
