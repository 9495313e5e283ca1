//! The kernel arguments of new machines.

use serde_json::{Value, json};

use super::listed;
use mosb_plan::api::RenderedConfig;

/// The arguments of the Ignition config, then those of the MachineConfigs, without duplicates;
/// `None` if there are none.
pub(super) fn of(rendered: &RenderedConfig, ignition: &Value) -> Option<Value> {
    let texts = |field: &str| {
        let list = listed(ignition, &["kernelArguments", field]);
        let list = list.and_then(|list| serde_json::from_value::<Vec<String>>(list).ok());
        list.unwrap_or_default()
    };
    let (mut wanted, unwanted) = (texts("shouldExist"), texts("shouldNotExist"));
    for argument in rendered.kernel_arguments.iter().flat_map(|text| split(text)) {
        if !wanted.contains(&argument) {
            wanted.push(argument);
        }
    }
    let mut arguments = json!({});
    for (field, list) in [("shouldExist", wanted), ("shouldNotExist", unwanted)] {
        if !list.is_empty() {
            arguments[field] = json!(list);
        }
    }
    (arguments != json!({})).then_some(arguments)
}

/// Splits an entry of `spec.kernelArguments` at blanks outside of double quotes, as the kernel
/// does.
fn split(text: &str) -> Vec<String> {
    let mut quoted = false;
    let blank = |c: char| {
        quoted ^= c == '"';
        c.is_whitespace() && !quoted
    };
    let parts = text.split(blank).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_may_hold_several_arguments() {
        for (text, want) in [
            ("quiet", &["quiet"][..]),
            (" a=b  quiet ", &["a=b", "quiet"]),
            ("dyndbg=\"file x +p\" b", &["dyndbg=\"file x +p\"", "b"]),
            ("", &[]),
        ] {
            assert_eq!(split(text), want, "{text:?}");
        }
    }
}
