//! Renders the MachineConfigs of a pool to one static MachineConfig, which is named by its content.
//!
//! Input: the objects ([`Request`]) and the contents that are fetched so far. Output: the rendered
//! config, or the references to fetch first ([`Outcome`]). All problems of the inputs are reported
//! at once. Invariant: the same MachineConfigs give the same object, in any order and from any
//! files; it has no remote references.
//!
//! # Codes
//! Those of a problem of [`Error::Invalid`], beside those of [`ignition`](mosb_ignition):
//!
//! | code | what |
//! | --- | --- |
//! | `bad-name`, `duplicate-name`, `no-role` | of a MachineConfig |
//! | `bad-selector`, `nothing-selected`, `bad-pool-name` | of the pool |
//! | `bad-setting`, `unknown-extension`, `kernel-devel`, `image-not-pinned`, `os-image-stream` | of `spec` |
//! | `not-completed` | a cluster is not through with the ControllerConfig, or with a KubeletConfig of the pool |
//!
//! Those of a warning: `unknown-setting`, `os-image-overridden`, `mixed-versions`,
//! `nearly-too-large`, `none-of-its-own`, `rendered-skipped`, `settings-left-out`. Of [`unreconcilable`]:
//! `needs-reinstall`.

mod attribute;
mod configs;
mod error;
mod explain;
mod guards;
mod images;
mod reconcile;
mod select;
mod settings;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use mosb_api::{
    ControllerConfig, MachineConfig, MachineConfigPool, PoolName, PoolSettings, RENDERED_LIMIT,
    RenderedConfig, labels,
};
use mosb_ignition::snapshot::{Contents, Resolution};
use mosb_image::Digest;
use mosb_types::{Finding, canonical_json};

pub use error::{Error, Outcome, Rendered};
pub use explain::{Explanation, FieldOrigin, Origin};
pub use images::{GIVEN, Unpinned};
pub use reconcile::{CORE, OF_CORE, first_boot_parts};
pub use reconcile::{Update, unreconcilable};
pub use select::is_rendered_one;

/// The renderer that made a config, for its annotation. A constant: another version of mosb makes
/// the same image.
pub const RENDERER: &str = "mosb";

/// The inputs of rendering.
#[derive(Debug, Clone)]
pub struct Request {
    pub pool: PoolName,
    /// The pool itself: its selector, its uid; without, the role label decides.
    pub pool_object: Option<MachineConfigPool>,
    /// The images and the version of the release.
    pub controller_config: Option<ControllerConfig>,
    /// All KubeletConfigs and ContainerRuntimeConfigs that are known.
    pub pool_settings: Vec<PoolSettings>,
    /// The base OS image, instead of the ControllerConfig's.
    pub os_image: Option<String>,
    /// The extensions image, instead of the ControllerConfig's.
    pub extensions_image: Option<String>,
    /// Images with a tag, as written, and the digest of each: `repo@sha256:…`.
    pub pins: BTreeMap<String, String>,
    /// All MachineConfigs that are known, in any order.
    pub configs: Vec<Component>,
    /// Whether to fill [`Rendered::explanation`].
    pub explain: bool,
}

/// The role whose MachineConfigs all pools but `master` get too.
const WORKER: &str = "worker";
/// The pool of the control plane.
const MASTER: &str = "master";

impl Request {
    /// Pins an image to the digest that its tag has now.
    pub fn pin(&mut self, unpinned: Unpinned, digest: Digest) {
        let pinned = unpinned.reference.repo().pinned(digest).to_string();
        self.pins.insert(unpinned.image, pinned);
    }
}

/// A MachineConfig, and where it was read.
#[derive(Debug, Clone)]
pub struct Component {
    /// As `dir/a.yaml (document 2)`, for messages; empty in a cluster.
    pub origin: String,
    pub config: MachineConfig,
}

impl Component {
    pub fn name(&self) -> &str {
        &self.config.metadata.name
    }

    /// The pool that it is for, from its role label.
    fn role(&self) -> Option<&str> {
        let role = self.config.metadata.labels.get(labels::ROLE)?;
        (!role.is_empty()).then_some(role)
    }

    /// How a message names a field of it, or all of it.
    fn place(&self, field: &str) -> String {
        let parts = [self.origin.as_str(), self.name(), field];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(": ")
    }

    /// Whether a controller made it, and not an administrator.
    fn is_generated(&self) -> bool {
        let annotations = &self.config.metadata.annotations;
        annotations.contains_key(labels::GENERATED_BY_CONTROLLER_VERSION)
    }
}

/// Renders the pool's MachineConfigs with the contents that were fetched so far.
///
/// Call it again with more [`Contents`] as long as it needs something; it looks nothing up by
/// itself.
///
/// # Errors
/// All problems of the inputs, also those of the merged config.
pub fn render(request: &Request, contents: &Contents) -> Result<Outcome, Error> {
    let pool = &request.pool;
    let selected = select::select(request);
    let (mut problems, mut warnings) = (selected.problems, selected.notices);
    let chosen = selected.chosen;
    guards::check(request, &chosen, &mut problems, &mut warnings);
    let settings = settings::merge(&chosen, &mut problems, &mut warnings);
    let images = images::decide(request, &chosen, &settings, &mut problems, &mut warnings);
    guards::same_version(&chosen, &mut warnings);
    let explain = request.explain;
    let read = configs::read(&chosen, contents, explain, &mut problems, &mut warnings);
    if !problems.is_empty() {
        let pool = pool.to_string();
        return Err(Error::Invalid { pool, problems, warnings });
    }
    let merged = match configs::merge(pool, &chosen, read, contents, explain) {
        Ok(Resolution::Needs(needs)) => return Ok(Outcome::Needs(needs)),
        Ok(Resolution::Done(merged)) => merged,
        Err(error) => return Err(error.with_warnings(warnings)),
    };
    warnings.extend(merged.warnings);
    let mut spec = json!({
        "baseOSExtensionsContainerImage": images.extensions.image,
        "extensions": settings.extensions.iter().map(|setting| &setting.value).collect::<Vec<_>>(),
        "fips": settings.fips(),
        "kernelArguments": settings.kernel_arguments.iter().map(|setting| &setting.value).collect::<Vec<_>>(),
        "kernelType": settings.kernel_type().as_str(),
        "osImageURL": images.os.image,
    });
    spec["config"] = merged.config;
    let name = configs::rendered_name(pool, &spec)
        .map_err(|_| Error::PoolName { pool: pool.to_string() })?;
    let object = object(request, name.as_str(), &images, spec);
    let size = canonical_json(&object).len();
    if size > RENDERED_LIMIT {
        let largest = configs::largest(&chosen);
        let name = name.to_string();
        return Err(Error::TooLarge { name, size, largest });
    }
    if size > RENDERED_LIMIT / 5 * 4 {
        let message = format!(
            "{size} bytes of JSON, and {RENDERED_LIMIT} is the limit; the largest of its MachineConfigs is {}",
            configs::largest(&chosen)
        );
        warnings.push(Finding::new("nearly-too-large", message).object(name.to_string()));
    }
    let explanation =
        explain.then(|| explain::explain(&chosen, &settings, &images, &merged.provenance));
    let config = RenderedConfig::from_value(object.clone())
        .map_err(|source| Error::Result { name: name.to_string(), source })?;
    Ok(Outcome::Rendered(Box::new(Rendered { config, object, warnings, explanation })))
}

/// Images with a tag that decide something: what a caller may pin, and hand in as
/// [`Request::pins`].
pub fn unpinned(request: &Request) -> Vec<Unpinned> {
    images::unpinned(request)
}

fn object(request: &Request, name: &str, images: &images::Images, spec: Value) -> Value {
    let mut annotations = json!({ labels::GENERATED_BY_CONTROLLER_VERSION: RENDERER });
    let release = request.controller_config.as_ref().and_then(|config| {
        let annotations = &config.metadata.annotations;
        annotations.get(labels::RELEASE_IMAGE_VERSION)
    });
    if let Some(release) = release {
        annotations[labels::RELEASE_IMAGE_VERSION] = json!(release);
    }
    if images.os_is_overridden() {
        annotations[labels::OS_IMAGE_URL_OVERRIDDEN] = json!("true");
    }
    let mut metadata = json!({ "name": name, "annotations": annotations });
    if let Some(pool) = &request.pool_object {
        let mut owner = json!({
            "apiVersion": mosb_api::API_VERSION, "kind": "MachineConfigPool", "name": request.pool.as_str(),
            "controller": true, "blockOwnerDeletion": true,
        });
        if let Some(uid) = &pool.metadata.uid {
            owner["uid"] = json!(uid);
        }
        metadata["ownerReferences"] = json!([owner]);
    }
    let mut object = json!({ "apiVersion": mosb_api::API_VERSION, "kind": "MachineConfig", "metadata": metadata });
    object["spec"] = spec;
    object
}
