//! The command lines. Pure: the same build and options give the same words. No word holds a secret:
//! credentials are files of mode 0600.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use super::BaseSource;
use super::container_build::ContainerBuild;
use super::store::Store;
use super::version::Version;
use super::volume::Volume;
use crate::exec::Command;
use mosb_image::Digest;
use mosb_plan::containerfile;

pub(super) const INSTALL: &str = "the package buildah (1.28 or newer)";
pub(super) const CONTAINERFILE: &str = "Containerfile";
pub(super) const CONTEXT: &str = "context";
/// mosb's own files, if the context is the administrator's.
pub(super) const FILES: &str = "files";
pub(super) const VIEW: &str = "base";
/// The folder with what a last part starts from.
pub(super) const START: &str = "start";
/// Which images buildah may read.
pub(super) const POLICY: &str = "policy.json";
pub(super) const VIEW_TAG: &str = "base";
pub(super) const OUT: &str = "out";
/// In the folder that a build leaves.
pub(super) const LAYOUT: &str = "layout";
pub(super) const IMAGE_ID: &str = "image-id";
/// Beside it: the digest of its manifest.
pub(super) const DIGEST: &str = "digest";
/// buildah's `TMPDIR` is removed with the folder of the build, also if buildah is killed.
pub(super) const TMP: &str = "tmp";

/// The first version with `--pull=newer`; before, it is `--pull=true`.
const PULL_NEWER: Version = Version(1, 36, 0);

/// Versions that set the limits of processes in steps themselves.
const OWN_LIMITS: Version = Version(1, 33, 0);

/// The file beside the folder of a build that records that it began, and its image once there is
/// one. It outlives the folder of an interrupted build, so that the next build cleans up.
pub(super) fn image_id(at: &Path) -> PathBuf {
    at.with_extension(IMAGE_ID)
}

/// The same for the image with the config that a last part starts from.
pub(super) fn configs_id(at: &Path) -> PathBuf {
    at.with_extension("configs-id")
}

/// How buildah is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// mosb's cache directory; the store is in its folder `buildah`.
    pub cache_dir: PathBuf,
    /// `--storage-driver`; buildah's own choice if none.
    pub storage_driver: Option<String>,
    /// `--isolation`; `chroot` if none, which needs no container runtime.
    pub isolation: Option<String>,
    /// `--volume`: entitlements, repositories, keys.
    pub volumes: Vec<Volume>,
    /// The directory of the administrator's build context.
    pub context: Option<PathBuf>,
    /// A docker config file with pull credentials, 0600.
    pub authfile: Option<PathBuf>,
    pub cert_dir: Option<PathBuf>,
    /// `--tls-verify`; false only if the user set it.
    pub tls_verify: bool,
    pub registries_conf: Option<PathBuf>,
    /// The text of a policy.json without signatures; buildah's own if none.
    pub signature_policy: Option<String>,
    /// How long the build itself may take.
    pub limit: Duration,
}

fn buildah(store: &Store, at: &Path) -> Command {
    let mut command = Command::new("buildah", INSTALL).cwd(at);
    if at != store.folder {
        command = command.env("TMPDIR", at.join(TMP));
    }
    let command = command.option("--root", store.root()).option("--runroot", store.run());
    match &store.driver {
        Some(driver) => command.option("--storage-driver", driver),
        None => command,
    }
}

/// Options of commands that pull: credentials, certificates, mirrors, platform.
fn pulling(
    mut command: Command,
    build: &ContainerBuild,
    options: &Options,
    at: &Path,
    plain: bool,
) -> Command {
    if let Some(authfile) = &options.authfile {
        command = command.option("--authfile", authfile);
    }
    if let Some(cert_dir) = &options.cert_dir {
        command = command.option("--cert-dir", cert_dir);
    }
    if !options.tls_verify || plain {
        command = command.option("--tls-verify", "false");
    }
    if let Some(conf) = &options.registries_conf {
        command = command.env("CONTAINERS_REGISTRIES_CONF", conf);
    }
    command = under_policy(command, options, at);
    let platform = &build.base.config.platform;
    command.option("--platform", format!("{}/{}", platform.os(), platform.architecture()))
}

/// Commands that read images obey the policy, also those that read the store.
fn under_policy(command: Command, options: &Options, at: &Path) -> Command {
    match &options.signature_policy {
        Some(_) => command.option("--signature-policy", at.join(POLICY)),
        None => command,
    }
}

/// Pulls the base into the store.
pub(super) fn pull(
    build: &ContainerBuild,
    base: &BaseSource,
    store: &Store,
    options: &Options,
    at: &Path,
) -> Command {
    let from = match base {
        BaseSource::Registry(image) => format!("docker://{image}"),
        // Relative: a path in this place can't hold a colon.
        BaseSource::Layout(_) => format!("oci:{VIEW}:{VIEW_TAG}"),
        BaseSource::Dir(_) => format!("dir:{VIEW}"),
    };
    let command = buildah(store, at).arg("pull").arg("--quiet").option("--policy", "missing");
    // Like mosb's own client: plain HTTP on loopback without certificates.
    let plain = match base {
        BaseSource::Registry(image) => {
            options.cert_dir.is_none() && is_loopback(image.repo().host())
        }
        BaseSource::Layout(_) | BaseSource::Dir(_) => false,
    };
    pulling(command, build, options, at, plain).limit(options.limit).user_words([from])
}

/// Loads the image of a layout into the store.
pub(super) fn load(
    layout: &str,
    tag: &str,
    build: &ContainerBuild,
    store: &Store,
    options: &Options,
    at: &Path,
) -> Command {
    let command = buildah(store, at).arg("pull").arg("--quiet").option("--policy", "missing");
    let command = pulling(command, build, options, at, false).limit(options.limit);
    command.user_words([format!("oci:{layout}:{tag}")])
}

fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The command that builds.
pub(super) fn bud(
    build: &ContainerBuild,
    version: Version,
    store: &Store,
    options: &Options,
    at: &Path,
) -> Command {
    let pull = if version < PULL_NEWER { "true" } else { "newer" };
    let mut command = buildah(store, at)
        .arg("bud")
        // One layer a stage, made anew each time: a cached one could be of another base's
        // instruction.
        .option("--layers", "false")
        .option("--format", "oci")
        // Without `--force-rm`, which removes the base of a stage without instructions from the store
        // (buildah 1.28): each build would pull it again. The container of that stage stays until the
        // next build.
        .option("--identity-label", "false")
        .option("--timestamp", "0")
        .option("--isolation", options.isolation.as_deref().unwrap_or("chroot"))
        .option("--pull", pull)
        .option("--iidfile", image_id(at))
        .option("--file", at.join(CONTAINERFILE));
    // buildah mounts its own over these files for each RUN; without a network they are not needed.
    if !build.uses_network {
        command = command.arg("--no-hosts").option("--dns", "none");
    }
    // Some ask for more than a process without CAP_SYS_RESOURCE may have (1.39 does); 1.28 lowers
    // its own and can't raise them again.
    for (name, resource) in [("nofile", Resource::Nofile), ("nproc", Resource::Nproc)] {
        let limit = getrlimit(resource);
        if version >= OWN_LIMITS
            && let (Some(soft), Some(hard)) = (limit.current, limit.maximum)
        {
            command = command.option("--ulimit", format!("{name}={soft}:{hard}"));
        }
    }
    for (number, volume) in options.volumes.iter().enumerate() {
        command = command.option("--volume", volume.argument(at, number));
    }
    if build.context.is_some() {
        let named = format!("{}={}", containerfile::FILES, at.join(FILES).display());
        command = command.option("--build-context", named);
    }
    for (key, value) in &build.build_args {
        command = command.option("--build-arg", format!("{key}={value}"));
    }
    pulling(command, build, options, at, false).limit(options.limit).user_words([at.join(CONTEXT)])
}

/// Writes the built image into a layout.
///
/// Every transport of buildah compresses (`oci:` also with `--disable-compression`), or writes the
/// base's layers too (`dir:`). Of 104 MB of a layer zstd at level 1 makes 37 MB in 1.4 s, the
/// default (gzip) 39 MB in 3.6 s.
pub(super) fn push(
    image: &Digest,
    store: &Store,
    options: &Options,
    at: &Path,
    out: &Path,
) -> Command {
    let command = buildah(store, at).cwd(out).arg("push");
    under_policy(command, options, at)
        .arg("--quiet")
        .option("--format", "oci")
        .option("--compression-format", "zstd")
        .option("--compression-level", "1")
        .option("--digestfile", out.join(DIGEST))
        .limit(Duration::from_secs(1800))
        .user_words([image.to_string(), format!("oci:{LAYOUT}")])
}

/// Prints the state of the store; fails if the store can't be used.
pub(super) fn info(store: &Store) -> Command {
    buildah(store, &store.folder).arg("info")
}

/// Removes a built image from the store; the base stays.
pub(super) fn remove(image: &Digest, store: &Store, at: &Path) -> Command {
    buildah(store, at).arg("rmi").arg("--force").user_words([image.to_string()])
}

/// Fails if the store doesn't have an image.
pub(super) fn inspect(image: &Digest, store: &Store) -> Command {
    buildah(store, &store.folder)
        .arg("inspect")
        .option("--type", "image")
        .option("--format", "{{.FromImageID}}")
        .user_words([image.hex()])
}

/// Removes files that belong to other users of our own user namespace.
pub(super) fn remove_files(paths: &[PathBuf], at: &Path) -> Command {
    let words = ["rm", "-rf", "--"].map(PathBuf::from);
    Command::new("buildah", INSTALL)
        .cwd(at)
        .arg("unshare")
        .user_words(words.into_iter().chain(paths.iter().cloned()))
}

/// Removes the containers of earlier builds, with the processes and mounts of interrupted ones.
pub(super) fn remove_containers(store: &Store) -> Command {
    buildah(store, &store.folder).arg("rm").arg("--all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for (host, want) in [
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("127.0.0.1", true),
            ("[::1]:5000", true),
            ("quay.io", false),
            ("localhost.example.com:5000", false),
            ("10.0.0.1:5000", false),
        ] {
            assert_eq!(is_loopback(host), want, "{host}");
        }
    }
}
