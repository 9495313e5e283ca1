//! `mosb files`: the paths that a build added or changed.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "in help texts, brackets mean what may be left out"
)]

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;

use super::context::Session;
use super::error::Error;
use super::inspect::info;
use super::output::Object;
use super::page::{Align, Page, count, size};
use super::{ExitCode, Result, arguments, layers};
use mosb_image::Platform;
use mosb_image::layer::{Listed, ListedKind};
use mosb_image::overlay::{LayerEntry, Meta, Node};
use mosb_registry::Source;

/// Lists the paths that a build added or changed
///
/// Example:
///
///   mosb files registry.example.com/os/worker@sha256:…
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Files {
    /// host/repo[:tag][@digest], or oci:DIR[:TAG][@digest]
    #[arg(value_parser = arguments::source)]
    pub image: Source,
    /// Only this one of the layers that the build added
    #[arg(long, value_enum)]
    pub layer: Option<LayerChoice>,
    /// The platform to select from an index, such as linux/amd64
    #[arg(long, value_name = "OS/ARCH", value_parser = arguments::platform)]
    pub platform: Option<Platform>,
}

/// `--layer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayerChoice {
    /// The layer with the rendered config.
    Config,
}

impl Files {
    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        let context = session.clients()?;
        let resolved = context.resolve("image", &self.image, self.platform.as_ref()).await?;
        let info = info(&resolved)?;
        if !info.built_by_mosb {
            return Err(Error::NotBuilt { image: info.image }.into());
        }
        context.progress.step("reading the layers of the build");
        let layers = layers::of_build(&resolved).await?;
        // The lowest layer contains the config.
        let shown = match self.layer {
            Some(LayerChoice::Config) => 1,
            None => layers.len(),
        };
        let layers = layers.into_iter().take(shown).enumerate();
        session.print(&FileList {
            image: info.image,
            layers: layers
                .map(|(at, (layer, paths))| FileLayer {
                    digest: layer.digest.to_string(),
                    config: at == 0,
                    paths,
                })
                .collect(),
        })
    }
}

/// The paths that a build added or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileList {
    /// `repo@digest`, or `oci:DIR@digest`.
    pub image: String,
    /// The layers that the build added, from the base up.
    pub layers: Vec<FileLayer>,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileLayer {
    /// Digest of the blob.
    pub digest: String,
    /// Whether it contains the rendered config.
    pub config: bool,
    /// Every path, sorted.
    pub paths: Vec<PathEntry>,
}

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

impl From<&Listed> for PathEntry {
    fn from(listed: &Listed) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let kind = match listed.kind {
            ListedKind::Directory => PathType::Directory,
            ListedKind::File => PathType::File,
            ListedKind::Symlink => PathType::Symlink,
            ListedKind::Hardlink => PathType::Hardlink,
            ListedKind::Other => PathType::Other,
            ListedKind::Whiteout => PathType::Whiteout,
            ListedKind::Opaque => PathType::Opaque,
        };
        // The header of a whiteout has nothing of the removed path, and that of a hard link nothing
        // that its file doesn't have.
        let has_meta = !matches!(kind, PathType::Whiteout | PathType::Opaque | PathType::Hardlink);
        PathEntry {
            path: format!("/{}", text(&listed.path)),
            kind,
            mode: has_meta.then(|| format!("{:04o}", listed.mode)),
            uid: has_meta.then_some(listed.uid),
            gid: has_meta.then_some(listed.gid),
            size: (kind == PathType::File).then_some(listed.size),
            target: listed.target.as_deref().map(|target| match kind {
                PathType::Hardlink => format!("/{}", text(target)),
                _ => text(target),
            }),
            unchanged: false,
        }
    }
}

impl Object for FileList {
    const KIND: &'static str = "FileList";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&self.image);
        for layer in &self.layers {
            let config = if layer.config { ", holds the rendered config" } else { "" };
            page.section(&format!(
                "Layer {} ({}{config})",
                layer.digest,
                count(layer.paths.len(), "path")
            ));
            page.table(&COLUMNS, &layer.paths.iter().map(path_row).collect::<Vec<_>>());
        }
        page.into_text()
    }
}

/// Type, mode, owner, size, path.
pub const COLUMNS: [Align; 4] = [Align::Left, Align::Left, Align::Left, Align::Right];

/// A path as a row: type, mode, owner, size, path with its target.
pub fn path_row(entry: &PathEntry) -> Vec<String> {
    let kind = match entry.kind {
        PathType::Whiteout => "removed",
        PathType::Opaque => "emptied",
        kind => kind.as_str(),
    };
    let owner = entry.uid.zip(entry.gid).map(|(uid, gid)| format!("{uid}:{gid}"));
    let path = match (&entry.target, entry.kind) {
        (Some(target), PathType::Hardlink) => format!("{} = {target}", entry.path),
        (Some(target), _) => format!("{} -> {target}", entry.path),
        (None, _) => entry.path.clone(),
    };
    vec![
        kind.to_owned(),
        entry.mode.clone().unwrap_or_default(),
        owner.unwrap_or_default(),
        entry.size.map(size).unwrap_or_default(),
        path,
    ]
}
