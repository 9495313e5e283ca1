//! What a config change is for the machines that have the config in service.

use serde_json::{Value, json};

use super::Resolver;
use crate::lookup::PlanLookup;
use mosb_api::RenderedConfig;
use mosb_cluster::resolver::{NO_RENDERED_CONFIG, get_rendered_config};
use mosb_merge::{self as render, Update};
use mosb_plan::plan::is_same_but_login;
use mosb_plan::plan::live::live_change;
use mosb_reconcile::Problem;
use mosb_render::with_origins;
use mosb_types::{ErrorClass, Finding};

/// The config in service.
#[derive(Debug)]
pub(super) enum ConfigBefore {
    /// None is compared, or it was deleted.
    Unknown,
    /// It is the planned one.
    Same,
    Other(Box<RenderedConfig>),
}

impl ConfigBefore {
    pub(super) async fn of(resolver: &Resolver, lookup: &PlanLookup) -> Result<Self, Problem> {
        let Some(name) = &lookup.compare else {
            return Ok(Self::Unknown);
        };
        if name == lookup.rendered.as_str() {
            return Ok(Self::Same);
        }
        match get_rendered_config(resolver, name).await {
            Ok(before) => Ok(Self::Other(Box::new(before))),
            Err(problem)
                if problem.class == ErrorClass::Transient
                    && problem.reason != NO_RENDERED_CONFIG =>
            {
                Err(problem)
            }
            Err(_) => Ok(Self::Unknown),
        }
    }

    /// Whether fields differ that machines can't apply themselves. What can't be compared counts as
    /// different.
    pub(super) fn os_changed(&self, planned: &RenderedConfig) -> bool {
        match self {
            Self::Unknown => true,
            Self::Same => false,
            Self::Other(before) => os_fields(before) != os_fields(planned),
        }
    }

    /// Whether nothing differs but keys and password, which need no other image.
    pub(super) fn is_login_change(&self, planned: &RenderedConfig) -> bool {
        match self {
            Self::Unknown | Self::Same => false,
            Self::Other(before) => is_same_but_login(before, planned),
        }
    }

    /// Whether nothing differs but files that a running machine can take on.
    pub(super) fn is_live_change(&self, planned: &RenderedConfig) -> bool {
        match self {
            Self::Unknown | Self::Same => false,
            Self::Other(before) => live_change(before, planned).is_some(),
        }
    }

    /// What machines that boot images can't take on without a reinstallation, with the MachineConfigs
    /// that bring it, as far as they are known. What can't be compared has none.
    pub(super) async fn unreconcilable(
        &self,
        planned: &RenderedConfig,
        resolver: &Resolver,
        lookup: &PlanLookup,
    ) -> Vec<Finding> {
        let Self::Other(before) = self else {
            return Vec::new();
        };
        let found = render::unreconcilable(before, planned, Update::Image).unwrap_or_default();
        if found.is_empty() {
            return found;
        }
        let rendered = with_origins(resolver, lookup.pool.as_str()).await;
        let named = rendered.ok().and_then(|it| it.unreconcilable(before, Update::Image).ok());
        // The pool may have other MachineConfigs by now.
        let named = named.filter(|named| are_of_same_fields(named, &found));
        named.unwrap_or(found)
    }
}

/// Whether findings with the names of MachineConfigs are these.
fn are_of_same_fields(named: &[Finding], found: &[Finding]) -> bool {
    let field = |finding: &Finding| finding.object.clone().unwrap_or_default();
    named.len() == found.len()
        && named.iter().zip(found).all(|(named, found)| field(named).ends_with(&field(found)))
}

/// The fields that machines can't apply themselves.
fn os_fields(config: &RenderedConfig) -> [Value; 4] {
    let spec = |field: &str| {
        let value = config.as_value().pointer(&format!("/spec/{field}")).cloned();
        // Empty, null and absent values are equal.
        let empty = |value: &Value| value.is_null() || *value == json!([]) || *value == json!("");
        value.filter(|value| !empty(value)).unwrap_or_default()
    };
    [
        spec("osImageURL"),
        json!(config.kernel_type.as_str()),
        spec("extensions"),
        spec("kernelArguments"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(spec: Value) -> RenderedConfig {
        let hash = "0".repeat(32);
        RenderedConfig::from_value(json!({ "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig", "metadata": { "name": format!("rendered-worker-{hash}") }, "spec": spec }))
        .unwrap()
    }

    #[test]
    fn only_another_config_is_a_change_that_running_machines_take_on() {
        let with = |content: &str| {
            let file = json!({ "path": "/etc/containers/registries.conf",
                "contents": { "source": format!("data:,{content}") } });
            config(json!({ "config": { "ignition": { "version": "3.5.0" },
                "storage": { "files": [file] } } }))
        };
        let other = |content: &str| ConfigBefore::Other(Box::new(with(content)));
        assert!(other("a").is_live_change(&with("b")));
        assert!(!other("b").is_live_change(&with("b")));
        assert!(!other("a").is_live_change(&config(json!({ "kernelType": "realtime" }))));
        assert!(!ConfigBefore::Same.is_live_change(&with("b")));
        assert!(!ConfigBefore::Unknown.is_live_change(&with("b")));
    }

    #[test]
    fn changes_that_machines_apply_themselves_do_not_change_the_os() {
        let before = json!({ "osImageURL": "quay.io/os:1", "kernelArguments": ["a", "b"], "extensions": [] });
        for (what, after, changed) in [
            ("the same", before.clone(), false),
            (
                "files",
                json!({ "osImageURL": "quay.io/os:1", "kernelArguments": ["a", "b"],
                "config": { "ignition": { "version": "3.5.0" } } }),
                false,
            ),
            (
                "another base",
                json!({ "osImageURL": "quay.io/os:2", "kernelArguments": ["a", "b"] }),
                true,
            ),
            (
                "arguments in another order",
                json!({ "osImageURL": "quay.io/os:1", "kernelArguments": ["b", "a"] }),
                true,
            ),
            (
                "a kernel",
                json!({ "osImageURL": "quay.io/os:1", "kernelArguments": ["a", "b"], "kernelType": "realtime" }),
                true,
            ),
            (
                "extensions",
                json!({ "osImageURL": "quay.io/os:1", "kernelArguments": ["a", "b"], "extensions": ["usbguard"] }),
                true,
            ),
        ] {
            let differs = os_fields(&config(before.clone())) != os_fields(&config(after));
            assert_eq!(differs, changed, "{what}");
        }
    }
}
