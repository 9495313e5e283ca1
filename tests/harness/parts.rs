//! The parts that are built from source: what each is for, its version, and how it is made.

use super::machine_tools::{self, MachineTools};
use super::make::Make;
pub use super::part::{Part, cache, source};
use super::part::{Version, make_missing};
use super::{
    cluster_api, image, lab, ostree, package_base, published_crds, root, second_base, skopeo,
    vm_base,
};

/// The program that applies Ignition configs. A direct build must produce the same tree.
pub static IGNITION: Part = Part {
    name: "ignition",
    version: Version::Released("2.26.0"),
    needs: &[],
    make: Make::GoInstall {
        package: "github.com/coreos/ignition/v2/internal",
        program: "internal",
    },
};

/// Another program that adds a layer to an image.
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
    make: Make::GoModule { module: "parts/olareg", tags: "" },
};

/// Ignition's parser, validator and merger, as a program for queries.
pub static IGNITION_ORACLE: Part = Part {
    name: "ignition-oracle",
    version: Version::Sources(&["parts/ignition-oracle"]),
    needs: &[],
    make: Make::GoModule { module: "parts/ignition-oracle", tags: "" },
};

/// The library with which podman, CRI-O, bootc and the importer read images and policies, as a program
/// for queries. The tags leave out GPG in C and the storage of images.
pub static CONTAINERS_IMAGE: Part = Part {
    name: "containers-image",
    version: Version::Sources(&["parts/containers-image"]),
    needs: &[],
    make: Make::GoModule {
        module: "parts/containers-image",
        tags: "containers_image_openpgp containers_image_storage_stub exclude_graphdriver_btrfs exclude_graphdriver_overlay",
    },
};

/// The program that most people sign and verify images with: its newest version, and the newest of the
/// major version before.
pub static COSIGN: Part = Part {
    name: "cosign",
    version: Version::Released("3.1.3"),
    needs: &[],
    make: Make::GoInstall {
        package: "github.com/sigstore/cosign/v3/cmd/cosign",
        program: "cosign",
    },
};

pub static COSIGN_2: Part = Part {
    name: "cosign-2",
    version: Version::Released("2.6.5"),
    needs: &[],
    make: Make::GoInstall {
        package: "github.com/sigstore/cosign/v2/cmd/cosign",
        program: "cosign",
    },
};

/// A client that lists and copies what is attached to an image.
pub static REGCTL: Part = Part {
    name: "regctl",
    version: Version::Released("0.11.7"),
    needs: &[],
    make: Make::GoInstall {
        package: "github.com/regclient/regclient/cmd/regctl",
        program: "regctl",
    },
};

/// syft and grype, and a program that writes a database for grype.
pub static SCANNERS: Part = Part {
    name: "scanners",
    version: Version::Sources(&["parts/scanners"]),
    needs: &[],
    make: Make::GoTools { module: "parts/scanners", tags: "", variable: None },
};

/// Kyverno's engine and its verifier of signatures, as a program for queries.
pub static KYVERNO: Part = Part {
    name: "kyverno",
    version: Version::Sources(&["parts/kyverno"]),
    needs: &[],
    make: Make::GoModule { module: "parts/kyverno", tags: "" },
};

/// The validator of SPDX documents by the SPDX project: a directory for `PYTHONPATH`.
pub static PYSPDXTOOLS: Part = Part {
    name: "pyspdxtools",
    version: Version::Sources(&["parts/pyspdxtools"]),
    needs: &[],
    make: Make::Pip("parts/pyspdxtools/requirements.txt"),
};

/// The CRDs of OpenShift's API; see `published_crds.rs`.
pub static PUBLISHED_CRDS: Part = Part {
    name: "published-crds",
    version: Version::Released("0.0.0-20260213204242-d34f11c515b3"),
    needs: &[],
    make: Make::Function(published_crds::make),
};

/// Helm's template engine without the rest of Helm.
pub static HELM_TEMPLATE: Part = Part {
    name: "helm-template",
    version: Version::Sources(&["parts/helm-template"]),
    needs: &[],
    make: Make::GoModule { module: "parts/helm-template", tags: "" },
};

/// The importer that rpm-ostree and bootc use on nodes.
pub static OSTREE_EXT_CLI: Part = Part {
    name: "ostree-ext-cli",
    version: Version::Sources(&["parts/ostree-ext-cli"]),
    needs: &[],
    make: Make::Cargo("parts/ostree-ext-cli"),
};

/// etcd (with the program name `server`), the API server, the controller manager, the scheduler,
/// the kubelet and kubectl.
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

/// The OCI runtime of the node. Pods with a user namespace fail without the build tag `seccomp`.
pub static RUNC: Part = Part {
    name: "runc",
    version: Version::Sources(&["parts/runc"]),
    needs: &[],
    make: Make::GoTools { module: "parts/runc", tags: "seccomp", variable: None },
};

/// The core controllers of Cluster API, and the manifests of their kinds and webhooks; see
/// `cluster_api`.
pub static CLUSTER_API: Part = Part {
    name: "cluster-api",
    version: Version::Sources(&["parts/cluster-api", "harness/cluster_api/part.rs"]),
    needs: &[],
    make: Make::Function(cluster_api::make),
};

/// A small Debian with systemd, Ignition and jq at the paths of CoreOS; see `root.rs`.
pub static DEBIAN_ROOT: Part = Part {
    name: "debian-root",
    version: Version::Sources(&["harness/root.rs"]),
    needs: &[&IGNITION],
    make: Make::Function(root::make),
};

/// The Debian root as a base image made by ostree, and a repository into which it is imported; see
/// `ostree.rs`.
pub static OSTREE_BASE: Part = Part {
    name: "ostree-base",
    version: Version::Sources(&["harness/ostree.rs"]),
    needs: &[&DEBIAN_ROOT, &OSTREE_EXT_CLI],
    make: Make::Function(ostree::make),
};

/// A base image with rpm, dnf and `trust`, an extensions image, and a repository; see `package_base`.
pub static PACKAGE_BASE: Part = Part {
    name: "package-base",
    version: Version::Sources(&["harness/package_base", "harness/root.rs", "harness/ostree.rs"]),
    needs: &[&IGNITION, &OSTREE_EXT_CLI],
    make: Make::Function(package_base::make),
};

/// The base image of the lab's machines, and a disk with it; see `lab/base`.
pub static LAB_BASE: Part = Part {
    name: "lab-base",
    version: Version::SourcesAndTools(&[
        "harness/lab/base",
        "harness/root.rs",
        lab::base::UPDATE_CA_TRUST,
        machine_tools::RECIPE,
    ]),
    needs: &[&IGNITION, &OSTREE_EXT_CLI],
    make: Make::Function(lab::base::make),
};

/// A skopeo that verifies signatures when it pulls for bootc and rpm-ostree; see `skopeo.rs`.
pub static SKOPEO: Part = Part {
    name: "skopeo",
    version: Version::Sources(&[skopeo::RECIPE]),
    needs: &[],
    make: Make::Function(skopeo::make),
};

/// Base images that an update brings, from those of [`DEBIAN_ROOT`], [`PACKAGE_BASE`] and [`LAB_BASE`];
/// see `second_base`.
pub static SECOND_ROOT: Part = Part {
    name: "second-root",
    version: Version::Sources(&[second_base::RECIPE]),
    needs: &[&DEBIAN_ROOT],
    make: Make::Function(second_base::make_plain),
};

pub static SECOND_PACKAGE_BASE: Part = Part {
    name: "second-package-base",
    version: Version::Sources(&[second_base::RECIPE]),
    needs: &[&PACKAGE_BASE, &OSTREE_EXT_CLI],
    make: Make::Function(second_base::make_package_base),
};

pub static SECOND_LAB_BASE: Part = Part {
    name: "second-lab-base",
    version: Version::Sources(&[second_base::RECIPE]),
    needs: &[&LAB_BASE, &OSTREE_EXT_CLI],
    make: Make::Function(second_base::make_lab_base),
};

/// The image for clusters without the program; see `image.rs`.
pub static MOSB_ROOT: Part = Part {
    name: "mosb-root",
    version: Version::Sources(&[image::RECIPE]),
    needs: &[],
    make: Make::Function(image::make),
};

/// The base image of virtual machines; see `vm_base.rs`.
pub static VM_BASE: Part = Part {
    name: "vm-base",
    version: Version::SourcesAndTools(&[
        "harness/vm_base.rs",
        "harness/root.rs",
        "harness/ostree.rs",
        vm_base::RECIPE,
        machine_tools::RECIPE,
        machine_tools::BOOTC,
        machine_tools::RPM_OSTREE,
        machine_tools::RPM_OSTREE_UNIT,
    ]),
    needs: &[&IGNITION, &OSTREE_EXT_CLI],
    make: Make::Function(vm_base::make),
};

/// All parts except [`VM_BASE`], [`CLUSTER_API`] and those in [`TEST_ALL`]. Each part follows those that it
/// needs, and long builds come first.
static ALL: [&Part; 22] = [
    &KUBERNETES,
    &IGNITION,
    &DEBIAN_ROOT,
    &OSTREE_EXT_CLI,
    &CONTAINERD,
    &REGISTRY,
    &OSTREE_BASE,
    &LAB_BASE,
    &PACKAGE_BASE,
    &SECOND_ROOT,
    &SECOND_LAB_BASE,
    &SECOND_PACKAGE_BASE,
    &MOSB_ROOT,
    &CONTAINERS_IMAGE,
    &CRANE,
    &PUBLISHED_CRDS,
    &IGNITION_ORACLE,
    &HELM_TEMPLATE,
    &OLAREG,
    &RUNC,
    &REGCTL,
    &PYSPDXTOOLS,
];

/// What takes long to build, and only tests of `make test-all` need.
static TEST_ALL: [&Part; 4] = [&KYVERNO, &SCANNERS, &COSIGN, &COSIGN_2];

/// The base of the test program `vm`, after the parts that it needs.
static VM: [&Part; 3] = [&IGNITION, &OSTREE_EXT_CLI, &VM_BASE];

/// Builds every missing part that `make test` needs, and prints the directory of each.
pub fn make_all() {
    eprintln!("{}", MachineTools::get());
    make_missing(&ALL);
}

/// Builds the missing parts for the test program `vm`, and prints the directory of each.
pub fn make_for_vm() {
    eprintln!("{}", MachineTools::get());
    make_missing(&VM);
}

/// Builds the part for the test program `cluster_api` if it is missing, and prints its directory.
pub fn make_for_cluster_api() {
    make_missing(&[&CLUSTER_API]);
}

/// Builds the missing parts that only tests of `make test-all` need, and prints the directory of each.
pub fn make_for_test_all() {
    make_missing(&TEST_ALL);
}
