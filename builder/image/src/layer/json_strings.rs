//! Limits the length of strings in JSON: a parser collects a whole string in memory.

use std::io::{self, Read};

/// Bytes of one string; a path has 4095, an extended attribute 64 KiB (xattr(7)), in base64 a third
/// more.
const LONGEST: usize = 128 << 10;

/// A reader of JSON that fails within a string that is too long.
#[derive(Debug)]
pub(super) struct ShortStrings<R> {
    inner: R,
    /// The bytes of the current string so far.
    inside: Option<usize>,
    escaped: bool,
}

impl<R> ShortStrings<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, inside: None, escaped: false }
    }

    /// Whether the string is within the limit after this byte.
    fn pass(&mut self, byte: u8) -> bool {
        let escaped = std::mem::take(&mut self.escaped);
        self.inside = match (self.inside, byte) {
            (None, b'"') => Some(0),
            (None, _) => None,
            (Some(_), b'"') if !escaped => None,
            (Some(length), byte) => {
                self.escaped = byte == b'\\' && !escaped;
                Some(length + 1)
            }
        };
        self.inside.is_none_or(|length| length <= LONGEST)
    }
}

impl<R: Read> Read for ShortStrings<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        if !buffer[..got].iter().all(|byte| self.pass(*byte)) {
            let message = format!("a string of more than {LONGEST} bytes");
            return Err(io::Error::other(message));
        }
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_string_is_an_error() {
        let long = "x".repeat(LONGEST);
        for (what, json, fine) in [
            ("short ones", format!("[{}]", r#""\"\\","#.repeat(LONGEST)), true),
            ("as long as may be", format!("{{\"{long}\":\"{long}\"}}"), true),
            ("a byte longer", format!("\"{long}y\""), false),
            ("with quotes in it", format!("\"{}\"", "\\\"".repeat(LONGEST)), false),
            ("blanks between", " ".repeat(3 * LONGEST), true),
        ] {
            let mut strings = ShortStrings::new(json.as_bytes());
            let read = io::copy(&mut strings, &mut io::sink());
            assert_eq!(read.is_ok(), fine, "{what}");
        }
    }
}
