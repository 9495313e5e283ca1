//! How systemd splits the files it reads: lines, and words with quotes.

/// The lines of a file. A newline, a carriage return and NUL each end one, and so does each pair of
/// different ones.
pub(super) fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while at < bytes.len() {
        if !is_end(bytes[at]) {
            at += 1;
            continue;
        }
        lines.push(&bytes[start..at]);
        let first = at;
        at += 1;
        while at < bytes.len() && is_end(bytes[at]) && !bytes[first..at].contains(&bytes[at]) {
            at += 1;
        }
        start = at;
    }
    if start < bytes.len() {
        lines.push(&bytes[start..]);
    }
    lines
}

fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | 0)
}

/// The white space between words and around lines.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// The words before a quote that isn't closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenQuote(pub(super) Vec<String>);

/// The words of a value; quotes of both kinds hold words together, a backslash is a character like
/// others.
pub(super) fn words(value: &str) -> Result<Vec<String>, OpenQuote> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in value.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if is_space(c) => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(OpenQuote(words));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_systemd_ends_them() {
        for (text, want) in [
            (&b""[..], &[][..]),
            (b"a", &[&b"a"[..]]),
            (b"a\n", &[b"a"]),
            (b"a\r\nb", &[b"a", b"b"]),
            (b"a\n\nb", &[b"a", b"", b"b"]),
            (b"a\0b\n", &[b"a", b"b"]),
        ] {
            assert_eq!(lines(text), want, "{:?}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn quotes_hold_words_together() {
        let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        for (value, want) in [
            (" a\tb ", Ok(owned(&["a", "b"]))),
            ("\"a b\" 'c'd \"\"", Ok(owned(&["a b", "cd", ""]))),
            ("a\\x2d", Ok(owned(&["a\\x2d"]))),
            ("a b\"c d", Err(OpenQuote(owned(&["a"])))),
        ] {
            assert_eq!(words(value), want, "{value}");
        }
    }
}
