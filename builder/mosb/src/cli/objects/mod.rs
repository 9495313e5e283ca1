//! The objects that `-o json` and `-o yaml` print. Scripts read them, so a field once printed keeps its name and meaning;
//! `docs/schemas/` holds a JSON Schema of each.

mod boot_images;
mod bootstrap_result;
mod build_result;
mod cache;
mod diff;
mod error;
mod file_list;
mod image_info;
mod machine_ignition;
mod node_adoption;
mod node_drift;
mod node_etc;
mod node_report;
mod path_entry;
mod plan;
mod pool_status;
mod preflight;
mod prepare_result;
mod render_explanation;
mod rollout;
mod version;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use mosb_plan::api::ClusterSettings;

pub use boot_images::{
    BootImageHistory, BootImageList, BootImagePlan, BootImageRequest, BootImageSet,
    RecordedBootImage,
};
pub use bootstrap_result::{BootstrapResult, SeededPool};
pub use build_result::{BaseTreeUse, BuildResult, LayerInfo, PinnedBase, PreparedUse, TreeSource};
pub use cache::{BuildahStore, CacheList, CachePrune, CachedTree, PrunedStore};
pub use diff::{Diff, Side};
pub use error::Error;
pub use file_list::{FileLayer, FileList};
pub use image_info::{BaseInfo, ImageInfo, LayerHistory};
pub use machine_ignition::MachineIgnition;
pub use node_adoption::{KeptPath, NodeAdoption};
pub use node_drift::{HiddenPath, NodeDrift, PathDifference};
pub use node_etc::{NodeEtc, NodeEtcOf, PathList, PoolDrift};
pub use node_report::{AppliedTarget, AttemptedTarget, NodeDeployment, NodeError, NodeReport};
pub use path_entry::{PathEntry, PathType};
pub use plan::{Plan, PlanLayer, PlannedBase, PlannedChange, PlannedStage, StagePart};
pub use pool_status::{BuildInfo, ClusterStatus, PoolStatus, ReasonInfo, RebuildRequest};
pub use preflight::{CheckedImage, ImageCheck, Preflight};
pub use prepare_result::PrepareResult;
pub use render_explanation::RenderExplanation;
pub use rollout::{
    BuildList, NodeInfo, NodeList, PoolBuild, PoolCondition, RolloutMachines, RolloutRequest,
    RolloutStatus, RolloutTarget,
};
pub use version::Version;

/// The API version of all objects that mosb prints.
pub const API_VERSION: &str = "mosb.dev/v1";

/// The result of a command.
pub trait Object: Serialize + JsonSchema {
    /// Its `kind`.
    const KIND: &'static str;

    /// The text for people.
    fn text(&self) -> String;
}

/// An object with its `apiVersion` and `kind` in front.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Typed<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T: Object> Typed<'a, T> {
    /// The object as it is printed.
    pub fn new(object: &'a T) -> Self {
        Self { api_version: API_VERSION, kind: T::KIND, object }
    }
}

/// The JSON Schema of an object as it is printed.
fn schema<T: Object>() -> (&'static str, Value) {
    let mut schema = schemars::schema_for!(T).to_value();
    schema["title"] = json!(T::KIND);
    for (field, value) in [("apiVersion", API_VERSION), ("kind", T::KIND)] {
        schema["properties"][field] = json!({ "const": value });
        if let Some(required) = schema["required"].as_array_mut() {
            required.push(json!(field));
        }
    }
    (T::KIND, schema)
}

/// The JSON Schema of the settings that a cluster's administrator writes into a ConfigMap.
fn settings() -> (&'static str, Value) {
    let schema = schemars::schema_for!(ClusterSettings).to_value();
    ("ClusterSettings", schema)
}

/// The JSON Schemas of all objects, by kind.
pub fn schemas() -> BTreeMap<&'static str, Value> {
    [
        schema::<BootImageHistory>(),
        schema::<BootImageList>(),
        schema::<BootImagePlan>(),
        schema::<BootImageRequest>(),
        schema::<BootstrapResult>(),
        schema::<BuildResult>(),
        schema::<CacheList>(),
        schema::<CachePrune>(),
        settings(),
        schema::<ClusterStatus>(),
        schema::<Diff>(),
        schema::<Error>(),
        schema::<FileList>(),
        schema::<ImageInfo>(),
        schema::<MachineIgnition>(),
        schema::<NodeDrift>(),
        schema::<NodeAdoption>(),
        schema::<PoolDrift>(),
        schema::<NodeList>(),
        schema::<NodeReport>(),
        schema::<Plan>(),
        schema::<BuildList>(),
        schema::<PoolStatus>(),
        schema::<Preflight>(),
        schema::<PrepareResult>(),
        schema::<RebuildRequest>(),
        schema::<RenderExplanation>(),
        schema::<RolloutRequest>(),
        schema::<RolloutStatus>(),
        schema::<Version>(),
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// `make generate` writes them anew.
    #[test]
    fn generated_schemas_are_up_to_date() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("docs/schemas");
        let schemas = schemas();
        for (kind, schema) in &schemas {
            let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
            expect_test::expect_file![folder.join(format!("{kind}.json"))].assert_eq(&text);
        }
        let mut there: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        let wanted: Vec<String> = schemas.keys().map(|kind| format!("{kind}.json")).collect();
        assert_eq!(there, wanted, "files in docs/schemas");
    }
}
