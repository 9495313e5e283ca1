//! The `%` specifiers of `[Install]`, as far as the unit's name gives their value.

use super::error::Unsupported;
use super::name::UnitName;

/// A letter that is no specifier there: `systemctl` leaves the word out and fails at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoSpecifier(pub(super) String);

/// The word with its specifiers replaced.
pub(super) fn expand(
    word: &str,
    unit: &UnitName,
) -> Result<Result<String, NoSpecifier>, Unsupported> {
    let mut expanded = String::new();
    let mut chars = word.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            expanded.push(c);
            continue;
        }
        let prefix = unit.prefix();
        expanded.push_str(match chars.next() {
            Some('n') => unit.as_str(),
            Some('N') => unit.without_suffix(),
            Some('p') => prefix,
            Some('i') => unit.instance(),
            Some('j') => prefix.rsplit_once('-').map_or(prefix, |(_, last)| last),
            // The system's manager runs as root.
            Some('u' | 'g') => "root",
            Some('U' | 'G') => "0",
            Some('%') | None => "%",
            Some(specifier) if "aAbBHlmMoqvwW".contains(specifier) => {
                return Err(Unsupported::Specifier { unit: unit.to_string(), specifier });
            }
            Some(_) => return Ok(Err(NoSpecifier(word.to_owned()))),
        });
    }
    Ok(Ok(expanded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifiers_come_from_the_name() {
        let unit: UnitName = "a-b@x-y.service".parse().unwrap();
        for (word, want) in [
            ("%n", "a-b@x-y.service"),
            ("%N.target", "a-b@x-y.target"),
            ("%p-%i-%j", "a-b-x-y-b"),
            ("%u%U%g%G%%", "root0root0%"),
            ("end%", "end%"),
        ] {
            assert_eq!(expand(word, &unit), Ok(Ok(want.to_owned())), "{word}");
        }
        for word in ["%z", "%P", "%I", "%t"] {
            assert_eq!(expand(word, &unit), Ok(Err(NoSpecifier(word.to_owned()))), "{word}");
        }
        assert!(matches!(expand("%H", &unit), Err(Unsupported::Specifier { specifier: 'H', .. })));
    }
}
