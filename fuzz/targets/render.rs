//! Any text is a pool's objects, and these are a rendered config, or a list of what is missing, or errors. What is rendered is
//! the same in whatever order it came, and by itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mosb_api::yaml::{self, Limits};
use mosb_ignition::Contents;
use mosb_merge::{self as render, Component, Outcome, Rendered, Request};
use serde_json::{Value, json};

fuzz_target!(|data: &[u8]| {
    let Ok(objects) = yaml::parse_all(data, Limits::LIST) else {
        return;
    };
    let mut request = request(objects);
    let Some(rendered) = rendered(&request) else {
        return;
    };
    request.configs.reverse();
    request.explain = true;
    let again = self::rendered(&request).expect("it was rendered in another order");
    assert!(again.object == rendered.object, "the order counts");
    let by_itself = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "all", "labels": { "machineconfiguration.openshift.io/role": "worker" } },
        "spec": rendered.object["spec"],
    });
    let again = self::rendered(&self::request(vec![by_itself])).expect("it was rendered once");
    assert!(again.config.name() == rendered.config.name(), "by itself it is another");
});

/// The objects by their kinds; what does not say its kind is a MachineConfig.
fn request(objects: Vec<Value>) -> Request {
    let mut request = Request {
        pool: "worker".parse().expect("a pool's name"),
        pool_object: None,
        controller_config: None,
        pool_settings: Vec::new(),
        os_image: None,
        extensions_image: None,
        pins: Default::default(),
        configs: Vec::new(),
        explain: false,
    };
    for object in objects {
        match object["kind"].as_str() {
            Some("MachineConfigPool") => request.pool_object = serde_json::from_value(object).ok(),
            Some("ControllerConfig") => {
                request.controller_config = serde_json::from_value(object).ok()
            }
            Some("KubeletConfig") => request.pool_settings.extend(serde_json::from_value(object)),
            _ => request.configs.extend(
                serde_json::from_value(object)
                    .map(|config| Component { origin: String::new(), config }),
            ),
        }
    }
    request
}

fn rendered(request: &Request) -> Option<Rendered> {
    match render::render(request, &Contents::new()) {
        Ok(Outcome::Rendered(rendered)) => Some(*rendered),
        Ok(Outcome::Needs(needs)) => {
            assert!(!needs.is_empty(), "it needs nothing");
            None
        }
        Err(error) => {
            assert!(!error.to_string().is_empty(), "{error:?}");
            None
        }
    }
}
