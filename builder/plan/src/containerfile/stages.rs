//! The stages of an administrator's Containerfile, and what each of them refers to.
//!
//! Input: the text and its build arguments. Output: a graph whose references point to earlier
//! stages, to stages of mosb, or to images. Invariant: the graph is never guessed. What can't be
//! decided before the build is in [`Stages::undecided`], with its line; what the build refuses is in
//! the [stage](Stage::wrong) that it would fail in.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use super::Error;
use super::administrator::{Instruction, instructions};
use super::facts::Facts;
use super::scan::{Mention, Named, Scan, Unknown, problem};
use mosb_image::Platform;

/// The base without the config; written only where the administrator's text refers to it.
pub(super) const BASE: &str = "base";
/// The base with the config.
pub(super) const CONFIGS: &str = "configs";
const EXTRACT: &str = "extract";
const EXTENSIONS: &str = "extensions";

/// Stages that mosb writes before the administrator's text.
pub(super) const OWN_STAGES: [&str; 4] = [EXTRACT, EXTENSIONS, BASE, CONFIGS];

/// All stages, in their order.
#[derive(Debug)]
pub(super) struct Stages {
    pub stages: Vec<Stage>,
    /// The first reference that is only known in the build.
    pub undecided: Option<Error>,
    /// The first line that refers to a stage by its number.
    pub number: Option<usize>,
}

/// A `FROM` with what follows it, or what stands before the first one and so continues `configs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    pub name: Option<String>,
    /// What it begins with. It has no line if there is no `FROM`.
    pub from: Reference,
    /// What it copies or mounts.
    pub reads: Vec<Reference>,
    /// From 1; its comments are part of it.
    pub lines: Range<usize>,
    /// Instructions but for `FROM` and `ARG`.
    pub instructions: usize,
    /// The names of `ARG`.
    pub arguments: Vec<String>,
    /// What else its instructions say.
    pub facts: Facts,
    /// Why the build fails in this stage, if it is built.
    pub(super) wrong: Option<Error>,
    /// Its instructions without comments and line breaks, but with their here-documents.
    pub(super) canonical: String,
    /// The arguments of its `FROM`.
    pub(super) from_arguments: String,
    /// The lines of its `FROM`; empty if it has none.
    pub(super) from_lines: Range<usize>,
}

/// What a name refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Base,
    Configs,
    Extract,
    Extensions,
    /// An earlier stage of the administrator's.
    Stage(usize),
    /// As it is written, `scratch` too.
    Image(String),
}

/// A place of the text where a stage or image is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub to: Origin,
    /// The name as written.
    pub name: String,
    /// From 1; 0 for the `FROM configs` that is not written.
    pub line: usize,
    pub by: By,
}

/// The instruction of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    From,
    CopyFrom,
    MountFrom,
}

/// `COPY --from=tools (line 3)`.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        if self.line == 0 {
            return write!(f, "no FROM, which means FROM {name}");
        }
        match self.by {
            By::From => write!(f, "FROM {name}")?,
            By::CopyFrom => write!(f, "COPY --from={name}")?,
            By::MountFrom => write!(f, "RUN --mount=…from={name}")?,
        }
        write!(f, " (line {})", self.line)
    }
}

impl Stage {
    fn new(name: Option<String>, from: Reference, first_line: usize) -> Self {
        Self {
            name,
            from,
            reads: Vec::new(),
            lines: first_line..first_line,
            instructions: 0,
            arguments: Vec::new(),
            facts: Facts::default(),
            wrong: None,
            canonical: String::new(),
            from_arguments: String::new(),
            from_lines: first_line..first_line,
        }
    }

    /// All references, in the order of the text.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        std::iter::once(&self.from).chain(&self.reads)
    }

    /// Whether it stands before the first `FROM`.
    pub fn is_leading(&self) -> bool {
        self.from.line == 0
    }
}

/// Reads the stages of a text. `has_extensions` is whether mosb writes the stage `extensions`,
/// which counts for the numbers of stages.
///
/// # Errors
/// What can't be built, as [`check`](super::check) says.
pub(super) fn read(
    text: &str,
    build_args: &BTreeMap<String, String>,
    platform: &Platform,
    has_extensions: bool,
) -> Result<Stages, Error> {
    let mut reader = Reader {
        found: Stages { stages: Vec::new(), undecided: None, number: None },
        has_extensions,
    };
    let mut scan = Scan::new(build_args, platform);
    // The first line after the last instruction: comments belong to what follows them.
    let mut next_line = 1;
    let lines: Vec<&str> = text.lines().collect();
    for instruction in instructions(text)? {
        instruction.check()?;
        let mentions = scan.read(&instruction);
        match reader.instruction(&instruction, mentions, next_line) {
            Ok(()) => {}
            Err(Unknown::Undecided(error)) => {
                reader.found.undecided.get_or_insert(error);
            }
            Err(Unknown::Wrong(error)) => {
                if let Some(stage) = reader.found.stages.last_mut() {
                    stage.wrong.get_or_insert(error);
                }
            }
        }
        next_line = instruction.last_line + 1;
        if let Some(stage) = reader.found.stages.last_mut() {
            stage.lines.end = next_line;
            stage.facts.add(&instruction);
            stage.canonical += &format!("{} {}\n", instruction.name, instruction.arguments);
            for line in &lines[instruction.heredoc_line - 1..instruction.last_line] {
                stage.canonical += &format!("{line}\n");
            }
        }
    }
    if let Some(stage) = reader.found.stages.last_mut() {
        stage.lines.end = lines.len() + 1;
    }
    Ok(reader.found)
}

struct Reader {
    found: Stages,
    has_extensions: bool,
}

impl Reader {
    /// Adds an instruction. A reference that can't be decided is an error, and the rest is added.
    fn instruction(
        &mut self,
        instruction: &Instruction,
        mentions: Result<Vec<Mention>, Unknown>,
        first_line: usize,
    ) -> Result<(), Unknown> {
        if instruction.name == "FROM" {
            let (image, name) = match &mentions {
                Ok(mentions) => match mentions.first() {
                    Some(Mention::From { image, stage }) => (image.clone(), stage.clone()),
                    _ => (instruction.arguments.clone(), None),
                },
                Err(_) => (instruction.arguments.clone(), None),
            };
            let to = match &mentions {
                Ok(_) => self.resolve(&image, By::From),
                Err(_) => Ok(Origin::Image(image.clone())),
            };
            let (to, wrong) = match to {
                Ok(to) => (to, None),
                Err(what) => {
                    let wrong = Unknown::Wrong(problem(instruction, &what));
                    (Origin::Image(image.clone()), Some(wrong))
                }
            };
            let from = Reference { to, name: image, line: instruction.line, by: By::From };
            let mut stage = Stage::new(name, from, first_line);
            stage.from_arguments.clone_from(&instruction.arguments);
            stage.from_lines = instruction.line..instruction.last_line + 1;
            self.found.stages.push(stage);
            return mentions.map(drop).and(wrong.map_or(Ok(()), Err));
        }
        if self.found.stages.is_empty() {
            let name = CONFIGS.to_owned();
            let from = Reference { to: Origin::Configs, name, line: 0, by: By::From };
            self.found.stages.push(Stage::new(None, from, first_line));
        }
        let at = self.found.stages.len() - 1;
        self.found.stages[at].instructions += usize::from(instruction.name != "ARG");
        let wrong = |what: String| Unknown::Wrong(problem(instruction, &what));
        for mention in mentions? {
            let (named, by) = match mention {
                Mention::CopyFrom(named) => (named, By::CopyFrom),
                Mention::MountFrom { named, is_cache } => {
                    if is_cache
                        && matches!(self.resolve(&named.name, By::MountFrom), Ok(Origin::Image(_)))
                    {
                        let what =
                            format!("a cache from={} must be a stage before this line", named.name);
                        return Err(wrong(what));
                    }
                    (named, By::MountFrom)
                }
                Mention::Argument(name) => {
                    self.found.stages[at].arguments.push(name);
                    continue;
                }
                Mention::Context(path) => {
                    self.found.stages[at].facts.context.push(path);
                    continue;
                }
                Mention::Absent => {
                    self.found.stages[at].facts.absent.push(instruction.line);
                    continue;
                }
                Mention::From { .. } => continue,
            };
            let Named { name, is_literal } = named;
            let to = self.resolve(&name, by).map_err(wrong)?;
            if !is_literal && !matches!(to, Origin::Image(_)) {
                return Err(wrong(format!(
                    "from is a variable with the value {name}, and buildah builds a stage only if its name is written; write {name}"
                )));
            }
            if is_number(&name) {
                self.found.number.get_or_insert(instruction.line);
            }
            let reference = Reference { to, name, line: instruction.line, by };
            self.found.stages[at].reads.push(reference);
        }
        Ok(())
    }

    /// What a name is at this place of the text.
    fn resolve(&self, name: &str, by: By) -> Result<Origin, String> {
        // The stage of this instruction has no name yet for itself.
        let before = match by {
            By::From => self.found.stages.len(),
            By::CopyFrom | By::MountFrom => self.found.stages.len().saturating_sub(1),
        };
        let before = &self.found.stages[..before];
        let newest = |is: &dyn Fn(&str) -> bool| {
            before.iter().rposition(|stage| stage.name.as_deref().is_some_and(is))
        };
        let exact = newest(&|stage| stage == name);
        if is_number(name) {
            return self.numbered(name, by, exact);
        }
        match exact {
            Some(at) => Ok(Origin::Stage(at)),
            None => self.own_or_image(name, before),
        }
    }

    /// buildah tells capital from small letters.
    fn own_or_image(&self, name: &str, before: &[Stage]) -> Result<Origin, String> {
        match name {
            BASE => return Ok(Origin::Base),
            CONFIGS => return Ok(self.configs()),
            EXTRACT => return Ok(Origin::Extract),
            EXTENSIONS if self.has_extensions => return Ok(Origin::Extensions),
            EXTENSIONS => {
                return Err(
                    "there is no stage extensions, as the config installs no package".to_owned()
                );
            }
            _ => {}
        }
        let names = before.iter().filter_map(|stage| stage.name.as_deref()).chain(OWN_STAGES);
        match names.into_iter().find(|other| other.eq_ignore_ascii_case(name)) {
            Some(other) => {
                Err(format!("{name} is not a stage; the stage {other} is written in other letters"))
            }
            None => Ok(Origin::Image(name.to_owned())),
        }
    }

    /// What stands before the first `FROM` is part of `configs`.
    fn configs(&self) -> Origin {
        let continues = self.found.stages.first().is_some_and(Stage::is_leading);
        if continues { Origin::Stage(0) } else { Origin::Configs }
    }

    /// A number is that of a stage in the whole Containerfile, where mosb's own come first. buildah
    /// takes it in `COPY` before a name. A mount by a number finds a stage only if something else
    /// makes buildah build it.
    fn numbered(&self, number: &str, by: By, named: Option<usize>) -> Result<Origin, String> {
        let own = match self.has_extensions {
            true => &[Origin::Extract, Origin::Extensions][..],
            false => &[Origin::Extract][..],
        };
        let index = number.parse::<usize>().ok().filter(|_| by == By::CopyFrom);
        let leading = usize::from(self.found.stages.first().is_some_and(Stage::is_leading));
        let last = self.found.stages.len().saturating_sub(1);
        let by_index = index.and_then(|index| match index.checked_sub(own.len()) {
            None => own.get(index).cloned(),
            Some(0) => Some(self.configs()),
            Some(own_stage) => {
                let at = own_stage - 1 + leading;
                (at < last).then_some(Origin::Stage(at))
            }
        });
        match (by_index, named.map(Origin::Stage)) {
            (None, None) if by == By::MountFrom => Err(format!(
                "from={number}: buildah builds no stage that a mount names by its number; give the stage a name, and write that"
            )),
            (Some(one), None) => Ok(one),
            (None, Some(one)) if by != By::CopyFrom => Ok(one),
            (Some(one), Some(other)) if one == other => Ok(one),
            (_, Some(_)) => Err(format!(
                "{number} is the name of a stage and the number of another; give the stage a name without digits"
            )),
            (None, None) => Err(format!(
                "there is no stage {number} before this line; give the stage a name, and write that"
            )),
        }
    }
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit())
}
