//! Images for a node that come from no registry: the one that each pod needs, and those that tests
//! bring.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::place::{Place, checked, write};
use super::programs::{BUSYBOX, Programs};
use super::{Problem, problem};
use crate::child::limited;

/// Debian's busybox with all its names in `/bin`. It also holds the namespaces of each pod.
pub const PAUSE: &str = "mosb.test/busybox:1";

/// The same as a file in the node's directory.
pub const ARCHIVE: &str = "busybox.tar";

/// Writes the busybox image as an archive in Docker's format.
pub fn busybox(directory: &Path) -> Result<std::path::PathBuf, Problem> {
    let layer = tree().map_err(|why| problem(BUSYBOX, &why))?;
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {"Entrypoint": ["/bin/busybox", "tail", "-f", "/dev/null"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hex(&layer))]},
    })
    .to_string();
    let manifest = json!([{"Config": "config.json", "RepoTags": [PAUSE], "Layers": ["layer.tar"]}]);
    let path = directory.join(ARCHIVE);
    let manifest = manifest.to_string();
    let archive = archive(&[
        ("manifest.json", manifest.as_bytes()),
        ("config.json", config.as_bytes()),
        ("layer.tar", &layer),
    ]);
    write(&path, archive.map_err(|why| problem(path.display(), &why))?)?;
    Ok(path)
}

fn tree() -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, mode) in [("bin/", 0o755), ("tmp/", 0o1777), ("etc/", 0o755)] {
        add(&mut tar, tar::EntryType::Directory, name, mode, &[])?;
    }
    let program = fs::read(BUSYBOX)?;
    add(&mut tar, tar::EntryType::Regular, "bin/busybox", 0o755, &program)?;
    let users = "root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n";
    add(&mut tar, tar::EntryType::Regular, "etc/passwd", 0o644, users.as_bytes())?;
    let names = Command::new(BUSYBOX).arg("--list").output()?.stdout;
    for name in String::from_utf8_lossy(&names).lines() {
        if name != "busybox" {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            header.set_mode(0o777);
            tar.append_link(&mut header, format!("bin/{name}"), "busybox")?;
        }
    }
    tar.into_inner()
}

fn archive(files: &[(&str, &[u8])]) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in files {
        add(&mut tar, tar::EntryType::Regular, name, 0o644, content)?;
    }
    tar.into_inner()
}

fn add(
    tar: &mut tar::Builder<Vec<u8>>,
    kind: tar::EntryType,
    name: &str,
    mode: u32,
    content: &[u8],
) -> std::io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(content.len() as u64);
    tar.append_data(&mut header, name, content)
}

fn hex(bytes: &[u8]) -> String {
    let sum = Sha256::digest(bytes);
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Gives the node the image that it cannot do without. The archive stays.
pub fn import_pause(place: &Place, programs: &Programs) -> Result<(), Problem> {
    import_archive(place, programs, &busybox(&place.directory)?)
}

/// Gives the node an image under a name, from anything that skopeo reads (`oci:DIR:TAG`,
/// `oci-archive:FILE`, `docker-archive:FILE`, `containers-storage:…`).
pub fn import(place: &Place, programs: &Programs, source: &str, name: &str) -> Result<(), Problem> {
    let path = archive_of(&place.directory, source, name)?;
    import_archive(place, programs, &path)
}

/// An image as an archive in Docker's format, which is removed when it is dropped.
pub fn archive_of(
    directory: &Path,
    source: &str,
    name: &str,
) -> Result<tempfile::TempPath, Problem> {
    let archive = tempfile::Builder::new()
        .prefix("import-")
        .suffix(".tar")
        .tempfile_in(directory)
        .map_err(|why| problem("an archive to import", &why))?;
    // skopeo writes into no file that is there.
    let path = archive.into_temp_path();
    fs::remove_file(&path).map_err(|why| problem(path.display(), &why))?;
    let target = format!("docker-archive:{}:{name}", path.display());
    let mut copy = limited("skopeo");
    copy.args(["--insecure-policy", "copy", "--quiet", source, &target]);
    checked(&mut copy)?;
    Ok(path)
}

/// The arguments by which `ctr` gives containerd an archive, whose name comes last.
pub const IMPORT: [&str; 6] = [
    "--namespace=k8s.io",
    "images",
    "import",
    "--local",
    "--label=io.cri-containerd.image=managed",
    "--label=io.cri-containerd.pinned=pinned",
];

fn import_archive(place: &Place, programs: &Programs, archive: &Path) -> Result<(), Problem> {
    let mut command = place.command(programs.ctr());
    command.args(IMPORT).arg(archive);
    checked(&mut command).map(drop)
}
