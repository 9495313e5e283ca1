//! `mosb render --explain`: where everything in a rendered config comes from.

use schemars::JsonSchema;
use serde::Serialize;

use crate::output::Object;
use crate::page::Page;
use mosb_merge::{Explanation, FieldOrigin};
use mosb_types::Finding;

/// Where everything in a rendered config comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenderExplanation {
    /// Name of the rendered MachineConfig.
    pub rendered_config: String,
    /// Its pool.
    pub pool: String,
    /// The MachineConfigs, and the fields.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// With `--previous`: the changes that nodes can't apply without a reinstallation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreconcilable: Option<Vec<Finding>>,
    /// Warnings for the administrator.
    pub warnings: Vec<Finding>,
}

impl Object for RenderExplanation {
    const KIND: &'static str = "RenderExplanation";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&format!("Rendered {} (pool {})", self.rendered_config, self.pool));
        page.section(
            "MachineConfigs, in the order in which they are merged: a later one's word counts",
        );
        let rows = self
            .explanation
            .machine_configs
            .iter()
            .map(|one| vec![one.name.clone(), one.role.clone(), one.origin.clone()]);
        page.table(&[], &rows.collect::<Vec<_>>());
        page.section("Where it comes from");
        page.table(&[], &rows_of(&self.explanation.fields));
        for (headline, findings) in [
            (
                "What nodes can't take without being installed anew",
                self.unreconcilable.as_deref().unwrap_or_default(),
            ),
            ("Warnings", &self.warnings),
        ] {
            if !findings.is_empty() {
                page.section(headline);
                page.findings(findings);
            }
        }
        page.into_text()
    }
}

/// One line for each file, unit or setting, or one for each of its fields if their origins differ.
fn rows_of(fields: &[FieldOrigin]) -> Vec<Vec<String>> {
    let groups = fields.chunk_by(|a, b| thing(&a.field) == thing(&b.field));
    let rows = groups.flat_map(|group| {
        let thing = thing(&group[0].field);
        // The object itself adds nothing to its fields.
        let leaves = match group {
            [first, rest @ ..] if first.field == thing && !rest.is_empty() => rest,
            all => all,
        };
        let (first, rest) = (&leaves[0], &leaves[1..]);
        let as_first = |it: &FieldOrigin| it.from == first.from && it.overrides == first.overrides;
        if rest.iter().all(as_first) {
            vec![row(thing, first)]
        } else {
            leaves.iter().map(|origin| row(&origin.field, origin)).collect()
        }
    });
    rows.collect()
}

/// The file, unit or setting of a field: the path up to the end of its first brackets.
fn thing(field: &str) -> &str {
    match field.find("].") {
        Some(end) => &field[..=end],
        None => field,
    }
}

fn row(field: &str, origin: &FieldOrigin) -> Vec<String> {
    let field = field.strip_prefix("spec.").unwrap_or(field);
    let mut cells = vec![field.to_owned(), origin.from.clone()];
    if !origin.overrides.is_empty() {
        cells.push(format!("overrides {}", origin.overrides.join(", ")));
    }
    cells
}
