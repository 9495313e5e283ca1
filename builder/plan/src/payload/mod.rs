//! The files of a build: the rendered config as ConfigMaps, and the build context.
//!
//! Input: a plan. Output: API objects, each within the API's limits, and [`context`]'s files.
//! Invariant: unpacking a packed payload gives the same bytes, or an error; never other bytes.

mod build_source;
mod config_map;
pub mod context;
mod error;
pub mod gzip;
mod machine_config;

pub use build_source::{ContextMap, context_maps};
pub use config_map::{ConfigMap, ObjectMeta};
pub use error::Error;
pub use machine_config::{pack, unpack, unpack_texts};

use crate::api::BuildName;
use crate::plan::BuildPlan;
use crate::plan::BuildRequest;

/// Key of the Containerfile in its ConfigMap.
pub const CONTAINERFILE_KEY: &str = "Containerfile";
/// Key of the rendered config in its ConfigMaps.
pub const MACHINE_CONFIG_KEY: &str = "machineconfig.json.gz";
/// Key of the trust bundle in its ConfigMap, and its file's name in a context.
pub const TRUST_BUNDLE_KEY: &str = "openshift-config-user-ca-bundle.crt";

/// All ConfigMaps of a plan, in the order they are created: the rendered config, its Containerfile
/// if it has one, the trust bundle.
///
/// # Errors
/// A Containerfile or trust bundle that no ConfigMap can hold.
pub fn config_maps(
    plan: &BuildPlan,
    containerfile: Option<&str>,
    namespace: Option<&str>,
) -> Result<Vec<ConfigMap>, Error> {
    config_maps_of(&plan.request, &plan.build_name, containerfile, namespace)
}

/// All ConfigMaps of a build that is planned where it runs.
///
/// # Errors
/// As [`config_maps`].
pub fn config_maps_of(
    request: &BuildRequest,
    build: &BuildName,
    containerfile: Option<&str>,
    namespace: Option<&str>,
) -> Result<Vec<ConfigMap>, Error> {
    let config = &request.config;
    let mut maps = pack(config, build, namespace);
    if let Some(text) = containerfile {
        let map = ConfigMap::new("containerfile", config, build, namespace);
        maps.push(map.text(CONTAINERFILE_KEY, text)?);
    }
    if let Some(bundle) = &request.trust_bundle {
        let map = ConfigMap::new("additionaltrustbundle", config, build, namespace);
        maps.push(map.binary(TRUST_BUNDLE_KEY, bundle)?);
    }
    Ok(maps)
}
