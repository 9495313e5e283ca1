//! A path inside an image, from its root.

use std::fmt;
use std::str::FromStr;

/// A path in an image: no empty, `.` or `..` component, no NUL; the root is the empty path. Shown
/// with a leading slash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TreePath(String);

/// Why a text is not a path in an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a clean absolute path")]
pub struct TreePathError(String);

impl TreePath {
    pub fn root() -> Self {
        Self::default()
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Without the leading slash, as a tar names it: `etc/passwd`.
    pub fn relative(&self) -> &str {
        &self.0
    }

    /// The directory that holds it; the root has none.
    pub fn parent(&self) -> Option<TreePath> {
        match self.0.rsplit_once('/') {
            Some((parent, _)) => Some(Self(parent.to_owned())),
            None if self.is_root() => None,
            None => Some(Self::root()),
        }
    }

    /// The last component; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// This component below it.
    ///
    /// # Errors
    /// If `name` isn't one component.
    pub fn join(&self, name: &str) -> Result<TreePath, TreePathError> {
        if !is_component(name) {
            return Err(TreePathError(format!("{self}/{name}")));
        }
        let root = self.is_root();
        Ok(Self(if root { name.to_owned() } else { format!("{}/{name}", self.0) }))
    }

    /// The components from the root down.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|c| !c.is_empty())
    }

    /// All directories above it, from the root down, without itself.
    pub fn ancestors(&self) -> impl Iterator<Item = TreePath> + '_ {
        let root = (!self.is_root()).then(Self::root);
        root.into_iter()
            .chain(self.0.match_indices('/').map(|(at, _)| Self(self.0[..at].to_owned())))
    }

    /// Whether `other` is this path or lies below it.
    pub fn holds(&self, other: &TreePath) -> bool {
        let rest = other.0.strip_prefix(&self.0);
        self.is_root() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

fn is_component(s: &str) -> bool {
    !matches!(s, "" | "." | "..") && !s.contains(['/', '\0'])
}

impl FromStr for TreePath {
    type Err = TreePathError;
    /// Reads `/etc/passwd`, and `/` as the root.
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let wrong = || TreePathError(s.to_owned());
        let rest = s.strip_prefix('/').ok_or_else(wrong)?;
        if rest.is_empty() || rest.split('/').all(is_component) {
            Ok(Self(rest.to_owned()))
        } else {
            Err(wrong())
        }
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_clean_and_absolute() {
        for bad in ["", "etc", "/etc/", "//etc", "/etc//x", "/etc/.", "/../etc", "/a\0b"] {
            assert_eq!(bad.parse::<TreePath>(), Err(TreePathError(bad.to_owned())), "{bad:?}");
        }
        let path: TreePath = "/etc/a/b".parse().unwrap();
        assert_eq!(path.relative(), "etc/a/b");
        assert_eq!(path.name(), "b");
        assert_eq!(
            path.ancestors().map(|p| p.to_string()).collect::<Vec<_>>(),
            ["/", "/etc", "/etc/a"]
        );
        assert_eq!(path.parent().unwrap().join("b"), Ok(path.clone()));
        assert!(
            path.parent().unwrap().holds(&path)
                && path.holds(&path)
                && TreePath::root().holds(&path)
        );
        assert!(!"/etc/a/bc".parse::<TreePath>().unwrap().holds(&path));
        assert!(!"/etc/a/b".parse::<TreePath>().unwrap().holds(&"/etc/a/bc".parse().unwrap()));
        assert!(path.parent().unwrap().join("..").is_err());
    }
}
