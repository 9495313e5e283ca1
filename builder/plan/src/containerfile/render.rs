//! The plan as text, and that of its prepared base.

use std::collections::BTreeMap;

use mosb_ignition::Owner;
use mosb_image::{Digest, PinnedRef};

use super::names::extensions_image;
use super::split::split;
use super::{Error, stages};
use crate::plan::{Base, BuildPlan, BuildRequest, MountedAs, Prepared, Reason, mounted, packages};
use mosb_api::KernelType;

/// The build context with mosb's own files, beside one of the administrator's.
pub const FILES: &str = "mosb-files";

macro_rules! sections {
    ($($name:ident = $file:literal;)*) => {
        $(const $name: Template = Template::new($file, include_str!(concat!("../../../../containerfiles/", $file)));)*
    };
}
sections! {
    EXTRACT = "10-extract";
    EXTENSIONS_IMAGE = "15-extensions";
    BASE = "18-base";
    CONFIGS = "20-configs";
    SEALED_BASE = "25-sealed";
    IGNITION = "30-ignition";
    PRESET = "40-preset";
    VAR_FILES = "45-var-files";
    KERNEL_ARGUMENTS = "46-kernel-arguments";
    BOOT_CHECK = "47-boot-check";
    CURRENT_CONFIG = "50-currentconfig";
    MOUNTED_FILES = "55-mounted-files";
    MOUNTED_FILE = "56-mounted-file";
    MOUNTED_LINKS = "57-mounted-links";
    PACKAGES = "60-packages";
    EXTENSIONS = "61-extensions";
    KERNEL = "62-kernel";
    USBGUARD_IPSEC = "70-usbguard-ipsec";
    TRUST_BUNDLE = "80-trust-bundle";
    CA_TRUST = "81-ca-trust";
    LABELS = "85-labels";
    COMMIT = "90-commit";
}

/// The Containerfile of a plan, to be built with the files of
/// [`payload::context`](crate::payload::context).
///
/// Where the administrator's text refers to the stage `base`, that is the base with its packages.
/// The prepared part comes on it and before the config, and the last part after the config.
///
/// # Errors
/// An administrator's Containerfile that can't be built; a name or label that isn't valid in one.
pub fn render(plan: &BuildPlan) -> Result<String, Error> {
    let request = &plan.request;
    let mut text = extract_stage(request.context.is_some())?;
    let split = split(request)?;
    text += &extensions_stage(request)?;
    let mut base = safe("the base", from(&request.base))?;
    if split.uses_base {
        text += &BASE.fill(&[("base", &base)])?;
        text += &packages_and_kernel(request, &request.config.extensions)?;
        base = stages::BASE.to_owned();
    }
    if let Some(prepared) = split.prepared {
        text.push('\n');
        text += &prepared.text;
        base = prepared.name;
    }
    text += &CONFIGS.fill(&[("base", &base)])?;
    // Nobody has read the tree of the base.
    if split.last.is_none() {
        text += &SEALED_BASE.fill(&[])?;
    }
    if plan.ignition.is_some() {
        text += &IGNITION.fill(&[])?;
    }
    if plan.var_paths.is_some() {
        text += &VAR_FILES.fill(&[])?;
    }
    if plan.kernel_arguments.is_some() {
        text += &KERNEL_ARGUMENTS.fill(&[])?;
    }
    if plan.brings_to_machines() {
        text += &BOOT_CHECK.fill(&[])?;
    }
    text += &CURRENT_CONFIG.fill(&[])?;
    text += &mounted_files(plan)?;
    if !split.uses_base {
        text += &packages_and_kernel(request, &request.config.extensions)?;
    }
    // A unit that the config enables can come with a package.
    if !plan.preset_units.is_empty() {
        text += &PRESET.fill(&[])?;
    }
    if request.trust_bundle.is_some() {
        text += &TRUST_BUNDLE.fill(&[])?;
    }
    let reasons = plan.method.reasons();
    if reasons.iter().any(|reason| matches!(reason, Reason::CaTrust(_))) {
        text += &CA_TRUST.fill(&[])?;
    }
    text += &LABELS.fill(&[("labels", &labels(&plan.labels)?)])?;
    if request.base.is_ostree() {
        text += &COMMIT.fill(&[])?;
    }
    if let Some(last) = &split.last {
        text.push('\n');
        text += &last.rest;
        if !last.rest.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

/// The Containerfile of a prepared base, to be built with
/// [`prepared_files`](crate::payload::context::prepared_files). Nothing in it names the config.
///
/// # Errors
/// A name or label that isn't valid in one.
pub fn render_prepared(prepared: &Prepared) -> Result<String, Error> {
    let request = &prepared.request;
    let mut text = String::new();
    if prepared.has_trust_files || request.trust_bundle.is_some() {
        text += &extract_stage(prepared.context().is_some())?;
    }
    text += &extensions_stage(request)?;
    let base = safe("the base", from(&request.base))?;
    let packages = packages_and_kernel(request, &prepared.extensions())?;
    match &prepared.own {
        Some(own) => {
            text += &BASE.fill(&[("base", &base)])?;
            text += &packages;
            text.push('\n');
            text += &own.text;
            text += &CONFIGS.fill(&[("base", &own.name)])?;
        }
        None => {
            text += &CONFIGS.fill(&[("base", &base)])?;
            text += &packages;
        }
    }
    if prepared.has_trust_files {
        text += &IGNITION.fill(&[])?;
    }
    if request.trust_bundle.is_some() {
        text += &TRUST_BUNDLE.fill(&[])?;
    }
    if prepared.compiles_trust {
        text += &CA_TRUST.fill(&[])?;
    }
    text += &LABELS.fill(&[("labels", &labels(&prepared.labels())?)])?;
    if request.base.is_ostree() {
        text += &COMMIT.fill(&[])?;
    }
    Ok(text.trim_start().to_owned())
}

/// The Containerfile of the last part of a plan, to be built with the files of
/// [`payload::context`](crate::payload::context) on an image of the store, the prepared base with the
/// config. Nothing is installed where it refers to the stage `base`, which is then the base itself.
///
/// # Errors
/// As [`render`].
pub fn render_last(plan: &BuildPlan, configs: &Digest) -> Result<String, Error> {
    let mut text = extract_stage(plan.request.context.is_some())?;
    text += &extensions_stage(&plan.request)?;
    let last = split(&plan.request)?.last;
    if last.as_ref().is_some_and(|last| last.needs_base.is_some()) {
        text += &BASE.fill(&[("base", &safe("the base", from(&plan.request.base))?)])?;
    }
    text += &CONFIGS.fill(&[("base", &configs.hex())])?;
    if let Some(last) = &last {
        text.push('\n');
        text += &last.text;
        if !last.text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

/// The stage with mosb's own files: of the build context, or of another one if the administrator's
/// directory is that.
fn extract_stage(has_context: bool) -> Result<String, Error> {
    let from = if has_context { format!(" --from={FILES}") } else { String::new() };
    EXTRACT.fill(&[("from", &from)])
}

/// The stage with the packages, if some are installed.
fn extensions_stage(request: &BuildRequest) -> Result<String, Error> {
    match extensions_image(request) {
        Some(image) => {
            let image = safe("the extensions image", image.to_string())?;
            EXTENSIONS_IMAGE.fill(&[("extensions_image", &image)])
        }
        None => Ok(String::new()),
    }
}

fn packages_and_kernel(request: &BuildRequest, extensions: &[String]) -> Result<String, Error> {
    let mut text = String::new();
    if extensions_image(request).is_some() {
        text += &PACKAGES.fill(&[("steps", &install_steps(request, extensions)?)])?;
    }
    if ["usbguard", "ipsec"].iter().any(|name| extensions.iter().any(|one| one == name)) {
        text += &USBGUARD_IPSEC.fill(&[])?;
    }
    Ok(text)
}

/// What `FROM` says: the reference with its digest, or for a base of a layout the ID under which a
/// store has it, which is the digest of its config.
fn from(base: &Base) -> String {
    // `oci:5000/os@sha256:…` is a folder, though it could be read as a host with a port.
    if !base.name.is_layout()
        && let Ok(image) = base.image.parse::<PinnedRef>()
    {
        return image.to_string();
    }
    let config = base.manifest.pointer("/config/digest");
    let digest = config.and_then(serde_json::Value::as_str).unwrap_or_default();
    digest.trim_start_matches("sha256:").to_owned()
}

/// Copies the entries of the config at paths that no step can write.
fn mounted_files(plan: &BuildPlan) -> Result<String, Error> {
    let found = plan.ignition.as_ref().map(mounted).transpose()?.unwrap_or_default();
    if found.is_empty() {
        return Ok(String::new());
    }
    let mut text = MOUNTED_FILES.fill(&[])?;
    let owner = |what: &str, owner: &Owner| match owner {
        Owner::Unset => Ok("0".to_owned()),
        Owner::Id(id) => Ok(id.to_string()),
        Owner::Name(name) => safe(what, name.clone()),
    };
    for one in &found {
        if let MountedAs::File { mode, user, group, .. } = &one.what {
            let what = format!("the owner of {}", one.path());
            let owners = format!("{}:{}", owner(&what, user)?, owner(&what, group)?);
            let mode = format!("{mode:04o}");
            text +=
                &MOUNTED_FILE.fill(&[("mode", &mode), ("owner", &owners), ("name", one.name)])?;
        }
    }
    if found.iter().any(|one| matches!(one.what, MountedAs::Link { .. })) {
        text += &MOUNTED_LINKS.fill(&[])?;
    }
    Ok(text)
}

fn install_steps(request: &BuildRequest, extensions: &[String]) -> Result<String, Error> {
    let config = &request.config;
    let mut steps = String::new();
    if !extensions.is_empty() {
        let names = packages::packages(extensions).join(" ");
        steps += &EXTENSIONS.fill(&[("packages", &names)])?;
    }
    if config.kernel_type != KernelType::Default {
        let set = |kernel| packages::kernel(kernel).join(" ");
        steps += &KERNEL.fill(&[
            ("default", &set(KernelType::Default)),
            ("realtime", &set(KernelType::Realtime)),
            ("pages64k", &set(KernelType::Pages64k)),
            ("wanted", config.kernel_type.as_str()),
            ("new", &set(config.kernel_type)),
        ])?;
    }
    Ok(steps)
}

fn labels(labels: &BTreeMap<String, String>) -> Result<String, Error> {
    let label = |(key, value): (&String, &String)| {
        let key = safe("the name of a label", key.clone())?;
        Ok(format!("\"{key}\"=\"{}\"", safe(&format!("label {key}"), value.clone())?))
    };
    let labels: Vec<String> = labels.iter().map(label).collect::<Result<_, Error>>()?;
    Ok(labels.join(" \\\n      "))
}

/// Characters that have no other meaning, quoted or not.
fn safe(what: &str, text: String) -> Result<String, Error> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:@[]+".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) && !text.starts_with('-') {
        Ok(text)
    } else {
        Err(Error::Text { what: what.to_owned(), text })
    }
}

#[cfg(test)]
#[path = "tests.rs"]
pub(super) mod tests;

/// A section of `containerfiles/`, with holes `{{name}}`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Template {
    section: &'static str,
    text: &'static str,
}

impl Template {
    pub(super) const fn new(section: &'static str, text: &'static str) -> Self {
        Self { section, text }
    }

    /// The text with its holes filled. Every hole has a value, and every value a hole.
    pub(super) fn fill(&self, values: &[(&str, &str)]) -> Result<String, Error> {
        let error = |problem: String| Error::Template { section: self.section, problem };
        let mut used = vec![false; values.len()];
        let mut pieces = self.text.split("{{");
        let mut out = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (name, rest) = piece
                .split_once("}}")
                .ok_or_else(|| error(format!("a hole has no end before {piece:?}")))?;
            let at = values
                .iter()
                .position(|(known, _)| *known == name)
                .ok_or_else(|| error(format!("hole {name:?} has no value")))?;
            used[at] = true;
            out += values[at].1;
            out += rest;
        }
        match used.iter().position(|used| !used) {
            Some(at) => Err(error(format!("value {:?} has no hole", values[at].0))),
            None => Ok(out),
        }
    }
}
