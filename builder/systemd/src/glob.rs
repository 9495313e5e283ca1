//! The patterns of preset lines: fnmatch(3) without escapes, where `*` and `?` match every
//! character.

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
    use super::*;

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
