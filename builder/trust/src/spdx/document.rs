//! SPDX 2.3 as JSON has it. Each struct has its fields in the order of their names, so that the keys are
//! sorted without a copy of the document as a JSON value.

use std::fmt;

use mosb_image::Digest;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::image_name::ImageName;

#[derive(Serialize)]
pub(super) struct Document {
    #[serde(rename = "SPDXID")]
    pub id: &'static str,
    #[serde(rename = "creationInfo")]
    pub creation: Creation,
    #[serde(rename = "dataLicense")]
    pub data_license: &'static str,
    #[serde(rename = "documentNamespace")]
    pub namespace: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    pub name: String,
    pub packages: Vec<Package>,
    pub relationships: Vec<Relationship>,
    #[serde(rename = "spdxVersion")]
    pub version: &'static str,
}

#[derive(Serialize)]
pub(super) struct Creation {
    pub created: String,
    pub creators: [String; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Package {
    #[serde(rename = "SPDXID")]
    pub id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checksums: Vec<Checksum>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    download_location: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    external_refs: Vec<ExternalReference>,
    pub files_analyzed: bool,
    /// A relationship for each file would say the same in seven times as many bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub has_files: Vec<String>,
    name: String,
    #[serde(rename = "packageVerificationCode", skip_serializing_if = "Option::is_none")]
    pub verification_code: Option<VerificationCode>,
    #[serde(rename = "primaryPackagePurpose", skip_serializing_if = "Option::is_none")]
    purpose: Option<&'static str>,
    #[serde(rename = "versionInfo")]
    version: String,
}

impl Package {
    pub fn image(id: String, image: &ImageName) -> Self {
        let purl = image.purl().map(ExternalReference::purl);
        Self {
            external_refs: purl.into_iter().collect(),
            ..Self::of_digest(id, image.name(), &image.digest, "CONTAINER")
        }
    }

    pub fn layer(id: String, digest: &Digest) -> Self {
        Self::of_digest(id, "layer".to_owned(), digest, "ARCHIVE")
    }

    /// A package of a package manager.
    pub fn installed(id: String, name: &str, version: &str, purl: String) -> Self {
        let external_refs = vec![ExternalReference::purl(purl)];
        Self { external_refs, ..Self::new(id, name.to_owned(), version.to_owned()) }
    }

    fn of_digest(id: String, name: String, digest: &Digest, purpose: &'static str) -> Self {
        Self {
            checksums: vec![Checksum::sha256(digest)],
            purpose: Some(purpose),
            ..Self::new(id, name, digest.to_string())
        }
    }

    fn new(id: String, name: String, version: String) -> Self {
        Self {
            id,
            checksums: Vec::new(),
            comment: None,
            download_location: "NOASSERTION",
            external_refs: Vec::new(),
            files_analyzed: false,
            has_files: Vec::new(),
            name,
            verification_code: None,
            purpose: None,
            version,
        }
    }
}

#[derive(Serialize)]
pub(super) struct ExternalReference {
    #[serde(rename = "referenceCategory")]
    category: &'static str,
    #[serde(rename = "referenceLocator")]
    locator: String,
    #[serde(rename = "referenceType")]
    kind: &'static str,
}

impl ExternalReference {
    fn purl(locator: String) -> Self {
        Self { category: "PACKAGE-MANAGER", locator, kind: "purl" }
    }
}

#[derive(Serialize)]
pub(super) struct VerificationCode {
    #[serde(
        rename = "packageVerificationCodeExcludedFiles",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub excluded: Vec<String>,
    #[serde(rename = "packageVerificationCodeValue")]
    pub value: String,
}

#[derive(Serialize)]
struct Checksum {
    algorithm: &'static str,
    #[serde(rename = "checksumValue")]
    value: String,
}

impl Checksum {
    fn sha256(digest: &Digest) -> Self {
        Self { algorithm: "SHA256", value: digest.hex() }
    }
}

#[derive(Serialize)]
pub(super) struct File {
    #[serde(rename = "SPDXID")]
    pub id: String,
    checksums: [Checksum; 2],
    #[serde(rename = "fileName")]
    name: String,
}

impl File {
    /// `number` identifies it in the document; `sha1` is in hex.
    pub fn new(number: usize, name: String, sha1: String, sha256: &Digest) -> Self {
        Self {
            id: format!("SPDXRef-{number}"),
            checksums: [Checksum { algorithm: "SHA1", value: sha1 }, Checksum::sha256(sha256)],
            name,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Relationship {
    #[serde(rename = "relatedSpdxElement")]
    to: String,
    #[serde(rename = "relationshipType")]
    kind: &'static str,
    #[serde(rename = "spdxElementId")]
    from: String,
}

impl Relationship {
    pub fn new(from: &str, kind: &'static str, to: &str) -> Self {
        Self { to: to.to_owned(), kind, from: from.to_owned() }
    }
}

/// What is shown of an SBOM that was read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Described {
    spdx_version: String,
    #[serde(default)]
    files: Vec<IgnoredAny>,
    #[serde(default)]
    packages: Vec<DescribedPackage>,
}

#[derive(Deserialize)]
struct DescribedPackage {
    #[serde(rename = "packageVerificationCode")]
    code: Option<DescribedCode>,
}

#[derive(Deserialize)]
struct DescribedCode {
    #[serde(default, rename = "packageVerificationCodeExcludedFiles")]
    excluded: Vec<IgnoredAny>,
}

/// `SPDX-2.3: 3 packages, 12 files, 1 file without hashes`.
impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: usize, of: &str| match count {
            1 => format!("1 {of}"),
            count => format!("{count} {of}s"),
        };
        let (packages, files) = (self.packages.len(), self.files.len());
        write!(f, "{}: {}", self.spdx_version, count(packages, "package"))?;
        write!(f, ", {}", count(files, "file"))?;
        let codes = self.packages.iter().filter_map(|package| package.code.as_ref());
        match codes.map(|code| code.excluded.len()).sum::<usize>() {
            0 => Ok(()),
            excluded => write!(f, ", {} without hashes", count(excluded, "file")),
        }
    }
}
