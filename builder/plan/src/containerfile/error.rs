//! What can be wrong with a Containerfile.

use crate::plan::MountedError;
use mosb_types::Diagnostic;

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
