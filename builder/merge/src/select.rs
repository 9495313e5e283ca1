//! Selects the MachineConfigs of the pool.

use std::collections::HashMap;

use mosb_types::Finding;

use super::{Component, MASTER, Request, WORKER};
use mosb_api::{self as api, PoolName, RenderedName, Selector, labels};

/// The pool's MachineConfigs, and problems of all inputs.
#[derive(Debug)]
pub(super) struct Selected<'a> {
    /// In the order of merging.
    pub chosen: Vec<&'a Component>,
    pub problems: Vec<Finding>,
    pub notices: Vec<Finding>,
}

/// Checks the metadata of all inputs, and selects those of the pool.
pub(super) fn select(request: &Request) -> Selected<'_> {
    let mut problems = Vec::new();
    let (rendered, configs): (Vec<_>, Vec<_>) =
        request.configs.iter().partition(|one| is_rendered(one));
    check_names(&configs, &mut problems);
    let chosen = match selector(request) {
        Ok(selector) => {
            // One without a role is rejected; it is selected so that all its problems are reported.
            let is_wanted = |one: &&Component| {
                one.role().is_none() || selector.matches(&one.config.metadata.labels)
            };
            let mut chosen: Vec<_> = configs.into_iter().filter(is_wanted).collect();
            if chosen.is_empty() && problems.is_empty() {
                problems.push(nothing(request, &rendered));
            }
            sort_configs(&mut chosen);
            chosen
        }
        Err(wrong) => {
            problems.extend(wrong);
            Vec::new()
        }
    };
    let no_own_config = none_of_its_own(request, &chosen);
    Selected {
        chosen,
        problems,
        notices: skipped(&rendered).into_iter().chain(no_own_config).collect(),
    }
}

/// Whether a renderer created it, the cluster's or ours. A MachineConfig of an administrator has a
/// role.
fn is_rendered(one: &Component) -> bool {
    let metadata = &one.config.metadata;
    let owners = metadata.owner_references.iter();
    let kinds = owners.map(|owner| owner.kind.as_str());
    is_rendered_one(&metadata.name, kinds, one.role())
}

/// Whether a MachineConfig of this name, with owners of these kinds and this role, was created by a
/// renderer.
pub fn is_rendered_one<'a>(
    name: &str,
    mut owners: impl Iterator<Item = &'a str>,
    role: Option<&str>,
) -> bool {
    name.parse::<RenderedName>().is_ok()
        && (owners.any(|kind| kind == "MachineConfigPool") || role.is_none_or(str::is_empty))
}

fn skipped(rendered: &[&Component]) -> Option<Finding> {
    let first = rendered.first()?;
    let message = match rendered.len() {
        1 => "is rendered already, and skipped".to_owned(),
        more => format!("and {} more are rendered already, and skipped", more - 1),
    };
    Some(Finding::new("rendered-skipped", message).object(first.place("")))
}

/// A misspelt pool would otherwise get the config of all pools.
fn none_of_its_own(request: &Request, chosen: &[&Component]) -> Option<Finding> {
    let pool = request.pool.as_str();
    let is_known =
        request.pool_object.is_some() || chosen.iter().any(|one| one.role() == Some(pool));
    if is_known || chosen.is_empty() {
        return None;
    }
    let message = "no MachineConfig has its role, so it gets those of worker and nothing else; check the pool's name";
    let place = format!("MachineConfigPool {pool}");
    Some(Finding::new("none-of-its-own", message).object(place))
}

fn check_names(configs: &[&Component], problems: &mut Vec<Finding>) {
    let mut first: HashMap<&str, &Component> = HashMap::with_capacity(configs.len());
    for one in configs {
        if !api::is_object_name(one.name()) {
            let message = format!(
                "metadata.name {:?} is not a name of a Kubernetes object; give it one",
                one.name()
            );
            problems.push(Finding::new("bad-name", message).object(one.origin.clone()));
            continue;
        }
        if one.role().is_none() {
            let message = format!(
                "the label {} is missing, which says which pool it is for; add it, as {}: worker",
                labels::ROLE,
                labels::ROLE
            );
            problems.push(Finding::new("no-role", message).object(one.place("metadata.labels")));
        }
        if let Some(other) = first.insert(one.name(), one) {
            let there = if other.origin.is_empty() {
                String::new()
            } else {
                format!(" ({})", other.origin)
            };
            let message = format!("another MachineConfig has this name{there}; keep one of them");
            problems
                .push(Finding::new("duplicate-name", message).object(one.place("metadata.name")));
        }
    }
}

/// By the pool's own selector; without the object, by the role.
fn selector(request: &Request) -> Result<Selector, Vec<Finding>> {
    let Some(pool) = &request.pool_object else {
        return Ok(by_role(&request.pool));
    };
    let place = |field: &str| {
        let dot = if field.is_empty() { "" } else { "." };
        format!("MachineConfigPool {}: spec.machineConfigSelector{dot}{field}", request.pool)
    };
    let bad =
        |message: String, field: &str| Finding::new("bad-selector", message).object(place(field));
    let Some(wire) = &pool.spec.machine_config_selector else {
        let message = "it is missing, so the pool selects no MachineConfig; select some by matchLabels or matchExpressions";
        return Err(vec![bad(message.to_owned(), "")]);
    };
    Selector::new(wire).map_err(|problems| {
        let problems = problems.into_iter();
        problems.map(|wrong| bad(wrong.problem, &wrong.field)).collect()
    })
}

fn by_role(pool: &PoolName) -> Selector {
    match pool.as_str() {
        only @ (WORKER | MASTER) => Selector::label_in(labels::ROLE, &[only]),
        custom => Selector::label_in(labels::ROLE, &[WORKER, custom]),
    }
}

fn nothing(request: &Request, rendered: &[&Component]) -> Finding {
    let owned = |one: &&&Component| !one.config.metadata.owner_references.is_empty();
    let message = match (&request.pool_object, rendered.iter().find(|one| !owned(one))) {
        (_, Some(one)) => format!(
            "{} is skipped: it has the name of a rendered MachineConfig and no role; to render it, add the label {}: {}",
            one.place(""),
            labels::ROLE,
            request.pool
        ),
        (Some(_), None) => {
            "its machineConfigSelector selects none of the MachineConfigs; check their labels"
                .to_owned()
        }
        (None, None) => {
            "none of the MachineConfigs has its role; check their labels, or give the pool's selector"
                .to_owned()
        }
    };
    Finding::new("nothing-selected", message).object(format!("MachineConfigPool {}", request.pool))
}

/// Sorts those of role `worker` by name, then all others by name, so that a pool's own
/// MachineConfigs override those of all pools.
pub(super) fn sort_configs(configs: &mut [&Component]) {
    configs.sort_by(|a, b| order(a).cmp(&order(b)));
}

fn order(one: &Component) -> (bool, &str) {
    (one.role() != Some(WORKER), one.name())
}
