//! The packages of rpm and dpkg in an SBOM, with package URLs.

use std::collections::HashSet;

use mosb_image::packages::{Distribution, Installed, Manager, Package as OsPackage, Packages};
use mosb_image::tree::BaseTree;

use super::document::Package;
use super::{FIRST_BASE, IMAGE, escaped_size};

/// The packages of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsPackages {
    pub installed: Installed,
    /// Those of the nearest base, if they are known. What the image and its base have is the base's.
    pub of_base: Option<Packages>,
}

impl OsPackages {
    /// Those of an image that has only a config above the image with this tree: a config installs no
    /// packages.
    pub fn unchanged(below: &BaseTree) -> Self {
        let installed = Installed::of(below);
        Self { of_base: Some(installed.packages.clone()), installed }
    }
}

/// Packages for a document.
#[derive(Default)]
pub(super) struct Listed {
    /// Each with the ID of the image that it is of: the image or its base.
    pub packages: Vec<(&'static str, Package)>,
    /// What is missing, about the image.
    pub comment: Option<String>,
}

/// Bytes of a package in a document beside its texts: its ID twice, field names, its relationship.
const PACKAGE_SIZE: usize = 340;

impl Listed {
    /// The packages, as far as they need no more than `free` bytes.
    pub fn new(packages: Option<&OsPackages>, free: &mut usize) -> Self {
        let without = |comment| Self { comment: Some(comment), ..Self::default() };
        let Some(OsPackages { installed, of_base }) = packages else {
            return without("Its packages are not listed: they could not be read.".to_owned());
        };
        let base: HashSet<_> = of_base.iter().flat_map(Packages::iter).collect();
        let mut size = 0;
        let listed = (1..).zip(installed.packages.iter()).map(|(number, package)| {
            let owner = if base.contains(package) { FIRST_BASE } else { IMAGE };
            let purl = purl(package, installed.distribution.as_ref());
            let OsPackage { name, version, .. } = package;
            size += PACKAGE_SIZE + escaped_size(name) + escaped_size(version) + purl.len();
            let id = format!("SPDXRef-package-{number}");
            (owner, Package::installed(id, name, version, purl))
        });
        let listed: Vec<_> = listed.collect();
        let Some(rest) = free.checked_sub(size) else {
            let count = listed.len();
            return without(format!(
                "Its {count} packages are not listed: the document would be too large."
            ));
        };
        *free = rest;
        let mut notes: Vec<_> = installed.warnings.iter().map(|it| it.message.as_str()).collect();
        if of_base.is_none() && !listed.is_empty() {
            notes.push("it is not known which of its packages its base has");
        }
        let comment = match (&notes[..], &listed[..]) {
            ([], []) => Some("It has no package database of rpm or dpkg.".to_owned()),
            ([], _) => None,
            (notes, _) => Some(notes.join("; ")),
        };
        Self { packages: listed, comment }
    }
}

/// The package URL (types `rpm`, `deb`): `pkg:rpm/fedora/bind@9.18-1.fc44?arch=x86_64&distro=fedora-44&epoch=32`.
fn purl(package: &OsPackage, distribution: Option<&Distribution>) -> String {
    let kind = match package.manager {
        Manager::Rpm => "rpm",
        Manager::Dpkg => "deb",
    };
    // The vendor, by the names of the type.
    let namespace = distribution.map(|distribution| match &*distribution.id {
        "rhel" | "rhcos" => "redhat",
        id => id,
    });
    // Of rpm, the epoch is apart.
    let (epoch, version) = match (package.manager, package.version.split_once(':')) {
        (Manager::Rpm, Some((epoch, version))) => (Some(epoch), version),
        _ => (None, &*package.version),
    };
    let distro = distribution.map(|Distribution { id, version }| match version {
        Some(version) => format!("{id}-{version}"),
        None => id.clone(),
    });
    let namespace = namespace.map(|namespace| format!("{}/", encoded(namespace)));
    let name = encoded(&package.name);
    let mut text =
        format!("pkg:{kind}/{}{name}@{}", namespace.unwrap_or_default(), encoded(version));
    let qualifiers =
        [("arch", package.arch.as_deref()), ("distro", distro.as_deref()), ("epoch", epoch)];
    let mut separator = '?';
    for (key, value) in qualifiers {
        if let Some(value) = value {
            text.extend([&format!("{separator}{key}="), &*encoded(value)]);
            separator = '&';
        }
    }
    text
}

/// Percent-encoded, as a part of a package URL.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_~:".contains(&byte);
    let encode = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_urls_name_distribution_and_epoch() {
        let rhel = ("rhel", Some("9.6"));
        for (manager, name, version, arch, distribution, want) in [
            (
                Manager::Rpm,
                "bind",
                "32:9.18-1",
                Some("x86_64"),
                Some(rhel),
                "pkg:rpm/redhat/bind@9.18-1?arch=x86_64&distro=rhel-9.6&epoch=32",
            ),
            (
                Manager::Rpm,
                "libstdc++",
                "1^2~3-1",
                None,
                Some(("fedora", None)),
                "pkg:rpm/fedora/libstdc%2B%2B@1%5E2~3-1?distro=fedora",
            ),
            (
                Manager::Dpkg,
                "zlib1g",
                "1:1.2+b1",
                Some("amd64"),
                Some(("debian", Some("12"))),
                "pkg:deb/debian/zlib1g@1:1.2%2Bb1?arch=amd64&distro=debian-12",
            ),
            (Manager::Dpkg, "a", "1", None, None, "pkg:deb/a@1"),
            (Manager::Rpm, "a/?#@ü", "1", None, None, "pkg:rpm/a%2F%3F%23%40%C3%BC@1"),
        ] {
            let package = OsPackage {
                name: name.to_owned(),
                version: version.to_owned(),
                arch: arch.map(str::to_owned),
                manager,
            };
            let distribution = distribution.map(|(id, version)| Distribution {
                id: id.to_owned(),
                version: version.map(str::to_owned),
            });
            assert_eq!(purl(&package, distribution.as_ref()), want);
        }
    }
}
