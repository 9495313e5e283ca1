//! The images that an administrator's Containerfile pulls from registries, so that its build gets the logins for these and no others.
//!
//! Read as buildah reads them: `FROM` sees no variable but a default written in place, `--from` and `RUN --mount` see the arguments of
//! their stage. The invariant: an image that can't be decided is an error with its line, never left out.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::str::Chars;

use super::administrator::{instructions, wrong};
use super::error::Error;
use mosb_image::ImageRef;

/// Stages that mosb writes before the administrator's text.
const OWN_STAGES: [&str; 3] = ["extract", "extensions", "configs"];

/// Names of images that no registry is asked for (containers-transports(5)).
const LOCAL_TRANSPORTS: [&str; 6] = [
    "containers-storage:",
    "dir:",
    "docker-archive:",
    "docker-daemon:",
    "oci-archive:",
    "oci:",
];

/// The images of registries that a Containerfile names in `FROM`, `COPY --from` and `RUN --mount=…from=`. `arguments` are the values that
/// an `ARG` without one takes: build arguments, and those of the platform.
///
/// # Errors
/// What can't be built, as [`check`](super::check) says; an image that can't be decided, or whose name lacks the registry.
pub fn images(
    text: &str,
    arguments: &BTreeMap<String, String>,
) -> Result<BTreeSet<ImageRef>, Error> {
    let mut scan = Scan {
        arguments,
        stages: OWN_STAGES.map(str::to_owned).into(),
        variables: BTreeMap::new(),
        images: BTreeSet::new(),
    };
    for instruction in instructions(text)? {
        instruction.check()?;
        scan.instruction(&instruction.name, &instruction.arguments)
            .map_err(|problem| wrong(instruction.line, &problem))?;
    }
    Ok(scan.images)
}

struct Scan<'a> {
    arguments: &'a BTreeMap<String, String>,
    /// Names of stages so far.
    stages: Vec<String>,
    /// Of the stage so far: the values of `ARG` and `ENV` that are known.
    variables: BTreeMap<String, String>,
    images: BTreeSet<ImageRef>,
}

impl Scan<'_> {
    fn instruction(&mut self, name: &str, text: &str) -> Result<(), String> {
        match name {
            "FROM" => self.from(text),
            "ARG" | "ENV" => {
                self.assign(name == "ARG", text);
                Ok(())
            }
            "COPY" | "ADD" => flags(text)
                .filter_map(|flag| flag.strip_prefix("--from="))
                .try_for_each(|image| self.image_of_stage(image)),
            "RUN" => flags(text)
                .filter_map(|flag| flag.strip_prefix("--mount="))
                .flat_map(|mount| mount.split(','))
                .filter_map(|option| {
                    let (key, image) = option.trim_matches('"').split_once('=')?;
                    key.eq_ignore_ascii_case("from").then_some(image)
                })
                .try_for_each(|image| self.image_of_stage(image)),
            // It runs where a later stage begins with this one.
            "ONBUILD" => {
                let (name, text) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
                self.instruction(&name.to_ascii_uppercase(), text.trim())
            }
            _ => Ok(()),
        }
    }

    fn from(&mut self, text: &str) -> Result<(), String> {
        let mut words = text
            .split_whitespace()
            .skip_while(|word| word.starts_with("--"));
        let image = words.next().unwrap_or_default();
        let image = expanded(image, &BTreeMap::new()).map_err(|problem| {
            format!("FROM {image}: {problem}; an ARG doesn't count in a FROM of this text: write the image itself, or a default as in ${{NAME:-image}}")
        })?;
        self.image(&image)?;
        if let (Some(_), Some(stage)) = (words.next(), words.next()) {
            self.stages.push(stage.to_owned());
        }
        self.variables.clear();
        Ok(())
    }

    fn assign(&mut self, is_argument: bool, text: &str) {
        for word in words(text) {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, expanded(value, &self.variables).ok()),
                None => (&*word, None),
            };
            let given = self.arguments.get(name).filter(|_| is_argument);
            match given.cloned().or(value) {
                Some(value) => drop(self.variables.insert(name.to_owned(), value)),
                None => drop(self.variables.remove(name)),
            }
        }
    }

    fn image_of_stage(&mut self, text: &str) -> Result<(), String> {
        let image = expanded(text, &self.variables)
            .map_err(|problem| format!("from={text}: {problem}; write the image itself"))?;
        self.image(&image)
    }

    fn image(&mut self, name: &str) -> Result<(), String> {
        let is_stage = |stage: &String| stage.eq_ignore_ascii_case(name);
        let is_number = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
        let is_local = LOCAL_TRANSPORTS
            .iter()
            .any(|transport| name.starts_with(transport));
        if name == "scratch" || is_number || is_local || self.stages.iter().any(is_stage) {
            return Ok(());
        }
        let name = name.strip_prefix("docker://").unwrap_or(name);
        let image = name.parse().map_err(|error| format!("image {error}"))?;
        self.images.insert(image);
        Ok(())
    }
}

fn flags(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
        .take_while(|word| word.starts_with("--"))
}

/// Words that blanks separate outside of quotes, with their quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in text.chars() {
        match c {
            '"' | '\'' if quote.is_none() => quote = Some(c),
            _ if quote == Some(c) => quote = None,
            _ => {}
        }
        match words.last_mut() {
            Some(word) if quote.is_some() || !c.is_whitespace() => word.push(c),
            _ => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A word without its quotes and with the values of its variables; a backslash takes what follows it as it is.
fn expanded(text: &str, variables: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' if quote.is_none() => quote = Some(c),
            _ if quote == Some(c) => quote = None,
            '\\' if quote != Some('\'') => out.extend(chars.next()),
            '$' if quote != Some('\'') => out += &variable(&mut chars, variables)?,
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// What stands behind a `$`: `NAME`, `{NAME}`, or `{NAME:-word}`, `{NAME:+word}` and the same without the colon.
fn variable(
    chars: &mut Peekable<Chars<'_>>,
    variables: &BTreeMap<String, String>,
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
        (Some('-'), None) | (Some('+'), Some(_)) => expanded(&operation[1..], variables),
        (Some('+'), None) => Ok(String::new()),
        _ => Err(format!("${{{name}{rest}}} can't be told before the build")),
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

#[cfg(test)]
#[path = "images_tests.rs"]
mod tests;
