//! A part that is built from source, and its directory.
//!
//! A part is in `${XDG_CACHE_HOME:-~/.cache}/mosb/parts/<name>-<version>`, outside the checkout, so
//! that a new clone reuses it. The first test that needs a part builds it; `make parts` builds all.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, thread};

use crate::machine_tools::MachineTools;
use crate::make::{self, Make};

/// A part: a directory of files with a name and a version.
#[derive(Debug)]
pub struct Part {
    pub name: &'static str,
    pub(crate) version: Version,
    pub(crate) needs: &'static [&'static Part],
    pub(crate) make: Make,
}

/// The version of a part, which identifies its content.
#[derive(Debug)]
pub(crate) enum Version {
    /// The version of its upstream project.
    Released(&'static str),
    /// A hash over these files and directories of `tests/`, and over the versions of the parts that
    /// it needs.
    Sources(&'static [&'static str]),
    /// The same, and over the real programs that machines of tests get; see `machine_tools`.
    SourcesAndTools(&'static [&'static str]),
}

/// The number of parallel builds, so that one compiles while another downloads or links.
const AT_ONCE: usize = 2;

impl Part {
    /// The directory of the part, which is built now if it is missing.
    #[track_caller]
    pub fn directory(&self) -> PathBuf {
        let directory = self.place();
        if !directory.exists() {
            self.make(&directory, "");
        }
        directory
    }

    #[track_caller]
    fn make(&self, directory: &Path, count: &str) {
        for part in self.needs {
            part.directory();
        }
        make::make(&self.make, self.name, &self.version(), directory, count);
    }

    fn place(&self) -> PathBuf {
        cache().join(format!("{}-{}", self.name, self.version()))
    }

    /// The path of the part's program.
    #[track_caller]
    pub fn program(&self) -> PathBuf {
        self.directory().join(self.name)
    }

    /// The released version, or a hash over the sources.
    pub fn version(&self) -> String {
        match self.version {
            Version::Released(version) => version.to_owned(),
            Version::Sources(paths) => self.hash(paths, None),
            Version::SourcesAndTools(paths) => self.hash(paths, MachineTools::get().version()),
        }
    }

    fn hash(&self, paths: &[&str], tools: Option<&str>) -> String {
        let needs = self.needs.iter().map(|part| part.version());
        let versions = needs.chain(tools.map(str::to_owned));
        make::hash(paths.iter().map(|path| source(path)), versions)
    }
}

/// A path below `tests/`.
pub fn source(path: &str) -> PathBuf {
    crate::repository().join("tests").join(path)
}

/// The directory of all parts.
pub fn cache() -> PathBuf {
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| env::home_dir().map(|home| home.join(".cache")))
        .expect("a home directory, or XDG_CACHE_HOME, to keep the built parts in");
    base.join("mosb/parts")
}

/// Builds the missing ones of these, and prints the directory of each.
pub(crate) fn make_missing(parts: &[&Part]) {
    let missing: Vec<_> = parts.iter().filter(|part| !part.place().exists()).enumerate().collect();
    let next = AtomicUsize::new(0);
    let build = || {
        while let Some((index, part)) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            part.make(&part.place(), &format!("[{}/{}] ", index + 1, missing.len()));
        }
    };
    thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(build))));
    for part in parts {
        println!("{}: {}", part.name, part.place().display());
    }
}
