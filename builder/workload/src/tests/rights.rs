//! Each container has only the permissions that it needs.

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use super::*;
use mosb_build::JobMethod;

fn pod(request: &JobRequest) -> PodSpec {
    job(request).spec.unwrap().template.spec.unwrap()
}

/// Names of the containers that mount such a volume.
fn who_mounts(pod: &PodSpec, like: impl Fn(&Volume) -> bool) -> Vec<&str> {
    let volumes: Vec<_> =
        pod.volumes.iter().flatten().filter(|v| like(v)).map(|v| &v.name).collect();
    let mounts = |container: &&Container| {
        let mut mounts = container.volume_mounts.iter().flatten();
        mounts.any(|mount| volumes.contains(&&mount.name))
    };
    containers(pod).filter(mounts).map(|container| &*container.name).collect()
}

fn secret_of(volume: &Volume) -> &str {
    let secret = volume.secret.as_ref();
    secret.and_then(|secret| secret.secret_name.as_deref()).unwrap_or_default()
}

fn map_of(volume: &Volume) -> &str {
    volume.config_map.as_ref().map_or("", |map| &map.name)
}

fn has_token(volume: &Volume) -> bool {
    let parts = volume.projected.iter().flat_map(|all| all.sources.iter().flatten());
    parts.clone().any(|part| part.service_account_token.is_some())
}

#[test]
fn secrets_are_mounted_only_where_they_are_needed() {
    for (case, request) in with_our_pods() {
        let pod = pod(&request);
        let containerfile = request.method == JobMethod::Containerfile;
        // The prepared base is in the repository that is pushed to.
        let fetches = (case == "last-part").then_some("image-fetch");
        let pushes = if containerfile { "image-push" } else { "image-build" };
        let has_push_credentials: Vec<_> = fetches.into_iter().chain([pushes]).collect();
        assert_eq!(
            who_mounts(&pod, |v| secret_of(v).starts_with("final-")),
            has_push_credentials,
            "{case}: push credentials"
        );
        assert_eq!(who_mounts(&pod, has_token), ["wait-for-done"], "{case}: token");
        let has_result: Vec<_> =
            ["wait-for-done"].into_iter().chain(has_push_credentials).collect();
        assert_eq!(who_mounts(&pod, |v| v.name == "result"), has_result, "{case}: result");
        let failure: &[&str] = if containerfile { &["wait-for-done", "image-build"] } else { &[] };
        assert_eq!(who_mounts(&pod, |v| v.name == "failure"), failure, "{case}: failure");
        let optional: &[&str] = if case == "everything" { &["image-build"] } else { &[] };
        for (what, name) in
            [("entitlement", "etc-pki-entitlement-worker"), ("keys", "etc-pki-rpm-gpg")]
        {
            assert_eq!(who_mounts(&pod, |v| secret_of(v) == name), optional, "{case}: {what}");
        }
        assert_eq!(
            who_mounts(&pod, |v| map_of(v) == "etc-yum-repos-d"),
            optional,
            "{case}: repositories"
        );
        assert_eq!(
            who_mounts(&pod, |v| v.name == "buildah").len(),
            usize::from(containerfile),
            "{case}: storage"
        );
    }
}

/// No other sources: no other kinds of volumes, no mounts of unknown volumes, no variables with
/// values.
#[test]
fn no_other_way_in() {
    for (case, request) in with_our_pods() {
        let pod = pod(&request);
        assert_eq!(pod.automount_service_account_token, Some(false), "{case}");
        assert_eq!(pod.enable_service_links, Some(false), "{case}");
        assert_eq!(
            (pod.host_network, pod.host_pid, pod.host_ipc, pod.share_process_namespace),
            (None, None, None, None),
            "{case}"
        );
        let volumes = pod.volumes.as_ref().unwrap();
        for volume in volumes {
            let known = [
                volume.config_map.is_some(),
                volume.secret.is_some(),
                volume.projected.is_some(),
                volume.empty_dir.is_some(),
            ];
            assert_eq!(known.iter().filter(|known| **known).count(), 1, "{case}: {}", volume.name);
            assert_ne!(
                who_mounts(&pod, |other| other.name == volume.name),
                [""; 0],
                "{case}: {}",
                volume.name
            );
        }
        for container in containers(&pod) {
            for mount in container.volume_mounts.iter().flatten() {
                assert!(
                    volumes.iter().any(|volume| volume.name == mount.name),
                    "{case}: {}",
                    mount.name
                );
                let disk = volumes.iter().any(|v| v.name == mount.name && v.empty_dir.is_some());
                assert!(
                    disk || mount.read_only == Some(true),
                    "{case}: {} is not read-only",
                    mount.name
                );
            }
            for source in container.env_from.iter().flatten() {
                assert_ne!(
                    container.name, "wait-for-done",
                    "{case}: a proxy between sidecar and API"
                );
                assert!(source.secret_ref.as_ref().unwrap().name.starts_with("proxy-"), "{case}");
            }
            let variables: Vec<_> = container.env.iter().flatten().map(|env| &*env.name).collect();
            let want: &[&str] = match &*container.name {
                "wait-for-done" => &["MOSB_JOB_UID"],
                _ => &["MOSB_JOB_UID", "SSL_CERT_DIR"],
            };
            assert_eq!(variables, want, "{case}");
        }
    }
}

/// Files of the untrusted container are not trusted: the sidecar and the push read them.
#[test]
fn run_instructions_can_write_only_these_volumes() {
    let pod = pod(&everything());
    let writable = |container: &Container| {
        let mounts = container.volume_mounts.iter().flatten();
        mounts.filter(|m| m.read_only != Some(true)).map(|m| m.name.clone()).collect::<Vec<_>>()
    };
    let all: Vec<_> = containers(&pod).map(|c| (&*c.name, writable(c))).collect();
    let want = [
        ("wait-for-done", vec!["result"]),
        ("image-build", vec!["image", "failure", "buildah"]),
        ("image-push", vec!["result", "tmp"]),
    ];
    let want = want.map(|(name, volumes)| (name, volumes.into_iter().map(str::to_owned).collect()));
    assert_eq!(all, want);
}

/// What Pod Security `restricted` requires beyond this, an API server checks in a test of its own.
#[test]
fn no_container_is_privileged_and_only_buildah_may_write_its_root() {
    for (case, request) in with_our_pods() {
        for container in containers(&pod(&request)) {
            let context = container.security_context.as_ref().unwrap();
            assert_ne!(context.privileged, Some(true), "{case}: {}", container.name);
            let buildah =
                request.method == JobMethod::Containerfile && container.name == "image-build";
            assert!(
                buildah || context.read_only_root_filesystem == Some(true),
                "{case}: {}",
                container.name
            );
        }
    }
}

#[test]
fn buildah_gets_a_namespace_or_no_capability() {
    for (what, request, host_users, added, seccomp) in [
        ("namespace", containerfile(), Some(false), vec!["SYS_ADMIN"], None),
        ("none", degraded(), None, vec![], Some("Unconfined")),
    ] {
        let pod = pod(&request);
        assert_eq!(pod.host_users, host_users, "{what}");
        let container = containers(&pod).find(|c| c.name == "image-build").unwrap();
        let context = container.security_context.as_ref().unwrap();
        let capabilities = context.capabilities.clone().unwrap_or_default();
        assert_eq!(capabilities.add.unwrap_or_default(), added, "{what}");
        assert_eq!(capabilities.drop.as_deref(), Some(&["NET_RAW".to_owned()][..]), "{what}");
        assert_eq!(context.seccomp_profile.as_ref().map(|p| &*p.type_), seccomp, "{what}");
        assert_eq!(context.app_armor_profile.as_ref().unwrap().type_, "Unconfined", "{what}");
        let arguments = container.args.as_ref().unwrap();
        assert_eq!(
            arguments.iter().any(|a| a == "--require-user-namespace"),
            host_users.is_some(),
            "{what}"
        );
    }
}

/// Passwords are only in Secrets.
#[test]
fn credentials_are_in_secrets_only() {
    let request = everything();
    let canaries = ["pull-canary", "push-canary", "proxy-canary"];
    let mut texts = vec![serde_json::to_string(&job(&request)).unwrap(), format!("{request:?}")];
    let mut hidden = String::new();
    for input in inputs(&request, JOB_UID) {
        texts.push(format!("{input:?}"));
        match &input {
            Input::Secret(secret) => {
                for bytes in secret.data.iter().flatten().map(|(_, bytes)| &bytes.0) {
                    hidden += std::str::from_utf8(bytes).unwrap();
                }
            }
            other => texts.push(value(other).to_string()),
        }
    }
    for canary in canaries {
        assert!(hidden.contains(canary), "{canary} is nowhere");
        for text in &texts {
            assert!(!text.contains(canary), "{canary} in {text}");
        }
    }
}

#[test]
fn the_sidecar_may_write_one_config_map() {
    let request = direct();
    let role = inputs(&request, JOB_UID).into_iter().find_map(|input| match input {
        Input::Role(role) => role.rules,
        _ => None,
    });
    let [rule] = &role.unwrap()[..] else { panic!("one rule") };
    assert_eq!(rule.resource_names, Some(vec![result_name(&request.spec.build)]));
    assert_eq!(
        (rule.verbs.clone(), rule.resources.clone()),
        (vec!["get".to_owned(), "patch".to_owned()], Some(vec!["configmaps".to_owned()]))
    );
}

/// The ServiceAccount of a build may use only the constraints that its pod requests. Those that
/// mosb does not create are part of OpenShift.
#[test]
fn a_builds_account_may_use_the_constraints_that_its_pod_needs() {
    for (what, request, want) in [
        ("direct", direct(), "nonroot-v2"),
        ("containerfile", containerfile(), "mosb-image-build"),
        ("degraded", degraded(), "mosb-image-build-without-user-namespace"),
    ] {
        let request = JobRequest { security_context_constraints: true, ..request };
        let inputs = inputs(&request, JOB_UID);
        let role = inputs
            .iter()
            .find_map(|input| match input {
                Input::Role(role) => Some(role),
                _ => None,
            })
            .unwrap();
        let rules = role.rules.iter().flatten();
        let names: Vec<_> = rules
            .filter(|rule| rule.verbs == ["use"])
            .flat_map(|rule| rule.resource_names.iter().flatten())
            .collect();
        assert_eq!(names, [want], "{what}");
        let template = job(&request).spec.unwrap().template;
        let annotations = template.metadata.unwrap().annotations.unwrap();
        assert_eq!(annotations["openshift.io/required-scc"], want, "{what}");
    }
}
