//! What an administrator should know of a Containerfile that can be built.

use super::facts::AtLine;
use super::split::{Part, Split, SplitStage};
use super::stages::{BASE, Origin, Stage};
use mosb_types::Finding;

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
