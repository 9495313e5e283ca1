//! What an operator sees of a roll-out: `/metrics` of the controller, and Events.

use std::collections::BTreeMap;

use serde_json::Value;

use mosb_tests::{Node, ask};

/// Samples by series, such as `mosb_leader` or `mosb_rollout_machines{pool="worker",state="lost"}`.
pub type Samples = BTreeMap<String, f64>;

/// The metrics of the controller with this log.
pub fn metrics(log: &str) -> Samples {
    let listening = log.split("listening on ").nth(1).unwrap();
    let end = listening.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':').unwrap();
    let text = ask(&listening[..end], "GET /metrics HTTP/1.0").unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    let samples = body.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        (series.to_owned(), value.parse().unwrap())
    });
    samples.collect()
}

/// Machines of the pool `worker` by state; those without a machine are left out.
pub fn machines(samples: &Samples) -> BTreeMap<String, f64> {
    labelled(samples, "mosb_rollout_machines", "state")
}

/// How often each phase of a machine of the pool `worker` ended.
pub fn phases(samples: &Samples) -> BTreeMap<String, f64> {
    labelled(samples, "mosb_rollout_phase_duration_seconds_count", "phase")
}

fn labelled(samples: &Samples, metric: &str, label: &str) -> BTreeMap<String, f64> {
    let prefix = format!("{metric}{{pool=\"worker\",{label}=\"");
    let found = samples.iter().filter(|(_, value)| **value != 0.0);
    let found = found.filter_map(|(series, value)| {
        let word = series.strip_prefix(&prefix)?.strip_suffix("\"}")?;
        Some((word.to_owned(), *value))
    });
    found.collect()
}

fn all_events(node: &Node) -> Vec<Value> {
    let (code, mut list) = node.api().ask("GET", "/api/v1/namespaces/default/events", None);
    assert_eq!(code, 200, "{list:#}");
    serde_json::from_value(list["items"].take()).unwrap()
}

/// How often each of the controller's Events of a Node was emitted, by reason.
pub fn events(node: &Node, name: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in all_events(node) {
        let on = &event["involvedObject"];
        let is_ours = event["reportingComponent"] == "machineosbuilder";
        if is_ours && on["kind"] == "Node" && on["name"] == name {
            let reason = event["reason"].as_str().map(str::to_owned);
            *counts.entry(reason.unwrap()).or_default() += 1;
        }
    }
    counts
}

/// Whether `kubectl describe` shows an event of this reason with the Node.
pub fn is_described(node: &Node, name: &str, reason: &str) -> bool {
    let text = node.kubectl(&["describe", "node", name]).ok().text();
    let (_, events) = text.split_once("\nEvents:").unwrap();
    events.contains(reason)
}

/// The reasons of the controller's Events of the pool, in order.
pub fn pool_events(node: &Node) -> Vec<String> {
    let mut events = all_events(node);
    events.retain(|event| {
        event["involvedObject"]["kind"] == "MachineConfigPool"
            && event["reason"].as_str().is_some_and(|reason| reason.starts_with("Rollout"))
    });
    events.sort_by_key(|event| event["eventTime"].as_str().map(str::to_owned));
    let reason = |event: &Value| event["reason"].as_str().unwrap().to_owned();
    events.iter().map(reason).collect()
}
