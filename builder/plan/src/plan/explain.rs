//! Notices of a plan: settings that the machine applies, possible secrets, and paths that nodes
//! treat differently.

use super::apply::{CURRENT_CONFIG, real_paths};
use super::build_plan::BuildRequest;
use mosb_ignition as ignition;
use mosb_image::overlay::{LayerEntry, Node};
use mosb_image::tree::{BaseTree, Kind};
use mosb_merge::first_boot_parts;
use mosb_types::Finding;

/// The top-level directories that the importer on the nodes accepts; of `/var` it uses only the
/// initial content.
const IMPORTED: [&str; 3] = ["etc", "usr", "var"];

/// The parts of a config that the image does not bring; `brings` is whether it brings kernel arguments.
pub(super) fn left_to_machine(
    request: &BuildRequest,
    ignition: Option<&ignition::Config>,
    brings: bool,
) -> Vec<Finding> {
    let mut left = ignition.map(|config| config.left_to_machine(brings)).unwrap_or_default();
    if !request.config.kernel_arguments.is_empty() && !brings {
        let arguments = request.config.kernel_arguments.join(" ");
        let message =
            format!("kernel arguments are set on each node, not in the image: {arguments}");
        left.push(Finding::new("kernel-arguments", message).object("spec.kernelArguments"));
    }
    for part in request.config.ignition().map(first_boot_parts).unwrap_or_default() {
        let message = "not part of the image: a machine uses it at its first boot only";
        left.push(Finding::new("at-installation", message).object(format!("ignition.{part}")));
    }
    if request.config.fips {
        let message = "FIPS mode is decided when a machine is installed, not in the image";
        left.push(Finding::new("fips", message).object("spec.fips"));
    }
    left
}

/// Notices about the image.
pub(super) fn warnings(
    request: &BuildRequest,
    ignition: Option<&ignition::Config>,
) -> Vec<Finding> {
    let mut warnings = Vec::new();
    if !request.base.is_bootable() {
        let message = format!(
            "{} has neither of the labels containers.bootc and ostree.bootable: nodes will not boot an image made of it",
            request.base.image
        );
        warnings
            .push(Finding::new("base-not-bootable", message).object(request.base.image.clone()));
    }
    for (path, what) in ignition.into_iter().flat_map(secret_files) {
        let message = format!(
            "{path} looks like {what}: whoever can pull the image can read it, also in {CURRENT_CONFIG}"
        );
        warnings.push(Finding::new("looks-secret", message).path(path));
    }
    warnings
}

/// The paths of a config that probably contain secrets, and of which kind.
pub fn secret_files(ignition: &ignition::Config) -> impl Iterator<Item = (&str, &'static str)> {
    let files = ignition.storage.files.iter();
    files.filter_map(|file| Some((file.path.as_str(), looks_secret(file)?)))
}

/// The kind of secret that a file of a config probably contains.
fn looks_secret(file: &ignition::File) -> Option<&'static str> {
    named_like_secret(&file.path).or_else(|| {
        // Enough for the first line of a key.
        let content = file.contents.as_ref()?.bytes(1024 * 1024).ok()?;
        reads_like_secret(&content)
    })
}

/// The kind of secret that a file with this path probably contains.
pub(super) fn named_like_secret(path: &str) -> Option<&'static str> {
    let path = path.to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or_default();
    if matches!(name, "config.json" | "auth.json" | ".dockerconfigjson" | ".dockercfg") {
        return Some("registry credentials");
    }
    let is_key = name.ends_with(".key")
        || name.starts_with("id_") && !name.ends_with(".pub")
        || name == "kubeconfig";
    is_key.then_some("a private key or a kubeconfig")
}

/// The kind of secret that this content probably has, which is not reported.
pub(super) fn reads_like_secret(content: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(content);
    if text.contains("PRIVATE KEY-----") {
        return Some("a private key");
    }
    (text.contains("\"auths\"") && text.contains("\"auth\"")).then_some("registry credentials")
}

/// The directories whose mode or owner the config changes on the image but not on a node, because
/// the importer keeps directories of the base.
pub(super) fn directories_that_stay(
    request: &BuildRequest,
    tree: &BaseTree,
    layer: &[LayerEntry],
) -> Vec<Finding> {
    let changed = |entry: &LayerEntry| match entry {
        LayerEntry::Put(path, Node::Directory { meta }) => {
            let there = tree.get(path.relative()).filter(|there| there.kind == Kind::Directory)?;
            let (was, is) = ((there.mode, there.uid, there.gid), (meta.mode, meta.uid, meta.gid));
            (was != is).then(|| {
                let message = format!(
                    "{path} keeps the base's mode {:04o} and owner {}:{} on a machine: the nodes' importer leaves directories that the base has",
                    was.0, was.1, was.2
                );
                Finding::new("directory-stays", message).path(path.to_string())
            })
        }
        LayerEntry::Put(..) | LayerEntry::Parent(..) | LayerEntry::Whiteout(_) => None,
    };
    let bootable = request.base.is_bootable();
    layer.iter().filter(|_| bootable).filter_map(changed).collect()
}

/// The files and links of a config in an image.
pub(super) struct ImagePaths {
    paths: Vec<String>,
    /// Whether they are the real paths, through the links of the base.
    is_real: bool,
}

impl ImagePaths {
    /// Those of the layer that is put on the base.
    pub fn of_layer(layer: &[LayerEntry]) -> Self {
        let put = |entry: &LayerEntry| match entry {
            LayerEntry::Put(_, Node::Directory { .. }) | LayerEntry::Parent(..) => None,
            LayerEntry::Put(path, _) | LayerEntry::Whiteout(path) => Some(path.to_string()),
        };
        Self { paths: layer.iter().filter_map(put).collect(), is_real: true }
    }

    /// Those that Ignition writes in a build that runs it, on this base if it is known.
    pub fn of_config(ignition: Option<&ignition::Config>, base: Option<&BaseTree>) -> Self {
        let storage = ignition.into_iter().map(|config| &config.storage);
        let paths = storage.flat_map(|storage| {
            let files = storage.files.iter().map(|file| &file.path);
            files.chain(storage.links.iter().map(|link| &link.path))
        });
        let paths = match base {
            Some(base) => real_paths(base, paths),
            None => paths.cloned().collect(),
        };
        Self { paths, is_real: base.is_some() }
    }
}

/// Notices about paths that a node treats differently; `brought` are those below `/var` that the
/// image brings to machines.
pub(super) fn notes(
    request: &BuildRequest,
    ImagePaths { paths, is_real }: &ImagePaths,
    brought: &[String],
) -> Vec<Finding> {
    let mut notes = Vec::new();
    let etc = paths.iter().filter(|path| path.starts_with("/etc/")).count();
    if etc > 0 {
        let message = format!(
            "{etc} paths in /etc: an update merges them with the machine's own /etc; a file that the machine changed keeps the machine's content"
        );
        notes.push(Finding::new("etc-is-merged", message).path("/etc"));
    }
    let is_bootable = request.base.is_bootable();
    for path in paths.iter().filter(|path| !brought.contains(path)) {
        let top = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        let (code, message) = if top == "var" {
            let message =
                "reaches only machines that are installed from the image: /var is never updated";
            ("var-at-installation", message)
        } else if !is_bootable {
            continue;
        } else if !is_real && (!IMPORTED.contains(&top) || path.starts_with("/usr/local/")) {
            let message = "where the base's links lead it is not known, as the cache does not have the base's tree: below /var, it reaches only machines that are installed from the image; elsewhere outside of /usr and /etc, it reaches no machine";
            ("base-not-read", message)
        } else if !IMPORTED.contains(&top) {
            let message =
                "does not reach a machine: the nodes' importer takes /usr, /etc and /var only";
            ("dropped-by-importer", message)
        } else {
            continue;
        };
        notes.push(Finding::new(code, format!("{path} {message}")).path(path.clone()));
    }
    notes
}
