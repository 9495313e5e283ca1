//! Overrides of container resources.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use mosb_api::cluster_settings::Resources;

/// Applies the overrides to the template; null removes an entry.
pub(super) fn fill(template: &mut ResourceRequirements, overrides: &Resources) {
    put(&mut template.requests, &overrides.requests);
    put(&mut template.limits, &overrides.limits);
}

fn put(
    template: &mut Option<BTreeMap<String, Quantity>>,
    overrides: &BTreeMap<String, Option<String>>,
) {
    let mut all = template.take().unwrap_or_default();
    for (resource, quantity) in overrides {
        match quantity {
            Some(quantity) => drop(all.insert(resource.clone(), Quantity(quantity.clone()))),
            None => drop(all.remove(resource)),
        }
    }
    *template = (!all.is_empty()).then_some(all);
}
