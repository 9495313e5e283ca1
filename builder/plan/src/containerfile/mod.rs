//! The Containerfile of a build: text made of the plan, from the sections in `containerfiles/`.
//!
//! Input: a [`BuildPlan`](crate::plan::BuildPlan), of which all is run or the last part only, or a
//! [`Prepared`](crate::plan::Prepared) base.
//! Output: text for buildah 1.28 and newer.
//! Invariant: the text contains only values without quotes, `$`, backslashes and line breaks; all
//! other values of a config are read from files of the context. The administrator's own text comes
//! last, unchanged; of one with a stage `FROM base`, the stages that don't need the config come
//! before it is written ([`split`]).

mod administrator;
mod facts;
mod flags;
mod hint;
mod images;
mod mount;
mod names;
mod parts;
mod render;
mod rules;
mod scan;
mod split;
mod stage_rules;
mod stages;
mod variables;

use mosb_types::Diagnostic;

use crate::plan::MountedError;

pub use administrator::{Need, Since, has_instruction, needs};
pub use facts::AtLine;
pub use hint::{Hint, hint};
pub use images::{check_in_cluster, context_paths, images};
pub use names::{check_names, looked_up};
pub use render::{FILES, render, render_last, render_prepared};
pub use rules::check;
pub use split::{LastStages, Part, PreparedStages, Split, SplitStage, split};
pub use stages::{By, Origin, Reference, Stage};

/// Why there is no Containerfile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// The administrator's own text.
    #[error("Containerfile, line {line}: {problem}")]
    #[diagnostic(code = "bad-containerfile", class = InvalidInput)]
    Administrator {
        /// From 1.
        line: usize,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// It takes files of a directory that the build doesn't have.
    #[error(
        "Containerfile, line {line}: {what}: there is no build context; write the file as a here-document (COPY <<EOF /path), take it from an image (COPY --from), or, by hand, give its directory with --context"
    )]
    #[diagnostic(code = "no-build-context", class = InvalidInput)]
    NoContext {
        /// From 1.
        line: usize,
        /// The instruction and the path.
        what: String,
    },
    /// The administrator's last stage is not what an image is made of.
    #[error(
        "the Containerfile's last stage does not continue ours: it begins FROM {from}, line {line}; let its last stage begin with FROM configs, or with FROM base and without anything of the config"
    )]
    #[diagnostic(code = "not-from-configs", class = InvalidInput)]
    FinalStage {
        /// From 1.
        line: usize,
        from: String,
    },
    /// Its last part could seal the image again, and there is none.
    #[error(
        "{image} is sealed (label {label}), so machines don't boot it with the config on top, and the Containerfile has no instructions that run after the config is written; seal the image again (bootc container ukify) in a stage FROM configs, or take the base that it was sealed from"
    )]
    #[diagnostic(code = "sealed-base", class = InvalidInput)]
    Sealed { image: String, label: &'static str },
    /// A file that can't be written while a step runs.
    #[error(transparent)]
    #[diagnostic(code = "mounted-file", class = InvalidInput)]
    Mounted(#[from] MountedError),
    /// A text that would be read as an instruction or a shell word.
    #[error(
        "{what} is {text:?}: a quote, $, backslash or control character can't stand in a Containerfile"
    )]
    #[diagnostic(code = "unsafe-text", class = InvalidInput)]
    Text { what: String, text: String },
    /// A section and its values don't fit each other.
    #[error("containerfiles/{section}: {problem}; this is a bug of mosb")]
    #[diagnostic(code = "bad-template", class = Internal)]
    Template { section: &'static str, problem: String },
}
