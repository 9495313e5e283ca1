//! What is at a path of a machine or of its image, with its content.

use std::io::Read as _;
use std::path::Path;

use mosb_image::Digest;
use mosb_image::overlay::Meta;

use crate::error::Error;
use crate::file_tree::{EntryKind, FileTree};

/// The most bytes of a file that a config can write (`builder/plan/src/plan/apply/mod.rs`).
const FILE_LIMIT: u64 = 64 * 1024 * 1024;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryState {
    File {
        meta: Meta,
        /// None if it is larger than any that a config writes.
        content: Option<Vec<u8>>,
    },
    Directory {
        meta: Meta,
    },
    Link {
        uid: u32,
        gid: u32,
        target: Vec<u8>,
    },
    Other,
}

/// What is at a path; none if nothing is, or if its parent is a link.
pub(crate) fn entry_state(tree: &FileTree, path: &Path) -> Result<Option<EntryState>, Error> {
    let Some(entry) = tree.entry(path)? else { return Ok(None) };
    let meta = Meta { mode: entry.mode, uid: entry.uid, gid: entry.gid };
    Ok(Some(match entry.kind {
        EntryKind::File { .. } => {
            let mut content = Vec::new();
            let mut file = tree.open(path)?.take(FILE_LIMIT + 1);
            file.read_to_end(&mut content).map_err(|error| tree.not_readable(path, error))?;
            let is_whole = content.len() as u64 <= FILE_LIMIT;
            EntryState::File { meta, content: is_whole.then_some(content) }
        }
        EntryKind::Directory => EntryState::Directory { meta },
        EntryKind::Link { target } => EntryState::Link { uid: meta.uid, gid: meta.gid, target },
        EntryKind::Other => EntryState::Other,
    }))
}

impl EntryState {
    /// What `compose.sh` compares with: the type, the mode, the owner, and the digest of the content.
    pub fn fingerprint(&self) -> String {
        match self {
            Self::File { meta, content } => {
                let digest = content.as_ref().map(|content| Digest::of(content).hex());
                let Meta { mode, uid, gid } = meta;
                format!("f {mode:o} {uid} {gid} {}", digest.unwrap_or_default())
            }
            Self::Directory { meta: Meta { mode, uid, gid } } => {
                format!("d {mode:o} {uid} {gid} -")
            }
            Self::Link { uid, gid, target } => {
                format!("l - {uid} {gid} {}", Digest::of(target).hex())
            }
            Self::Other => "o".to_owned(),
        }
    }
}

/// What a record has of a state; `-` of nothing.
pub(crate) fn fingerprint(state: Option<&EntryState>) -> String {
    state.map_or_else(|| "-".to_owned(), EntryState::fingerprint)
}
