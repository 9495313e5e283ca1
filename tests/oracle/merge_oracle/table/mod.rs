//! A table of configs: every list of the spec, every field, and every pair of spec versions.

use serde_json::Value;

mod fields;
mod lists;
mod versions;

pub use fields::fields;
pub use lists::lists;
pub use versions::versions;

/// A description and several configs. Later ones override earlier ones.
pub type Case = (String, Vec<Value>);

fn letter(at: usize) -> String {
    char::from(b'a' + u8::try_from(at).expect("few keys")).to_string()
}
