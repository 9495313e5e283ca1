//! The packages of an image, as its package database lists them.
//!
//! Input: the bytes of a database, as they stream by: rpm's SQLite file or dpkg's status file.
//! Output: [`Packages`], sorted, or why the database can't be read. Invariant: memory is bounded for
//! any bytes, and no bytes make reading panic or loop.
//!
//! A tree retains a [`Listing`] in the place of the content of a database.

mod distribution;
mod dpkg;
mod rpm;
mod rpm_header;
mod sqlite;

#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "only tests call it")]
mod database;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, BufRead, Cursor, Read as _};

use crate::tree::BaseTree;
#[cfg(any(test, feature = "testing"))]
pub use database::{header as rpm_header, rpm_database};
pub use distribution::Distribution;
use mosb_types::{Finding, error_text};

/// The most bytes of a database; rpm's have up to 120 MB.
pub(crate) const MAX_SIZE: u64 = 512 << 20;
/// The most packages of a database; all of Fedora has some 70 000.
const MAX_PACKAGES: usize = 1 << 17;
/// The most bytes of a name, a version or an architecture.
const MAX_FIELD: usize = 1 << 10;
/// The most bytes of all fields of a database; a big base has some 30 KiB.
const MAX_FIELDS: usize = 8 << 20;

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Package {
    pub name: String,
    /// As the package manager prints it: `[epoch:]version[-release]`.
    pub version: String,
    /// Absent for what has none, such as rpm's public keys.
    pub arch: Option<String>,
    /// In whose database it is.
    pub manager: Manager,
}

/// The packages of an image, sorted; there may be several of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packages(Vec<Package>);

/// The package manager of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Manager {
    Rpm,
    Dpkg,
}

/// How much of a database is held in memory while it streams by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// A few pages: enough for a database that was written in order.
    Streaming,
    /// Most of its pages.
    Thorough,
}

/// Why a package database can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The layer that it is in can't be read.
    #[error("can't be read")]
    Io(#[from] io::Error),
    #[error(
        "it is not an SQLite file in UTF-8; convert it with rpm --rebuilddb where the image is made"
    )]
    NotSqlite,
    #[error("page {page}: {what}; repair it with rpm --rebuilddb where the image is made")]
    Page { page: u32, what: &'static str },
    #[error("the header of a package: {0}; repair it with rpm --rebuilddb where the image is made")]
    Header(&'static str),
    #[error("it has no table Packages; repair it with rpm --rebuilddb where the image is made")]
    NoTable,
    #[error("a package has {0}; repair it where the image is made")]
    Field(&'static str),
    #[error("it has more than {limit} {what}, and no more are read; choose another image")]
    TooMuch { what: &'static str, limit: usize },
    /// Streaming only: the database must be read again, [`Effort::Thorough`].
    #[error(
        "its pages are in an order that needs too much memory; repair it with rpm --rebuilddb where the image is made"
    )]
    Order,
}

impl Packages {
    /// # Errors
    /// There are too many.
    fn new(mut packages: Vec<Package>) -> Result<Self, DatabaseError> {
        if packages.len() > MAX_PACKAGES {
            return Err(DatabaseError::TooMuch { what: "packages", limit: MAX_PACKAGES });
        }
        packages.sort_unstable();
        Ok(Self(packages))
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Package> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Package {
    fn size(&self) -> usize {
        self.name.len() + self.version.len() + self.arch.as_ref().map_or(0, String::len)
    }
}

/// A field of a package; control characters would break the lines of a listing.
fn field(bytes: &[u8]) -> Result<String, DatabaseError> {
    let text = String::from_utf8_lossy(bytes);
    if text.is_empty() {
        return Err(DatabaseError::Field("an empty name or version"));
    }
    if text.len() > MAX_FIELD {
        return Err(DatabaseError::Field("a name or version of more than 1024 bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err(DatabaseError::Field("a control character in its name or version"));
    }
    Ok(text.into_owned())
}

/// Packages that are collected within bounds.
#[derive(Debug, Default)]
struct Collected {
    packages: Vec<Package>,
    bytes: usize,
}

impl Collected {
    fn add(&mut self, package: Package) -> Result<(), DatabaseError> {
        self.bytes += package.size();
        if self.bytes > MAX_FIELDS {
            let what = "bytes in names and versions of packages";
            return Err(DatabaseError::TooMuch { what, limit: MAX_FIELDS });
        }
        if self.packages.len() == MAX_PACKAGES {
            return Err(DatabaseError::TooMuch { what: "packages", limit: MAX_PACKAGES });
        }
        self.packages.push(package);
        Ok(())
    }
}

impl Manager {
    /// Where its database may be.
    pub fn databases(self) -> &'static [&'static str] {
        match self {
            Self::Rpm => &[
                "usr/lib/sysimage/rpm/rpmdb.sqlite",
                "usr/share/rpm/rpmdb.sqlite",
                "var/lib/rpm/rpmdb.sqlite",
            ],
            Self::Dpkg => &[
                "var/lib/dpkg/status",
                "usr/lib/dpkg-db/status",
                "usr/share/factory/var/lib/dpkg/status",
            ],
        }
    }

    /// Whose database a path is.
    pub fn of_path(path: &[u8]) -> Option<Self> {
        let is_database =
            |manager: &Self| manager.databases().iter().any(|database| database.as_bytes() == path);
        [Self::Rpm, Self::Dpkg].into_iter().find(is_database)
    }

    /// Whose database a file looks like by its first bytes.
    pub fn of_content(start: &[u8]) -> Option<Self> {
        if start.starts_with(sqlite::MAGIC) {
            Some(Self::Rpm)
        } else {
            start.starts_with(b"Package: ").then_some(Self::Dpkg)
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rpm => "rpm",
            Self::Dpkg => "dpkg",
        }
    }

    /// Reads what [`as_str`](Self::as_str) wrote.
    fn parse(text: &str) -> Option<Self> {
        [Self::Rpm, Self::Dpkg].into_iter().find(|manager| manager.as_str() == text)
    }

    /// Reads a database.
    ///
    /// # Errors
    /// If it is damaged, or exceeds a limit.
    pub fn read(self, bytes: impl BufRead, effort: Effort) -> Result<Packages, DatabaseError> {
        match self {
            Self::Rpm => rpm::read(bytes, effort),
            Self::Dpkg => dpkg::read(bytes),
        }
    }
}

impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a tree retains of a package database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    Packages(Packages),
    /// Why it can't be read.
    Unreadable(Manager, String),
}

/// No text file begins with it.
const MAGIC: &[u8] = b"\0mosb packages\n";
const UNREADABLE: &str = "unreadable ";

impl Listing {
    /// Reads a database from a layer. `None` if it must be read again,
    /// [`Thorough`](Effort::Thorough).
    ///
    /// # Errors
    /// The layer can't be read.
    pub fn read(manager: Manager, bytes: impl BufRead, effort: Effort) -> io::Result<Option<Self>> {
        Ok(Some(match manager.read(bytes, effort) {
            Ok(packages) => Self::Packages(packages),
            Err(DatabaseError::Io(error)) => return Err(error),
            Err(DatabaseError::Order) if effort == Effort::Streaming => return Ok(None),
            Err(error) => Self::Unreadable(manager, error_text(&error)),
        }))
    }

    /// Reads a database that the first bytes show to be one.
    ///
    /// # Errors
    /// As [`Listing::read`].
    pub fn detect(mut bytes: impl BufRead) -> io::Result<Option<Self>> {
        let mut start = Vec::with_capacity(sqlite::MAGIC.len());
        (&mut bytes).take(sqlite::MAGIC.len() as u64).read_to_end(&mut start)?;
        match Manager::of_content(&start) {
            Some(manager) => {
                Self::read(manager, Cursor::new(start).chain(bytes), Effort::Streaming)
            }
            None => Ok(None),
        }
    }

    /// Whether the content of a file in a tree is a listing.
    pub fn is_listing(content: &[u8]) -> bool {
        content.starts_with(MAGIC)
    }

    /// The bytes that a tree retains; equal listings have equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = String::new();
        match self {
            Self::Packages(packages) => {
                for Package { name, version, arch, manager } in packages.iter() {
                    let arch = arch.as_deref().unwrap_or_default();
                    text.extend([name, "\t", version, "\t", arch, "\t", manager.as_str(), "\n"]);
                }
            }
            Self::Unreadable(manager, cause) => {
                text.extend([UNREADABLE, manager.as_str(), "\t", cause]);
            }
        }
        [MAGIC, text.as_bytes()].concat()
    }

    /// Reads what [`Listing::to_bytes`] wrote; a line that it can't have written is left out.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes.strip_prefix(MAGIC)?).ok()?;
        if let Some((manager, cause)) =
            text.strip_prefix(UNREADABLE).and_then(|rest| rest.split_once('\t'))
        {
            return Some(Self::Unreadable(Manager::parse(manager)?, cause.to_owned()));
        }
        let package = |line: &str| {
            let mut fields = line.split('\t').map(str::to_owned);
            let (name, version) = (fields.next()?, fields.next()?);
            let arch = fields.next()?;
            let arch = (!arch.is_empty()).then_some(arch);
            let manager = Manager::parse(&fields.next()?)?;
            Some(Package { name, version, arch, manager })
        };
        Packages::new(text.lines().filter_map(package).collect()).ok().map(Self::Packages)
    }
}

/// The packages of a tree, of all its package managers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installed {
    pub packages: Packages,
    /// What they are of.
    pub distribution: Option<Distribution>,
    /// Databases that can't be read.
    pub warnings: Vec<Finding>,
}

impl Installed {
    /// Reads what the tree retains.
    pub fn of(tree: &BaseTree) -> Self {
        let mut installed = Self { distribution: Distribution::of(tree), ..Self::default() };
        for listing in tree.listings().filter_map(Listing::from_bytes) {
            match listing {
                Listing::Packages(packages) => installed.packages.0.extend(packages.0),
                Listing::Unreadable(manager, cause) => installed.warnings.push(Finding::new(
                    "package-database",
                    format!("the {manager} database can't be read, so its packages are not listed: {cause}"),
                )),
            }
        }
        installed.packages.0.sort_unstable();
        installed
    }
}
