//! What of an administrator's Containerfile not every buildah can read.

use super::administrator::instructions;

/// Major and minor number of the first version of buildah that knows something.
pub type Since = (u32, u32);

/// Something that an old buildah refuses or misreads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// From 1.
    pub line: usize,
    /// Such as `COPY --link`.
    pub what: String,
    pub since: Since,
}

/// What a text needs of buildah beyond version 1.28; nothing of a text that can't be built.
pub fn needs(text: &str) -> Vec<Need> {
    let checked = |instruction: &super::administrator::Instruction| {
        let later = instruction.check().unwrap_or_default();
        let line = instruction.line;
        later.into_iter().map(move |(what, since)| Need { line, what, since }).collect::<Vec<_>>()
    };
    instructions(text).unwrap_or_default().iter().flat_map(checked).collect()
}
