//! The paths by which two trees differ.

use std::cmp::Ordering;
use std::ops::Range;

use super::super::{Entry, ROOT};
use super::BaseTree;

/// A path that one of two trees doesn't have, or that both have with differences.
#[derive(Debug, Clone, Copy)]
pub struct Difference<'a, 'p> {
    /// Without the leading slash.
    pub path: &'p [u8],
    pub from: Option<Sided<'a>>,
    pub to: Option<Sided<'a>>,
}

/// The path in one of the trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sided<'a> {
    pub entry: Entry<'a>,
    /// The content of a file that is retained.
    pub content: Option<&'a [u8]>,
}

/// The nodes of a directory of both trees that are still to be compared.
#[derive(Debug)]
struct Level {
    from: Range<u32>,
    to: Range<u32>,
    /// How much of the path is that of the directory.
    path: usize,
}

impl BaseTree {
    /// Calls `each` with every path below the root that differs, a directory before what is in it, in
    /// the order of the names. Contents are compared where both trees retain them.
    ///
    /// However damaged the trees are, it ends: no more is compared than they have nodes.
    pub fn differences<'a>(&'a self, to: &'a Self, mut each: impl FnMut(Difference<'a, '_>)) {
        let mut path = Vec::new();
        let mut levels = vec![Level { from: self.nodes_in(ROOT), to: to.nodes_in(ROOT), path: 0 }];
        // A step for each node, and one for the end of its directory.
        for _ in 0..2 * (self.paths() + to.paths()) {
            let Some(level) = levels.last_mut() else { return };
            path.truncate(level.path);
            let names = (self.first(&level.from), to.first(&level.to));
            let (name, order) = match names {
                (None, None) => {
                    levels.pop();
                    continue;
                }
                (Some(name), None) => (name, Ordering::Less),
                (None, Some(name)) => (name, Ordering::Greater),
                (Some(one), Some(other)) => (one.min(other), one.cmp(other)),
            };
            let before = (order != Ordering::Greater).then(|| level.from.next()).flatten();
            let after = (order != Ordering::Less).then(|| level.to.next()).flatten();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            let sides = (self.sided(before), to.sided(after));
            if differ(sides) {
                each(Difference { path: &path, from: sides.0, to: sides.1 });
            }
            let nodes =
                |tree: &Self, node: Option<u32>| node.map_or(0..0, |node| tree.nodes_in(node));
            let (from, to) = (nodes(self, before), nodes(to, after));
            if !from.is_empty() || !to.is_empty() {
                levels.push(Level { from, to, path: path.len() });
            }
        }
    }

    fn nodes_in(&self, directory: u32) -> Range<u32> {
        let (low, high) =
            self.node(directory).and_then(|node| self.range(node)).unwrap_or_default();
        low..high.min(self.nodes)
    }

    fn first(&self, nodes: &Range<u32>) -> Option<&[u8]> {
        let first = nodes.clone().next()?;
        self.name(self.node(first)?)
    }

    fn sided(&self, node: Option<u32>) -> Option<Sided<'_>> {
        let entry = self.entry(self.node(node?)?)?;
        Some(Sided { entry, content: self.content_of(node?) })
    }
}

fn differ(sides: (Option<Sided<'_>>, Option<Sided<'_>>)) -> bool {
    let (Some(from), Some(to)) = sides else { return true };
    from.entry != to.entry || from.content.zip(to.content).is_some_and(|(from, to)| from != to)
}

#[cfg(test)]
mod tests {
    use super::super::super::OwnedEntry;
    use super::*;

    #[test]
    fn differing_paths_come_in_order() {
        let tree = |entries: &[(&str, OwnedEntry)]| {
            let entries = entries.iter();
            BaseTree::from_entries(
                entries.map(|(path, entry)| (path.as_bytes().to_vec(), entry.clone())),
            )
        };
        let file = |content: &str| OwnedEntry::file(content.as_bytes());
        let unknown = |content: &str| OwnedEntry { content: None, ..file(content) };
        let from = tree(&[
            ("etc/a", file("one")),
            ("etc/same", file("same")),
            ("etc/unknown", unknown("one")),
            ("old/x", file("x")),
            ("was-directory/x", file("x")),
            ("usr/bin", OwnedEntry::symlink("a")),
        ]);
        let to = tree(&[
            ("etc/a", file("two")),
            ("etc/same", file("same")),
            ("etc/unknown", unknown("two")),
            ("etc/z", file("z")),
            ("was-directory", file("")),
            ("usr/bin", OwnedEntry::symlink("b")),
            ("x/y/z/a/b/c/d/e/f/g", file("deep")),
        ]);
        let listed = |from: &BaseTree, to: &BaseTree| {
            let mut listed = Vec::new();
            from.differences(to, |found| {
                let sign = match (found.from, found.to) {
                    (None, _) => '+',
                    (_, None) => '-',
                    (Some(_), Some(_)) => '~',
                };
                listed.push(format!("{sign}{}", String::from_utf8_lossy(found.path)));
            });
            listed
        };
        let want = [
            "~etc/a",
            "+etc/z",
            "-old",
            "-old/x",
            "~usr/bin",
            "~was-directory",
            "-was-directory/x",
        ];
        assert_eq!(listed(&from, &to)[..7], want);
        assert_eq!(listed(&to, &from).len(), want.len() + 10);
        assert!(listed(&from, &from).is_empty());
        assert_eq!(listed(&BaseTree::default(), &to).len(), to.paths() - 1);
    }
}
