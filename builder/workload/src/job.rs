//! The Job of a build, from `job-templates/`.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, EnvFromSource, KeyToPath, LocalObjectReference, PodSpec,
    PodTemplateSpec, SeccompProfile, SecretEnvSource, SecurityContext,
};

use super::inputs::certs_key;
use super::metadata::{all_annotations, all_labels, by_build, metadata};
use super::names::{
    ACCOUNT, CERTS, IMAGE_BUILD, IMAGE_FETCH, IMAGE_PUSH, POLICY_KEY, PROXY, PULL, PUSH,
    REGISTRIES, REGISTRIES_KEY, WAIT_FOR_DONE, input_names, mounts, volumes,
};
use super::volume::Volumes;
use super::{
    JobRequest, MachineRole, placement, resources, security_context_constraints, template,
};
use mosb_api::cluster_settings::StorageDriver;
use mosb_api::{job_name, labels, object_name};
use mosb_build::JobMethod;
use mosb_plan::payload::{
    BuildSpec, CONTAINERFILE_KEY, MACHINE_CONFIG_KEY, PreparedImageUse, TRUST_BUNDLE_KEY,
};

/// A suspended Job, owned by its MachineOSBuild. Annotation `mosb.dev/needs` lists its inputs, and
/// `mosb.dev/build-spec` has the format of the one that its containers read.
pub fn job(request: &JobRequest) -> Job {
    let mut job = template::job(request.method);
    job.metadata = metadata(request, job_name(&request.spec.build));
    job.metadata.owner_references =
        Some(vec![by_build(request.spec.build.as_str(), &request.build_uid)]);
    let spec = job.spec.as_mut().expect("a test fills both templates");
    fill_spec(spec, request);
    let needs = input_names(&job, &request.spec.build);
    let needs: Vec<_> = needs.iter().map(|(kind, name)| format!("{kind}/{name}")).collect();
    job.metadata.annotations.get_or_insert_default().extend([
        (labels::ATTEMPT.to_owned(), request.attempt.to_string()),
        (labels::METHOD.to_owned(), request.method.to_string()),
        (labels::NEEDS.to_owned(), needs.join(" ")),
        (labels::BUILD_SPEC.to_owned(), BuildSpec::FORMAT.to_string()),
    ]);
    job
}

fn fill_spec(spec: &mut JobSpec, request: &JobRequest) {
    let deadlines = &request.settings.active_deadline_seconds;
    let deadline = match request.method {
        JobMethod::Direct => deadlines.direct,
        JobMethod::Containerfile => deadlines.containerfile,
    };
    if let Some(seconds) = deadline {
        spec.active_deadline_seconds = Some(seconds.into());
    }
    fill_template(&mut spec.template, request);
    if request.machine_role != MachineRole::Other {
        // A Job's deadline includes the time in which its pod is unscheduled; a pod's does not.
        let pod = spec.template.spec.as_mut();
        let pod = pod.expect("a test fills both templates");
        pod.active_deadline_seconds = spec.active_deadline_seconds.take();
    }
}

fn fill_template(template: &mut PodTemplateSpec, request: &JobRequest) {
    let meta = template.metadata.get_or_insert_default();
    let own = meta.labels.take().unwrap_or_default();
    let mut all = request.settings.labels.clone();
    all.extend(own);
    all.extend(all_labels(request));
    meta.labels = Some(all);
    let mut all = request.settings.annotations.clone();
    all.extend(all_annotations(request));
    let needed = security_context_constraints::needed(request).map(str::to_owned);
    all.extend(needed.map(|name| (security_context_constraints::REQUIRED.to_owned(), name)));
    meta.annotations = Some(all);
    let pod = template.spec.as_mut().expect("a test fills both templates");
    fill_pod(pod, request);
}

fn fill_pod(pod: &mut PodSpec, request: &JobRequest) {
    let settings = &request.settings;
    pod.service_account_name = Some(object_name(ACCOUNT, &request.spec.build));
    pod.priority_class_name.clone_from(&settings.priority_class_name);
    let pull = |name: &String| LocalObjectReference { name: name.clone() };
    pod.image_pull_secrets = given(settings.image_pull_secrets.iter().map(pull).collect());
    placement::place(pod, request.into());
    fill_volumes(pod, request);
    if !runs_last_part(request)
        && let Some(containers) = &mut pod.init_containers
    {
        containers.retain(|container| container.name != IMAGE_FETCH);
    }
    let all = pod.init_containers.iter_mut().flatten();
    for container in all.chain(&mut pod.containers) {
        fill_container(container, request);
    }
    if request.method == JobMethod::Containerfile && !request.user_namespaces {
        without_user_namespace(pod);
    }
}

/// Whether buildah starts from a prepared base with the config, which only the push credentials read.
fn runs_last_part(request: &JobRequest) -> bool {
    match (request.method, &request.spec.prepared) {
        (JobMethod::Containerfile, PreparedImageUse::On { .. }) => true,
        (JobMethod::Containerfile, PreparedImageUse::Without | PreparedImageUse::Make)
        | (JobMethod::Direct, _) => false,
    }
}

fn given<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn fill_container(container: &mut Container, request: &JobRequest) {
    let settings = &request.settings;
    container.image = Some(request.builder_image.clone());
    if let Some(policy) = settings.image_pull_policy {
        container.image_pull_policy = Some(policy.as_str().to_owned());
    }
    let arguments = container.args.get_or_insert_default();
    let network = container.name != WAIT_FOR_DONE;
    if network {
        arguments.extend(registry_arguments(request));
    }
    let overrides = match (&*container.name, request.method) {
        (WAIT_FOR_DONE, _) => &settings.resources.wait_for_done,
        (IMAGE_FETCH | IMAGE_PUSH, _) => &settings.resources.image_push,
        (_, JobMethod::Direct) => &settings.resources.direct,
        (_, JobMethod::Containerfile) => {
            arguments.extend(buildah_arguments(request));
            &settings.resources.image_build
        }
    };
    resources::fill(container.resources.get_or_insert_default(), overrides);
    if network && request.proxy.is_some() {
        let source = SecretEnvSource {
            name: object_name(PROXY, &request.spec.build),
            ..SecretEnvSource::default()
        };
        container.env_from =
            Some(vec![EnvFromSource { secret_ref: Some(source), ..EnvFromSource::default() }]);
    }
}

// The next two are not in the document, which a later pass writes: they must agree with the volumes
// and the user of this pod, also if the settings change in between.

fn registry_arguments(request: &JobRequest) -> impl Iterator<Item = String> {
    let files = [
        ("--registries-conf", REGISTRIES_KEY, &request.registries_conf),
        ("--signature-policy", POLICY_KEY, &request.signature_policy),
    ];
    let files = files.into_iter().filter(|(.., text)| text.is_some());
    files.map(|(name, key, _)| format!("{name}={}/{key}", mounts::REGISTRIES))
}

fn buildah_arguments(request: &JobRequest) -> Vec<String> {
    // Without a user namespace, buildah must not mount.
    let usual = if request.user_namespaces { StorageDriver::Overlay } else { StorageDriver::Vfs };
    let driver = request.settings.storage_driver.unwrap_or(usual);
    let mut arguments = vec![format!("--storage-driver={}", driver.as_str())];
    if request.user_namespaces {
        arguments.push("--require-user-namespace".to_owned());
    }
    // Package managers write there, and packages may contain files there.
    for (there, mount, target) in [
        (&request.entitlement, mounts::ENTITLEMENT, "/etc/pki/entitlement"),
        (&request.repositories, mounts::REPOSITORIES, "/etc/yum.repos.d"),
        (&request.package_keys, mounts::PACKAGE_KEYS, "/etc/pki/rpm-gpg"),
    ] {
        arguments.extend(there.as_ref().map(|_| format!("--volume={mount}:{target}:copy")));
    }
    arguments
}

fn fill_volumes(pod: &mut PodSpec, request: &JobRequest) {
    let mut all = Volumes::of(pod);
    let of_payload = |key: &str| {
        let maps = request.payload.iter();
        maps.filter(|map| map.data.contains_key(key) || map.binary_data.contains_key(key))
            .map(|map| map.metadata.name.clone())
            .collect::<Vec<_>>()
    };
    let ours = |there: bool, prefix: &str| there.then(|| object_name(prefix, &request.spec.build));
    let configs = of_payload(MACHINE_CONFIG_KEY);
    all.config_map(volumes::BUILD_SPEC, configs.first().cloned());
    all.parts(volumes::MACHINE_CONFIG, configs);
    all.config_map(volumes::CONTAINERFILE, of_payload(CONTAINERFILE_KEY).pop());
    all.config_map(volumes::TRUST_BUNDLE, of_payload(TRUST_BUNDLE_KEY).pop());
    all.config_map(
        volumes::REGISTRIES,
        ours(request.registries_conf.is_some() || request.signature_policy.is_some(), REGISTRIES),
    );
    all.config_map(volumes::CERTS, ours(!request.certs.is_empty(), CERTS));
    let hosts = request.certs.keys();
    let item = |host: &String| KeyToPath {
        key: certs_key(host),
        path: format!("{host}/ca.crt"),
        mode: None,
    };
    all.items(volumes::CERTS, hosts.map(item).collect());
    all.config_map(volumes::REGISTRY_TRUST, ours(request.registry_trust.is_some(), CERTS));
    all.secret(volumes::PULL, ours(true, PULL));
    all.secret(volumes::PUSH, ours(true, PUSH));
    all.secret(volumes::ENTITLEMENT, request.entitlement.clone());
    all.config_map(volumes::REPOSITORIES, request.repositories.clone());
    all.secret(volumes::PACKAGE_KEYS, request.package_keys.clone());
}

/// Fallback: root of the node, with the default capabilities and no profile that would prevent
/// isolation of `RUN` lines.
fn without_user_namespace(pod: &mut PodSpec) {
    pod.host_users = None;
    let all = pod.init_containers.iter_mut().flatten();
    for container in all.filter(|container| container.name == IMAGE_BUILD) {
        let context = container.security_context.get_or_insert_default();
        if let Some(capabilities) = &mut context.capabilities {
            capabilities.add = None;
        }
        *context = SecurityContext {
            seccomp_profile: Some(SeccompProfile {
                type_: "Unconfined".to_owned(),
                localhost_profile: None,
            }),
            app_armor_profile: Some(AppArmorProfile {
                type_: "Unconfined".to_owned(),
                localhost_profile: None,
            }),
            ..context.clone()
        };
    }
}
