//! Words of an instruction with variables, as buildah replaces them.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

use super::administrator::Since;

/// Bytes of a word with the values of its variables; the longest name of an image has some 700.
const LONGEST: usize = 1024;
/// Defaults within defaults, as in `${A:-${B:-c}}`.
const DEEPEST: usize = 16;
/// The first version with `${NAME:?…}`, and that with `${NAME#…}`, `${NAME%…}` and `${NAME/…}`.
const REQUIRED: Since = (1, 30);
const PATTERNS: Since = (1, 37);

/// Values by their names.
pub(super) type Variables = BTreeMap<String, String>;

/// Why the value of a word is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unexpanded {
    /// A variable that nothing in the text gives a value.
    Missing(String),
    /// It is too long, or of a form whose value mosb does not compute.
    Other(String),
}

impl std::fmt::Display for Unexpanded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "{name} has no value that is known before the build"),
            Self::Other(problem) => f.write_str(problem),
        }
    }
}

/// A word without its quotes and with the values of its variables; a backslash takes what follows
/// it as it is.
pub(super) fn expanded(text: &str, variables: &Variables) -> Result<String, Unexpanded> {
    expanded_within(text, variables, DEEPEST)
}

fn expanded_within(text: &str, variables: &Variables, depth: usize) -> Result<String, Unexpanded> {
    let mut out = String::new();
    each_piece(text, |piece| {
        match piece {
            Piece::Char(c) => out.push(c),
            Piece::Variable(chars) => out += &variable(chars, variables, depth)?,
        }
        // Values that are made of values grow with each line.
        if out.len() > LONGEST {
            return Err(Unexpanded::Other(format!("it has more than {LONGEST} bytes")));
        }
        Ok(())
    })?;
    Ok(out)
}

/// A piece of a word, without its quotes and backslashes.
enum Piece<'t, 'c> {
    Char(char),
    /// What comes after a `$`.
    Variable(&'c mut Peekable<Chars<'t>>),
}

/// Calls a function with each piece of a word. Returns the quote that has no end.
fn each_piece<'t, E>(
    text: &'t str,
    mut on_piece: impl FnMut(Piece<'t, '_>) -> Result<(), E>,
) -> Result<Option<char>, E> {
    let mut chars = text.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' if quote.is_none() => quote = Some(c),
            _ if quote == Some(c) => quote = None,
            '\\' if quote != Some('\'') => {
                chars.next().map_or(Ok(()), |c| on_piece(Piece::Char(c)))?;
            }
            '$' if quote != Some('\'') => on_piece(Piece::Variable(&mut chars))?,
            _ => on_piece(Piece::Char(c))?,
        }
    }
    Ok(quote)
}

/// A variable after `$`: `NAME`, `{NAME}`, `{NAME:-word}` or `{NAME:+word}`.
fn variable(
    chars: &mut Peekable<Chars<'_>>,
    variables: &Variables,
    depth: usize,
) -> Result<String, Unexpanded> {
    let braced = chars.next_if_eq(&'{').is_some();
    let name = variable_name(chars);
    let value = variables.get(&name);
    let missing = || Unexpanded::Missing(name.clone());
    if !braced {
        return value.cloned().ok_or_else(missing);
    }
    let rest =
        until_brace(chars).ok_or_else(|| Unexpanded::Other(format!("${{{name} has no end")))?;
    let is_set = value.is_some_and(|value| !value.is_empty());
    let within = |word: &str| match depth.checked_sub(1) {
        Some(depth) => expanded_within(word, variables, depth),
        None => Err(Unexpanded::Other(format!("more than {DEEPEST} braces in each other"))),
    };
    match (rest.get(..2), value) {
        (None, _) if rest.is_empty() => value.cloned().ok_or_else(missing),
        (Some(":-"), Some(value)) if is_set => Ok(value.clone()),
        (Some(":-"), _) => within(&rest[2..]),
        (Some(":+"), _) if is_set => within(&rest[2..]),
        (Some(":+"), _) => Ok(String::new()),
        _ => {
            let problem = format!("${{{name}{rest}}} can't be decided before the build");
            Err(Unexpanded::Other(problem))
        }
    }
}

fn variable_name(chars: &mut Peekable<Chars<'_>>) -> String {
    let mut name = String::new();
    while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
        name.push(c);
    }
    name
}

/// Up to the brace that closes, which braces within don't.
fn until_brace(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut depth = 0;
    let mut rest = String::new();
    for c in chars {
        match c {
            '}' if depth == 0 => return Some(rest),
            '}' => depth -= 1,
            '{' => depth += 1,
            _ => {}
        }
        rest.push(c);
    }
    None
}

/// Checks a word in which buildah looks for variables. Adds what only later versions know.
///
/// # Errors
/// A quote or brace without its end, a form that no buildah knows.
pub(super) fn check_word(text: &str, later: &mut Vec<(String, Since)>) -> Result<(), String> {
    check_within(text, later, DEEPEST)
}

fn check_within(text: &str, later: &mut Vec<(String, Since)>, depth: usize) -> Result<(), String> {
    let open = each_piece(text, |piece| match piece {
        Piece::Variable(chars) => match chars.next_if_eq(&'{') {
            Some(_) => check_braces(chars, later, depth),
            None => Ok(()),
        },
        Piece::Char(_) => Ok(()),
    })?;
    match open {
        Some(quote) => Err(format!("a {quote} has no end; close it, or write \\{quote}")),
        None => Ok(()),
    }
}

/// Checks a variable after `${`.
fn check_braces(
    chars: &mut Peekable<Chars<'_>>,
    later: &mut Vec<(String, Since)>,
    depth: usize,
) -> Result<(), String> {
    let name = variable_name(chars);
    let rest =
        until_brace(chars).ok_or_else(|| format!("${{{name} has no end; close it with a brace"))?;
    let mut form = rest.chars();
    let word = match (form.next(), form.next()) {
        (None, _) => return Ok(()),
        (Some(':'), Some('-' | '+')) => &rest[2..],
        (Some(':'), Some('?')) => {
            later.push((format!("${{{name}:?…}}"), REQUIRED));
            &rest[2..]
        }
        (Some(form @ ('#' | '%' | '/')), _) => {
            later.push((format!("${{{name}{form}…}}"), PATTERNS));
            &rest[1..]
        }
        _ => {
            return Err(format!(
                "${{{name}{rest}}} is not a form that buildah knows; write ${{{name}:-…}} or ${{{name}:+…}}"
            ));
        }
    };
    let depth = depth.checked_sub(1);
    let depth = depth.ok_or_else(|| format!("more than {DEEPEST} braces in each other"))?;
    check_within(word, later, depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_buildah_refuses_are_found() {
        for (text, fine, later) in [
            ("plain", true, None),
            ("a$B${C}d", true, None),
            ("$", true, None),
            ("${A:-${B:+'c d'}}", true, None),
            ("it\\'s", true, None),
            ("\"it's\"", true, None),
            ("'$' \"${A:-\\\"}\"", true, None),
            ("'${A'", true, None),
            ("it's", false, None),
            ("\"a", false, None),
            ("${A:-'b}", false, None),
            ("${A", false, None),
            ("${A-b}", false, None),
            ("${A:=b}", false, None),
            ("${A b}", false, None),
            ("${A:?b}", true, Some((1, 30))),
            ("${A#b}", true, Some((1, 37))),
            ("${A%%b}", true, Some((1, 37))),
            ("${A/b/c}", true, Some((1, 37))),
        ] {
            let mut found = Vec::new();
            assert_eq!(check_word(text, &mut found).is_ok(), fine, "{text}");
            assert_eq!(found.first().map(|(_, since)| *since), later, "{text}");
        }
    }
}
