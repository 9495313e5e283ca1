mod decide;
mod observe;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::Action;
use crate::rendered_object::{compare_rendered, rendered_object};
use mosb_api::labels;
use mosb_cluster::cluster_cache::{ClusterCache, Trigger};
use mosb_cluster::status::EventReason;
use mosb_reconcile::driver::InputsHash;
use mosb_reconcile::write::Existing;
use mosb_reconcile::{EarlierProblem, Problem};
use mosb_types::ErrorClass;

const OLD: &str = "rendered-infra-00000000000000000000000000000000";
const NEW: &str = "rendered-infra-11111111111111111111111111111111";
const POOL: &str = "uid-infra";

fn now() -> Timestamp {
    Timestamp::from_second(100).unwrap()
}

fn member(name: &str, generation: i64) -> Member {
    Member {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        generation,
        role: "infra".to_owned(),
        generated_by: None,
    }
}

fn inputs() -> Inputs {
    Inputs {
        members: vec![member("00-worker", 1), member("50-infra", 2)],
        settings: json!({ "os": "registry.example.com/os@sha256:0" }),
        recorded: None,
    }
}

fn rendered(name: &str, created: i64) -> SeenRendered {
    SeenRendered {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        created: Some(Time(Timestamp::from_second(created).unwrap())),
        is_ours: true,
        is_edited: false,
        deleting: false,
    }
}

/// A pool that has the rendered config OLD of exactly these inputs.
fn settled() -> RenderSnapshot {
    let pool = json!({
    "metadata": { "name": "infra", "uid": POOL, "resourceVersion": "7",
            "annotations": { labels::RENDERED_FROM: inputs().stamp(OLD) } },
    "spec": { "machineConfigSelector": { "matchLabels": { "a": "b" } }, "configuration": { "name": OLD, "source": [{ "name": "00-worker" }, { "name": "50-infra" }] } },
    "status": { "conditions": [{ "type": "Updated", "status": "True" }, { "type": "RenderDegraded", "status": "False" }] },
    });
    RenderSnapshot {
        pool: serde_json::from_value(pool).unwrap(),
        other_renderer: None,
        inputs: Ok(inputs()),
        rendered: vec![rendered(OLD, 1)],
        named: [OLD.to_owned()].into(),
        broken_watch: None,
        inputs_hash: InputsHash::of(&"inputs"),
        lookup_results: RenderLookupResults::default(),
        earlier_problem: None,
    }
}

fn object(name: &str) -> Arc<Value> {
    Arc::new(json!({ "metadata": { "name": name } }))
}

fn problem(class: ErrorClass) -> Problem {
    Problem {
        class,
        reason: "invalid-machine-configs".to_owned(),
        message: "50-infra: spec.kernelType: …".to_owned(),
    }
}
