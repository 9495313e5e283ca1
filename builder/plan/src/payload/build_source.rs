//! The files of a context as ConfigMaps, for a builder that makes the context of them by itself.

use super::config_map::{ConfigMap, DATA_LIMIT};
use super::context::{self, FOLDER, What};
use super::error::Error;
use crate::plan::BuildPlan;

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
