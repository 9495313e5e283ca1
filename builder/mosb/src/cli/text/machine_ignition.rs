//! The result of `mosb ignition`: the config alone, for a machine.

use crate::cli::objects::{MachineIgnition, Object};
use mosb_types::canonical_json;

impl Object for MachineIgnition {
    const KIND: &'static str = "MachineIgnition";

    /// The bytes of the Secret, and a line feed.
    fn text(&self) -> String {
        String::from_utf8(canonical_json(&self.config)).expect("JSON is UTF-8") + "\n"
    }
}
