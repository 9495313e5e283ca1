//! The part of a pool's status that a roll-out writes, as a merge patch.

use serde::Serialize;
use serde_json::Value;

use mosb_plan::api::Condition;

/// Fields of the status of a MachineConfigPool; others stay.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatusUpdate {
    /// The generation of the pool that the status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub machine_count: i64,
    pub updated_machine_count: i64,
    pub ready_machine_count: i64,
    pub unavailable_machine_count: i64,
    pub degraded_machine_count: i64,
    /// Reference to the rendered config that all machines have; `None` leaves the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Value>,
    /// All conditions, in which only those of the roll-out change: the API replaces the list as one.
    pub conditions: Vec<Condition>,
}
