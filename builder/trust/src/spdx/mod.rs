//! The SBOM of an image: SPDX 2.3 in JSON, with sorted keys. It describes what was put on the base, and
//! the packages of the image. The base is in it by its digest.
//!
//! Invariant: the same image gives the same bytes: no clock, no random name. 26,000 files are 8 MB.

mod document;
mod os_packages;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN, digest};
use data_encoding::HEXLOWER;
use mosb_image::{Digest, TreePath};
use serde::Serialize;

use crate::image_name::ImageName;
pub(crate) use document::Described;
use document::{Creation, Document, File, Package, Relationship, VerificationCode};
use os_packages::Listed;
pub use os_packages::OsPackages;

/// The type of the statement.
pub const SPDX_DOCUMENT: &str = "https://spdx.dev/Document";
/// Most bytes of the lists of packages and files, so that an envelope stays below what is read of one.
const LISTS_LIMIT: usize = 20 << 20;
/// Bytes of a file in a document beside its path: its ID twice, two checksums, field names.
const FILE_SIZE: usize = 264;

/// What an SBOM is about.
#[derive(Debug)]
pub struct Sbom<'a> {
    pub image: &'a ImageName,
    /// What it was built on, the nearest first: a prepared base, the base.
    pub bases: &'a [ImageName],
    /// When the image says that it was made: `YYYY-MM-DDThh:mm:ssZ`.
    pub created: &'a str,
    /// The version of mosb.
    pub version: &'a str,
    /// Those on top of the base's, the lowest first.
    pub layers: &'a [SbomLayer],
    /// `None` if they can't be read.
    pub packages: Option<&'a OsPackages>,
}

/// A layer that a build put on its base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SbomLayer {
    /// Of the compressed bytes.
    pub digest: Digest,
    /// `None` if a program wrote it: its files are not listed.
    pub files: Option<LayerFiles>,
}

/// The regular files of a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerFiles {
    listed: Vec<ListedFile>,
    left_out: Vec<TreePath>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ListedFile {
    path: TreePath,
    sha1: Sha1,
    sha256: Digest,
}

type Sha1 = [u8; SHA1_OUTPUT_LEN];

impl LayerFiles {
    pub fn list(&mut self, path: TreePath, content: &[u8]) {
        self.listed.push(ListedFile { path, sha1: sha1(content), sha256: Digest::of(content) });
    }

    /// Names a file without its hashes, from which a small secret could be guessed.
    pub fn leave_out(&mut self, path: TreePath) {
        self.left_out.push(path);
    }

    /// Bytes in a document.
    fn size(&self) -> usize {
        let listed = self.listed.iter().map(|file| &file.path);
        listed.chain(&self.left_out).map(|path| FILE_SIZE + escaped_size(path.relative())).sum()
    }

    /// SHA-1 of the sorted SHA-1s of the files, in hex (SPDX 2.3, 7.9).
    fn verification_code(&self) -> String {
        let mut hashes: Vec<_> = self.listed.iter().map(|file| file.sha1).collect();
        hashes.sort_unstable();
        let hashes = HEXLOWER.encode(hashes.as_flattened());
        HEXLOWER.encode(&sha1(hashes.as_bytes()))
    }
}

fn sha1(bytes: &[u8]) -> Sha1 {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes);
    hash.as_ref().try_into().expect("SHA-1 has 20 bytes")
}

/// Bytes of a text in JSON.
fn escaped_size(text: &str) -> usize {
    let size = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(size).sum()
}

fn file_name(path: &TreePath) -> String {
    format!("./{}", path.relative())
}

const DOCUMENT: &str = "SPDXRef-DOCUMENT";
const IMAGE: &str = "SPDXRef-image";
const FIRST_BASE: &str = "SPDXRef-base-1";

impl Sbom<'_> {
    /// The document.
    pub fn document(&self) -> impl Serialize + use<> {
        let mut packages = vec![Package::image(IMAGE.to_owned(), self.image)];
        let mut relationships = vec![Relationship::new(DOCUMENT, "DESCRIBES", IMAGE)];
        let mut above = IMAGE.to_owned();
        for (number, base) in (1..).zip(self.bases) {
            let id = format!("SPDXRef-base-{number}");
            relationships.push(Relationship::new(&above, "DESCENDANT_OF", &id));
            packages.push(Package::image(id.clone(), base));
            above = id;
        }
        let mut free = LISTS_LIMIT;
        let of_os = Listed::new(self.packages, &mut free);
        packages[0].comment = of_os.comment;
        let mut files = Vec::new();
        for (number, layer) in (1..).zip(self.layers) {
            let id = format!("SPDXRef-layer-{number}");
            relationships.push(Relationship::new(IMAGE, "CONTAINS", &id));
            packages.push(layer_package(id, layer, &mut files, &mut free));
        }
        for (owner, package) in of_os.packages {
            relationships.push(Relationship::new(owner, "CONTAINS", &package.id));
            packages.push(package);
        }
        Document {
            id: DOCUMENT,
            creation: Creation {
                created: self.created.to_owned(),
                creators: [format!("Tool: mosb-{}", self.version)],
            },
            data_license: "CC0-1.0",
            namespace: format!("https://mosb.dev/spdx/{}", self.image.digest),
            files,
            name: self.image.name(),
            packages,
            relationships,
            version: "SPDX-2.3",
        }
    }
}

/// The package of a layer. Its files go to `files`, as far as they need no more than `free` bytes.
fn layer_package(
    id: String,
    layer: &SbomLayer,
    files: &mut Vec<File>,
    free: &mut usize,
) -> Package {
    let mut package = Package::layer(id, &layer.digest);
    let Some(content) = &layer.files else {
        let comment = "Written by programs that the build ran; its files are not listed.";
        package.comment = Some(comment.to_owned());
        return package;
    };
    let Some(rest) = free.checked_sub(content.size()) else {
        let count = content.listed.len() + content.left_out.len();
        let comment = format!("Its {count} files are not listed: the document would be too large.");
        package.comment = Some(comment);
        return package;
    };
    *free = rest;
    let first = files.len() + 1;
    files.extend((first..).zip(&content.listed).map(|(number, file)| {
        File::new(number, file_name(&file.path), HEXLOWER.encode(&file.sha1), &file.sha256)
    }));
    let left_out = content.left_out.len();
    package.comment = (left_out > 0)
        .then(|| format!("Files without hashes here, as they may have secrets: {left_out}."));
    package.files_analyzed = true;
    package.has_files = files[first - 1..].iter().map(|file| file.id.clone()).collect();
    package.verification_code = Some(VerificationCode {
        excluded: content.left_out.iter().map(file_name).collect(),
        value: content.verification_code(),
    });
    package
}

#[cfg(test)]
mod tests;
