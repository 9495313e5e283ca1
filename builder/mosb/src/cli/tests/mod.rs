//! Compares the objects that commands print with `testdata/cli/` and `docs/schemas/`.

mod arguments;
mod build;
#[cfg(feature = "cluster")]
mod cluster;
mod image;
#[cfg(feature = "cluster")]
mod node;
mod signatures;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

#[cfg(feature = "cluster")]
use crate::cli::cluster::approve::ApprovalResult;
#[cfg(feature = "cluster")]
use crate::cli::cluster::base::{BaseList, BaseRequest};
#[cfg(feature = "cluster")]
use crate::cli::cluster::boot_images::{
    BootImageHistory, BootImageList, BootImagePlan, BootImageRequest,
};
#[cfg(feature = "cluster")]
use crate::cli::cluster::builds::BuildList;
#[cfg(feature = "cluster")]
use crate::cli::cluster::ignition::MachineIgnition;
#[cfg(feature = "cluster")]
use crate::cli::cluster::images::ImageList;
#[cfg(feature = "cluster")]
use crate::cli::cluster::nodes::{NodeList, PoolDrift};
#[cfg(feature = "cluster")]
use crate::cli::cluster::rebuild::RebuildRequest;
#[cfg(feature = "cluster")]
use crate::cli::cluster::rollout::RolloutResult;
#[cfg(feature = "cluster")]
use crate::cli::cluster::rollout_status::RolloutStatus;
#[cfg(feature = "cluster")]
use crate::cli::cluster::status::{ClusterStatus, PoolStatus};
use crate::cli::command::Version;
#[cfg(feature = "cluster")]
use crate::cli::node::report::MachineReport;
#[cfg(feature = "cluster")]
use crate::cli::node::{NodeAdoption, NodeDrift};
use mosb_api::ClusterSettings;
use mosb_bootstrap::preflight::Report;
use mosb_commands::bootstrap::BootstrapResult;
use mosb_commands::build::result::{BuildResult, PrepareResult};
use mosb_commands::cache::{CacheList, CachePrune};
use mosb_commands::diff::Diff;
use mosb_commands::failure::FailureReport;
use mosb_commands::files::FileList;
use mosb_commands::inspect::ImageInfo;
use mosb_commands::keys::KeyInfo;
use mosb_commands::output::{API_VERSION, Object, Typed};
use mosb_commands::plan::view::Plan;
use mosb_commands::render::RenderExplanation;
use mosb_commands::sign::SignedImage;
use mosb_commands::verify::Verification;
use mosb_types::Finding;

const RENDERED: &str = "rendered-worker-0123456789abcdef0123456789abcdef";
const BUILD: &str = "worker-fedcba9876543210fedcba9876543210";

fn hex(of: &str) -> String {
    mosb_image::Digest::of(of.as_bytes()).hex()
}

fn digest(of: &str) -> String {
    format!("sha256:{}", hex(of))
}

/// `make golden` updates them.
fn looks_like<T: Object>(file: &str, object: &T) {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("testdata/cli");
    expect_test::expect_file![folder.join(format!("{file}.txt"))].assert_eq(&object.text());
    let json = serde_json::to_string_pretty(&Typed::new(object)).unwrap() + "\n";
    expect_test::expect_file![folder.join(format!("{file}.json"))].assert_eq(&json);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let validator = jsonschema::validator_for(&schemas()[T::KIND]).unwrap();
    let problems: Vec<_> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
    assert_eq!(problems, [""; 0], "{file}");
    let yaml = mosb_api::yaml::to_text(&Typed::new(object));
    assert_eq!(mosb_api::yaml::parse_one(yaml.as_bytes()).unwrap(), value, "{file}");
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
fn schemas() -> BTreeMap<&'static str, Value> {
    [
        #[cfg(feature = "cluster")]
        schema::<ApprovalResult>(),
        #[cfg(feature = "cluster")]
        schema::<BaseList>(),
        #[cfg(feature = "cluster")]
        schema::<BaseRequest>(),
        #[cfg(feature = "cluster")]
        schema::<BootImageHistory>(),
        #[cfg(feature = "cluster")]
        schema::<BootImageList>(),
        #[cfg(feature = "cluster")]
        schema::<BootImagePlan>(),
        #[cfg(feature = "cluster")]
        schema::<BootImageRequest>(),
        schema::<BootstrapResult>(),
        schema::<BuildResult>(),
        schema::<CacheList>(),
        schema::<CachePrune>(),
        settings(),
        #[cfg(feature = "cluster")]
        schema::<ClusterStatus>(),
        schema::<Diff>(),
        schema::<FailureReport>(),
        schema::<FileList>(),
        schema::<ImageInfo>(),
        schema::<KeyInfo>(),
        #[cfg(feature = "cluster")]
        schema::<ImageList>(),
        #[cfg(feature = "cluster")]
        schema::<MachineIgnition>(),
        #[cfg(feature = "cluster")]
        schema::<NodeDrift>(),
        #[cfg(feature = "cluster")]
        schema::<NodeAdoption>(),
        #[cfg(feature = "cluster")]
        schema::<PoolDrift>(),
        #[cfg(feature = "cluster")]
        schema::<NodeList>(),
        #[cfg(feature = "cluster")]
        schema::<MachineReport>(),
        schema::<Plan>(),
        #[cfg(feature = "cluster")]
        schema::<BuildList>(),
        #[cfg(feature = "cluster")]
        schema::<PoolStatus>(),
        schema::<Report>(),
        schema::<PrepareResult>(),
        #[cfg(feature = "cluster")]
        schema::<RebuildRequest>(),
        schema::<RenderExplanation>(),
        #[cfg(feature = "cluster")]
        schema::<RolloutResult>(),
        #[cfg(feature = "cluster")]
        schema::<RolloutStatus>(),
        schema::<SignedImage>(),
        schema::<Verification>(),
        schema::<Version>(),
    ]
    .into()
}

/// `make generate` writes them anew.
#[cfg(feature = "cluster")]
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

#[test]
fn version_and_error() {
    looks_like("version", &Version { version: "0.1.0".to_owned(), format: 1 });
    let error = FailureReport {
        code: "invalid-ignition".to_owned(),
        message: "rendered-x: spec.config: storage.files[0].path: relative".to_owned(),
        findings: vec![Finding::new("bad-path", "relative").object("storage.files[0].path")],
        exit_code: 2,
    };
    looks_like("error", &error);
}
