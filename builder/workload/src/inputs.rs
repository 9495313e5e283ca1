//! The objects that a build's pod needs, each owned by the workload.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::metadata::{by_build, by_workload, metadata};
use super::names::{
    ACCOUNT, CERTS, POLICY_KEY, PROXY, PULL, PUSH, REGISTRIES, REGISTRIES_KEY, REGISTRY_TRUST_KEY,
    result_name,
};
use super::{Input, JobRequest, security_context_constraints, template};
use mosb_api::{ImageBuilderType, label_value, labels, object_name};
use mosb_build::{DOCKER_CONFIG_KEY, NamedSecret};
use mosb_plan::payload::{self, BUILD_SPEC_KEY};

/// Everything that a [`Workload`](super::Workload) needs, owned by the one with this UID.
pub fn inputs(request: &JobRequest, uid: &str) -> Vec<Input> {
    let context = request.openshift.iter().flat_map(|source| &source.context);
    let context = context.map(|one| carried(request, &one.map));
    let mut payload: Vec<_> = request.payload.iter().map(|map| carried(request, map)).collect();
    if let Some(config) = payload.first_mut() {
        let data = config.data.get_or_insert_default();
        data.insert(BUILD_SPEC_KEY.to_owned(), request.spec.to_json());
    }
    let mut inputs: Vec<Input> = context.chain(payload).map(Input::ConfigMap).collect();
    inputs.push(credentials(request, PULL, &request.pull));
    inputs.push(credentials(request, PUSH, &request.push_secret));
    inputs.extend(request.copies.iter().map(|copy| {
        let mut copy = copy.clone();
        *copy.metadata_mut() = metadata(request, copy.name().to_owned());
        copy
    }));
    // An OpenShift Build contains no containers of ours: the cluster's settings apply, and its
    // status is the result.
    if request.openshift.is_none() {
        inputs.extend(registries(request));
        inputs.extend(certificates(request));
        inputs.extend(proxy(request));
        inputs.extend(rights(request));
        if request.builder != ImageBuilderType::CustomPod {
            inputs.push(Input::ServiceAccount(account(request)));
        }
        inputs.push(result(request, uid));
    }
    for input in &mut inputs {
        input.metadata_mut().owner_references = Some(vec![by_workload(request, uid)]);
    }
    inputs
}

/// A part of the payload, with the common labels and annotations.
fn carried(request: &JobRequest, map: &payload::ConfigMap) -> ConfigMap {
    let value = serde_json::to_value(map).expect("texts are JSON");
    let mut object: ConfigMap =
        serde_json::from_value(value).expect("a ConfigMap in the API's form");
    let mut meta = metadata(request, map.metadata.name.clone());
    let own = object.metadata.annotations.take().unwrap_or_default();
    meta.annotations.get_or_insert_default().extend(own);
    object.metadata = meta;
    object
}

fn config_map(request: &JobRequest, prefix: &str, data: BTreeMap<String, String>) -> Input {
    Input::ConfigMap(ConfigMap {
        metadata: metadata(request, object_name(prefix, &request.spec.build)),
        data: Some(data),
        ..ConfigMap::default()
    })
}

fn registries(request: &JobRequest) -> Option<Input> {
    let texts =
        [(REGISTRIES_KEY, &request.registries_conf), (POLICY_KEY, &request.signature_policy)];
    let there = |(key, text): (&str, &Option<String>)| Some((key.to_owned(), text.clone()?));
    let data: BTreeMap<_, _> = texts.into_iter().filter_map(there).collect();
    (!data.is_empty()).then(|| config_map(request, REGISTRIES, data))
}

/// The key of a registry's CAs: a ConfigMap key can't contain `:` or brackets, or start with two
/// dots.
pub(super) fn certs_key(host: &str) -> String {
    host.replace(':', "..").replace(['[', ']'], "_") + ".crt"
}

fn certificates(request: &JobRequest) -> Option<Input> {
    let hosts = request.certs.iter();
    let mut data: BTreeMap<_, _> =
        hosts.map(|(host, pem)| (certs_key(host), pem.clone())).collect();
    data.extend(
        request.registry_trust.iter().map(|pem| (REGISTRY_TRUST_KEY.to_owned(), pem.clone())),
    );
    (!data.is_empty()).then(|| config_map(request, CERTS, data))
}

fn secret(request: &JobRequest, prefix: &str, data: BTreeMap<String, ByteString>) -> Secret {
    Secret {
        metadata: metadata(request, object_name(prefix, &request.spec.build)),
        data: Some(data),
        ..Secret::default()
    }
}

fn credentials(request: &JobRequest, prefix: &str, from: &NamedSecret) -> Input {
    let bytes = ByteString(from.credentials.to_bytes().expose().clone());
    let mut secret = secret(request, prefix, [(DOCKER_CONFIG_KEY.to_owned(), bytes)].into());
    secret.type_ = Some("kubernetes.io/dockerconfigjson".to_owned());
    secret.metadata.labels.get_or_insert_default().extend([
        (labels::CANONICALIZED_SECRET.to_owned(), String::new()),
        (labels::ORIGINAL_SECRET_NAME.to_owned(), label_value(&from.name)),
    ]);
    Input::Secret(secret)
}

/// An address may hold a password, so all variables are in a Secret.
fn proxy(request: &JobRequest) -> Option<Input> {
    let variables = request.proxy.as_ref()?.variables();
    let bytes = |(name, value): (String, String)| (name, ByteString(value.into_bytes()));
    let data = variables.into_iter().map(bytes).collect();
    Some(Input::Secret(secret(request, PROXY, data)))
}

/// The ServiceAccount of a Pod without a Job. The API server rejects a Pod without its account, so
/// the account is created first and owned by the MachineOSBuild.
pub fn account_before(request: &JobRequest) -> ServiceAccount {
    let mut account = account(request);
    account.metadata.owner_references = Some(vec![OwnerReference {
        controller: Some(false),
        block_owner_deletion: Some(false),
        ..by_build(request.spec.build.as_str(), &request.build_uid)
    }]);
    account
}

fn account(request: &JobRequest) -> ServiceAccount {
    let mut account = template::service_account();
    account.metadata = metadata(request, object_name(ACCOUNT, &request.spec.build));
    account
}

fn rights(request: &JobRequest) -> [Input; 2] {
    let name = object_name(ACCOUNT, &request.spec.build);
    let mut role = template::role();
    role.metadata = metadata(request, name.clone());
    for rule in role.rules.iter_mut().flatten() {
        rule.resource_names = Some(vec![result_name(&request.spec.build)]);
    }
    if let Some(rule) = security_context_constraints::rule(request) {
        role.rules.get_or_insert_default().push(rule);
    }
    let mut binding = template::role_binding();
    binding.metadata = metadata(request, name.clone());
    binding.role_ref.name.clone_from(&name);
    binding.subjects = Some(vec![Subject {
        kind: "ServiceAccount".to_owned(),
        name,
        namespace: Some(request.spec.namespace.clone()),
        ..Subject::default()
    }]);
    [Input::Role(role), Input::RoleBinding(binding)]
}

fn result(request: &JobRequest, uid: &str) -> Input {
    let mut result = template::result();
    result.metadata = metadata(request, result_name(&request.spec.build));
    let annotations = result.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::JOB_UID.to_owned(), uid.to_owned());
    let own = result.metadata.labels.get_or_insert_default();
    own.insert(labels::RESULT.to_owned(), String::new());
    Input::ConfigMap(result)
}
