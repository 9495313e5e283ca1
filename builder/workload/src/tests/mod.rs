//! Whole objects, and which container holds which secrets.

mod requests;
mod rights;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Container, PodSpec, Secret, VolumeMount};
use serde_json::{Value, json};

use requests::*;

use super::*;
use crate::BuildNodes;
use mosb_api::cluster_settings::{ClusterSettings, JobSettings, Proxy};
use mosb_api::{BuildOn, ImageBuilderType, LabelSelector, yaml};
use mosb_build::{DockerConfigJson, JobMethod, NamedSecret};
use mosb_cluster::node_pool::CONTROL_PLANE_LABELS;
use mosb_cluster::object::is_workload_owner;
use mosb_image::Digest;
use mosb_image::signature_policy::{Requirement, SignaturePolicy};
use mosb_plan::payload::{
    BUILD_SPEC_KEY, BuildSpec, CONTAINERFILE_KEY, ConfigMap, ContextMap, MACHINE_CONFIG_KEY,
    ObjectMeta, PreparedImageUse, TRUST_BUNDLE_KEY,
};
use mosb_plan::plan::BuilderNodes;

/// In the form that `kubectl` accepts. `make golden` rewrites them.
#[test]
fn whole_objects() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("testdata/job");
    for (case, request) in cases() {
        let (name, workload) = match Workload::new(&request) {
            Workload::Job(job) => ("job.yaml", serde_json::to_value(job)),
            Workload::Pod(pod) => ("pod.yaml", serde_json::to_value(pod)),
            Workload::Build(build) => ("build.yaml", serde_json::to_value(build)),
        };
        let text = yaml::to_text(&workload.unwrap());
        expect_file![folder.join(case).join(name)].assert_eq(&text);
        let inputs: Vec<String> =
            inputs(&request, JOB_UID).iter().map(|input| yaml::to_text(&value(input))).collect();
        expect_file![folder.join(case).join("inputs.yaml")].assert_eq(&inputs.join("---\n"));
    }
}

fn value(input: &Input) -> Value {
    let value = match input {
        Input::ConfigMap(object) => serde_json::to_value(object),
        Input::Secret(object) => serde_json::to_value(object),
        Input::ServiceAccount(object) => serde_json::to_value(object),
        Input::Role(object) => serde_json::to_value(object),
        Input::RoleBinding(object) => serde_json::to_value(object),
    };
    value.unwrap()
}

fn pod_of(workload: Workload) -> Option<PodSpec> {
    match workload {
        Workload::Job(job) => job.spec.unwrap().template.spec,
        Workload::Pod(pod) => pod.spec,
        Workload::Build(_) => None,
    }
}

fn containers(pod: &PodSpec) -> impl Iterator<Item = &Container> {
    pod.init_containers.iter().flatten().chain(&pod.containers)
}

#[test]
fn each_container_mounts_the_files_that_it_is_given() {
    for (case, request) in cases() {
        let Some(pod) = pod_of(Workload::new(&request)) else { continue };
        let BuildSpec { machine_config, containerfile, trust_bundle, .. } = &request.spec;
        let inputs: Vec<_> =
            [Some(machine_config), containerfile.as_ref(), trust_bundle.as_ref()].into();
        let inputs: Vec<_> = inputs.into_iter().flatten().map(PathBuf::as_path).collect();
        let volumes: Vec<_> =
            pod.volumes.iter().flatten().map(|volume| volume.name.clone()).collect();
        for container in containers(&pod) {
            let mounts: Vec<_> = container.volume_mounts.iter().flatten().collect();
            assert!(mounts.iter().all(|mount| volumes.contains(&mount.name)), "{case}");
            let words = container.args.iter().flatten();
            // `--volume` has a source and a target.
            let values = words.filter_map(|word| word.split_once('=')?.1.split(':').next());
            let given: Vec<_> =
                values.filter(|value| value.starts_with("/run/mosb/")).map(Path::new).collect();
            assert!(given.contains(&Path::new("/run/mosb/spec/build.json")), "{case}: {given:?}");
            let reads = if container.name == "wait-for-done" { &[][..] } else { &inputs };
            for path in given.iter().chain(reads) {
                let is_below = |mount: &&VolumeMount| path.starts_with(&mount.mount_path);
                assert!(
                    mounts.iter().any(is_below),
                    "{case}, {}: {}",
                    container.name,
                    path.display()
                );
            }
        }
    }
}

/// Every container reads it, and none can write it, nor get at the rest of its ConfigMap with it.
#[test]
fn the_inputs_are_mounted_alone_and_read_only() {
    for (case, request) in cases() {
        let Some(pod) = pod_of(Workload::new(&request)) else { continue };
        let mut maps = inputs(&request, JOB_UID).into_iter().filter_map(|input| match input {
            Input::ConfigMap(map) if map.data.as_ref()?.contains_key(BUILD_SPEC_KEY) => Some(map),
            _ => None,
        });
        let map = maps.next().unwrap();
        assert_eq!(maps.next(), None, "{case}");
        let text = &map.data.unwrap()[BUILD_SPEC_KEY];
        assert_eq!(BuildSpec::from_json("x", text.as_bytes()).unwrap(), request.spec, "{case}");
        let mut volumes = pod.volumes.iter().flatten();
        let volume = volumes.find(|volume| volume.name == "build-spec").unwrap();
        let source = volume.config_map.as_ref().unwrap();
        let keys: Vec<_> = source.items.iter().flatten().map(|item| &*item.key).collect();
        assert_eq!((Some(&source.name), keys), (map.metadata.name.as_ref(), vec![BUILD_SPEC_KEY]));
        for container in containers(&pod) {
            let mut mounts = container.volume_mounts.iter().flatten();
            let mount = mounts.find(|mount| mount.name == "build-spec").unwrap();
            assert_eq!(mount.read_only, Some(true), "{case}: {}", container.name);
        }
    }
}

/// A workload waits for exactly the inputs that are created.
#[test]
fn the_workload_needs_its_inputs() {
    for (case, request) in cases() {
        let created: std::collections::BTreeSet<_> = inputs(&request, JOB_UID)
            .iter()
            .map(|input| format!("{}/{}", input.kind(), input.name()))
            .collect();
        let workload = Workload::new(&request);
        let needs = workload.annotation("mosb.dev/needs").unwrap().split(' ');
        assert_eq!(
            needs.map(str::to_owned).collect::<std::collections::BTreeSet<_>>(),
            created,
            "{case}"
        );
    }
}

#[test]
fn a_build_of_openshift_waits_for_the_copies_that_it_mounts() {
    let request = copied(openshift());
    let build = Workload::new(&request);
    let needs = build.annotation("mosb.dev/needs").unwrap();
    for copy in &request.copies {
        let need = format!("{}/{}", copy.kind(), copy.name());
        assert!(needs.split(' ').any(|one| one == need), "{needs}");
    }
}

#[test]
fn a_workload_is_confined_by_its_own_specification() {
    let control_plane = BuildNodes::ControlPlane { exists: true };
    let trusted: BTreeMap<_, _> = [("builders".to_owned(), "trusted".to_owned())].into();
    let selected = BuildNodes::Selected(trusted.clone());
    let of = |role: &MachineRole, control_plane: Option<&BTreeMap<String, String>>| {
        let mut request = direct();
        request.machine_role = role.clone();
        request.settings.control_plane.node_selector = control_plane.cloned();
        request
    };
    let master = MachineRole::ControlPlane(LabelSelector::default());
    for (what, request, on_control_plane, on_selected) in [
        ("for workers", of(&MachineRole::Other, None), false, false),
        ("for workers, with settings", of(&MachineRole::Other, Some(&trusted)), false, false),
        ("for the control plane", of(&master, None), true, false),
        ("for the control plane, by the settings", of(&master, Some(&trusted)), false, true),
    ] {
        for builder in [ImageBuilderType::Job, ImageBuilderType::CustomPod] {
            let workload = Workload::new(&JobRequest { builder, ..request.clone() });
            for (nodes, want) in [
                (&BuildNodes::Any, true),
                (&control_plane, on_control_plane),
                (&selected, on_selected),
            ] {
                assert_eq!(
                    is_confined_to(&workload, nodes),
                    want,
                    "{what}: {builder:?}: {nodes:?}"
                );
            }
        }
    }
}

#[test]
fn names_and_labels_fit_whatever_the_pool_is_called() {
    let request = long_names();
    let job = job(&request);
    assert!(job.metadata.name.as_ref().unwrap().len() <= 63);
    let inputs = inputs(&request, JOB_UID);
    let all = inputs.iter().map(Input::metadata).chain([&job.metadata]);
    for metadata in all {
        let name = metadata.name.as_ref().unwrap();
        assert!(mosb_api::is_object_name(name), "{name}");
        for (key, value) in metadata.labels.iter().flatten() {
            assert!(value.len() <= 63, "{key} of {name}");
        }
        let whole = &metadata.annotations.as_ref().unwrap()["machineconfiguration.openshift.io/machine-os-build"];
        assert_eq!(whole, request.spec.build.as_str());
    }
}

/// Placement fields of a pod, or of a Build.
#[test]
fn the_settings_name_other_nodes_for_control_plane_machines() {
    for (what, job, selector, tolerated) in [
        (
            "some",
            "{controlPlane: {nodeSelector: {builders: trusted}}, nodeSelector: {disk: fast}}",
            json!({ "builders": "trusted" }),
            &CONTROL_PLANE_LABELS[..],
        ),
        ("any", "{controlPlane: {nodeSelector: {}, tolerations: []}}", json!(null), &[]),
        (
            "other taints",
            "{controlPlane: {nodeSelector: {}, tolerations: [{key: a, operator: Exists}]}}",
            json!(null),
            &["a"],
        ),
    ] {
        let settings = ClusterSettings::parse(&format!("job: {job}")).unwrap();
        let request =
            JobRequest { method: JobMethod::Direct, settings: settings.job, ..control_plane() };
        let pod = pod(&request).spec.unwrap();
        assert_eq!(json!(pod.node_selector), selector, "{what}");
        assert_eq!(pod.affinity, None, "{what}");
        let keys = pod.tolerations.iter().flatten();
        let keys: Vec<_> = keys.filter_map(|one| one.key.as_deref()).collect();
        assert_eq!(keys, tolerated, "{what}");
    }
    for (what, pool, want) in [
        (
            "by role",
            json!({ "node-role.kubernetes.io/control-plane": "" }),
            json!({ "node-role.kubernetes.io/control-plane": "" }),
        ),
        (
            "by another",
            json!({ "a": "b" }),
            json!({ "a": "b", "node-role.kubernetes.io/master": "" }),
        ),
    ] {
        let selector = json!({ "matchLabels": pool });
        let request = JobRequest {
            machine_role: MachineRole::ControlPlane(serde_json::from_value(selector).unwrap()),
            node_platform: None,
            settings: JobSettings::default(),
            ..openshift()
        };
        let Workload::Build(build) = Workload::new(&request) else {
            panic!("no Build");
        };
        assert_eq!(json!(build.spec.node_selector), want, "{what}");
    }
}

/// Nothing that the kubelet would expand as `$(VARIABLE)`: what an administrator wrote is in files.
#[test]
fn no_argument_is_a_variable() {
    for (case, request) in cases() {
        let Some(pod) = pod_of(Workload::new(&request)) else { continue };
        let mut all = containers(&pod).flat_map(|container| container.args.iter().flatten());
        assert!(all.all(|argument| !argument.contains('$')), "{case}");
    }
}

#[test]
fn a_policy_goes_to_the_pod_with_its_signatures() {
    let text = r#"
registrySources: {allowedRegistries: [quay.io, registry.example:5000/acme]}
signaturePolicy: |
  {"default": [{"type": "insecureAcceptAnything"}],
   "transports": {"docker": {"quay.io/release": [{"type": "sigstoreSigned", "keyData": "eA=="}]}}}
"#;
    let settings = ClusterSettings::parse(text).unwrap();
    let policy = settings.pull_policy().unwrap();
    let request =
        JobRequest { signature_policy: Some(policy.with_signatures()), ..containerfile() };
    let inputs = inputs(&request, "uid");
    let map = inputs.iter().find_map(|input| match input {
        Input::ConfigMap(map) if input.name().starts_with("etc-registries-") => Some(map),
        _ => None,
    });
    let text = &map.unwrap().data.as_ref().unwrap()["policy.json"];
    let read = SignaturePolicy::parse(text.as_bytes()).unwrap();
    assert_eq!(read, policy);
    assert_eq!(read.verdict("docker.io/x").requirement, &Requirement::Reject);
    let job = job(&request);
    let pod = job.spec.unwrap().template.spec.unwrap();
    let all = pod.init_containers.iter().flatten().chain(&pod.containers);
    let with = all.filter(|container| {
        let mut words = container.args.iter().flatten();
        words.any(|word| word == "--signature-policy=/run/mosb/registries/policy.json")
    });
    let names: Vec<_> = with.map(|container| &*container.name).collect();
    assert_eq!(names, ["image-build", "image-push"]);
}

/// Without a Job, the Pod itself needs labels, a deadline and a gate.
#[test]
fn a_pod_does_alone_what_a_job_does_with_it() {
    for (case, request) in with_our_pods() {
        let request = JobRequest { builder: ImageBuilderType::CustomPod, ..request };
        let (job, pod) = (job(&request), pod(&request));
        let in_job = job.spec.as_ref().unwrap();
        let template = in_job.template.metadata.as_ref().unwrap();
        assert_eq!(pod.metadata.name, job.metadata.name, "{case}");
        assert_eq!(pod.metadata.labels, template.labels, "{case}");
        assert_eq!(pod.metadata.owner_references, job.metadata.owner_references, "{case}");
        let workload = Workload::from(pod.clone());
        for key in ["mosb.dev/attempt", "mosb.dev/method"] {
            assert_eq!(
                workload.annotation(key),
                Workload::from(job.clone()).annotation(key),
                "{case}"
            );
        }
        let spec = pod.spec.unwrap();
        let inside = in_job.template.spec.as_ref().unwrap();
        assert_eq!(
            spec.active_deadline_seconds,
            in_job.active_deadline_seconds.or(inside.active_deadline_seconds),
            "{case}"
        );
        let all = |spec: &PodSpec| {
            let init = spec.init_containers.clone().into_iter().flatten();
            init.chain(spec.containers.clone()).collect::<Vec<_>>()
        };
        for (alone, in_job) in all(&spec).into_iter().zip(all(inside)) {
            let path = |container: &Container| {
                let all = container.env.as_ref().unwrap();
                let one = all.iter().find(|one| one.name == "MOSB_JOB_UID").unwrap();
                let source = one.value_from.as_ref().unwrap();
                source.field_ref.as_ref().unwrap().field_path.clone()
            };
            assert_eq!(path(&alone), "metadata.uid", "{case}");
            assert_eq!(path(&in_job), "metadata.labels['batch.kubernetes.io/controller-uid']");
            assert_eq!((alone.args, alone.image), (in_job.args, in_job.image));
        }
        for input in inputs(&request, "pod-1") {
            let owner = &input.metadata().owner_references.as_ref().unwrap()[0];
            assert_eq!((&*owner.api_version, &*owner.kind, &*owner.uid), ("v1", "Pod", "pod-1"));
            assert!(is_workload_owner(owner));
        }
    }
}
