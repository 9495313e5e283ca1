//! The real components ("parts") that tests run, and the fixtures around them.
//!
//! Input: only Debian packages (`debian-packages`, installed by `make packages`) and the sources
//! below `tests/parts/`. Output: values that own a running or unpacked part and stop or delete it
//! on drop, also if the test process is killed. Invariants: each test has its own directories,
//! ports and mount namespaces; every wait has a condition and a limit; a missing program fails the
//! test with a message that names the package.

#![expect(clippy::new_without_default, reason = "a test says what it makes")]
#![expect(clippy::unwrap_used, reason = "a part that cannot go on stops the test")]

mod api_proxy;
pub mod boot_images;
pub mod build_fixture;
pub mod buildah_fixture;
mod child;
mod cluster_api;
mod cosign;
mod example;
mod first_boot_files;
mod fixture_pool;
mod fuzz;
mod http;
mod ignition_server;
mod image;
mod lab;
mod layout;
mod machine_tools;
mod make;
mod mosb;
mod node;
mod one_node;
mod oracle;
mod ostree;
mod overlay;
mod package_base;
mod part;
pub mod parts;
mod program;
mod proxy;
mod published_crds;
mod registry;
pub mod registry_fixture;
mod repository;
mod rollout;
mod root;
mod sandbox;
mod scanners;
mod schema;
mod second_base;
mod server;
mod skopeo;
mod snapshot;
mod stand_in;
mod tls;
mod token;
mod tree;
mod tunnel_proxy;
mod vm_base;
mod web;

pub use api_proxy::{ApiFault, ApiProxy, ReadFault, Write};
pub use cosign::Cosign;
pub use example::Example;
pub use fixture_pool::{FixtureGuard, FixturePool};
pub use fuzz::fuzz_targets;
pub use ignition_server::{IgnitionServer, ignition_fetch};
pub use lab::{Lab, Machine, MachineImage};
pub use layout::{Compression, Image, Layout};
pub use machine_tools::{MachineTools, skipped_with_real};
pub use mosb::Mosb;
pub use node::{
    Api, BUSYBOX_IMAGE, COUNTED, Event, Namespace, Node, NodeRegistry, RECORDED, condition, wait,
};
pub use one_node::{node, programs};
pub use oracle::{Oracle, ignition_program};
pub use proxy::{Fault, FaultProxy, Seen};
pub use published_crds::{PUBLISHED_KINDS, deployed_crd, published_crd};
pub use registry::{Access, Registry, SavedRepository, Server, Transport};
pub use rollout::{
    CORDONED_BY_ADMINISTRATOR, NewMachine, Observed, REBOOTED_BY_OTHERS, ROLLOUT_NAMESPACE, Reboot,
    RolloutCluster, RolloutHistory, RolloutObserver, RolloutPool, RolloutStory, SeenKind,
    SeenObject, SimulatedMachine, SimulatedMachines, annotation,
};
pub use sandbox::{Sandbox, in_private_mounts};
pub use scanners::{grype, syft, vulnerability_database};
pub use schema::valid;
pub use snapshot::{Entry, Kind, Snapshot, sha256};
pub use stand_in::{Location, Login, PLAIN, Profile, Refusal, StandIn};
pub use tls::Certificate;
pub use tree::Tree;
pub use tunnel_proxy::TunnelProxy;
pub use web::{SecureWeb, ServerAction, Web, reply};

pub use child::{Daemon, Finished, finish, lasting, limited, run};
pub use first_boot_files::{FIRST_BOOT_UNIT, first_boot_files};
pub use http::{Head, ask};
pub use image::{MOSB_IMAGE, mosb_image, mosb_image_of, mosb_root};
pub use ostree::{
    Checkout, base as ostree_base, ext_cli as ostree_ext_cli, import as ostree_import,
};
pub use package_base::{image as package_images, repository as package_repository};
pub use program::program;
pub use repository::repository;
pub use root::{base_image, debian_root};
pub use second_base::{
    PlainBase, lab_image as second_lab_image, package_image as second_package_image,
};
pub use vm_base::{VmBase, VmRelease, vm_base};
