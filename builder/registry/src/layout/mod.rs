//! An OCI image layout directory, read (OCI image spec, image layout), and the `dir:` directory of
//! buildah and skopeo. Both may be hostile; see [`crate::folder`].

pub(crate) mod atomic;
pub mod folder;
pub(crate) mod layout_write;

use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::Value;

use mosb_image::Digest;

use crate::error::Error;
use crate::layout::folder::{Folder, odd};
use crate::manifest::MANIFEST_LIMIT;
use crate::store::BlobStream;

/// Most bytes of a layout's `index.json`, which may name thousands of images.
const INDEX_LIMIT: u64 = 4 << 20;

/// The annotation that is a layout's tag.
pub(crate) const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// A layout or a `dir:` directory.
#[derive(Debug)]
pub(crate) struct ImageFolder {
    folder: Folder,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// With `blobs/sha256`.
    Layout(Folder),
    Dir,
}

impl ImageFolder {
    /// Opens an OCI layout.
    pub fn layout(dir: &Path) -> Result<Self, Error> {
        let folder = Folder::open(dir)?;
        check_version(&folder)?;
        let blobs = folder
            .below("blobs")?
            .map(|blobs| blobs.below("sha256"))
            .transpose()?
            .flatten()
            .ok_or_else(|| {
                odd(dir, "an OCI layout without blobs/sha256; copy the image there again")
            })?;
        Ok(Self { folder, kind: Kind::Layout(blobs) })
    }

    /// Opens a `dir:` directory.
    pub fn dir(dir: &Path) -> Result<Self, Error> {
        let folder = Folder::open(dir)?;
        let version = folder.read("version", "its version file", 1 << 10)?;
        let fine = version.is_some_and(|v| v.starts_with(b"Directory Transport Version: 1."));
        if !fine {
            return Err(odd(
                dir,
                "not a dir: directory: its file `version` is missing or of another version",
            ));
        }
        Ok(Self { folder, kind: Kind::Dir })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The top manifest: the one of a tag or digest in a layout, or the one of a `dir:`.
    pub fn root(&self, tag: Option<&str>, digest: Option<Digest>) -> Result<Bytes, Error> {
        match (&self.kind, digest) {
            (Kind::Dir, _) => self
                .folder
                .read("manifest.json", "its manifest", MANIFEST_LIMIT)?
                .ok_or_else(|| odd(self.path(), "not a dir: directory: manifest.json is missing")),
            (Kind::Layout(_), Some(digest)) => self.manifest(&digest),
            (Kind::Layout(_), None) => {
                let index = read_index(&self.folder)?.ok_or_else(|| {
                    odd(self.path(), "an OCI layout without index.json; copy the image there again")
                })?;
                self.manifest(&pick(self.path(), &index, tag)?)
            }
        }
    }

    /// A manifest or index by its digest; verified.
    pub fn manifest(&self, digest: &Digest) -> Result<Bytes, Error> {
        let (folder, name) = match &self.kind {
            Kind::Layout(blobs) => (blobs, digest.hex()),
            Kind::Dir => (&self.folder, format!("{}.manifest.json", digest.hex())),
        };
        let bytes = folder.read(&name, "its manifest", MANIFEST_LIMIT)?.ok_or_else(|| {
            let cause =
                format!("no image {digest}; check the digest, or copy the image there again");
            odd(self.path(), &cause)
        })?;
        let found = Digest::of(&bytes);
        if found != *digest {
            return Err(Error::DigestMismatch {
                image: self.path().display().to_string(),
                what: "the manifest",
                want: *digest,
                found,
            });
        }
        Ok(bytes)
    }

    /// Bytes of a blob, unverified.
    pub fn blob(&self, digest: &Digest, range: Range<u64>) -> Result<BlobStream<Error>, Error> {
        let folder = match &self.kind {
            Kind::Layout(blobs) => blobs,
            Kind::Dir => &self.folder,
        };
        folder.stream(&digest.hex(), digest, range)
    }
}

/// Whether `oci-layout` is there and of a version that we know.
pub(crate) fn check_version(folder: &Folder) -> Result<(), Error> {
    let version = folder.read("oci-layout", "its oci-layout", 1 << 16)?.ok_or_else(|| {
        odd(
            folder.path(),
            "not an OCI layout: its file oci-layout is missing; check the name of the folder",
        )
    })?;
    let version: Value = serde_json::from_slice(&version).unwrap_or_default();
    match version["imageLayoutVersion"].as_str() {
        Some(v) if v.starts_with("1.") => Ok(()),
        _ => {
            Err(odd(folder.path(), "not an OCI layout of version 1: imageLayoutVersion is not 1.x"))
        }
    }
}

/// `index.json`, if there is one.
pub(crate) fn read_index(folder: &Folder) -> Result<Option<Value>, Error> {
    let Some(bytes) = folder.read("index.json", "its index.json", INDEX_LIMIT)? else {
        return Ok(None);
    };
    let index: Value = serde_json::from_slice(&bytes)
        .map_err(|e| odd(folder.path(), &format!("index.json is not readable: {e}")))?;
    if !index["manifests"].is_array() {
        return Err(odd(folder.path(), "index.json has no list of manifests"));
    }
    Ok(Some(index))
}

/// What a tag names, if it names something.
pub(crate) fn named_by(index: &Value, tag: &str) -> Option<Digest> {
    let mut entries = index["manifests"].as_array()?.iter();
    let entry = entries.find(|entry| entry["annotations"][REF_NAME].as_str() == Some(tag))?;
    entry["digest"].as_str()?.parse().ok()
}

/// The digest of a tag, or of the only image.
fn pick(dir: &Path, index: &Value, tag: Option<&str>) -> Result<Digest, Error> {
    let mut found: Vec<(Digest, Option<&str>)> = Vec::new();
    for entry in index["manifests"].as_array().into_iter().flatten() {
        let digest = entry["digest"].as_str().unwrap_or_default();
        let digest = digest.parse().map_err(|e| odd(dir, &format!("index.json: {e}")))?;
        found.push((digest, entry["annotations"][REF_NAME].as_str()));
    }
    let shown: Vec<_> = found
        .iter()
        .map(|(digest, tag)| tag.map_or_else(|| digest.to_string(), str::to_owned))
        .collect();
    if let Some(tag) = tag {
        found.retain(|(_, name)| *name == Some(tag));
        if found.is_empty() {
            return Err(odd(
                dir,
                &format!("no image with the tag {tag:?}; it has {}", shown.join(", ")),
            ));
        }
    }
    found.sort_unstable();
    found.dedup_by_key(|(digest, _)| *digest);
    match found[..] {
        [(digest, _)] => Ok(digest),
        [] => Err(odd(dir, "an OCI layout without images; copy one there, or give another folder")),
        _ => Err(Error::LayoutAmbiguous { dir: PathBuf::from(dir), has: shown }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_types::Diagnostic as _;
    use serde_json::json;

    #[test]
    fn the_image_is_named_or_the_only_one() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let entry = |digest: &Digest, tag: Option<&str>| match tag {
            Some(tag) => json!({"digest": digest, "annotations": {REF_NAME: tag}}),
            None => json!({"digest": digest}),
        };
        for (what, entries, tag, want) in [
            ("only one", json!([entry(&a, None)]), None, Ok(a)),
            ("one with two tags", json!([entry(&a, Some("x")), entry(&a, Some("y"))]), None, Ok(a)),
            ("by tag", json!([entry(&a, Some("x")), entry(&b, Some("y"))]), Some("y"), Ok(b)),
            (
                "several",
                json!([entry(&a, Some("x")), entry(&b, None)]),
                None,
                Err("layout-ambiguous"),
            ),
            (
                "one tag, two images",
                json!([entry(&a, Some("x")), entry(&b, Some("x"))]),
                Some("x"),
                Err("layout-ambiguous"),
            ),
            ("no such tag", json!([entry(&a, Some("x"))]), Some("y"), Err("bad-layout")),
            ("empty", json!([]), None, Err("bad-layout")),
            (
                "hostile digest",
                json!([{"digest": "sha256:../../../etc/passwd"}]),
                None,
                Err("bad-layout"),
            ),
        ] {
            let index = json!({"manifests": entries});
            let got = pick(Path::new("d"), &index, tag).map_err(|e| e.code());
            assert_eq!(got, want, "{what}");
        }
        let several = json!({"manifests": [entry(&a, Some("x")), entry(&b, None)]});
        let error = pick(Path::new("d"), &several, None).unwrap_err().to_string();
        assert!(error.contains(&format!("x, {b}")), "{error}");
    }
}
