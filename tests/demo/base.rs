//! A base image as small as can be that has what makes an OS difficult: links to where things
//! really are, directories with modes of their own, owners by name, units enabled, disabled and
//! static, presets.

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use mosb_image::{DiffId, Digest};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

const DIRECTORIES: &[(&str, u32)] = &[
    ("etc", 0o755),
    ("etc/crio", 0o755),
    ("etc/kubernetes", 0o755),
    ("etc/sudoers.d", 0o750),
    ("etc/sysctl.d", 0o755),
    ("etc/systemd", 0o755),
    ("etc/systemd/system", 0o755),
    ("etc/systemd/system/multi-user.target.wants", 0o755),
    ("run", 0o755),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("usr/bin", 0o755),
    ("usr/lib", 0o755),
    ("usr/lib/systemd", 0o755),
    ("usr/lib/systemd/system", 0o755),
    ("usr/lib/systemd/system-preset", 0o755),
    ("var", 0o755),
    ("var/home", 0o755),
    ("var/lib", 0o755),
    ("var/roothome", 0o700),
    ("var/usrlocal", 0o755),
];

const LINKS: &[(&str, &str)] = &[
    ("bin", "usr/bin"),
    ("home", "var/home"),
    ("lib", "usr/lib"),
    ("root", "var/roothome"),
    ("usr/local", "../var/usrlocal"),
    ("etc/os-release", "../usr/lib/os-release"),
    (
        "etc/systemd/system/multi-user.target.wants/zincati.service",
        "/usr/lib/systemd/system/zincati.service",
    ),
];

const FILES: &[(&str, &str)] = &[
    ("etc/chrony.conf", "pool pool.ntp.org iburst\n"),
    ("etc/group", "root:x:0:\ncore:x:1000:\n"),
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/bash\ncore:x:1000:1000:CoreOS Admin:/var/home/core:/bin/bash\n",
    ),
    ("usr/bin/systemctl", ""),
    ("usr/lib/systemd/libsystemd-shared-257.so", ""),
    ("usr/lib/os-release", "ID=demo\nNAME=\"Demo OS\"\nVERSION_ID=1\n"),
    (
        "usr/lib/systemd/system/crio.service",
        "[Service]\nExecStart=/usr/bin/crio\n[Install]\nWantedBy=multi-user.target\n",
    ),
    (
        "usr/lib/systemd/system/rpcbind.service",
        "[Service]\nExecStart=/usr/bin/rpcbind\n[Install]\nWantedBy=multi-user.target\n",
    ),
    (
        "usr/lib/systemd/system/zincati.service",
        "[Service]\nExecStart=/usr/libexec/zincati\n[Install]\nWantedBy=multi-user.target\n",
    ),
    ("usr/lib/systemd/system-preset/99-default-disable.preset", "disable *\n"),
];

/// Writes the image as an OCI layout directory, tag `demo`.
pub fn make(directory: &Path) -> Result<(), Box<dyn Error>> {
    let tar = layer()?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
    gzip.write_all(&tar)?;
    let layer = gzip.finish()?;

    fs::create_dir_all(directory.join("blobs/sha256"))?;
    let blob = |bytes: &[u8], media_type: &str| -> Result<Value, Box<dyn Error>> {
        let digest = Digest::of(bytes);
        fs::write(directory.join("blobs/sha256").join(digest.hex()), bytes)?;
        Ok(json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() }))
    };
    let config = json!({
        "os": "linux", "architecture": "amd64", "created": "2026-01-01T00:00:00Z",
        "config": { "Labels": { "containers.bootc": "1", "org.opencontainers.image.version": "1" } },
        "rootfs": { "type": "layers", "diff_ids": [DiffId::of(&tar)] },
        "history": [{ "created_by": "demo base" }],
    });
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json")?,
        "layers": [blob(&layer, "application/vnd.oci.image.layer.v1.tar+gzip")?],
    });
    let mut manifest =
        blob(manifest.to_string().as_bytes(), "application/vnd.oci.image.manifest.v1+json")?;
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": "demo" });
    fs::write(
        directory.join("index.json"),
        json!({ "schemaVersion": 2, "manifests": [manifest] }).to_string(),
    )?;
    fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    Ok(())
}

fn layer() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut tar = Builder::new(Vec::new());
    let header = |kind, mode, size: usize| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(size as u64);
        header
    };
    for (path, mode) in DIRECTORIES {
        tar.append_data(&mut header(EntryType::Directory, *mode, 0), path, &[][..])?;
    }
    for (path, target) in LINKS {
        tar.append_link(&mut header(EntryType::Symlink, 0o777, 0), path, target)?;
    }
    for (path, content) in FILES {
        tar.append_data(
            &mut header(EntryType::Regular, 0o644, content.len()),
            path,
            content.as_bytes(),
        )?;
    }
    // Something for the bulk of an OS, so that what a change costs can be seen against it.
    let bulk: Vec<u8> = (0_u64..1 << 19)
        .flat_map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 3).to_le_bytes())
        .collect();
    tar.append_data(
        &mut header(EntryType::Regular, 0o755, bulk.len()),
        "usr/bin/crio",
        bulk.as_slice(),
    )?;
    Ok(tar.into_inner()?)
}
