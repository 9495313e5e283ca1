//! Extensions and kernels as packages, by the tables of the Machine Config Operator's builder.

use super::build_plan::BuildRequest;
use mosb_api::{EXTENSIONS, KernelType};
use mosb_image::Platform;

/// `spec.extensions` → packages.
const PACKAGES: [(&str, &[&str]); EXTENSIONS.len()] = [
    ("two-node-ha", &["pacemaker", "pcs", "fence-agents-all"]),
    ("ipsec", &["NetworkManager-libreswan", "libreswan", "openvswitch3.5-ipsec"]),
    ("usbguard", &["usbguard"]),
    ("kerberos", &["krb5-workstation", "libkadm5"]),
    ("kernel-devel", &["kernel-devel", "kernel-headers"]),
    ("sandboxed-containers", &["kata-containers"]),
    ("sysstat", &["sysstat"]),
];

/// Packages that can't be installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Names that no table has.
    #[error(
        "{config}: spec.extensions: unknown: {}; known are {}",
        .unknown.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", "),
        EXTENSIONS.join(", ")
    )]
    Unknown { config: String, unknown: Vec<String> },
    /// The kernel with 64k pages exists for one architecture.
    #[error(
        "{config}: spec.kernelType: 64k-pages exists for linux/arm64 only, and the base is for {platform}; take it out, or give a base for linux/arm64"
    )]
    Kernel { config: String, platform: Platform },
    /// Packages that no repository or extensions image has.
    #[error(
        "{config}: {field} needs packages from an extensions image, and spec.baseOSExtensionsContainerImage is empty; fill it in or give --extensions-image"
    )]
    NoImage {
        config: String,
        /// The setting that needs packages.
        field: &'static str,
    },
}

/// The packages of these extensions, in their order, each once. Unknown names have none: [`check`]
/// refuses them.
pub fn packages(extensions: &[String]) -> Vec<&'static str> {
    let mut packages = Vec::new();
    let known = extensions.iter().filter_map(|name| of(name));
    for package in known.flatten().copied() {
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    packages
}

fn of(extension: &str) -> Option<&'static [&'static str]> {
    let entry = PACKAGES.iter().find(|(name, _)| *name == extension);
    entry.map(|(_, packages)| *packages)
}

/// The packages of a kernel.
pub fn kernel(kernel: KernelType) -> &'static [&'static str] {
    match kernel {
        KernelType::Default => &[
            "kernel",
            "kernel-core",
            "kernel-modules",
            "kernel-modules-core",
            "kernel-modules-extra",
        ],
        KernelType::Realtime => {
            &["kernel-rt-core", "kernel-rt-modules", "kernel-rt-modules-extra", "kernel-rt-kvm"]
        }
        KernelType::Pages64k => &[
            "kernel-64k-core",
            "kernel-64k-modules",
            "kernel-64k-modules-core",
            "kernel-64k-modules-extra",
        ],
    }
}

/// Checks that the packages of the config exist for its base.
///
/// Without an extensions image, the Machine Config Operator's builder leaves extensions out and
/// reports nothing. An image that lacks what its config says is never right, so here that is an
/// error.
pub fn check(request: &BuildRequest) -> Result<(), Error> {
    let config = || request.config.name().to_string();
    let unknown: Vec<_> =
        request.config.extensions.iter().filter(|name| of(name).is_none()).cloned().collect();
    if !unknown.is_empty() {
        return Err(Error::Unknown { config: config(), unknown });
    }
    let platform = &request.base.config.platform;
    if request.config.kernel_type == KernelType::Pages64k
        && (platform.os(), platform.architecture()) != ("linux", "arm64")
    {
        return Err(Error::Kernel { config: config(), platform: platform.clone() });
    }
    if request.extensions_image.is_none() {
        if !request.config.extensions.is_empty() {
            return Err(Error::NoImage { config: config(), field: "spec.extensions" });
        }
        if request.config.kernel_type != KernelType::Default {
            return Err(Error::NoImage { config: config(), field: "spec.kernelType" });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_extension_has_packages() {
        assert_eq!(PACKAGES.map(|(name, _)| name), EXTENSIONS);
    }

    #[test]
    fn packages_follow_order_of_request_and_come_once() {
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let want = ["usbguard", "krb5-workstation", "libkadm5"];
        assert_eq!(packages(&names(&["usbguard", "kerberos", "usbguard"])), want);
        assert_eq!(packages(&names(&["kerberos", "usbguard"]))[2], "usbguard");
        assert!(packages(&names(&["none", ""])).is_empty());
    }

    #[test]
    fn unknown_extensions_are_listed_with_the_known_ones() {
        let error = Error::Unknown {
            config: "c".to_owned(),
            unknown: vec!["a".to_owned(), "b".to_owned()],
        };
        let text = error.to_string();
        assert!(
            text.starts_with("c: spec.extensions: unknown: \"a\", \"b\"; known are two-node-ha, "),
            "{text}"
        );
    }
}
