//! The Jobs on machines, from `job-templates/`, and the Secret with the login of each. Pure.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
    Secret,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::job_request::{NodeJobRequest, NodeVerb};
use mosb_api::labels;
use mosb_api::rollout::NodeTarget;
use mosb_cluster::cluster_names::ROLLOUT_NAMESPACE;
use mosb_cluster::object::template;
use mosb_types::Secret as SecretBytes;

const REPORT: &str = include_str!("../../../job-templates/node-report.yaml");
const STAGE: &str = include_str!("../../../job-templates/node-stage.yaml");
const APPLY: &str = include_str!("../../../job-templates/node-apply.yaml");

/// Key of the Secret, and the name of its file.
const AUTH_KEY: &str = "auth.json";
/// The file as the template mounts it.
const AUTH_FILE: &str = "/run/mosb/auth/auth.json";
/// Another key of the Secret, and its file. It is always there: the settings are read when the Secret
/// is created, which is after the Job.
const PULL_SETTINGS_KEY: &str = "pull-settings.json";
const PULL_SETTINGS_FILE: &str = "/run/mosb/auth/pull-settings.json";
/// Key of the Secret with the machine part, and the name of its file.
const PART_KEY: &str = "machine-part.json";
/// That file as the template mounts it.
const PART_FILE: &str = "/run/mosb/auth/machine-part.json";
/// The target of a command, that it pulls, and that it does not reboot.
const TARGET: &str = "--target";
const AUTH: &str = "--auth";
const NO_REBOOT: &str = "--no-reboot";
/// How long a machine may take to bring keys and a password: one that is away must not keep others
/// waiting.
const PART_SECONDS: i64 = 300;
/// The volume of the template.
const AUTH_VOLUME: &str = "auth";
/// Type of the Secret: only the controller may create one with it.
const SECRET_TYPE: &str = "mosb.dev/node-login";

/// What the Secret of a Job has.
pub struct JobSecretContent {
    /// The login; none if the Job pulls nothing.
    pub auth: Option<SecretBytes<Vec<u8>>>,
    /// Mirrors, CAs and proxy for the pull; none as well.
    pub pull_settings: Option<SecretBytes<Vec<u8>>>,
    /// The machine part of the target, if it has one.
    pub machine_part: Option<SecretBytes<Vec<u8>>>,
}

impl fmt::Debug for JobSecretContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobSecretContent").finish_non_exhaustive()
    }
}

/// A Job on a machine, owned by its Node.
pub fn node_job(request: &NodeJobRequest) -> Job {
    let mut job: Job = template(match request.verb {
        NodeVerb::Report => REPORT,
        NodeVerb::Stage => STAGE,
        NodeVerb::Apply | NodeVerb::Part => APPLY,
    });
    let by_node = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: request.node.clone(),
        uid: request.node_uid.clone(),
        controller: None,
        block_owner_deletion: None,
    };
    job.metadata =
        ObjectMeta { owner_references: Some(vec![by_node]), ..metadata(request, &request.name) };
    let spec = job.spec.as_mut().expect("a test fills each template");
    if request.verb == NodeVerb::Part {
        spec.active_deadline_seconds = Some(PART_SECONDS);
    }
    let template = &mut spec.template;
    let meta = template.metadata.get_or_insert_default();
    meta.labels.get_or_insert_default().extend(own_labels(request.verb));
    meta.annotations.get_or_insert_default().extend(annotations(request));
    fill_pod(template.spec.as_mut().expect("a test fills each template"), request);
    job
}

/// The Secret of a Job: all its keys are files in the pod.
pub fn node_secret(job: &OwnerJob<'_>, content: &JobSecretContent) -> Secret {
    let by_job = OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: job.name.to_owned(),
        uid: job.uid.to_owned(),
        controller: None,
        block_owner_deletion: None,
    };
    Secret {
        metadata: ObjectMeta {
            name: Some(job.name.to_owned()),
            namespace: Some(ROLLOUT_NAMESPACE.to_owned()),
            labels: Some(own_labels(job.verb)),
            annotations: Some([(labels::POOL.to_owned(), job.pool.to_owned())].into()),
            owner_references: Some(vec![by_job]),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        immutable: Some(true),
        data: Some(
            [
                (AUTH_KEY, content.auth.as_ref()),
                (PULL_SETTINGS_KEY, content.pull_settings.as_ref()),
                (PART_KEY, content.machine_part.as_ref()),
            ]
            .into_iter()
            .filter_map(|(key, bytes)| Some((key.to_owned(), ByteString(bytes?.expose().clone()))))
            .collect(),
        ),
        ..Secret::default()
    }
}

/// A Job that exists.
#[derive(Debug)]
pub struct OwnerJob<'j> {
    pub name: &'j str,
    pub uid: &'j str,
    pub pool: &'j str,
    pub verb: NodeVerb,
}

fn metadata(request: &NodeJobRequest, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(ROLLOUT_NAMESPACE.to_owned()),
        labels: Some(own_labels(request.verb)),
        annotations: Some(annotations(request)),
        ..ObjectMeta::default()
    }
}

fn own_labels(verb: NodeVerb) -> BTreeMap<String, String> {
    [(labels::NODE_JOB.to_owned(), verb.as_str().to_owned())].into()
}

fn annotations(request: &NodeJobRequest) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::from([
        (labels::POOL.to_owned(), request.pool.clone()),
        (labels::ATTEMPT.to_owned(), request.number.to_string()),
    ]);
    if let Some(target) = &request.target {
        annotations.insert(labels::NODE_TARGET.to_owned(), target.to_json());
    }
    annotations
}

fn fill_pod(pod: &mut PodSpec, request: &NodeJobRequest) {
    pod.affinity = Some(on_node(&request.node));
    for volume in pod.volumes.iter_mut().flatten().filter(|volume| volume.name == AUTH_VOLUME) {
        volume.secret.get_or_insert_default().secret_name = Some(request.name.clone());
    }
    for container in &mut pod.containers {
        container.image = Some(request.image.clone());
        container.command.get_or_insert_default().extend(arguments(request));
    }
}

/// The admission policy of `deploy/rollout` admits these and no others. No text in them has a `$`,
/// which Kubernetes would expand.
fn arguments(request: &NodeJobRequest) -> Vec<String> {
    let target = request.target.iter().flat_map(|target| [TARGET.to_owned(), target.to_json()]);
    let pull = [AUTH, AUTH_FILE, "--pull-settings", PULL_SETTINGS_FILE].map(str::to_owned);
    let pull = pull.into_iter().filter(|_| request.pulls);
    let part = request.target.as_ref().and_then(|target| target.machine_part);
    let part = part.map(|_| ["--machine-part".to_owned(), PART_FILE.to_owned()]);
    let files = pull.chain(part.into_iter().flatten());
    let attempt = ["--attempt".to_owned(), request.number.to_string()];
    let confirm = request.confirms.then(|| "--confirm".to_owned());
    match request.verb {
        NodeVerb::Report => confirm.into_iter().collect(),
        NodeVerb::Stage => target.chain(files).collect(),
        NodeVerb::Apply => {
            let adopt = request.adopts.then(|| "--adopt".to_owned());
            let soft = request.may_be_soft.then(|| "--soft-reboot".to_owned());
            target.chain(files).chain(attempt).chain(adopt).chain(soft).chain(confirm).collect()
        }
        NodeVerb::Part => {
            let without_reboot = [NO_REBOOT.to_owned()];
            target.chain(files).chain(attempt).chain(without_reboot).collect()
        }
    }
}

/// What a Job does, and on which node, by its pod template and its name. These can't be changed, as
/// labels, annotations and owners can.
#[derive(Debug, PartialEq)]
pub(super) struct JobCommand {
    pub verb: NodeVerb,
    /// None for [`NodeVerb::Report`].
    pub target: Option<NodeTarget>,
    /// The attempt of `apply`, or the try of another verb, from 1.
    pub number: u32,
    pub pulls: bool,
    pub node: String,
}

impl JobCommand {
    /// None for a Job that is none of ours.
    pub fn of(job: &Job) -> Option<Self> {
        let pod = job.spec.as_ref()?.template.spec.as_ref()?;
        let [container] = pod.containers.as_slice() else {
            return None;
        };
        let [_, _, verb, arguments @ ..] = container.command.as_deref()? else {
            return None;
        };
        let mut verb = NodeVerb::from_label(verb)?;
        if verb == NodeVerb::Apply && arguments.iter().any(|one| one == NO_REBOOT) {
            verb = NodeVerb::Part;
        }
        let target = arguments.iter().skip_while(|one| *one != TARGET).nth(1);
        let target = target.and_then(|text| serde_json::from_str(text).ok());
        let is_complete = target.is_some() != (verb == NodeVerb::Report);
        let (_, number) = job.metadata.name.as_deref()?.rsplit_once('-')?;
        let number = number.parse().ok()?;
        let pulls = arguments.iter().any(|one| one == AUTH);
        is_complete.then_some(Self { verb, target, number, pulls, node: node_of(pod)? })
    }
}

/// The node of [`on_node`].
fn node_of(pod: &PodSpec) -> Option<String> {
    let affinity = pod.affinity.as_ref()?.node_affinity.as_ref()?;
    let selector = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let [term] = selector.node_selector_terms.as_slice() else {
        return None;
    };
    let field = term.match_fields.as_ref()?.first()?;
    field.values.as_ref()?.first().cloned()
}

/// Exactly this node, by its name: its labels may be those of another one.
fn on_node(name: &str) -> Affinity {
    let field = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![name.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![field]), match_expressions: None };
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: vec![term],
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect_file;
    use serde_json::Value;

    use super::*;
    use mosb_api::yaml;
    use mosb_image::Digest;

    fn request(verb: NodeVerb, part: Option<Digest>) -> NodeJobRequest {
        let image = format!("registry.example:5000/os/images@{}", Digest::of(b"image"));
        let config = format!("rendered-worker-{}", "0".repeat(32));
        let target = (verb != NodeVerb::Report).then(|| NodeTarget {
            image: image.parse().unwrap(),
            config: Some(config.parse().unwrap()),
            machine_part: part,
            live_from: None,
            verify: false,
        });
        NodeJobRequest {
            name: format!("mosb-{}-01234567-0123456789ab-2", verb.as_str()),
            verb,
            pool: "worker".to_owned(),
            node: "worker-0.example.com".to_owned(),
            node_uid: "11111111-2222-3333-4444-555555555555".to_owned(),
            target,
            number: 2,
            pulls: matches!(verb, NodeVerb::Stage | NodeVerb::Apply),
            adopts: false,
            may_be_soft: false,
            confirms: matches!(verb, NodeVerb::Report | NodeVerb::Apply),
            image: format!("quay.io/acme/mosb@{}", Digest::of(b"mosb")),
        }
    }

    fn golden(name: &str, value: Value) {
        let text = yaml::to_text(&value);
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/node-job");
        expect_file![directory.join(name)].assert_eq(&text);
    }

    /// The API types drop unknown fields.
    #[test]
    fn nothing_of_a_template_is_misspelt() {
        for text in [REPORT, STAGE, APPLY] {
            let want = yaml::parse_one(text.as_bytes()).unwrap();
            assert_eq!(serde_json::to_value(template::<Job>(text)).unwrap(), want);
        }
    }

    #[test]
    fn a_job_is_read_by_its_name_and_template() {
        for verb in NodeVerb::ALL {
            let request = request(verb, Some(Digest::of(b"part")));
            let mut job = node_job(&request);
            let name = Some(request.name);
            job.metadata = ObjectMeta { name, ..ObjectMeta::default() };
            let NodeJobRequest { target, number, pulls, node, .. } = request;
            let want = JobCommand { verb, target, number, pulls, node };
            assert_eq!(JobCommand::of(&job), Some(want), "{verb:?}");
            let pod = job.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
            let command = pod.containers[0].command.as_mut().unwrap();
            command.truncate(2);
            assert_eq!(JobCommand::of(&job), None, "{verb:?}");
        }
    }

    #[test]
    fn jobs_on_machines_are_as_in_the_golden_files() {
        for verb in [NodeVerb::Report, NodeVerb::Stage, NodeVerb::Apply] {
            let job = serde_json::to_value(node_job(&request(verb, None))).unwrap();
            golden(&format!("{}.yaml", verb.as_str()), job);
        }
        for verb in [NodeVerb::Stage, NodeVerb::Apply, NodeVerb::Part] {
            let job = node_job(&request(verb, Some(Digest::of(b"part"))));
            let name = format!("{}-with-machine-part.yaml", verb.as_str());
            golden(&name, serde_json::to_value(job).unwrap());
        }
        let soaking = NodeJobRequest { confirms: false, ..request(NodeVerb::Report, None) };
        let soaking = serde_json::to_value(node_job(&soaking)).unwrap();
        golden("report-unconfirmed.yaml", soaking);
        let unstaging = NodeJobRequest { pulls: false, ..request(NodeVerb::Stage, None) };
        let unstaging = serde_json::to_value(node_job(&unstaging)).unwrap();
        golden("stage-without-login.yaml", unstaging);
        let soft =
            NodeJobRequest { adopts: true, may_be_soft: true, ..request(NodeVerb::Apply, None) };
        golden("apply-soft.yaml", serde_json::to_value(node_job(&soft)).unwrap());
        let adopting = NodeJobRequest { adopts: true, ..request(NodeVerb::Apply, None) };
        golden("apply-adopting.yaml", serde_json::to_value(node_job(&adopting)).unwrap());
        let job =
            OwnerJob { name: "mosb-stage-x", uid: "j", pool: "worker", verb: NodeVerb::Stage };
        for (name, part) in [("secret", None), ("secret-with-machine-part", Some(b"{}".to_vec()))] {
            let auth = Some(mosb_types::Secret::new(b"{}".to_vec()));
            let machine_part = part.map(mosb_types::Secret::new);
            let pull_settings = Some(mosb_types::Secret::new(b"{}".to_vec()));
            let content = JobSecretContent { auth, pull_settings, machine_part };
            let secret = node_secret(&job, &content);
            golden(&format!("{name}.yaml"), serde_json::to_value(secret).unwrap());
        }
    }
}
