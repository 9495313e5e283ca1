//! The part: the program `cluster-api`, and `config`, the manifests of its release.

use std::path::Path;

use crate::child::{finish, run};
use crate::make::{go, go_tools};
use crate::parts::source;

/// The module of the part, below `tests/`.
const MODULE: &str = "parts/cluster-api";
const UPSTREAM: &str = "sigs.k8s.io/cluster-api";

/// Builds the program, and copies the manifests from the same version of its module.
pub fn make(directory: &Path) {
    go_tools(MODULE, "", None, directory);
    let mut list = go(["list", "-m", "-f", "{{.Dir}}", UPSTREAM]);
    let sources = finish(list.current_dir(source(MODULE)), &[]).ok().text();
    let config = Path::new(sources.trim()).join("config");
    // Files in the cache of modules are read-only.
    let copy = ["-r".as_ref(), "--no-preserve=mode".as_ref(), config.as_path(), directory];
    run("cp", copy);
}
