//! Tests of rendering: precedence, rejected inputs, and the inputs of the name.

use super::*;
use mosb_types::Diagnostic as _;

mod origins;
mod problems;
mod properties;
mod selection;
mod settings;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn config(name: &str, role: &str, spec: Value) -> Component {
    let object = json!({
        "apiVersion": mosb_api::API_VERSION, "kind": "MachineConfig",
        "metadata": { "name": name, "labels": { labels::ROLE: role } }, "spec": spec,
    });
    Component { origin: format!("{name}.yaml"), config: serde_json::from_value(object).unwrap() }
}

/// A MachineConfig with one file of the given content.
fn file(name: &str, role: &str, path: &str, content: &str) -> Component {
    let file = json!({ "path": path, "contents": { "source": format!("data:,{content}") } });
    let spec = json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [file] } });
    config(name, role, json!({ "config": spec }))
}

fn request(pool: &str, configs: Vec<Component>) -> Request {
    Request {
        pool: pool.parse().unwrap(),
        pool_object: None,
        controller_config: None,
        pool_settings: Vec::new(),
        os_image: None,
        extensions_image: None,
        pins: BTreeMap::new(),
        configs,
        explain: false,
    }
}

#[track_caller]
fn rendered(request: &Request) -> Rendered {
    match render(request, &Contents::new()) {
        Ok(Outcome::Rendered(rendered)) => *rendered,
        Ok(Outcome::Needs(needs)) => panic!("{needs:?}"),
        Err(error) => panic!("{error}: {:#?}", error.findings()),
    }
}

/// Code and object of each problem.
#[track_caller]
fn problems(request: &Request) -> Vec<(String, String)> {
    let error = render(request, &Contents::new()).unwrap_err();
    let findings = error.findings().into_iter();
    findings.map(|it| (it.code, it.object.unwrap_or_default())).collect()
}

fn pool(object: Value) -> Option<MachineConfigPool> {
    Some(serde_json::from_value(object).unwrap())
}

fn contents(rendered: &Rendered) -> BTreeMap<&str, &str> {
    let files = rendered.object.pointer("/spec/config/storage/files");
    let files = files.and_then(Value::as_array).into_iter().flatten();
    files
        .map(|file| {
            let source = file["contents"]["source"].as_str().unwrap();
            let content = source.strip_prefix("data:,").unwrap();
            (file["path"].as_str().unwrap(), content)
        })
        .collect()
}
