//! What the instructions of an administrator's Containerfile refer to, with their variables.
//!
//! Read as buildah reads them: `FROM` sees no variable but a default written in place, `COPY --from`
//! sees the arguments of its stage, `RUN --mount` the environment too. The invariant: a reference
//! that is not known is never left out. It is wrong if the build fails, and else undecided.

use std::collections::BTreeMap;

use super::Error;
use super::administrator::{Instruction, heredoc_end, words, wrong};
use super::flags::{flags, shown};
use super::mount::Mount;
use super::rules::json_words;
use super::variables::{Unexpanded, Variables, expanded};
use crate::plan::ContextPath;
use mosb_image::Platform;

/// The most characters of a message, which may quote the text and becomes part of a status.
const SHOWN: usize = 1000;

/// Something that an instruction names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mention {
    /// `FROM`: another stage begins.
    From { image: String, stage: Option<String> },
    /// `COPY --from`.
    CopyFrom(Named),
    /// `RUN --mount=…from=`. A cache is of a stage, never of an image.
    MountFrom { named: Named, is_cache: bool },
    /// An `ARG` that the stage declares.
    Argument(String),
    /// A path of the build context that is copied or mounted.
    Context(ContextPath),
    /// A secret or a socket that the step runs without.
    Absent,
}

/// A name after `from`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub name: String,
    /// Whether it is written without variables.
    pub is_literal: bool,
}

/// Why the references of an instruction are not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The build fails here, if it comes here.
    Wrong(Error),
    /// It is known in the build only.
    Undecided(Error),
}

impl Unknown {
    pub fn into_error(self) -> Error {
        match self {
            Self::Wrong(error) | Self::Undecided(error) => error,
        }
    }
}

/// The same before it has its line.
enum Unread {
    Wrong(String),
    Undecided(String),
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
    variables: Variables,
    /// Of the stage so far: whether a name is one of `ARG`; none if `ENV` has it too, with another
    /// value, as versions of buildah and instructions differ in which of the two they use.
    kinds: BTreeMap<String, Option<bool>>,
    /// What the instruction names so far.
    mentions: Vec<Mention>,
    line: usize,
}

impl Scan {
    pub fn new(build_args: &BTreeMap<String, String>, platform: &Platform) -> Self {
        let mut arguments = build_args.clone();
        arguments.extend([
            ("TARGETPLATFORM".to_owned(), platform.to_string()),
            ("TARGETOS".to_owned(), platform.os().to_owned()),
            ("TARGETARCH".to_owned(), platform.architecture().to_owned()),
        ]);
        Self {
            arguments,
            variables: Variables::new(),
            kinds: BTreeMap::new(),
            mentions: Vec::new(),
            line: 0,
        }
    }

    /// What the next instruction names, in its order.
    ///
    /// # Errors
    /// A name that is not known.
    pub fn read(&mut self, instruction: &Instruction) -> Result<Vec<Mention>, Unknown> {
        self.mentions.clear();
        self.line = instruction.line;
        let read = self.instruction(&instruction.name, &instruction.arguments);
        read.map_err(|unread| match unread {
            Unread::Wrong(what) => Unknown::Wrong(problem(instruction, &what)),
            Unread::Undecided(what) => Unknown::Undecided(problem(instruction, &what)),
        })?;
        Ok(std::mem::take(&mut self.mentions))
    }

    fn instruction(&mut self, name: &str, text: &str) -> Result<(), Unread> {
        match name {
            "FROM" => self.from(text),
            "ARG" | "ENV" => {
                self.assign(name == "ARG", text);
                Ok(())
            }
            "COPY" => self.copy("COPY", text),
            "ADD" => self.copy("ADD", text),
            "RUN" => flags(text).0.iter().try_for_each(|flag| self.run(flag)),
            // It runs where a later stage begins with this one.
            "ONBUILD" => {
                let (name, text) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
                match &*name.to_ascii_uppercase() {
                    "ONBUILD" => Ok(()),
                    name => self.instruction(name, text.trim()),
                }
            }
            _ => Ok(()),
        }
    }

    fn from(&mut self, text: &str) -> Result<(), Unread> {
        let mut words = text.split_whitespace().skip_while(|word| word.starts_with("--"));
        let image = words.next().unwrap_or_default();
        let image = expanded(image, &Variables::new()).map_err(|problem| {
            let image = shown(image);
            Unread::Wrong(format!("FROM {image}: {problem}; an ARG doesn't count in a FROM of this text: write the image itself, or a default as in ${{NAME:-image}}"))
        })?;
        let stage = words.next().and(words.next()).map(str::to_owned);
        self.mentions.push(Mention::From { image, stage });
        self.variables.clear();
        self.kinds.clear();
        Ok(())
    }

    fn copy(&mut self, by: &'static str, text: &str) -> Result<(), Unread> {
        let (flags, rest) = flags(text);
        let mut has_from = false;
        // The environment does not count here.
        let is_argument = |name: &str| self.kinds.get(name) == Some(&Some(true));
        let arguments = self.variables.iter().filter(|(name, _)| is_argument(name));
        let arguments: Variables =
            arguments.map(|(name, value)| (name.clone(), value.clone())).collect();
        for flag in flags {
            let flag = decided(&flag, &arguments);
            let (name, image) = named(&flag.name)?;
            if name == "--from" {
                has_from = true;
                let name = self.image(image, &arguments, Sees::Arguments)?;
                let is_literal = flag.is_literal && name == image;
                self.mentions.push(Mention::CopyFrom(Named { name, is_literal }));
            }
        }
        if !has_from {
            self.context(by, rest);
        }
        Ok(())
    }

    /// What `COPY` and `ADD` take of the build context.
    fn context(&mut self, by: &'static str, text: &str) {
        let listed = json_words(text).ok().flatten();
        let words = listed.unwrap_or_else(|| text.split_whitespace().map(str::to_owned).collect());
        let sources = words.split_last().map(|(_, sources)| sources).unwrap_or_default();
        for source in sources {
            let is_remote = |word: &str| {
                let remote = ["http://", "https://", "git://", "git@", "ssh://"];
                remote.iter().any(|start| word.starts_with(start))
            };
            let path = expanded(source, &self.variables).ok();
            let is_remote = by == "ADD" && is_remote(path.as_deref().unwrap_or(source));
            if heredoc_end(source).is_none() && !is_remote {
                self.mentions.push(Mention::Context(ContextPath { line: self.line, by, path }));
            }
        }
    }

    fn run(&mut self, flag: &str) -> Result<(), Unread> {
        let decided = decided(flag, &self.variables);
        let (name, value) = named(&decided.name)?;
        if name != "--mount" {
            return Ok(());
        }
        let read = Mount::read(value).map_err(Unread::Wrong)?;
        for option in value.split(',') {
            let (key, image) = named(option.trim_matches('"'))?;
            if key == "from" {
                let name = self.image(image, &self.variables, Sees::All)?;
                let is_literal = decided.is_literal && name == image.trim_matches(['"', '\'']);
                let is_cache = read.as_ref().is_some_and(Mount::is_cache);
                let named = Named { name, is_literal };
                self.mentions.push(Mention::MountFrom { named, is_cache });
            }
        }
        let mentions = match &read {
            None if !value.contains("from=")
                && (!value.contains("type=") || value.contains("type=bind")) =>
            {
                Some(Mention::Context(ContextPath {
                    line: self.line,
                    by: "RUN --mount",
                    path: None,
                }))
            }
            None => None,
            Some(mount) if mount.is_absent() => Some(Mention::Absent),
            Some(mount) => mount.context_path().map(|path| {
                let path = Some(path.to_owned());
                Mention::Context(ContextPath { line: self.line, by: "RUN --mount", path })
            }),
        };
        self.mentions.extend(mentions);
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

    /// The image or stage that a text after `from` is.
    fn image(&self, text: &str, variables: &Variables, sees: Sees) -> Result<String, Unread> {
        expanded(text, variables).map_err(|problem| {
            let message = format!("from={}: {problem}; write the image itself", shown(text));
            match (problem, sees) {
                // The environment of the image may have it.
                (Unexpanded::Missing(_), Sees::All) => Unread::Undecided(message),
                // Which of two values counts differs between versions.
                (Unexpanded::Missing(name), Sees::Arguments)
                    if self.kinds.get(&name) == Some(&None) =>
                {
                    Unread::Undecided(message)
                }
                (Unexpanded::Missing(_) | Unexpanded::Other(_), _) => Unread::Wrong(message),
            }
        })
    }
}

/// The variables that count for a reference.
#[derive(Debug, Clone, Copy)]
enum Sees {
    /// Those of `ARG`.
    Arguments,
    All,
}

/// A flag with the values of its variables; as it is written, where one is not known.
fn decided(flag: &str, variables: &Variables) -> Named {
    match expanded(flag, variables) {
        Ok(name) => Named { is_literal: !flag.contains('$'), name },
        Err(_) => Named { is_literal: true, name: flag.to_owned() },
    }
}

/// The name and the value of a flag or option. With a variable in its name it could be any.
fn named(option: &str) -> Result<(&str, &str), Unread> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    if name.contains('$') {
        return Err(Unread::Undecided(format!(
            "{}: its name can't be decided before the build; write the name itself",
            shown(option)
        )));
    }
    Ok((name, value))
}
