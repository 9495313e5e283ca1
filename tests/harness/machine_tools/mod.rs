//! bootc and rpm-ostree of the machines of tests: stand-ins, or the real programs where the
//! environment names them. Neither is a Debian package or a crate, so tests do not build them.
//!
//! In: `LAB_BOOTC`, the program bootc; `LAB_RPM_OSTREE`, a directory with what `make install
//! DESTDIR=…` of rpm-ostree wrote. Each takes the place of its stand-in (`lab/base/bootc`,
//! `lab/base/rpm-ostree`), with the Debian packages that it runs. Both are built for Debian 12. Their
//! content is part of the version of a base, so bases with and without them are kept side by side.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fmt, fs};

use mosb_api::rollout::NodeTool;

use crate::child::run;
use crate::make::hash;
use crate::parts::source;

/// Below `tests/`.
pub const RECIPE: &str = "harness/machine_tools";
pub const BOOTC: &str = "harness/lab/base/bootc";
pub const RPM_OSTREE: &str = "harness/lab/base/rpm-ostree";
pub const RPM_OSTREE_UNIT: &str = "harness/lab/base/rpm-ostreed.service";

const BOOTC_VARIABLE: &str = "LAB_BOOTC";
const RPM_OSTREE_VARIABLE: &str = "LAB_RPM_OSTREE";
/// In its install tree.
const RPM_OSTREE_PROGRAM: &str = "usr/bin/rpm-ostree";
/// What `bootc switch` runs.
const BOOTC_PACKAGES: &str = "podman";
/// The libraries of rpm-ostree, the settings of librpm, what the daemon asks and runs, `rpm` and
/// `rpmbuild` for its database, and NSS for the user of its unit.
const RPM_OSTREE_PACKAGES: &str = "libarchive13,libcap2,libglib2.0-0,libjson-c5,libjson-glib-1.0-0,\
    libmodulemd2,libostree-1-1,libpolkit-gobject-1-0,librepo0,librpm9,librpmio9,libsolv1,libsolvext1,\
    libsqlite3-0,libssl3,libstdc++6,libsystemd0,zlib1g,rpm-common,rpm,polkitd,dbus,bubblewrap,\
    libnss-systemd";

/// The programs of this run.
#[derive(Debug)]
pub struct MachineTools {
    bootc: Option<PathBuf>,
    rpm_ostree: Option<PathBuf>,
    /// A hash over the real ones, if there are any.
    version: Option<String>,
}

impl MachineTools {
    /// What the environment names.
    #[track_caller]
    pub fn get() -> &'static Self {
        static TOOLS: OnceLock<MachineTools> = OnceLock::new();
        TOOLS.get_or_init(|| {
            let bootc = named(BOOTC_VARIABLE, "");
            let rpm_ostree = named(RPM_OSTREE_VARIABLE, RPM_OSTREE_PROGRAM);
            let trees = rpm_ostree.iter().flat_map(|tree| ["usr", "etc"].map(|at| tree.join(at)));
            let real: Vec<PathBuf> = bootc.iter().cloned().chain(trees).collect();
            let version = (!real.is_empty()).then(|| hash(real, []));
            Self { bootc, rpm_ostree, version }
        })
    }

    pub fn is_real(&self, tool: NodeTool) -> bool {
        match tool {
            NodeTool::Bootc => self.bootc.is_some(),
            NodeTool::RpmOstree => self.rpm_ostree.is_some(),
        }
    }

    /// The file of a program.
    pub fn program(&self, tool: NodeTool) -> PathBuf {
        match tool {
            NodeTool::Bootc => self.bootc.clone().unwrap_or_else(|| source(BOOTC)),
            NodeTool::RpmOstree => match &self.rpm_ostree {
                Some(tree) => tree.join(RPM_OSTREE_PROGRAM),
                None => source(RPM_OSTREE),
            },
        }
    }

    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The arguments of mmdebstrap for what the real ones need.
    pub fn debian_arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.bootc.is_some() {
            arguments.push(format!("--include={BOOTC_PACKAGES}"));
        }
        if self.rpm_ostree.is_some() {
            arguments.push(format!("--include={RPM_OSTREE_PACKAGES}"));
            let database = source(RECIPE).join("rpm-database");
            arguments.push(format!("--customize-hook={}", database.display()));
        }
        arguments
    }

    /// Puts the programs into a Debian root.
    #[track_caller]
    pub fn put(&self, root: &Path) {
        put_program(&self.program(NodeTool::Bootc), &root.join("usr/bin/bootc"));
        if let Some(tree) = &self.rpm_ostree {
            let [usr, etc] = ["usr", "etc"].map(|at| tree.join(at));
            let flags = ["--recursive", "--no-dereference", "--preserve=mode"].map(Path::new);
            run("cp", flags.into_iter().chain([usr.as_path(), &etc, root]));
        } else {
            put_program(&self.program(NodeTool::RpmOstree), &root.join("usr/bin/rpm-ostree"));
            let unit = root.join("usr/lib/systemd/system/rpm-ostreed.service");
            fs::copy(source(RPM_OSTREE_UNIT), unit).unwrap();
        }
    }
}

impl fmt::Display for MachineTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("machines of tests have ")?;
        let tools = [(NodeTool::Bootc, &self.bootc), (NodeTool::RpmOstree, &self.rpm_ostree)];
        for (tool, path) in tools {
            let separator = if tool == NodeTool::Bootc { "" } else { ", " };
            match path {
                Some(path) => write!(f, "{separator}the real {tool} ({})", path.display())?,
                None => write!(f, "{separator}a stand-in for {tool}")?,
            }
        }
        Ok(())
    }
}

/// Whether the test that runs leaves out what only the stand-in for a program can do; if so, the run
/// names the test and what it leaves out, also if the test passes.
pub fn skipped_with_real(tool: NodeTool, what: &str) -> bool {
    use std::io::Write as _;
    let is_real = MachineTools::get().is_real(tool);
    if is_real {
        // libtest gives the thread the name of the test. A macro's output is shown after failures only.
        let thread = std::thread::current();
        let test = thread.name().unwrap_or_default();
        let line = format!("{test}: skipped with the real {tool}: {what}\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    is_real
}

/// The path in a variable, if it is set and not empty; it must lead to a program at `below`.
#[track_caller]
fn named(variable: &str, below: &str) -> Option<PathBuf> {
    let path = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)?;
    let program = if below.is_empty() { path.clone() } else { path.join(below) };
    assert!(
        program.is_absolute() && program.is_file(),
        "{variable}={}: {} must be an absolute path of a program; see CONTRIBUTING.md",
        path.display(),
        program.display()
    );
    Some(path)
}

fn put_program(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap_or_else(|why| panic!("{}: {why}", from.display()));
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
}
