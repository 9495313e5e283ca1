//! What the instructions of an administrator's Containerfile refer to, with their variables.
//!
//! Read as buildah reads them: `FROM` sees no variable but a default written in place, `--from` and
//! `RUN --mount` see the arguments of their stage. The invariant: a reference that can't be decided
//! is an error with its line, never left out.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

use super::administrator::{Instruction, words, wrong};
use super::error::Error;
use mosb_image::Platform;

/// Bytes of a word with the values of its variables; the longest name of an image has some 700.
const LONGEST: usize = 1024;
/// Defaults within defaults, as in `${A:-${B:-c}}`.
const DEEPEST: usize = 16;
/// The most characters of a message, which may quote the text and becomes part of a status.
const SHOWN: usize = 1000;

/// Something that an instruction names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mention {
    /// `FROM`: another stage begins.
    From { image: String, stage: Option<String> },
    /// `COPY --from`.
    CopyFrom(String),
    /// `RUN --mount=…from=`.
    MountFrom(String),
    /// An `ARG` that the stage declares.
    Argument(String),
}

/// A problem of an instruction, cut to what a status can hold.
pub(super) fn problem(instruction: &Instruction, problem: &str) -> Error {
    let shown: String = problem.chars().take(SHOWN).collect();
    wrong(instruction.line, &shown)
}

/// The state between two instructions.
pub(super) struct Scan {
    /// The values that an `ARG` without one takes.
    arguments: BTreeMap<String, String>,
    /// Of the stage so far: the values of `ARG` and `ENV` that are known.
    variables: BTreeMap<String, String>,
    /// Of the stage so far: whether a name is one of `ARG`; none if `ENV` has it too, with another
    /// value, as versions of buildah and instructions differ in which of the two they use.
    kinds: BTreeMap<String, Option<bool>>,
    /// What the instruction names so far.
    mentions: Vec<Mention>,
}

impl Scan {
    pub fn new(build_args: &BTreeMap<String, String>, platform: &Platform) -> Self {
        let mut arguments = build_args.clone();
        arguments.extend([
            ("TARGETPLATFORM".to_owned(), platform.to_string()),
            ("TARGETOS".to_owned(), platform.os().to_owned()),
            ("TARGETARCH".to_owned(), platform.architecture().to_owned()),
        ]);
        Self { arguments, variables: BTreeMap::new(), kinds: BTreeMap::new(), mentions: Vec::new() }
    }

    /// What the next instruction names, in its order.
    ///
    /// # Errors
    /// A name that can't be decided.
    pub fn read(&mut self, instruction: &Instruction) -> Result<Vec<Mention>, Error> {
        self.mentions.clear();
        self.instruction(&instruction.name, &instruction.arguments)
            .map_err(|what| problem(instruction, &what))?;
        Ok(std::mem::take(&mut self.mentions))
    }

    fn instruction(&mut self, name: &str, text: &str) -> Result<(), String> {
        match name {
            "FROM" => self.from(text),
            "ARG" | "ENV" => {
                self.assign(name == "ARG", text);
                Ok(())
            }
            "COPY" | "ADD" => self.flags(text).iter().try_for_each(|flag| self.copy(flag)),
            "RUN" => self.flags(text).iter().try_for_each(|flag| self.run(flag)),
            // It runs where a later stage begins with this one.
            "ONBUILD" => {
                let (name, text) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
                match &*name.to_ascii_uppercase() {
                    name @ ("ONBUILD" | "FROM" | "MAINTAINER") => {
                        Err(format!("{name} can't stand behind ONBUILD; take it out"))
                    }
                    name => self.instruction(name, text.trim()),
                }
            }
            _ => Ok(()),
        }
    }

    fn from(&mut self, text: &str) -> Result<(), String> {
        let mut words = text.split_whitespace().skip_while(|word| word.starts_with("--"));
        let image = words.next().unwrap_or_default();
        let image = expanded(image, &BTreeMap::new()).map_err(|problem| {
            let image = shown(image);
            format!("FROM {image}: {problem}; an ARG doesn't count in a FROM of this text: write the image itself, or a default as in ${{NAME:-image}}")
        })?;
        let stage = words.next().and(words.next()).map(str::to_owned);
        self.mentions.push(Mention::From { image, stage });
        self.variables.clear();
        self.kinds.clear();
        Ok(())
    }

    /// With the values of their variables; as they are written, where one is not known.
    fn flags(&self, text: &str) -> Vec<String> {
        let mut flags = flags(text);
        for flag in &mut flags {
            if let Ok(known) = expanded(flag, &self.variables) {
                *flag = known;
            }
        }
        flags
    }

    fn copy(&mut self, flag: &str) -> Result<(), String> {
        let (name, image) = named(flag)?;
        if name == "--from" {
            let image = self.image(image)?;
            self.mentions.push(Mention::CopyFrom(image));
        }
        Ok(())
    }

    fn run(&mut self, flag: &str) -> Result<(), String> {
        let (name, mount) = named(flag)?;
        if name != "--mount" {
            return Ok(());
        }
        for option in mount.split(',') {
            let (key, image) = named(option.trim_matches('"'))?;
            if key.eq_ignore_ascii_case("from") {
                let image = self.image(image)?;
                self.mentions.push(Mention::MountFrom(image));
            }
        }
        Ok(())
    }

    fn assign(&mut self, is_argument: bool, text: &str) {
        for word in words(text) {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, expanded(value, &self.variables).ok()),
                None => (&*word, None),
            };
            if is_argument {
                self.mentions.push(Mention::Argument(name.to_owned()));
            }
            let given = self.arguments.get(name).filter(|_| is_argument);
            let value = given.cloned().or(value);
            let kind = self.kinds.entry(name.to_owned());
            let kind = kind.or_insert(Some(is_argument));
            if *kind != Some(is_argument) && self.variables.get(name) != value.as_ref() {
                *kind = None;
            }
            match value.filter(|_| kind.is_some()) {
                Some(value) => drop(self.variables.insert(name.to_owned(), value)),
                None => drop(self.variables.remove(name)),
            }
        }
    }

    fn image(&self, text: &str) -> Result<String, String> {
        expanded(text, &self.variables)
            .map_err(|problem| format!("from={}: {problem}; write the image itself", shown(text)))
    }
}

/// The flags of an instruction as buildah takes them: without quotes and backslashes, and before it
/// looks for variables.
fn flags(text: &str) -> Vec<String> {
    let mut flags = Vec::new();
    let mut rest = text.trim_start();
    while rest.starts_with("--") {
        let (flag, after) = first_word(rest);
        if flag == "--" {
            break;
        }
        flags.push(flag);
        rest = after.trim_start();
    }
    flags
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
fn shown(word: &str) -> String {
    let cut = word.char_indices().nth(100);
    cut.map_or_else(|| word.to_owned(), |(at, _)| format!("{}…", &word[..at]))
}

/// The name and the value of a flag or option. With a variable in its name it could be any.
fn named(option: &str) -> Result<(&str, &str), String> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    if name.contains('$') {
        return Err(format!(
            "{}: its name can't be decided before the build; write the name itself",
            shown(option)
        ));
    }
    Ok((name, value))
}

/// A word without its quotes and with the values of its variables; a backslash takes what follows
/// it as it is.
fn expanded(text: &str, variables: &BTreeMap<String, String>) -> Result<String, String> {
    expanded_within(text, variables, DEEPEST)
}

fn expanded_within(
    text: &str,
    variables: &BTreeMap<String, String>,
    depth: usize,
) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' if quote.is_none() => quote = Some(c),
            _ if quote == Some(c) => quote = None,
            '\\' if quote != Some('\'') => out.extend(chars.next()),
            '$' if quote != Some('\'') => out += &variable(&mut chars, variables, depth)?,
            _ => out.push(c),
        }
        // Values that are made of values grow with each line.
        if out.len() > LONGEST {
            return Err(format!("it has more than {LONGEST} bytes"));
        }
    }
    Ok(out)
}

/// A variable after `$`: `NAME`, `{NAME}`, or `{NAME:-word}`, `{NAME:+word}` and the same
/// without the colon.
fn variable(
    chars: &mut Peekable<Chars<'_>>,
    variables: &BTreeMap<String, String>,
    depth: usize,
) -> Result<String, String> {
    let braced = chars.next_if_eq(&'{').is_some();
    let mut name = String::new();
    while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
        name.push(c);
    }
    let value = variables.get(&name);
    let missing = || format!("{name} has no value that is known before the build");
    if !braced {
        return value.cloned().ok_or_else(missing);
    }
    let rest = until_brace(chars).ok_or_else(|| format!("${{{name} has no end"))?;
    let (empty_counts, operation) = match rest.strip_prefix(':') {
        Some(operation) => (false, operation),
        None => (true, &*rest),
    };
    let set = value.filter(|value| empty_counts || !value.is_empty());
    match (operation.chars().next(), set) {
        (None, _) if rest.is_empty() => value.cloned().ok_or_else(missing),
        (Some('-'), Some(value)) => Ok(value.clone()),
        (Some('-'), None) | (Some('+'), Some(_)) => {
            let depth = depth.checked_sub(1);
            let depth = depth.ok_or_else(|| format!("more than {DEEPEST} braces in each other"))?;
            expanded_within(&operation[1..], variables, depth)
        }
        (Some('+'), None) => Ok(String::new()),
        _ => Err(format!("${{{name}{rest}}} can't be decided before the build")),
    }
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
