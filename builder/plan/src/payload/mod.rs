//! The files of a build: the rendered config as ConfigMaps, the build context, and the inputs of a
//! build in a pod.
//!
//! Input: a plan. Output: API objects, each within the API's limits, [`context`]'s files, and a
//! [`BuildSpec`].
//! Invariant: unpacking a packed payload gives the same bytes, or an error; never other bytes.

mod build_spec;
mod config_map;
pub mod context;
pub mod gzip;
mod machine_config;

pub use build_spec::{BUILD_SPEC_KEY, BuildSpec, ImageInService, PreparedImageUse};
pub use config_map::{ConfigMap, ObjectMeta};
pub use machine_config::{pack, unpack, unpack_texts};

use mosb_types::Diagnostic;

use crate::plan::{BuildPlan, BuildRequest, MountedError};
use config_map::DATA_LIMIT;
use context::{FOLDER, What};
use mosb_api::BuildName;

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

/// A ConfigMap whose keys are files of the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextMap {
    /// The folder of the context that they belong in.
    pub folder: String,
    pub map: ConfigMap,
}

/// The files of a plan's context ([`context::files`]) as they are, in as few ConfigMaps as can hold
/// them: `context-<build name>-1` and on.
///
/// # Errors
/// A file that no ConfigMap can hold: one that is larger, or a link; and as [`context::files`].
pub fn context_maps(plan: &BuildPlan, namespace: Option<&str>) -> Result<Vec<ContextMap>, Error> {
    let mut maps: Vec<(ContextMap, usize)> = Vec::new();
    for file in context::files(plan)? {
        let content = match file.what {
            What::File(content) => content,
            What::Link(_) => return Err(Error::Link(file.name)),
        };
        let (folder, key) = match file.name.rsplit_once('/') {
            Some((folder, key)) => (format!("{FOLDER}/{folder}"), key),
            None => (FOLDER.to_owned(), &*file.name),
        };
        let size = key.len() + content.len();
        let fits = |(one, used): &&mut (ContextMap, usize)| {
            one.folder == folder && *used + size <= DATA_LIMIT
        };
        let at = match maps.iter_mut().find(fits) {
            Some(found) => found,
            None => {
                let (config, build) = (&plan.request.config, &plan.build_name);
                let map = ConfigMap::new("context", config, build, namespace);
                let map = map.numbered("context", build, maps.len() + 1);
                maps.push((ContextMap { folder, map }, 0));
                maps.last_mut().expect("just put there")
            }
        };
        let map = at.0.map.clone();
        at.0.map = match String::from_utf8(content) {
            Ok(text) => map.text(key, &text)?,
            Err(bytes) => map.binary(key, bytes.as_bytes())?,
        };
        at.1 += size;
    }
    Ok(maps.into_iter().map(|(one, _)| one).collect())
}

/// Why something can't be packed, or what was packed can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
#[non_exhaustive]
pub enum Error {
    /// A part is missing, doubled, or of another build.
    #[error("ConfigMaps of the rendered config: {0}; apply all of them again")]
    #[diagnostic(code = "payload-parts")]
    Parts(String),
    /// A part does not hold what it should.
    #[error("ConfigMap {name}: {problem}; apply it again")]
    #[diagnostic(code = "payload-content")]
    Content { name: String, problem: String },
    /// Another format, or a damaged document.
    #[error(
        "{file}: {problem}; if builderImage of ConfigMap mosb-config is of another version than the controller, name the controller's own there; else the document was changed, so delete the Job"
    )]
    #[diagnostic(code = "build-spec")]
    BuildSpec { file: String, problem: String },
    /// What comes out is larger than any rendered config.
    #[error(
        "ConfigMap {name}: it unpacks to more than {limit} bytes, which no rendered config has"
    )]
    #[diagnostic(code = "payload-bomb")]
    Bomb { name: String, limit: usize },
    /// No ConfigMap can hold it.
    #[error("{what}: {size} bytes, and a ConfigMap holds {limit}; make it smaller")]
    #[diagnostic(code = "payload-too-large")]
    TooLarge { what: String, size: usize, limit: usize },
    /// A file that can't be written while a step runs.
    #[error(transparent)]
    #[diagnostic(code = "mounted-file")]
    Mounted(#[from] MountedError),
    /// A link where only files can be carried.
    #[error("/etc/{}: the config has a link there, and the context of an OpenShift Build can hold none; use another builder", .0.rsplit('/').next().unwrap_or(.0))]
    #[diagnostic(code = "link-in-context")]
    Link(String),
    /// A unit that a line-by-line file can't name.
    #[error("unit {0:?}: a unit's name has no line break; rename it")]
    #[diagnostic(code = "bad-unit-name")]
    UnitName(String),
}
