//! The entries of a config that the trust store is compiled from.

use std::collections::BTreeMap;

use serde::Serialize;

use mosb_ignition::{Config, Owner, Resource, Storage};
use mosb_image::Digest;

use super::obstacle::Obstacle;

/// Most unpacked bytes of one file: a bundle of all public authorities has less than 1 MiB.
const FILE_LIMIT: u64 = 16 << 20;

/// A config without these entries, which the prepared base has.
pub(in crate::plan) fn without_trust_files(config: &Config) -> Config {
    let mut config = config.clone();
    let Storage { files, directories, links, .. } = &mut config.storage;
    files.retain(|file| !is_trust_file(&file.path));
    directories.retain(|directory| !is_trust_file(&directory.path));
    links.retain(|link| !is_trust_file(&link.path));
    config
}

/// An entry as the config has it. What it becomes also depends on the base: its content may stay, and
/// its mode and owner, if they are not set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub(super) enum TrustEntry {
    File {
        overwrite: Option<bool>,
        mode: Option<u32>,
        owner: [Option<u32>; 2],
        content: Option<Digest>,
        append: Vec<Digest>,
    },
    Directory {
        overwrite: Option<bool>,
        mode: Option<u32>,
        owner: [Option<u32>; 2],
    },
    Link {
        overwrite: Option<bool>,
        owner: [Option<u32>; 2],
        target: String,
        hard: bool,
    },
}

/// The entries of a config for which [`is_trust_file`] holds, by path.
pub(super) fn trust_files(config: &Config) -> Result<BTreeMap<String, TrustEntry>, Obstacle> {
    let storage = &config.storage;
    let mut found = BTreeMap::new();
    for file in storage.files.iter().filter(|file| is_trust_file(&file.path)) {
        let digest = |part: &Resource| {
            let bytes = part.bytes(FILE_LIMIT);
            bytes.map(|bytes| Digest::of(&bytes)).map_err(|source| Obstacle::Content {
                path: file.path.clone(),
                problem: source.to_string(),
            })
        };
        let contents = file.contents.as_ref().filter(|contents| contents.source.is_some());
        let entry = TrustEntry::File {
            overwrite: file.overwrite,
            mode: file.mode,
            owner: owners(&file.path, &file.user, &file.group)?,
            content: contents.map(digest).transpose()?,
            append: file.append.iter().map(digest).collect::<Result<_, _>>()?,
        };
        found.insert(file.path.clone(), entry);
    }
    for directory in storage.directories.iter().filter(|one| is_trust_file(&one.path)) {
        let entry = TrustEntry::Directory {
            overwrite: directory.overwrite,
            mode: directory.mode,
            owner: owners(&directory.path, &directory.user, &directory.group)?,
        };
        found.insert(directory.path.clone(), entry);
    }
    for link in storage.links.iter().filter(|link| is_trust_file(&link.path)) {
        let entry = TrustEntry::Link {
            overwrite: link.overwrite,
            owner: owners(&link.path, &link.user, &link.group)?,
            target: link.target.clone(),
            hard: link.hard,
        };
        found.insert(link.path.clone(), entry);
    }
    Ok(found)
}

/// User and group by number. Another name than root's could be one that the rest of the config or a
/// package brings.
fn owners(path: &str, user: &Owner, group: &Owner) -> Result<[Option<u32>; 2], Obstacle> {
    let number = |owner: &Owner| match owner {
        Owner::Unset => Ok(None),
        Owner::Id(id) => Ok(Some(*id)),
        Owner::Name(name) if name == "root" => Ok(Some(0)),
        Owner::Name(_) => Err(Obstacle::Owner { path: path.to_owned() }),
    };
    Ok([number(user)?, number(group)?])
}

/// `update-ca-trust` adds the files below it to the trust store.
pub(in crate::plan) const CA_TRUST_SOURCE: &str = "/etc/pki/ca-trust/source/";

/// Whether the entry of a config at this path is written before the trust store is compiled.
pub(crate) fn is_trust_file(path: &str) -> bool {
    path.starts_with(CA_TRUST_SOURCE)
}
