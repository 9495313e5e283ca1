//! The flags of an instruction: as buildah splits them, and which of them it knows.

use super::administrator::Since;

/// A flag that buildah has.
#[derive(Debug)]
pub(super) struct KnownFlag {
    pub name: &'static str,
    /// Whether it may stand without a value.
    pub is_switch: bool,
    /// The first version that knows it; none for all from 1.28 on.
    pub since: Option<Since>,
}

const fn flag(name: &'static str) -> KnownFlag {
    KnownFlag { name, is_switch: false, since: None }
}

const fn later(name: &'static str, is_switch: bool, since: Since) -> KnownFlag {
    KnownFlag { name, is_switch, since: Some(since) }
}

/// `openshift/imagebuilder`, `dispatchers.go`, as the versions of buildah have it.
const FROM: [KnownFlag; 1] = [flag("--platform")];
const RUN: [KnownFlag; 2] = [flag("--mount"), later("--network", false, (1, 30))];
const COPY: [KnownFlag; 6] = [
    flag("--from"),
    flag("--chown"),
    flag("--chmod"),
    later("--link", true, (1, 37)),
    later("--parents", true, (1, 37)),
    later("--exclude", false, (1, 37)),
];
const ADD: [KnownFlag; 6] = [
    flag("--chown"),
    flag("--chmod"),
    later("--checksum", false, (1, 33)),
    later("--link", true, (1, 37)),
    later("--keep-git-dir", true, (1, 37)),
    later("--exclude", false, (1, 37)),
];
const HEALTHCHECK: [KnownFlag; 5] = [
    flag("--interval"),
    flag("--timeout"),
    flag("--start-period"),
    flag("--retries"),
    later("--start-interval", false, (1, 37)),
];

/// The flags of an instruction; none if it has none.
pub(super) fn known(instruction: &str) -> &'static [KnownFlag] {
    match instruction {
        "FROM" => &FROM,
        "RUN" => &RUN,
        "COPY" => &COPY,
        "ADD" => &ADD,
        "HEALTHCHECK" => &HEALTHCHECK,
        _ => &[],
    }
}

/// The flags of an instruction as buildah takes them, and the text after them: without quotes and
/// backslashes, and before it looks for variables.
pub(super) fn flags(text: &str) -> (Vec<String>, &str) {
    let mut flags = Vec::new();
    let mut rest = text.trim_start();
    while rest.starts_with("--") {
        let (flag, after) = first_word(rest);
        rest = after.trim_start();
        if flag == "--" {
            break;
        }
        flags.push(flag);
    }
    (flags, rest)
}

/// The first word of a text, and the rest.
fn first_word(text: &str) -> (String, &str) {
    let mut word = String::new();
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            _ if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            '\\' => word.extend(chars.next().map(|(_, escaped)| escaped)),
            _ if quote.is_none() && c.is_whitespace() => return (word, &text[at..]),
            _ => word.push(c),
        }
    }
    (word, "")
}

/// A word for a message.
pub(super) fn shown(word: &str) -> String {
    let cut = word.char_indices().nth(100);
    cut.map_or_else(|| word.to_owned(), |(at, _)| format!("{}…", &word[..at]))
}
