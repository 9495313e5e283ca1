//! One path of a layer.

use schemars::JsonSchema;
use serde::Serialize;

use mosb_image::overlay::{LayerEntry, Meta, Node};

/// A path of a layer: a new or changed entry, or the removal of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathEntry {
    /// Absolute, in the image.
    pub path: String,
    /// The type of the entry.
    #[serde(rename = "type")]
    pub kind: PathType,
    /// Octal, four digits. Absent for what has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Number of the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Number of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// Bytes of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The target of a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// A directory of the base that the layer repeats as it is, because something below it changes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub unchanged: bool,
}

/// The type of an entry of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathType {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// Another name of a file.
    Hardlink,
    /// A path of the base that is removed.
    Whiteout,
    /// A directory whose content in the base is removed.
    Opaque,
    /// A device, pipe or socket.
    Other,
}

impl PathType {
    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::File => "file",
            Self::Symlink => "symlink",
            Self::Hardlink => "hardlink",
            Self::Whiteout => "whiteout",
            Self::Opaque => "opaque",
            Self::Other => "other",
        }
    }
}

impl PathEntry {
    fn bare(path: String, kind: PathType) -> Self {
        Self {
            path,
            kind,
            mode: None,
            uid: None,
            gid: None,
            size: None,
            target: None,
            unchanged: false,
        }
    }

    fn with(path: String, kind: PathType, meta: Meta) -> Self {
        Self {
            mode: Some(format!("{:04o}", meta.mode)),
            uid: Some(meta.uid),
            gid: Some(meta.gid),
            ..Self::bare(path, kind)
        }
    }
}

impl From<&LayerEntry> for PathEntry {
    fn from(entry: &LayerEntry) -> Self {
        let path = entry.path().to_string();
        match entry {
            LayerEntry::Put(_, Node::Directory { meta }) => {
                Self::with(path, PathType::Directory, *meta)
            }
            LayerEntry::Put(_, Node::File { meta, content }) => {
                Self { size: Some(content.len() as u64), ..Self::with(path, PathType::File, *meta) }
            }
            LayerEntry::Put(_, Node::Symlink { meta, target }) => {
                Self { target: Some(target.clone()), ..Self::with(path, PathType::Symlink, *meta) }
            }
            LayerEntry::Put(_, Node::Hardlink { to }) => {
                Self { target: Some(to.to_string()), ..Self::bare(path, PathType::Hardlink) }
            }
            LayerEntry::Parent(_, meta) => {
                Self { unchanged: true, ..Self::with(path, PathType::Directory, *meta) }
            }
            LayerEntry::Whiteout(_) => Self::bare(path, PathType::Whiteout),
        }
    }
}
