//! A pool's rendered MachineConfig, read when a plan needs it: the watch keeps its metadata only.

use crate::kinds;
use kube::Resource as _;
use kube::api::{DynamicObject, GetParams};
use kube::core::Request as ApiRequest;
use mosb_api::RenderedConfig;
use mosb_types::ErrorClass;
use serde_json::Value;

use super::{Resolver, invalid_input};
use mosb_reconcile::error::is_not_found;
use mosb_reconcile::problem::with_causes;
use mosb_reconcile::{Error, Problem};

/// Reason of a [`Problem`]: the pool names a rendered config that does not exist (yet).
pub const NO_RENDERED_CONFIG: &str = "no-rendered-config";

/// # Errors
/// There is none, it is not a rendered config, or the API.
pub async fn get_rendered_config(
    resolver: &Resolver,
    name: &str,
) -> Result<RenderedConfig, Problem> {
    let resource = kinds::MACHINE_CONFIG.resource();
    let path = DynamicObject::url_path(&resource, None);
    let api_error = |error| Error::api(format!("machineconfig {name}"), "get")(error);
    // With the version that the watch showed, the API server answers from its cache instead of
    // etcd.
    let seen = resolver.cache.machine_configs.get(name);
    let seen = GetParams { resource_version: seen.and_then(|meta| meta.resource_version.clone()) };
    let request = ApiRequest::new(path).get(name, &seen);
    let request = request.map_err(|error| api_error(kube::Error::BuildRequest(error)))?;
    // Deserialize directly to avoid two copies in the client.
    let value: Value = match resolver.client.request(request).await {
        Ok(value) => value,
        Err(error) if is_not_found(&error) => {
            // The watch triggers a reconcile when it is created.
            return Err(Problem {
                class: ErrorClass::Transient,
                reason: NO_RENDERED_CONFIG.to_owned(),
                message: format!(
                    "machineconfig {name}: not found, although the pool names it; waiting for it"
                ),
            });
        }
        Err(error) => return Err(api_error(error).into()),
    };
    RenderedConfig::from_value(value).map_err(|error| {
        invalid_input("bad-config", format!("machineconfig {name}: {}", with_causes(&error)))
    })
}
