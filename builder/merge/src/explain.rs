//! The origin of each field of a rendered config.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::Component;
use super::images::{Decided, Images};
use super::settings::{Of, Settings};
use mosb_ignition::Provenance;

/// Where everything in a rendered config comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The pool's MachineConfigs in the order in which they are merged: the later one wins.
    pub machine_configs: Vec<Origin>,
    /// Every field, and the MachineConfig that sets it.
    pub fields: Vec<FieldOrigin>,
}

/// A MachineConfig.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// Its name.
    pub name: String,
    /// Its label `machineconfiguration.openshift.io/role`.
    pub role: String,
    /// Where it was read: `dir/a.yaml (document 2)`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub origin: String,
}

/// A field of the rendered config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldOrigin {
    /// As `spec.config.storage.files[/etc/chrony.conf].mode`; contents are one field.
    pub field: String,
    /// The MachineConfig whose value is used, or the source of the release's image.
    pub from: String,
    /// The MachineConfigs whose value is overridden, in the order of merging.
    pub overrides: Vec<String>,
}

impl Explanation {
    /// The MachineConfigs that set a field or a part of it, as messages name them; empty if none
    /// does.
    pub fn origins(&self, field: &str) -> String {
        let is_of = |one: &&FieldOrigin| {
            let rest = one.field.strip_prefix(field);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let names: BTreeSet<&str> =
            self.fields.iter().filter(is_of).map(|one| &*one.from).collect();
        let place = |name: &str| match self.machine_configs.iter().find(|one| one.name == name) {
            Some(one) if !one.origin.is_empty() => format!("{}: {name}", one.origin),
            Some(_) | None => name.to_owned(),
        };
        names.into_iter().map(place).collect::<Vec<_>>().join(", ")
    }
}

pub(super) fn explain(
    chosen: &[&Component],
    settings: &Settings,
    images: &Images,
    provenance: &[Provenance],
) -> Explanation {
    let name = |from: usize| chosen[from].name().to_owned();
    let mut fields = Vec::new();
    fields.extend(image(&images.os, &name));
    fields.extend(image(&images.extensions, &name));
    if let Some((last, before)) = settings.kernel_types.split_last() {
        fields.push(FieldOrigin {
            field: "spec.kernelType".to_owned(),
            from: name(last.from),
            overrides: before.iter().map(|origin| name(origin.from)).collect(),
        });
    }
    // The first MachineConfig that sets it is the origin; the others change nothing.
    fields.extend(settings.fips.first().map(|first| origin("spec.fips", name(*first))));
    let mut list = |field: &str, items: &[Of<String>]| {
        fields.extend(items.iter().map(|item| {
            let field = format!("spec.{field}[{}]", item.value.escape_debug());
            origin(&field, name(item.from))
        }));
    };
    list("kernelArguments", &settings.kernel_arguments);
    list("extensions", &settings.extensions);
    fields.extend(provenance.iter().map(|value| FieldOrigin {
        field: format!("spec.config.{}", value.place),
        from: name(value.from),
        overrides: value.overrides.iter().map(|from| name(*from)).collect(),
    }));
    let origin = |one: &&Component| Origin {
        name: one.name().to_owned(),
        role: one.role().unwrap_or_default().to_owned(),
        origin: one.origin.clone(),
    };
    Explanation { machine_configs: chosen.iter().map(origin).collect(), fields }
}

fn origin(field: &str, from: String) -> FieldOrigin {
    FieldOrigin { field: field.to_owned(), from, overrides: Vec::new() }
}

fn image(decided: &Decided, name: &impl Fn(usize) -> String) -> Option<FieldOrigin> {
    let base = decided.base.as_ref().map(|base| base.by.to_owned());
    let named_by = decided.named_by.iter().map(|from| name(*from));
    let mut all: Vec<String> = base.into_iter().chain(named_by).collect();
    Some(FieldOrigin { from: all.pop()?, field: format!("spec.{}", decided.field), overrides: all })
}
