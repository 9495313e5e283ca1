//! CRDs of the kinds that boot images are in: as small as the tests need, and as strict as the real
//! ones where that matters. Nothing of a cloud or of OpenShift runs here.

use serde_json::{Value, json};

pub const MACHINE_API: &str = "machine.openshift.io";
pub const CLUSTER_API: &str = "cluster.x-k8s.io";
pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
pub const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";

/// Providers of machine templates, and the version in which they serve them.
const PROVIDERS: [(&str, &str); 7] = [
    ("AWS", "v1beta2"),
    ("GCP", "v1beta1"),
    ("Azure", "v1beta1"),
    ("VSphere", "v1beta1"),
    ("OpenStack", "v1beta1"),
    ("Metal3", "v1beta1"),
    ("Kubevirt", "v1alpha1"),
];

/// The version in which a provider serves its machine templates.
pub fn template_version(provider: &str) -> &'static str {
    PROVIDERS.iter().find(|(name, _)| *name == provider).unwrap().1
}

/// The version of Cluster API's contract that a cluster has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterApi {
    /// Only `v1beta1` is served.
    V1Beta1,
    /// `v1beta2` is stored, and `v1beta1` is served too.
    V1Beta2,
}

impl ClusterApi {
    /// The version that objects of the tests have.
    pub fn version(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }
}

/// The kinds of OpenShift.
pub fn openshift() -> Vec<Value> {
    let provider_spec = object(&json!({ "value": open() }));
    let machine = object(&json!({ "metadata": open(), "spec": object(&json!({
        "metadata": open(), "providerSpec": provider_spec })) }));
    let set = object(
        &json!({ "replicas": { "type": "integer" }, "selector": open(), "template": machine }),
    );
    let managers = json!({ "type": "array", "maxItems": 5, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["resource", "apiGroup"],
        "items": { "type": "object", "required": ["resource", "apiGroup", "selection"], "properties": {
            "resource": { "type": "string", "enum": ["machinesets", "controlplanemachinesets"] },
            "apiGroup": { "type": "string", "enum": [MACHINE_API] },
            "selection": { "type": "object", "required": ["mode"],
                "properties": {
                    "mode": { "type": "string", "enum": ["All", "Partial", "None"] },
                    "partial": object(&json!({ "machineResourceSelector": open() })) },
                "x-kubernetes-validations": [{
                    "rule": "has(self.mode) && self.mode == 'Partial' ? has(self.partial) : !has(self.partial)",
                    "message": "Partial is required when type is partial, and forbidden otherwise" }] } },
            "x-kubernetes-validations": [{
                "rule": "self.resource != 'controlplanemachinesets' || self.selection.mode != 'Partial'",
                "message": "Only All or None selection mode is permitted for ControlPlaneMachineSets" }] } });
    let images = object(&json!({ "machineManagers": managers }));
    let configuration = json!({
        "spec": object(&json!({ "managedBootImages": images, "bootImageSkewEnforcement": open() })),
        "status": object(&json!({ "observedGeneration": { "type": "integer" },
            "managedBootImagesStatus": images, "bootImageSkewEnforcementStatus": open(),
            "conditions": conditions() })) });
    let any = json!({ "spec": open(), "status": open() });
    let sets = json!({ "spec": set, "status": open() });
    vec![
        crd(MACHINE_API, ("MachineSet", "machinesets"), true, &[("v1beta1", &sets)], &json!({})),
        crd(
            MACHINE_API,
            ("ControlPlaneMachineSet", "controlplanemachinesets"),
            true,
            &[("v1", &any)],
            &json!({}),
        ),
        crd(
            "operator.openshift.io",
            ("MachineConfiguration", "machineconfigurations"),
            false,
            &[("v1", &configuration)],
            &json!({}),
        ),
        crd(
            "config.openshift.io",
            ("Infrastructure", "infrastructures"),
            false,
            &[("v1", &any)],
            &json!({}),
        ),
        crd(
            "config.openshift.io",
            ("ClusterVersion", "clusterversions"),
            false,
            &[("v1", &any)],
            &json!({}),
        ),
    ]
}

/// The kinds of Cluster API that machine sets need, where its own are not installed.
pub fn cluster_api(version: ClusterApi) -> Vec<Value> {
    let machine = |reference: Value| {
        object(&json!({ "metadata": open(), "spec": object(&json!({
            "clusterName": { "type": "string" }, "version": { "type": "string" },
            "bootstrap": open(), "infrastructureRef": reference })) }))
    };
    let reference = |group: &str| {
        let text = json!({ "type": "string" });
        let namespace = (group == "apiVersion").then(|| ("namespace".to_owned(), text.clone()));
        let mut fields = json!({ group: text, "kind": text, "name": text });
        fields.as_object_mut().unwrap().extend(namespace);
        object(&fields)
    };
    let set = |reference: Value| {
        json!({ "status": open(), "spec": object(&json!({ "clusterName": { "type": "string" },
            "replicas": { "type": "integer" }, "paused": { "type": "boolean" }, "selector": open(),
            "strategy": open(), "rollout": open(), "template": machine(reference) })) })
    };
    let (old, new) = (set(reference("apiVersion")), set(reference("apiGroup")));
    let cluster = json!({ "spec": open(), "status": open() });
    let versions = |old: &'static str, new: &'static str| match version {
        ClusterApi::V1Beta1 => vec![old],
        ClusterApi::V1Beta2 => vec![new, old],
    };
    let both = |old_form, new_form| -> Vec<(&str, &Value)> {
        let form = |name| (name, if name == "v1beta1" { old_form } else { new_form });
        versions("v1beta1", "v1beta2").into_iter().map(form).collect()
    };
    vec![
        crd(CLUSTER_API, ("Cluster", "clusters"), true, &both(&cluster, &cluster), &json!({})),
        crd(CLUSTER_API, ("MachineSet", "machinesets"), true, &both(&old, &new), &json!({})),
        crd(
            CLUSTER_API,
            ("MachineDeployment", "machinedeployments"),
            true,
            &both(&old, &new),
            &json!({}),
        ),
    ]
}

/// The kinds of providers: templates, and what has a region or an image that these name.
pub fn templates(version: ClusterApi) -> Vec<Value> {
    let mut kinds = Vec::new();
    for (provider, template_version) in PROVIDERS {
        let kind = format!("{provider}MachineTemplate");
        let plural = format!("{}s", kind.to_lowercase());
        kinds.push(of_provider(INFRASTRUCTURE, (&kind, &plural), template_version, version));
    }
    let any = json!({ "spec": open(), "status": open() });
    for (provider, version) in [("AWS", "v1beta2"), ("OpenStack", "v1beta1")] {
        let kind = format!("{provider}Cluster");
        let plural = format!("{}s", kind.to_lowercase());
        kinds.push(crd(INFRASTRUCTURE, (&kind, &plural), true, &[(version, &any)], &json!({})));
    }
    let orc = "openstack.k-orc.cloud";
    kinds.push(crd(orc, ("Image", "images"), true, &[("v1alpha1", &any)], &json!({})));
    kinds
}

/// What the core controllers expect of a provider beside its templates: Clusters and machines on
/// GCP, and control planes that run elsewhere.
pub fn providers() -> Vec<Value> {
    [
        (INFRASTRUCTURE, ("GCPCluster", "gcpclusters")),
        (INFRASTRUCTURE, ("GCPMachine", "gcpmachines")),
        (CONTROL_PLANE, ("HostedControlPlane", "hostedcontrolplanes")),
    ]
    .map(|(group, names)| of_provider(group, names, "v1beta1", ClusterApi::V1Beta2))
    .into()
}

/// A kind of a provider, whose labels say which of its versions keeps which version of the contract.
fn of_provider(group: &str, names: (&str, &str), version: &str, contract: ClusterApi) -> Value {
    let labels = match contract {
        ClusterApi::V1Beta1 => json!({ "cluster.x-k8s.io/v1beta1": version }),
        ClusterApi::V1Beta2 => json!({ "cluster.x-k8s.io/v1beta1": version,
            "cluster.x-k8s.io/v1beta2": version }),
    };
    let form = json!({ "spec": open(), "status": open() });
    crd(group, names, true, &[(version, &form)], &labels)
}

/// A policy that is a stand-in for the providers' webhooks: it rejects changes of a template's spec.
pub fn immutable_templates() -> Vec<Value> {
    let policy = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "immutable-templates" },
        "spec": { "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{ "apiGroups": [INFRASTRUCTURE], "apiVersions": ["*"],
                "operations": ["UPDATE"], "resources": ["*"] }] },
            "matchConditions": [{ "name": "templates", "expression": "request.resource.resource.endsWith('templates')" }],
            "validations": [{ "expression": "object.spec == oldObject.spec", "message": "a template's spec is immutable" }] } });
    let binding = json!({ "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": "immutable-templates" },
        "spec": { "policyName": "immutable-templates", "validationActions": ["Deny"] } });
    vec![policy, binding]
}

/// The first version is the stored one.
fn crd(
    group: &str,
    (kind, plural): (&str, &str),
    is_namespaced: bool,
    versions: &[(&str, &Value)],
    labels: &Value,
) -> Value {
    let version = |(index, (name, fields)): (usize, &(&str, &Value))| {
        json!({ "name": name, "served": true, "storage": index == 0, "subresources": { "status": {} },
            "schema": { "openAPIV3Schema": object(fields) } })
    };
    let versions: Vec<_> = versions.iter().enumerate().map(version).collect();
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}"), "labels": labels,
            // The API server asks for this where a group is a community's.
            "annotations": { "api-approved.kubernetes.io": "unapproved, for tests" } },
        "spec": { "group": group, "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List") },
            "versions": versions } })
}

fn object(properties: &Value) -> Value {
    json!({ "type": "object", "properties": properties })
}

/// An object with any fields.
fn open() -> Value {
    json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

fn conditions() -> Value {
    let text = json!({ "type": "string" });
    json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": { "type": "object", "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": { "type": text, "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "reason": { "type": "string", "minLength": 1, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$" },
                "message": { "type": "string", "maxLength": 32768 },
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "observedGeneration": { "type": "integer" } } } })
}
