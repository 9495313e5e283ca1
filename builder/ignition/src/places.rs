//! Checks the entries of a config against each other: paths below links, and units at the paths of
//! other entries.

use std::collections::{HashMap, HashSet};

use mosb_types::Finding;

use crate::config::{Owner, Storage, Systemd};
use crate::error::shown;
use crate::sink::Sink;

/// Where Ignition writes units.
const UNITS: &str = "/etc/systemd/system/";

/// Checks all entries against each other. Their indices must be the same as in the config.
pub(super) fn check(sink: &Sink, storage: &Storage, systemd: &Systemd) {
    links_in_the_way(sink, storage);
    units_in_the_way(sink, storage, systemd);
    hard_links(sink, storage);
}

/// Every node of the config: list, index, path.
fn nodes(storage: &Storage) -> impl Iterator<Item = (&'static str, usize, &str)> {
    let directories =
        storage.directories.iter().enumerate().map(|(i, d)| ("directories", i, d.path.as_str()));
    let files = storage.files.iter().enumerate().map(|(i, f)| ("files", i, f.path.as_str()));
    let links = storage.links.iter().enumerate().map(|(i, l)| ("links", i, l.path.as_str()));
    directories.chain(files).chain(links)
}

fn links_in_the_way(sink: &Sink, storage: &Storage) {
    let links: HashMap<&str, usize> =
        storage.links.iter().enumerate().map(|(i, l)| (l.path.as_str(), i)).collect();
    for (list, index, path) in nodes(storage) {
        let above = path.match_indices('/').filter(|(at, _)| *at > 0).map(|(at, _)| &path[..at]);
        for link in above.filter_map(|above| links.get(above)) {
            let message = format!(
                "lies under {}, which storage.links[{link}] makes a link; give the path that the link leads to",
                shown(&storage.links[*link].path)
            );
            sink.problem(
                Finding::new("link-in-the-way", message)
                    .object(format!("storage.{list}[{index}].path"))
                    .path(path),
            );
        }
    }
}

fn units_in_the_way(sink: &Sink, storage: &Storage, systemd: &Systemd) {
    let written = |contents: &Option<String>| contents.as_ref().is_some_and(|c| !c.is_empty());
    let mut paths = HashSet::new();
    for unit in &systemd.units {
        if written(&unit.contents) {
            paths.insert(format!("{UNITS}{}", unit.name));
        }
        for dropin in unit.dropins.iter().filter(|d| written(&d.contents)) {
            paths.insert(format!("{UNITS}{}.d/{}", unit.name, dropin.name));
        }
    }
    for (list, index, path) in nodes(storage).filter(|(_, _, path)| paths.contains(*path)) {
        let message = "a unit or drop-in of this config is written there; keep one of the two";
        sink.problem(
            Finding::new("unit-in-the-way", message)
                .object(format!("storage.{list}[{index}].path"))
                .path(path),
        );
    }
}

fn hard_links(sink: &Sink, storage: &Storage) {
    let directories: HashSet<&str> = storage.directories.iter().map(|d| d.path.as_str()).collect();
    for (index, link) in storage.links.iter().enumerate().filter(|(_, link)| link.hard) {
        let finding = |code, field: &str, message: &str| {
            Finding::new(code, message)
                .object(format!("storage.links[{index}]{field}"))
                .path(link.path.as_str())
        };
        let target = if link.target.starts_with('/') {
            clean(&link.target)
        } else {
            // As Ignition checks it, though it creates the link to a target relative to the root.
            clean(&format!("{}/{}", link.path, link.target))
        };
        if directories.contains(target.as_str()) {
            sink.problem(finding(
                "bad-link",
                "",
                "a hard link can't lead to a directory; make it a symbolic link",
            ));
        }
        for (key, owner) in [("user", &link.user), ("group", &link.group)] {
            let field = match owner {
                Owner::Unset => continue,
                Owner::Id(_) => format!(".{key}.id"),
                Owner::Name(_) => format!(".{key}.name"),
            };
            sink.warn(finding(
                "hard-link-owner",
                &field,
                "is ignored: a hard link has the owner of its target",
            ));
        }
    }
}

/// An absolute path without `.`, `..` and superfluous slashes.
pub(super) fn clean(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

/// Checks that a path is absolute and clean, as every path in a config must be.
pub(super) fn check_path(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("a path is missing".to_owned());
    }
    let Some(inner) = path.strip_prefix('/') else {
        return Err(format!("{} must be absolute: begin with a slash", shown(path)));
    };
    if !inner.is_empty() && inner.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err(format!(
            "{} must be written without `.`, `..`, doubled or trailing slashes",
            shown(path)
        ));
    }
    Ok(())
}
