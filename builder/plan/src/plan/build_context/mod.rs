//! The build context of an administrator's Containerfile: what it copies or mounts of a directory.
//!
//! Input: the paths of a directory, and the [uses](ContextPath) of the Containerfile. Output: a
//! [`BuildContext`] with exactly what is used, by digest. Invariant: a build sees nothing else of
//! the directory, so what is not used is not an input.

mod pattern;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

pub use pattern::IgnoreFile;
use pattern::Pattern;

use mosb_image::Digest;
use mosb_types::Diagnostic;

/// A use of the build context.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextPath {
    /// From 1.
    pub line: usize,
    /// `COPY`, `ADD` or `RUN --mount`.
    pub by: &'static str,
    /// A pattern for `COPY` and `ADD`, a path for `RUN --mount`, where it may be empty. None if its
    /// variables are not known before the build.
    pub path: Option<String>,
}

/// `COPY files/`.
impl fmt::Display for ContextPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_deref() {
            Some("") => write!(f, "{} of the whole build context", self.by),
            Some(path) => {
                let shown: String = path.chars().take(100).collect();
                write!(f, "{} {shown}", self.by)
            }
            None => write!(f, "{} of a path in a variable", self.by),
        }
    }
}

/// What a build takes of a directory, by the path in it, without a slash at the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BuildContext(BTreeMap<String, ContextEntry>);

/// A node of the directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ContextEntry {
    Directory {
        mode: u32,
    },
    File {
        mode: u32,
        size: u64,
        digest: Digest,
    },
    /// It is copied as a link and never followed.
    Link {
        target: String,
    },
}

/// A path that the directory doesn't have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[error(
    "Containerfile, line {line}: {what}: the build context has no such path (links in a path are not followed, and the ignore file counts); correct the path or --context"
)]
#[diagnostic(code = "not-in-context", class = InvalidInput)]
pub struct MissingPath {
    /// From 1.
    pub line: usize,
    /// The instruction and the path.
    pub what: String,
}

/// Whether a path of the directory is a link.
pub type Listing = BTreeMap<String, bool>;

/// The paths of a directory that a Containerfile uses, of all that it has and that are not ignored.
///
/// # Errors
/// A use of something that is not there.
pub fn used_paths<'a>(
    listing: &'a Listing,
    uses: &[ContextPath],
) -> Result<Vec<&'a str>, MissingPath> {
    let mut tops: Vec<&str> = Vec::new();
    for one in uses {
        let Some(pattern) = one.path.as_deref().map(|path| Pattern::of_use(one.by, path)) else {
            return Ok(listing.keys().map(String::as_str).collect());
        };
        if pattern.is_all() {
            return Ok(listing.keys().map(String::as_str).collect());
        }
        let before = tops.len();
        let matching = listing.iter().filter(|(path, is_link)| !**is_link && pattern.matches(path));
        tops.extend(matching.map(|(path, _)| path.as_str()));
        if tops.len() == before {
            return Err(MissingPath { line: one.line, what: one.to_string() });
        }
    }
    tops.sort_unstable();
    tops.dedup();
    let mut used = Vec::new();
    for top in tops {
        let below = format!("{top}/");
        used.extend(listing.get_key_value(top).map(|(path, _)| path.as_str()));
        let range = listing.range(below.clone()..);
        used.extend(
            range.map(|(path, _)| path.as_str()).take_while(|path| path.starts_with(&below)),
        );
    }
    used.sort_unstable();
    used.dedup();
    Ok(used)
}

impl BuildContext {
    pub fn new(entries: BTreeMap<String, ContextEntry>) -> Self {
        Self(entries)
    }

    /// All entries, parents before what is in them.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &ContextEntry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// What some of its uses need.
    pub fn part(&self, uses: &[ContextPath]) -> Self {
        let is_link = |entry: &ContextEntry| matches!(entry, ContextEntry::Link { .. });
        let listing = self.0.iter().map(|(path, entry)| (path.clone(), is_link(entry))).collect();
        // It was made of more uses, so none is missing.
        let used = used_paths(&listing, uses).unwrap_or_default();
        let entry = |path: &str| Some((path.to_owned(), self.0.get(path)?.clone()));
        Self(used.into_iter().filter_map(entry).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(paths: &[&str]) -> Listing {
        let link = |path: &&str| path.ends_with('@');
        paths.iter().map(|path| (path.trim_end_matches('@').to_owned(), link(path))).collect()
    }

    #[test]
    fn only_what_is_used_is_taken() {
        let all = ["a", "a/b", "a/b/c", "a-b", "d.conf", "d.txt", "l@", "x/l@"];
        let of = |by: &'static str, path: Option<&str>| {
            let uses = [ContextPath { line: 3, by, path: path.map(str::to_owned) }];
            let listing = listing(&all);
            let used = used_paths(&listing, &uses);
            used.map(|used| used.join(" ")).map_err(|error| error.line)
        };
        for (path, want) in [
            ("a", Ok("a a/b a/b/c")),
            ("a/", Ok("a a/b a/b/c")),
            ("/a/b", Ok("a/b a/b/c")),
            ("./a/../a/b", Ok("a/b a/b/c")),
            ("../../a-b", Ok("a-b")),
            ("*.conf", Ok("d.conf")),
            ("d.*", Ok("d.conf d.txt")),
            ("[a-c]", Ok("a a/b a/b/c")),
            ("x", Err(3)),
            ("x/*", Err(3)),
            ("l", Err(3)),
            ("none*", Err(3)),
            ("a*/none", Err(3)),
        ] {
            let want = want.map(str::to_owned);
            assert_eq!(of("COPY", Some(path)), want, "{path}");
        }
        let whole = Ok("a a-b a/b a/b/c d.conf d.txt l x/l".to_owned());
        for (by, path) in
            [("COPY", Some(".")), ("COPY", Some("/")), ("RUN --mount", Some("")), ("ADD", None)]
        {
            assert_eq!(of(by, path), whole, "{by} {path:?}");
        }
        assert_eq!(of("RUN --mount", Some("d.*")), Err(3), "a mount has no patterns");
    }

    #[test]
    fn a_part_has_what_its_uses_need() {
        let file = |text: &str| ContextEntry::File {
            mode: 0o644,
            size: text.len() as u64,
            digest: Digest::of(text.as_bytes()),
        };
        let entries =
            [("a", ContextEntry::Directory { mode: 0o755 }), ("a/b", file("b")), ("c", file("c"))];
        let all = BuildContext::new(
            entries.into_iter().map(|(path, entry)| (path.to_owned(), entry)).collect(),
        );
        let uses = [ContextPath { line: 1, by: "COPY", path: Some("a".to_owned()) }];
        let part = all.part(&uses);
        assert_eq!(part.entries().map(|(path, _)| path).collect::<Vec<_>>(), ["a", "a/b"]);
    }
}
