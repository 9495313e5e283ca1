//! Checks whether a text is a unit file, as the parser of go-systemd does, which Ignition uses.
//!
//! That parser rejects lines of 2048 bytes, but only those that are completely in its buffer of
//! 4096 bytes between two steps. Long lines are common in units with arguments, so this module
//! emulates the buffer byte by byte.

use std::fmt;

/// Lines of this length are rejected.
const LINE_MAX: usize = 2048;
/// The buffer of Go's `bufio.Reader`.
const BUFFER: usize = 4096;

/// What the checks need to know of a unit file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// At least one option in a section `[Install]`.
    pub install: bool,
}

/// A problem and its line, counted from 1; without the text, which may be secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Problem {
    what: &'static str,
    line: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} {}", self.line, self.what)
    }
}

/// Reads the whole text.
pub(super) fn check(text: &str) -> Result<Found, Problem> {
    let mut reader = Reader { text, at: 0, filled: 0, newline: 0 };
    reader.run().map_err(|what| {
        let line = 1 + text.as_bytes()[..reader.at].iter().filter(|b| **b == b'\n').count();
        Problem { what, line }
    })
}

/// The next thing to read.
enum Step {
    BeforeSections,
    SectionName,
    SectionEnd { start: usize, end: usize },
    SectionOrOption,
    OptionName,
    Value,
    Comment { in_section: bool },
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// The end of the buffer.
    filled: usize,
    /// The first line break at or after `at`, when it was last looked for.
    newline: usize,
}

impl Reader<'_> {
    fn run(&mut self) -> Result<Found, &'static str> {
        let mut found = Found { install: false };
        let mut in_install = false;
        let mut step = Step::BeforeSections;
        loop {
            if self.filled - self.at >= LINE_MAX && self.next_newline() >= self.at + LINE_MAX {
                return Err("is too long: systemd takes 2047 bytes; continue it with a backslash");
            }
            step = match step {
                Step::BeforeSections => match self.char() {
                    None => return Ok(found),
                    Some('[') => Step::SectionName,
                    Some('#' | ';') => Step::Comment { in_section: false },
                    Some(_) => Step::BeforeSections,
                },
                Step::SectionName => {
                    let start = self.at;
                    if !self.through(b']') {
                        self.at = start;
                        return Err("has no `]` after the section's name");
                    }
                    Step::SectionEnd { start, end: self.at - 1 }
                }
                Step::SectionEnd { start, end } => {
                    let rest = self.at;
                    self.through(b'\n');
                    if !self.text[rest..self.at].trim().is_empty() {
                        self.at = rest;
                        return Err("has something after the section's name");
                    }
                    in_install = &self.text[start..end] == "Install";
                    Step::SectionOrOption
                }
                Step::SectionOrOption => match self.char() {
                    None => return Ok(found),
                    Some(space) if space.is_whitespace() => Step::SectionOrOption,
                    Some('[') => Step::SectionName,
                    Some('#' | ';') => Step::Comment { in_section: true },
                    Some(other) => {
                        self.at -= other.len_utf8();
                        Step::OptionName
                    }
                },
                Step::OptionName => {
                    let start = self.at;
                    loop {
                        match self.char() {
                            Some('=') => break,
                            None | Some('\n' | '\r') => {
                                self.at = start;
                                return Err("is neither a section nor an option (`Name=value`)");
                            }
                            Some(_) => {}
                        }
                    }
                    Step::Value
                }
                Step::Value => {
                    let line = self.line();
                    if !line.trim().is_empty() && line.ends_with('\\') {
                        Step::Value
                    } else {
                        found.install |= in_install;
                        Step::SectionOrOption
                    }
                }
                Step::Comment { in_section } => {
                    while {
                        let line = self.line();
                        line.strip_suffix(' ').unwrap_or(line).ends_with('\\')
                    } {}
                    if in_section { Step::SectionOrOption } else { Step::BeforeSections }
                }
            };
        }
    }

    /// The next character; it must lie in the buffer whole.
    fn char(&mut self) -> Option<char> {
        let next = self.text[self.at..].chars().next()?;
        if self.at + next.len_utf8() > self.filled {
            self.fill();
        }
        self.at += next.len_utf8();
        Some(next)
    }

    /// The rest of the line, without its end.
    fn line(&mut self) -> &str {
        let start = self.at;
        self.through(b'\n');
        let line = &self.text[start..self.at];
        let line = line.strip_suffix('\r').unwrap_or(line);
        line.strip_suffix('\n').unwrap_or(line)
    }

    /// Goes behind the next such byte, or to the end of the text if there is none.
    fn through(&mut self, delimiter: u8) -> bool {
        let bytes = self.text.as_bytes();
        loop {
            if let Some(found) = bytes[self.at..self.filled].iter().position(|b| *b == delimiter) {
                self.at += found + 1;
                return true;
            }
            if self.filled == bytes.len() {
                self.at = self.filled;
                return false;
            }
            if self.filled - self.at >= BUFFER {
                self.at = self.filled;
            }
            self.fill();
        }
    }

    fn fill(&mut self) {
        self.filled = self.text.len().min(self.at + BUFFER);
    }

    fn next_newline(&mut self) -> usize {
        if self.newline < self.at || self.newline == 0 {
            let rest = &self.text.as_bytes()[self.at..];
            self.newline = rest
                .iter()
                .position(|b| matches!(b, b'\n' | b'\r'))
                .map_or(self.text.len(), |found| self.at + found);
        }
        self.newline
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unit_files_are_recognised() {
        let long = |n: usize| format!("[Unit]\nA={}\n", "x".repeat(n));
        let late = |n: usize| format!("[Unit]\n{}A={}\n", "#y\n".repeat(700), "x".repeat(n));
        for (what, text, want) in [
            ("nothing", String::new(), Ok(false)),
            ("rubbish before a section", "a b\nc".into(), Ok(false)),
            ("a unit", "[Unit]\nDescription=a\n\n[Install]\nWantedBy=x\n".into(), Ok(true)),
            ("an empty section", "[Install]\n".into(), Ok(false)),
            ("no end of line", "[Install]\nA=b".into(), Ok(true)),
            ("carriage returns", "[Install]\r\nA=b\r\n".into(), Ok(true)),
            ("a continued value", "[Service]\nA=b\\\n[Install]\\\nc\nD=e".into(), Ok(false)),
            ("a continued comment", "[Service]\n#a\\ \n[Install]\nA=b".into(), Ok(false)),
            ("an open section", "[Unit".into(), Err(1)),
            ("more behind a section", "[Unit] x\n".into(), Err(1)),
            ("no option", "[Unit]\nA=b\nfoo\n".into(), Err(3)),
            ("no option at the end", "[Unit]\nfoo".into(), Err(2)),
            ("a line that just fits", long(2045), Ok(false)),
            ("a long line", long(2046), Err(2)),
            ("a long line at the end of the buffer", late(3000), Ok(false)),
        ] {
            assert_eq!(check(&text).map(|f| f.install).map_err(|p| p.line), want, "{what}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_text_makes_it_panic(parts in prop::collection::vec("(\\PC{0,9}|\\[|\\]|=|\n|\\\\)", 0..40), times in 1_usize..30) {
            let text = parts.concat().repeat(times);
            if let Err(problem) = check(&text) {
                prop_assert!(problem.line <= 1 + text.matches('\n').count());
            }
        }
    }

    #[test]
    fn a_problem_does_not_show_the_text() {
        let problem = check("[Service]\nhunter2\n").unwrap_err();
        assert_eq!(problem.to_string(), "line 2 is neither a section nor an option (`Name=value`)");
    }
}
