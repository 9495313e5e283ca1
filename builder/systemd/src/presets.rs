//! Preset files: which units are to be enabled (systemd.preset(5)).

use mosb_image::TreePath;
use mosb_image::overlay::Overlay;

use crate::chroot::{self, FinalComponent, PathResolution, resolve_path};
use crate::dialect::{Behavior, Dialect, path};
use crate::error::{EmulationError, Failure, Unsupported};
use crate::name::{NameKind, UnitName};
use crate::search::conf_files;
use crate::text::{is_space, lines};

/// The effect of the presets on a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PresetAction {
    Enable,
    /// A template whose line names these instances.
    EnableInstances(Vec<UnitName>),
    Disable,
    /// Leave it as it is.
    Ignore,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    pattern: String,
    action: PresetAction,
}

/// The rules of all preset files, the first that matches decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Presets(Vec<Rule>);

impl Presets {
    pub(super) fn read(tree: &Overlay<'_>, dialect: &Dialect) -> Result<Self, EmulationError> {
        let mut presets = Self::default();
        for file in conf_files(tree, &dialect.preset_directories(), ".preset")? {
            let real = match resolve_path(tree, &file.to_string(), FinalComponent::Follow)? {
                PathResolution::Found(real) => real,
                // Nothing to read, and it still hides the same name in directories that matter
                // less.
                PathResolution::Missing(_) | PathResolution::Unreachable => continue,
                PathResolution::Loop => return Err(Failure::Preset(file).into()),
            };
            if real == path("/dev/null") {
                continue;
            }
            let bytes = chroot::read(tree, &real)?.ok_or_else(|| Failure::Preset(file.clone()))?;
            presets.file(dialect, &file, &bytes)?;
        }
        Ok(presets)
    }

    fn file(
        &mut self,
        dialect: &Dialect,
        file: &TreePath,
        bytes: &[u8],
    ) -> Result<(), Unsupported> {
        for line in lines(bytes) {
            let text = String::from_utf8_lossy(line);
            let text = text.trim_matches(is_space);
            if text.is_empty() || text.starts_with(['#', ';']) {
                continue;
            }
            let differs = || Unsupported::Line { file: file.clone(), line: text.to_owned() };
            let (word, rest) = text.split_once(is_space).unwrap_or((text, ""));
            let rest = rest.trim_start_matches(is_space);
            if depends_on_locale(rest) {
                return Err(differs());
            }
            match word {
                // systemctl crashes on it.
                "enable" if rest.is_empty() => return Err(differs()),
                "enable" => self.0.extend(enable(rest)),
                "disable" => self.rule(rest, PresetAction::Disable),
                "ignore" => match dialect.ignores() {
                    Behavior::Yes => self.rule(rest, PresetAction::Ignore),
                    Behavior::No => {}
                    Behavior::Unknown => return Err(differs()),
                },
                _ => {}
            }
        }
        Ok(())
    }

    fn rule(&mut self, pattern: &str, action: PresetAction) {
        self.0.push(Rule { pattern: pattern.to_owned(), action });
    }

    /// Their effect on a unit; a unit without a matching line is enabled.
    pub(super) fn action(&self, unit: &UnitName) -> PresetAction {
        for rule in &self.0 {
            match &rule.action {
                PresetAction::EnableInstances(instances) if rule.pattern == unit.as_str() => {
                    return PresetAction::EnableInstances(instances.clone());
                }
                PresetAction::EnableInstances(instances) if instances.contains(unit) => {
                    return PresetAction::Enable;
                }
                PresetAction::EnableInstances(_) => {}
                action if matches(&rule.pattern, unit.as_str()) => return action.clone(),
                PresetAction::Enable | PresetAction::Disable | PresetAction::Ignore => {}
            }
        }
        PresetAction::Enable
    }
}

/// The rule of an `enable` line, if it is one: a pattern, or a template with instances.
fn enable(rest: &str) -> Option<Rule> {
    let mut words = rest.split(is_space).filter(|word| !word.is_empty());
    let pattern = words.next()?.to_owned();
    let instances: Vec<&str> = words.collect();
    if instances.is_empty() {
        return Some(Rule { pattern, action: PresetAction::Enable });
    }
    let template: UnitName = pattern.parse().ok()?;
    if template.kind() != NameKind::Template {
        return None;
    }
    let instances: Result<_, _> =
        instances.iter().map(|instance| template.with_instance(instance)).collect();
    Some(Rule { pattern, action: PresetAction::EnableInstances(instances.ok()?) })
}

/// Whether the pattern uses `[:class:]`, `[.symbol.]` or `[=equivalent=]`, which depend on the
/// locale.
pub(super) fn depends_on_locale(pattern: &str) -> bool {
    ["[:", "[.", "[="]
        .iter()
        .any(|open| pattern.match_indices(open).any(|(at, _)| pattern[..at].contains('[')))
}

/// Whether the whole name matches.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // The position to retry from if the rest does not match: the star then matches one more
    // character.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p + 1, n));
            p += 1;
        } else if let Some(after) = one(&pattern, p, name[n]) {
            (p, n) = (after, n + 1);
        } else if let Some((after_star, taken)) = star {
            (p, n) = (after_star, taken + 1);
            star = Some((after_star, taken + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// The position after the one element at `p`, if it matches this character.
fn one(pattern: &[char], p: usize, c: char) -> Option<usize> {
    match pattern.get(p)? {
        '?' => Some(p + 1),
        '[' => match set(&pattern[p + 1..], c) {
            Some((true, length)) => Some(p + 1 + length),
            Some((false, _)) => None,
            None => (c == '[').then_some(p + 1),
        },
        literal => (*literal == c).then_some(p + 1),
    }
}

/// Whether a bracket expression holds the character, and its length with the closing bracket;
/// `None` if it isn't closed.
fn set(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let negated = matches!(pattern.first(), Some('!' | '^'));
    let start = usize::from(negated);
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|c| *c == ']')?;
    let mut at = start;
    let mut found = false;
    while at < end {
        if at + 2 < end && pattern[at + 1] == '-' {
            found |= (pattern[at]..=pattern[at + 2]).contains(&c);
            at += 3;
        } else {
            found |= pattern[at] == c;
            at += 1;
        }
    }
    Some((found != negated, end + 1))
}

#[cfg(test)]
mod tests {
    use mosb_image::tree::{BaseTree, OwnedEntry};

    use super::*;

    fn read(version: u32, files: &[(&str, OwnedEntry)]) -> Result<Presets, EmulationError> {
        let base = BaseTree::from_entries(
            files.iter().map(|(path, entry)| (path.as_bytes().to_vec(), entry.clone())),
        );
        Presets::read(&Overlay::new(&base), &Dialect::new(version, false))
    }

    #[test]
    fn the_first_line_of_the_first_file_decides() {
        let file = |text: &str| OwnedEntry::file(text.as_bytes());
        let (etc, lib) = ("etc/systemd/system-preset/", "usr/lib/systemd/system-preset/");
        let at = |directory: &str, name: &str| format!("{directory}{name}");
        for (what, files, want) in [
            ("no presets", vec![], PresetAction::Enable),
            (
                "first line",
                vec![(at(etc, "1.preset"), file("# c\n; c\n\tdisable\ta.*  \nenable *"))],
                PresetAction::Disable,
            ),
            (
                "by name",
                vec![
                    (at(etc, "2.preset"), file("enable *")),
                    (at(lib, "1.preset"), file("disable *")),
                ],
                PresetAction::Disable,
            ),
            (
                "hidden by the same name",
                vec![(at(etc, "1.preset"), file("")), (at(lib, "1.preset"), file("disable *"))],
                PresetAction::Enable,
            ),
            (
                "hidden by a mask",
                vec![
                    (at(etc, "1.preset"), OwnedEntry::symlink("/dev/null")),
                    (at(lib, "1.preset"), file("disable *")),
                ],
                PresetAction::Enable,
            ),
            (
                "no preset file",
                vec![
                    (at(etc, "1.preset.bak"), file("disable *")),
                    (at(etc, ".x.preset"), file("disable *")),
                ],
                PresetAction::Enable,
            ),
            (
                "not understood",
                vec![(
                    at(etc, "1.preset"),
                    file("enable a.service b.service\ndisabled *\ndisable a.service b"),
                )],
                PresetAction::Enable,
            ),
            (
                "ignored only later",
                vec![(at(etc, "1.preset"), file("ignore *\ndisable *"))],
                PresetAction::Disable,
            ),
        ] {
            let files: Vec<_> =
                files.iter().map(|(path, entry)| (path.as_str(), entry.clone())).collect();
            assert_eq!(
                read(252, &files).unwrap().action(&"a.service".parse().unwrap()),
                want,
                "{what}"
            );
        }
        let ignore = [("etc/systemd/system-preset/1.preset", file("ignore *"))];
        assert_eq!(
            read(257, &ignore).unwrap().action(&"a.service".parse().unwrap()),
            PresetAction::Ignore
        );
        assert!(matches!(read(255, &ignore), Err(EmulationError::Unsupported(_))));
        let crash = [("etc/systemd/system-preset/1.preset", file("enable\n"))];
        assert!(matches!(read(252, &crash), Err(EmulationError::Unsupported(_))));
    }

    #[test]
    fn line_with_instances_is_about_them_and_template() {
        let text = b"enable a@.service x y\nenable b@.service x/y\ndisable *";
        let presets =
            read(252, &[("etc/systemd/system-preset/1.preset", OwnedEntry::file(text))]).unwrap();
        let name = |s: &str| s.parse::<UnitName>().unwrap();
        for (unit, want) in [
            ("a@x.service", PresetAction::Enable),
            ("a@z.service", PresetAction::Disable),
            (
                "a@.service",
                PresetAction::EnableInstances(vec![name("a@x.service"), name("a@y.service")]),
            ),
            ("b@.service", PresetAction::Disable),
        ] {
            assert_eq!(presets.action(&name(unit)), want, "{unit}");
        }
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, want) in [
            ("*", "", true),
            ("*", "a.service", true),
            ("a*e", "a.service", true),
            ("a*s", "a.service", false),
            ("*.s*e", "x.a.service", true),
            ("a?service", "a.service", true),
            ("[!b].service", "a.service", true),
            ("[^a].service", "a.service", false),
            ("[a-c].service", "b.service", true),
            ("[]a].service", "].service", true),
            ("[a-].service", "-.service", true),
            ("[a.service", "[a.service", true),
            ("a\\x2d.service", "a\\x2d.service", true),
            ("a\\*", "a*", false),
            ("", "a", false),
            ("a.service", "a.servic", false),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern:?} on {name:?}");
        }
        assert!(depends_on_locale("[[:alpha:]]*"));
        assert!(!depends_on_locale("[:]") && !depends_on_locale("[a-z]*"));
    }
}
