//! The rights that a folder of `deploy/` gives to the controller, and those that the controller
//! used, by the audit log of a node.

use std::collections::BTreeSet;

use serde_json::Value;

use mosb_tests::Node;

/// The account of the controller.
const ACCOUNT: &str = "system:serviceaccount:mosb-system:mosb-controller";

/// One right or one use of it: `resource[/subresource] verb`.
fn right(group: &str, resource: &str, verb: &str) -> String {
    match group {
        ""
        | "machineconfiguration.openshift.io"
        | "batch"
        | "rbac.authorization.k8s.io"
        | "apps"
        | "coordination.k8s.io" => format!("{resource} {verb}"),
        group => format!("{resource}.{group} {verb}"),
    }
}

/// All rights that a folder of `deploy/` gives.
pub fn granted(node: &Node, folder: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for object in node.overlay(folder) {
        let list =
            |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
        for rule in object["rules"].as_array().into_iter().flatten() {
            for group in list(&rule["apiGroups"]) {
                for resource in list(&rule["resources"]) {
                    all.extend(
                        list(&rule["verbs"]).iter().map(|verb| right(&group, &resource, verb)),
                    );
                }
            }
        }
    }
    all
}

/// The requests of the controller for resources, as the audit log has them.
pub fn requests_of_controller(node: &Node) -> impl Iterator<Item = Value> {
    let is_ours = |event: &Value| {
        event["user"]["username"] == ACCOUNT && event["objectRef"]["resource"].is_string()
    };
    node.audit().into_iter().filter(is_ours)
}

/// The resource of a request, as `machineosconfigs/status`.
pub fn resource(event: &Value) -> String {
    let object = &event["objectRef"];
    let resource = object["resource"].as_str().unwrap_or_default();
    match object["subresource"].as_str() {
        Some(sub) => format!("{resource}/{sub}"),
        None => resource.to_owned(),
    }
}

/// The rights that the controller used, and its requests that were refused.
fn used(node: &Node) -> (BTreeSet<String>, Vec<Value>) {
    let mut used = BTreeSet::new();
    let mut refused = Vec::new();
    for event in requests_of_controller(node) {
        let group = event["objectRef"]["apiGroup"].as_str().unwrap_or_default();
        if event["annotations"]["authorization.k8s.io/decision"] != "allow"
            || event["responseStatus"]["code"] == 403
        {
            // The right to list Builds of OpenShift is in an overlay of its own, and the controller
            // sends a request to see whether it has it.
            if group != "build.openshift.io" || event["verb"] != "list" {
                refused.push(event);
            }
            continue;
        }
        used.insert(right(group, &resource(&event), event["verb"].as_str().unwrap()));
    }
    (used, refused)
}

/// Asserts that the controller used each right of a folder of `deploy/`, but for the rights in
/// `without` and the excused ones, and that no request was refused or needed another right.
#[track_caller]
pub fn assert_all_used(
    node: &Node,
    folder: &str,
    without: &BTreeSet<String>,
    excused: &[(&str, &str)],
) {
    let (used, refused) = used(node);
    assert!(refused.is_empty(), "refused: {refused:#?}");
    let granted = granted(node, folder);
    let more: Vec<_> = used.difference(&granted).collect();
    // The API server gives every account the rights to discovery and to reviews of its own access.
    assert!(more.is_empty(), "used, but by no right of ours: {more:?}");
    let granted: BTreeSet<String> = granted.difference(without).cloned().collect();
    let excused: BTreeSet<String> = excused.iter().map(|(right, _)| (*right).to_owned()).collect();
    let idle: Vec<_> =
        granted.difference(&used).filter(|right| !excused.contains(*right)).collect();
    assert!(idle.is_empty(), "granted, but never used: {idle:#?}");
    let strange: Vec<_> = excused.difference(&granted).collect();
    assert!(strange.is_empty(), "excused, but not granted: {strange:?}");
}
