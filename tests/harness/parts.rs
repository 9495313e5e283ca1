//! The parts that are built rather than installed: what they are and where they end up.
//!
//! A part lies in `${XDG_CACHE_HOME:-~/.cache}/mosb/parts/<name>-<version>`, outside the checkout,
//! so that a new clone reuses it. It is made when a test first asks for it; `make parts` asks for
//! all.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::make::{self, Make};
use super::{image, lab, ostree, root, vm_base};

/// One part: a directory of files under a name and a version.
#[derive(Debug)]
pub struct Part {
    pub name: &'static str,
    version: Version,
    needs: &'static [&'static Part],
    make: Make,
}

/// What tells one state of a part from another.
#[derive(Debug)]
enum Version {
    /// The version that its project gave it.
    Released(&'static str),
    /// A hash over these files and directories of `tests/`, and over the versions of the parts that
    /// it is made from.
    Sources(&'static [&'static str]),
}

/// The applier, whose tree a direct build must equal.
pub static IGNITION: Part = Part {
    name: "ignition",
    version: Version::Released("2.26.0"),
    needs: &[],
    make: Make::GoInstall {
        package: "github.com/coreos/ignition/v2/internal",
        program: "internal",
    },
};

/// The peer for putting a layer on top of an image.
pub static CRANE: Part = Part {
    name: "crane",
    version: Version::Released("0.22.1"),
    needs: &[],
    make: Make::GoInstall {
        package: "github.com/google/go-containerregistry/cmd/crane",
        program: "crane",
    },
};

/// A registry with the referrers API and token authentication.
pub static REGISTRY: Part = Part {
    name: "registry",
    version: Version::Released("3.1.2"),
    needs: &[],
    make: Make::GoInstall {
        package: "github.com/distribution/distribution/v3/cmd/registry",
        program: "registry",
    },
};

/// A registry that shares no code with the two above.
pub static OLAREG: Part = Part {
    name: "olareg",
    version: Version::Sources(&["parts/olareg"]),
    needs: &[],
    make: Make::GoModule("parts/olareg"),
};

/// Ignition's own parser, validator and merger, as a program that tests ask.
pub static IGNITION_ORACLE: Part = Part {
    name: "ignition-oracle",
    version: Version::Sources(&["parts/ignition-oracle"]),
    needs: &[],
    make: Make::GoModule("parts/ignition-oracle"),
};

/// Helm's engine, without the rest of Helm.
pub static HELM_TEMPLATE: Part = Part {
    name: "helm-template",
    version: Version::Sources(&["parts/helm-template"]),
    needs: &[],
    make: Make::GoModule("parts/helm-template"),
};

/// The importer that rpm-ostree and bootc run on nodes.
pub static OSTREE_EXT_CLI: Part = Part {
    name: "ostree-ext-cli",
    version: Version::Sources(&["parts/ostree-ext-cli"]),
    needs: &[],
    make: Make::Cargo("parts/ostree-ext-cli"),
};

/// etcd (called `server`), the API server, the controller manager, the scheduler, the kubelet and
/// kubectl.
pub static KUBERNETES: Part = Part {
    name: "kubernetes",
    version: Version::Sources(&["parts/kubernetes"]),
    needs: &[],
    make: Make::GoTools {
        module: "parts/kubernetes",
        tags: "",
        variable: Some("k8s.io/component-base/version.gitVersion=v1.34.4"),
    },
};

/// The container runtime of the node, its shim, and `ctr`.
pub static CONTAINERD: Part = Part {
    name: "containerd",
    version: Version::Sources(&["parts/containerd"]),
    needs: &[],
    make: Make::GoTools {
        module: "parts/containerd",
        tags: "no_btrfs no_devmapper no_zfs",
        variable: None,
    },
};

/// What starts the node's containers; without its tag, pods with a user namespace fail.
pub static RUNC: Part = Part {
    name: "runc",
    version: Version::Sources(&["parts/runc"]),
    needs: &[],
    make: Make::GoTools { module: "parts/runc", tags: "seccomp", variable: None },
};

/// A small Debian with systemd, and Ignition and jq where CoreOS has them; see `root.rs`.
pub static DEBIAN_ROOT: Part = Part {
    name: "debian-root",
    version: Version::Sources(&["harness/root.rs"]),
    needs: &[&IGNITION],
    make: Make::Function(root::make),
};

/// That root as a base image made by ostree, and a repository that has imported it; see
/// `ostree.rs`.
pub static OSTREE_BASE: Part = Part {
    name: "ostree-base",
    version: Version::Sources(&["harness/ostree.rs"]),
    needs: &[&DEBIAN_ROOT, &OSTREE_EXT_CLI],
    make: Make::Function(ostree::make),
};

/// The base image of the lab's machines, and a disk with it; see `lab/base`.
pub static LAB_BASE: Part = Part {
    name: "lab-base",
    version: Version::Sources(&["harness/lab/base"]),
    needs: &[&OSTREE_EXT_CLI],
    make: Make::Function(lab::base::make),
};

/// The image that clusters run, without the program; see `image.rs`.
pub static MOSB_ROOT: Part = Part {
    name: "mosb-root",
    version: Version::Sources(&[image::RECIPE]),
    needs: &[],
    make: Make::Function(image::make),
};

/// What a virtual machine boots; see `vm_base.rs`.
pub static VM_BASE: Part = Part {
    name: "vm-base",
    version: Version::Sources(&[
        "harness/vm_base.rs",
        "harness/root.rs",
        "harness/ostree.rs",
        vm_base::RECIPE,
    ]),
    needs: &[&IGNITION, &OSTREE_EXT_CLI],
    make: Make::Function(vm_base::make),
};

/// Every part but [`VM_BASE`]: each after what it is made from, and the longest build first.
static ALL: [&Part; 14] = [
    &KUBERNETES,
    &IGNITION,
    &DEBIAN_ROOT,
    &OSTREE_EXT_CLI,
    &CONTAINERD,
    &REGISTRY,
    &OSTREE_BASE,
    &LAB_BASE,
    &MOSB_ROOT,
    &CRANE,
    &IGNITION_ORACLE,
    &HELM_TEMPLATE,
    &OLAREG,
    &RUNC,
];

/// What the test program `vm` uses, and what that is made from.
static VM: [&Part; 3] = [&IGNITION, &OSTREE_EXT_CLI, &VM_BASE];

/// As many parts are built at once: one is compiled while another is downloaded or linked.
const AT_ONCE: usize = 2;

impl Part {
    /// The directory of this part, made now if it is not there.
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

    /// The program of this part.
    #[track_caller]
    pub fn program(&self) -> PathBuf {
        self.directory().join(self.name)
    }

    /// Released, or a hash over what it is made of.
    pub fn version(&self) -> String {
        match self.version {
            Version::Released(version) => version.to_owned(),
            Version::Sources(paths) => make::hash(
                paths.iter().map(|path| source(path)),
                self.needs.iter().map(|part| part.version()),
            ),
        }
    }
}

/// A file or directory of the tests.
pub fn source(path: &str) -> PathBuf {
    crate::repository().join("tests").join(path)
}

/// Where parts are stored.
pub fn cache() -> PathBuf {
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| env::home_dir().map(|home| home.join(".cache")))
        .expect("a home directory, or XDG_CACHE_HOME, to keep the built parts in");
    base.join("mosb/parts")
}

/// Makes every part that is not there, but the base of virtual machines, and prints where each is.
pub fn make_all() {
    make_missing(&ALL);
}

/// Makes what the test program `vm` uses, and prints where it is.
pub fn make_for_vm() {
    make_missing(&VM);
}

fn make_missing(parts: &[&Part]) {
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
