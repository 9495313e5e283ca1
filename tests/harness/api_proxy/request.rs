//! What a request to the API server is about.

use crate::http::Head;

/// Whether a request counts as a write: not a read, a dry run, an access review or a Lease, and an
/// event only if they count.
pub fn is_write(head: &Head, counts_events: bool) -> bool {
    let path = head.path();
    head.method != "GET"
        && !head.target.contains("dryRun")
        && (counts_events || !path.contains("/events"))
        && !["/leases", "/authorization.k8s.io/"].iter().any(|word| path.contains(word))
}

/// The path after the API version, without the namespace.
fn resource(head: &Head) -> &str {
    let path = head.path();
    // `/api/v1/…` and `/apis/<group>/<version>/…`.
    let before = if path.starts_with("/api/") { 3 } else { 4 };
    let what = path.splitn(before + 1, '/').nth(before).unwrap_or(path);
    let in_namespace = what.strip_prefix("namespaces/").and_then(|rest| rest.split_once('/'));
    in_namespace.map_or(what, |(_, what)| what)
}

pub fn kind_of(head: &Head) -> String {
    let kind = resource(head).split('/').next();
    kind.unwrap_or_default().to_owned()
}

pub fn method_and_resource(head: &Head) -> String {
    format!("{} {}", head.method, resource(head))
}

/// The method and resource without the object's name.
pub fn write_kind(head: &Head) -> String {
    let mut parts = resource(head).split('/');
    let kind = parts.next().unwrap_or_default();
    let sub = parts.nth(1).map(|sub| format!("/{sub}"));
    format!("{} {kind}{}", head.method, sub.unwrap_or_default())
}
