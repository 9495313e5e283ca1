//! Patterns of paths as Go has them: `*`, `?`, `[a-z]`, none of which matches a slash.

/// A path of the build context, with patterns in its components.
#[derive(Debug)]
pub(super) struct Pattern {
    components: Vec<String>,
    is_literal: bool,
}

impl Pattern {
    /// The path after `COPY` or `ADD`, or the source of a mount, which has no patterns. Neither leads
    /// out of the directory.
    pub fn of_use(by: &str, path: &str) -> Self {
        Self { components: components(path), is_literal: by.starts_with("RUN") }
    }

    /// Whether it is the directory itself.
    pub fn is_all(&self) -> bool {
        self.components.is_empty()
    }

    pub fn matches(&self, path: &str) -> bool {
        let mut parts = path.split('/');
        let same = self.components.iter().all(|component| {
            parts.next().is_some_and(|part| match self.is_literal {
                true => component == part,
                false => is_match(component, part),
            })
        });
        same && parts.next().is_none()
    }
}

/// The components of a path, without those that lead up or nowhere.
pub(super) fn components(path: &str) -> Vec<String> {
    let mut components: Vec<String> = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => drop(components.pop()),
            component => components.push(component.to_owned()),
        }
    }
    components
}

/// Whether a component of a path matches a pattern (Go's `path.Match`).
pub(super) fn is_match(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    // For each length of the name, whether the pattern so far matches it.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    let mut rest = &pattern[..];
    while let Some((&first, after)) = rest.split_first() {
        let (matches, after): (Box<dyn Fn(char) -> bool>, &[char]) = match first {
            '*' => {
                if let Some(start) = reached.iter().position(|is| *is) {
                    reached[start..].fill(true);
                }
                rest = after;
                continue;
            }
            '?' => (Box::new(|_| true), after),
            '[' => match class(after) {
                Some((class, after)) => (class, after),
                None => return false,
            },
            '\\' => match after.split_first() {
                Some((&escaped, after)) => (Box::new(move |c| c == escaped), after),
                None => return false,
            },
            plain => (Box::new(move |c| c == plain), after),
        };
        let next = (0..=name.len()).map(|at| at > 0 && reached[at - 1] && matches(name[at - 1]));
        reached = next.collect();
        rest = after;
    }
    reached[name.len()]
}

type Class<'a> = (Box<dyn Fn(char) -> bool>, &'a [char]);

/// A set of characters after its bracket, and the rest.
fn class(text: &[char]) -> Option<Class<'_>> {
    let (is_negated, mut rest) = match text.split_first() {
        Some(('^', rest)) => (true, rest),
        _ => (false, text),
    };
    let mut ranges = Vec::new();
    loop {
        let (&low, after) = rest.split_first()?;
        if low == ']' && !ranges.is_empty() {
            let contains = move |c| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
            return Some((Box::new(move |c| contains(c) != is_negated), after));
        }
        rest = after;
        let high = match rest {
            ['-', high, after @ ..] => {
                rest = after;
                *high
            }
            _ => low,
        };
        ranges.push((low, high));
    }
}

/// The patterns of a file, the last of which that matches decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IgnoreFile(Vec<Rule>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    components: Vec<String>,
    /// Whether it brings paths back.
    is_exception: bool,
}

impl IgnoreFile {
    /// Names of the file, of which the first that is there counts.
    pub const NAMES: [&str; 2] = [".containerignore", ".dockerignore"];

    pub fn parse(text: &str) -> Self {
        let rule = |line: &str| {
            let line = line.trim();
            let (is_exception, pattern) = match line.strip_prefix('!') {
                Some(pattern) => (true, pattern.trim()),
                None => (false, line),
            };
            let components = components(pattern);
            let is_rule = !line.starts_with('#') && !components.is_empty();
            is_rule.then_some(Rule { components, is_exception })
        };
        Self(text.trim_start_matches('\u{feff}').lines().filter_map(rule).collect())
    }

    /// Whether a path, or a directory above it, is ignored.
    pub fn ignores(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        let mut ignored = false;
        for rule in &self.0 {
            let matches = (1..=parts.len()).any(|end| is_path(&rule.components, &parts[..end]));
            if matches {
                ignored = !rule.is_exception;
            }
        }
        ignored
    }

    /// Whether something below an ignored directory may come back.
    pub fn has_exceptions(&self) -> bool {
        self.0.iter().any(|rule| rule.is_exception)
    }
}

/// Whether a path matches a pattern, in which `**` is any number of directories.
fn is_path(pattern: &[String], path: &[&str]) -> bool {
    // For each number of components, whether the pattern so far matches them.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for component in pattern {
        if component == "**" {
            if let Some(start) = reached.iter().position(|is| *is) {
                reached[start..].fill(true);
            }
            continue;
        }
        let next = (0..=path.len())
            .map(|at| at > 0 && reached[at - 1] && is_match(component, path[at - 1]));
        reached = next.collect();
    }
    reached[path.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, name, want) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("*", ".a", true),
            ("a*b*c", "axbyc", true),
            ("a*b*c", "axbyd", false),
            ("?", "é", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[ab", "a", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a", false),
        ] {
            assert_eq!(is_match(pattern, name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn the_last_pattern_that_matches_decides() {
        for (text, path, want) in [
            ("", "a", false),
            ("# a\n\n", "a", false),
            ("a", "a", true),
            ("a", "a/b", true),
            ("a", "b/a", false),
            ("/a/", "a", true),
            ("*/a", "b/a", true),
            ("**/a", "a", true),
            ("**/a", "b/c/a", true),
            ("**/*.pem", "x/y.pem", true),
            ("a/**", "a/b/c", true),
            ("*\n!a", "a", false),
            ("*\n!a", "b", true),
            ("*\n!a/b", "a/b", false),
            ("!a\n*", "a", true),
            ("a\n!a/b", "a/c", true),
        ] {
            assert_eq!(IgnoreFile::parse(text).ignores(path), want, "{text:?} {path}");
        }
    }
}
