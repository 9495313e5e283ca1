//! What the instructions of a stage say, beside the stages and images that they name.

use mosb_types::Finding;

use super::administrator::{Instruction, words};
use super::flags::flags;
use super::split::{Part, Split, SplitStage};
use super::stages::{BASE, Origin, Stage};
use crate::plan::ContextPath;

/// A word of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtLine {
    /// From 1.
    pub line: usize,
    pub text: String,
}

/// Facts of a stage, in the order of its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// What it takes of the build context.
    pub context: Vec<ContextPath>,
    pub users: Vec<AtLine>,
    pub owners: Vec<AtLine>,
    /// `ADD` of a URL.
    pub urls: Vec<AtLine>,
    /// The keys of `LABEL`.
    pub labels: Vec<AtLine>,
    /// Instructions that buildah ignores in an OCI image.
    pub ignored: Vec<AtLine>,
    /// The lines that mount a secret or a socket that no build has.
    pub absent: Vec<usize>,
    /// Those of the users and owners that the build looks up in the files that the stage begins with.
    pub(super) looked_up: Vec<AtLine>,
    /// Whether an instruction may bring users or groups.
    pub(super) may_bring_names: bool,
    /// The first `RUN` before anything is copied, without a mount.
    pub(super) run_before_copy: Option<usize>,
    /// Whether something is copied.
    pub(super) copies: bool,
}

impl Facts {
    pub(super) fn add(&mut self, instruction: &Instruction) {
        let line = instruction.line;
        let at = |text: &str| AtLine { line, text: text.to_owned() };
        match instruction.name.as_str() {
            "USER" => self.users.push(at(instruction.arguments.trim_matches(['"', '\'']))),
            "LABEL" => {
                let keys = words(&instruction.arguments);
                let keys =
                    keys.iter().map(|word| word.split_once('=').map_or(&**word, |(key, _)| key));
                self.labels.extend(keys.map(|key| at(key.trim_matches(['"', '\'']))));
            }
            "HEALTHCHECK" | "SHELL" | "ONBUILD" => self.ignored.push(at(&instruction.name)),
            "RUN" => {
                if !self.copies && !instruction.arguments.starts_with("--mount") {
                    self.run_before_copy.get_or_insert(line);
                }
                let user = self.users.last().filter(|_| !self.may_bring_names);
                self.looked_up.extend(user.cloned());
                self.may_bring_names = true;
            }
            "COPY" | "ADD" => {
                let (flags, rest) = flags(&instruction.arguments);
                let owners = flags.iter().filter_map(|flag| flag.strip_prefix("--chown="));
                let owners: Vec<_> = owners.map(at).collect();
                if !self.may_bring_names {
                    self.looked_up.extend(owners.iter().cloned());
                }
                self.owners.extend(owners);
                self.may_bring_names |= may_write_etc(rest);
                let is_url =
                    |word: &&str| word.starts_with("http://") || word.starts_with("https://");
                if instruction.name == "ADD" {
                    self.urls.extend(rest.split_whitespace().filter(is_url).map(at));
                }
                self.copies = true;
            }
            _ => {}
        }
    }
}

/// Whether files that are copied may come to `/etc`. Where a variable or a relative path leads is open.
fn may_write_etc(arguments: &str) -> bool {
    let to = arguments.split_whitespace().next_back().unwrap_or_default();
    let first = to.strip_prefix('/').and_then(|path| path.split('/').next());
    first.is_none_or(|first| matches!(first, "" | "." | ".." | "etc"))
        || to.contains(['$', '"', '\'', '\\'])
        || to.contains("/..")
}

impl SplitStage {
    /// What only a build shows, with its line; nothing of a stage that isn't built. `decided`: users and
    /// groups that the base has.
    pub fn unchecked(&self, decided: &[AtLine]) -> Vec<String> {
        if self.part == Part::Unused {
            return Vec::new();
        }
        let facts = &self.stage.facts;
        let images = self.stage.references().filter_map(|one| match &one.to {
            Origin::Image(image) if image != "scratch" => {
                Some(format!("whether {image} can be pulled (line {})", one.line))
            }
            _ => None,
        });
        let is_number = |name: &str| name.bytes().all(|b| b.is_ascii_digit());
        let by_name = |user: &&AtLine| {
            user.text
                .split(':')
                .any(|name| !is_number(name) && name != "root" && !name.contains('$'))
        };
        let users = facts.users.iter().chain(&facts.owners).filter(by_name);
        let users = users.filter(|user| !decided.contains(user));
        let users = users.map(|AtLine { line, text }| {
            format!("whether there is the user or group {text} (line {line})")
        });
        let urls = facts.urls.iter();
        let urls = urls.map(|AtLine { line, text }| format!("what {text} is (line {line})"));
        images.chain(users).chain(urls).collect()
    }
}

impl Split {
    /// What the administrator should know.
    pub fn warnings(&self) -> Vec<Finding> {
        let has_name = |stage: &&Stage| stage.name.as_deref() == Some(BASE);
        let own = self.stages.iter().map(|one| &one.stage).find(has_name).map(|stage| {
            let message = format!(
                "your Containerfile has a stage of this name (line {}), so FROM base is that stage and not the base without the config",
                stage.from.line
            );
            Finding::new("stage-name", message).object(BASE)
        });
        let undecided = self.undecided.as_ref().map(|error| {
            let message = format!("all of it runs after the config is written, because of {error}");
            Finding::new("stages-undecided", message)
        });
        let built = || self.stages.iter().filter(|one| one.part != Part::Unused);
        let facts = || built().map(|one| &one.stage.facts);
        let ignored = facts().flat_map(|facts| &facts.ignored).map(|AtLine { line, text }| {
            let message = format!(
                "Containerfile, line {line}: buildah ignores {text}, which an OCI image has not{}",
                if text == "SHELL" { "; write RUN [\"/bin/bash\", \"-c\", …]" } else { "" }
            );
            Finding::new("instruction-ignored", message)
        });
        let absent = facts().flat_map(|facts| &facts.absent).map(|line| {
            let message = format!(
                "Containerfile, line {line}: no build of mosb has a secret or an ssh socket, so the step runs without it; give it a file by --volume or in a Secret of the cluster settings"
            );
            Finding::new("mount-absent", message)
        });
        let unused = self.unused_arguments.iter().map(|name| {
            let message = "no stage declares it with ARG, so it does nothing, but is an input";
            Finding::new("build-arg-unused", message).object(name)
        });
        let findings = own.into_iter().chain(undecided).chain(ignored).chain(absent);
        findings.chain(unused).collect()
    }
}
