//! The shared fixture for tests of the registry crate: clients for a registry, and a plan that adds
//! one layer to an image.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use mosb_image::{DiffId, Digest};
use mosb_registry::{
    BlobFrom, BlobRef, BlobToPush, CertDirs, Client, CredentialSources, Options, PushPlan,
    Resolved, RetryPolicy, Source, Target, Timeouts,
};
use serde_json::{Value, json};

use crate::{Compression, Image, Layout, Registry, Tree};

/// Options that ignore the files of this machine and use short delays.
pub fn options() -> Options {
    Options {
        certs: CertDirs { per_host: Vec::new(), ..CertDirs::default() },
        retry: RetryPolicy {
            tries: 4,
            first: Duration::from_millis(10),
            cap: Duration::from_millis(1100),
            total: Duration::from_secs(20),
        },
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            ..Timeouts::default()
        },
        ..Options::default()
    }
}

/// Options for a registry with credentials from a file.
pub fn options_for(registry: &Registry, authfile: &Path) -> Options {
    let certificates = registry.certificates();
    let has_any = std::fs::read_dir(&certificates).unwrap().next().is_some();
    Options {
        credentials: CredentialSources {
            authfile: Some(authfile.to_owned()),
            ..CredentialSources::default()
        },
        certs: CertDirs {
            cert_dir: has_any.then_some(certificates),
            per_host: Vec::new(),
            ..CertDirs::default()
        },
        ..options()
    }
}

pub fn client(registry: &Registry) -> Client {
    Client::new(&options_for(registry, &registry.authfile())).unwrap()
}

/// A client without credentials and certificates.
pub fn anonymous_client() -> Client {
    Client::new(&options()).unwrap()
}

pub fn source(text: &str) -> Source {
    text.parse().unwrap()
}

pub fn target(text: &str) -> Target {
    text.parse().unwrap()
}

/// A layout with the image `v1`: two small layers, and one of `bytes` incompressible bytes.
pub fn base(directory: &Path, bytes: usize) -> Layout {
    let layout = Layout::create(directory);
    let mut noise = Vec::with_capacity(bytes);
    let mut state = 88_172_645_463_325_252u64;
    while noise.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend_from_slice(&state.to_le_bytes());
    }
    let image = Image::new()
        .layer(Compression::Gzip, Tree::new().file("etc/os-release", 0o644, "ID=test\n").tar())
        .layer(Compression::Plain, Tree::new().file("usr/lib/large", 0o644, noise).tar())
        .layer(Compression::Zstd, Tree::new().file("etc/hosts", 0o644, "").tar());
    layout.put("v1", &image);
    layout
}

/// A plan that adds one layer to an image.
pub fn plan_on(base: &Resolved, content: &str, tags: &[&str]) -> PushPlan {
    let layer = Bytes::from(Tree::new().file("etc/mosb", 0o644, content).tar());
    let mut config: Value = serde_json::from_slice(&base.config_bytes).unwrap();
    let diff_ids = config["rootfs"]["diff_ids"].as_array_mut().unwrap();
    diff_ids.push(json!(DiffId::of(&layer)));
    let config = Bytes::from(serde_json::to_vec(&config).unwrap());
    let mut manifest: Value = serde_json::from_slice(&base.manifest_bytes).unwrap();
    manifest["config"]["digest"] = json!(Digest::of(&config));
    manifest["config"]["size"] = json!(config.len());
    let new = json!({
        "mediaType": "application/vnd.oci.image.layer.v1.tar",
        "digest": Digest::of(&layer),
        "size": layer.len(),
    });
    manifest["layers"].as_array_mut().unwrap().push(new.clone());
    let mut blobs: Vec<_> = base
        .layers
        .iter()
        .map(|blob| BlobToPush { blob: blob.clone(), from: BlobFrom::Store(base.store.clone()) })
        .collect();
    for (descriptor, bytes) in [(&manifest["config"], config), (&new, layer)] {
        let blob: BlobRef = serde_json::from_value(descriptor.clone()).unwrap();
        blobs.push(BlobToPush { blob, from: BlobFrom::Bytes(bytes) });
    }
    PushPlan {
        manifest: serde_json::to_vec(&manifest).unwrap().into(),
        media_type: base.media_type.clone(),
        blobs,
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        protected_tag: tags.first().map(|tag| (*tag).to_owned()),
    }
}
