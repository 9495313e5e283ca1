//! Unit names: `prefix.type`, `prefix@.type` (a template), `prefix@instance.type`.

use std::fmt;
use std::str::FromStr;

use crate::error::Unsupported;

/// systemd.unit(5): a name with its type is at most 255 characters long.
const LONGEST: usize = 255;

const TYPES: [&str; 11] = [
    "service",
    "socket",
    "target",
    "device",
    "mount",
    "automount",
    "swap",
    "timer",
    "path",
    "slice",
    "scope",
];

/// Types that can't have other names (systemd.unit(5), `Alias=`).
const WITHOUT_ALIAS: [&str; 4] = ["mount", "slice", "swap", "automount"];

/// A valid unit name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UnitName(String);

/// Why a text is not a unit name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a unit name")]
pub(super) struct UnitNameError(String);

/// The type of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameKind {
    /// `a.service`
    Plain,
    /// `a@.service`
    Template,
    /// `a@b.service`
    Instance,
}

impl UnitName {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// `service` of `a@b.service`.
    pub(super) fn suffix(&self) -> &str {
        self.split().1
    }

    /// `a@b` of `a@b.service`.
    pub(super) fn without_suffix(&self) -> &str {
        self.split().0
    }

    /// `a` of `a@b.service` and of `a.service`.
    pub(super) fn prefix(&self) -> &str {
        let stem = self.without_suffix();
        stem.split_once('@').map_or(stem, |(prefix, _)| prefix)
    }

    /// `b` of `a@b.service`; empty for templates and plain names.
    pub(super) fn instance(&self) -> &str {
        self.without_suffix().split_once('@').map_or("", |(_, instance)| instance)
    }

    pub(super) fn kind(&self) -> NameKind {
        match self.without_suffix().split_once('@') {
            None => NameKind::Plain,
            Some((_, "")) => NameKind::Template,
            Some(_) => NameKind::Instance,
        }
    }

    /// The template of an instance.
    pub(super) fn template(&self) -> Option<UnitName> {
        (self.kind() == NameKind::Instance)
            .then(|| Self(format!("{}@.{}", self.prefix(), self.suffix())))
    }

    /// The same template or instance with this instance, if that is a name.
    pub(super) fn with_instance(&self, instance: &str) -> Result<UnitName, UnitNameError> {
        format!("{}@{instance}.{}", self.prefix(), self.suffix()).parse()
    }

    /// Whether units of this type may have other names.
    pub(super) fn may_have_aliases(&self) -> bool {
        !WITHOUT_ALIAS.contains(&self.suffix())
    }

    /// Whether a link of this name may lead to `target`: the same type, and the same kind or an
    /// instance of a template.
    pub(super) fn may_lead_to(&self, target: &UnitName) -> bool {
        self.suffix() == target.suffix()
            && self.may_have_aliases()
            && match (self.kind(), target.kind()) {
                (NameKind::Instance, NameKind::Instance) => self.instance() == target.instance(),
                (NameKind::Instance, NameKind::Template) => true,
                (own, other) => own == other,
            }
    }

    fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('.').expect("checked when it was parsed: a name has a type")
    }
}

/// What `systemctl` makes of a word that is not a unit name: other characters become `\xNN`, a missing
/// type becomes `.service`.
pub(super) fn mangle(word: &str) -> Result<UnitName, UnitNameError> {
    if let Ok(name) = word.parse() {
        return Ok(name);
    }
    let mut escaped = String::new();
    for byte in word.bytes() {
        match byte {
            b'/' => escaped.push('-'),
            byte if is_name_byte(byte) => escaped.push(char::from(byte)),
            byte => escaped.push_str(&format!("\\x{byte:02x}")),
        }
    }
    escaped.parse().or_else(|_| format!("{escaped}.service").parse())
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte)
}

impl FromStr for UnitName {
    type Err = UnitNameError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let valid = s.len() <= LONGEST
            && s.bytes().all(is_name_byte)
            && !s.starts_with('@')
            && s.rsplit_once('.')
                .is_some_and(|(stem, suffix)| !stem.is_empty() && TYPES.contains(&suffix));
        if valid { Ok(Self(s.to_owned())) } else { Err(UnitNameError(s.to_owned())) }
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A letter that is not a specifier there: `systemctl` leaves the word out and fails at the end.
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
    fn name_has_kind_a_prefix_and_an_instance() {
        for (name, want) in [
            ("a.service", Some((NameKind::Plain, "a", ""))),
            ("a-b.c.timer", Some((NameKind::Plain, "a-b.c", ""))),
            ("a@.service", Some((NameKind::Template, "a", ""))),
            ("a@b.c.service", Some((NameKind::Instance, "a", "b.c"))),
            ("a@b@.service", Some((NameKind::Instance, "a", "b@"))),
            ("a", None),
            ("a.servic", None),
            (".service", None),
            ("@.service", None),
            ("a b.service", None),
            ("a/b.service", None),
            ("ä.service", None),
        ] {
            let got = name.parse::<UnitName>().ok();
            let got = got.as_ref().map(|name| (name.kind(), name.prefix(), name.instance()));
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn word_becomes_a_name_as_systemctl_makes_it() {
        for (word, want) in [
            ("a.service", "a.service"),
            ("a", "a.service"),
            ("a@.service x y", "a@.service\\x20x\\x20y.service"),
            ("a/b.socket", "a-b.socket"),
        ] {
            assert_eq!(mangle(word).unwrap().as_str(), want, "{word}");
        }
        assert!(mangle(&"a".repeat(300)).is_err());
    }

    #[test]
    fn a_link_leads_to_its_own_kind() {
        for (link, target, want) in [
            ("a.service", "b.service", true),
            ("a.service", "b.socket", false),
            ("a.mount", "b.mount", false),
            ("a.service", "b@.service", false),
            ("a@x.service", "b@.service", true),
            ("a@x.service", "b@x.service", true),
            ("a@x.service", "b@y.service", false),
            ("a@.service", "b@x.service", false),
        ] {
            let (link, target): (UnitName, UnitName) =
                (link.parse().unwrap(), target.parse().unwrap());
            assert_eq!(link.may_lead_to(&target), want, "{link} to {target}");
        }
    }

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
