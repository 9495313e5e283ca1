//! `.containerignore` or `.dockerignore`: paths of a directory that are not part of the build context.

use super::pattern::{components, is_match};

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
