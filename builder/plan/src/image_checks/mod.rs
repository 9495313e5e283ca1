//! The checks of an image before machines get it, by hand and in a cluster: one list. Pure.
//!
//! Input: the image's manifest and config, and what is known of its base, its packages, its signatures and
//! the cluster.
//! Output: the [`Verdict`] of each check. Invariant: what is not known is [`Verdict::Unknown`], never a
//! guess.
//!
//! A new check is one function, and its name in [`CheckName`].

mod contents;
mod release;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::plan::Base;
pub use contents::{Contents, KubernetesMinor};
pub use release::Cluster;
use release::release;

use mosb_api::Metadata;
use mosb_api::image_checks::{
    CheckMode, CheckModes, CheckName, CheckResult, CheckVerdict, ImageCheckSettings,
};
use mosb_image::Platform;

/// What the checks are made of. A text instead of a fact says why it is not known.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub image: &'a Base,
    /// What it was built on.
    pub base: Result<&'a Base, &'a str>,
    /// The kernels and packages in it.
    pub contents: Result<&'a Contents, &'a str>,
    /// The machines' platform, and who says so.
    pub platform: Result<(&'a Platform, &'a str), &'a str>,
    pub cluster: &'a Cluster,
    /// The cluster's own OS image.
    pub stock: Result<&'a Base, &'a str>,
    /// The version of the API server.
    pub kubernetes: Result<KubernetesMinor, &'a str>,
    /// Versions that packages must have, by name.
    pub held_packages: &'a BTreeMap<String, String>,
    /// The most MiB of all layers.
    pub max_size_mib: Option<u32>,
    /// Of the policies that apply, which are evaluated where signatures are read.
    pub signature: &'a Verdict,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Passed(String),
    Failed(CheckFailure),
    /// What it needs is not known: why.
    Unknown(String),
}

impl Verdict {
    /// The result of this check, as it is recorded and printed.
    pub fn result(&self, check: &str, mode: CheckMode) -> CheckResult {
        let (verdict, code, message) = match self {
            Self::Passed(message) => (CheckVerdict::Passed, None, message.clone()),
            Self::Unknown(why) => (CheckVerdict::Unknown, None, why.clone()),
            Self::Failed(CheckFailure { code, message, remedy }) => {
                (CheckVerdict::Failed, Some((*code).to_owned()), format!("{message}; {remedy}"))
            }
        };
        let check = check.to_owned();
        CheckResult { check, verdict, code, message, mode, overridden: false, job: None }
    }
}

/// Why an image should not be used, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFailure {
    pub code: &'static str,
    pub message: String,
    pub remedy: String,
}

impl CheckFailure {
    fn found(code: &'static str, message: String, remedy: impl Into<String>) -> Verdict {
        Verdict::Failed(Self { code, message, remedy: remedy.into() })
    }
}

/// Makes one check.
pub fn check(name: CheckName, facts: Facts<'_>) -> Verdict {
    match name {
        CheckName::BaseLayers => base_layers(facts),
        CheckName::Bootable => bootable(facts),
        CheckName::Architecture => architecture(facts.image, facts.platform),
        // Only a release has an OS image of its own.
        CheckName::Release if *facts.cluster == Cluster::default() => {
            Verdict::Passed("the cluster names no OS image of its own".to_owned())
        }
        CheckName::Release => release(facts.image, facts.cluster, facts.stock),
        CheckName::KubeletSkew => contents::kubelet_skew(facts),
        CheckName::PackagesHeld => contents::packages_held(facts),
        CheckName::Size => size(facts),
        CheckName::Signature => facts.signature.clone(),
    }
}

/// One check of the list, made by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckByHand {
    /// The name of a built-in check, or of an own one.
    pub name: String,
    /// What a failed check does in a cluster.
    pub mode: CheckMode,
    pub verdict: Verdict,
}

/// Makes the checks that these settings do not turn off, where no cluster is asked. What only one knows is
/// [`Verdict::Unknown`], as is everything if the image is not known: why.
pub fn by_hand(facts: Result<Facts<'_>, &str>, settings: &ImageCheckSettings) -> Vec<CheckByHand> {
    let modes = CheckModes::of(&Metadata::default(), settings);
    let modes = modes.expect("only an annotation can be wrong, and there is none");
    let verdict = |name| match facts {
        // Whether the cluster has an OS image of its own is not known either.
        Ok(facts) if name == CheckName::Release => release(facts.image, facts.cluster, facts.stock),
        Ok(facts) => check(name, facts),
        Err(why) => Verdict::Unknown(why.to_owned()),
    };
    let built_in = CheckName::ALL.into_iter().map(|name| (name.as_str(), verdict(name)));
    let own = settings
        .own
        .keys()
        .map(|name| (&**name, Verdict::Unknown("its program runs only in a cluster".to_owned())));
    let made = built_in.chain(own).filter(|(name, _)| modes.is_on(name));
    made.filter_map(|(name, verdict)| {
        Some(CheckByHand { name: name.to_owned(), mode: modes.get(name)?, verdict })
    })
    .collect()
}

/// Layers are compared by their contents: a registry or a build may compress them anew.
fn base_layers(Facts { image, base, .. }: Facts<'_>) -> Verdict {
    let base = match base {
        Ok(base) => base,
        Err(why) => return Verdict::Unknown(format!("what it was built on is not known: {why}")),
    };
    let (own, lower) = (&image.config.diff_ids, &base.config.diff_ids);
    let same = own.iter().zip(lower).take_while(|(one, other)| one == other).count();
    if same == lower.len() {
        let message = format!("its lowest {same} layers are those of {}", base.image);
        return Verdict::Passed(message);
    }
    CheckFailure::found(
        "base-layers",
        format!(
            "{}: only {same} of the {} layers of its base {} are its lowest ones",
            image.image,
            lower.len(),
            base.image
        ),
        "let the Containerfile end FROM the base, without squashing, and build it again",
    )
}

fn bootable(Facts { image, contents, .. }: Facts<'_>) -> Verdict {
    if !image.is_bootable() {
        return labelled_bootable(image);
    }
    let Ok(contents) = contents else {
        return labelled_bootable(image);
    };
    if let Some(path) = &contents.unified_kernel {
        return CheckFailure::found(
            "sealed-base",
            format!(
                "{}: it has a unified kernel, /{path}, which pins the file system that it was sealed with",
                image.image
            ),
            "take a base that is not sealed",
        );
    }
    match &*contents.kernels {
        [] => CheckFailure::found(
            "no-kernel",
            format!("{} has no kernel in /usr/lib/modules: machines don't boot it", image.image),
            "build it on a bootable image",
        ),
        kernels => Verdict::Passed(format!(
            "it is labelled as an image that machines boot, with the kernel {}",
            kernels.join(", ")
        )),
    }
}

/// Checks that the image has a label of bootable images.
fn labelled_bootable(image: &Base) -> Verdict {
    if image.is_bootable() {
        return Verdict::Passed("it is labelled as an image that machines boot".to_owned());
    }
    CheckFailure::found(
        "not-bootable",
        format!(
            "{} has neither of the labels containers.bootc and ostree.bootable: machines don't boot it",
            image.image
        ),
        "build it on the cluster's OS image, or on another bootable one",
    )
}

/// Checks the architecture. `wanted` is the machines' platform with its source, or the reason why it
/// is unknown.
fn architecture(image: &Base, wanted: Result<(&Platform, &str), &str>) -> Verdict {
    let is = &image.config.platform;
    let (wanted, who) = match wanted {
        Ok(wanted) => wanted,
        Err(why) => {
            return Verdict::Unknown(format!(
                "it is for {is}, and what the machines are is not known: {why}"
            ));
        }
    };
    // The variant is not compared, because many configs omit it.
    if wanted.os() == is.os() && wanted.architecture() == is.architecture() {
        return Verdict::Passed(format!("it is for {is}, as {who}"));
    }
    CheckFailure::found(
        "platform-missing",
        format!("{} is for {is}, not for {wanted} as {who}", image.image),
        format!("build it for {wanted}"),
    )
}

fn size(Facts { image, max_size_mib, .. }: Facts<'_>) -> Verdict {
    const MIB: u64 = 1 << 20;
    let layers = image.manifest.get("layers").and_then(Value::as_array);
    let sizes = layers.into_iter().flatten().filter_map(|layer| layer["size"].as_u64());
    // A registry may write any number there.
    let bytes = sizes.fold(0, u64::saturating_add);
    let mib = bytes.div_ceil(MIB);
    match max_size_mib {
        Some(limit) if mib > u64::from(limit) => CheckFailure::found(
            "too-large",
            format!("{}: its layers have {mib} MiB, and the limit is {limit} MiB", image.image),
            "make it smaller, or raise checks.maxSizeMiB of ConfigMap mosb-config",
        ),
        _ => Verdict::Passed(format!("its layers have {mib} MiB")),
    }
}

#[cfg(test)]
mod tests;
