//! Node placement of build pods.
//!
//! Root on a node can alter what its pods build, and a pool boots the result. So images of
//! control-plane machines are built on control-plane nodes, unless the settings select others.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
    Toleration,
};

use super::{JobRequest, Workload};
use serde_json::{Value, json};

use mosb_api::{JobSettings, LabelSelector, cluster_settings};
use mosb_build::JobMethod;
use mosb_cluster::node_pool::{CONTROL_PLANE_LABELS, has_control_plane_label};
use mosb_image::Platform;

/// Where the images of a pool may be built.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BuildNodes {
    /// Any node.
    #[default]
    Any,
    /// Images of control-plane machines, on the nodes that the settings select for them.
    Selected(BTreeMap<String, String>),
    /// Only control-plane nodes of the pool.
    ControlPlane {
        /// Whether the cluster has one.
        exists: bool,
    },
}

impl BuildNodes {
    /// Whose records may be used for these images, as a part of the key of each record. All
    /// control-plane nodes are trusted alike.
    pub fn trusted(&self) -> Value {
        match self {
            Self::Any => json!("any"),
            Self::Selected(labels) => json!({ "selected": labels }),
            Self::ControlPlane { .. } => json!("control plane"),
        }
    }
}

/// The label that control-plane nodes have in every OpenShift.
const OPENSHIFT_CONTROL_PLANE: &str = CONTROL_PLANE_LABELS[1];

/// The role of the machines that an image is for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MachineRole {
    /// Machines whose images may be built on any node.
    #[default]
    Other,
    /// Control-plane nodes, which the pool selects with this.
    ControlPlane(LabelSelector),
}

/// What decides where a pod may run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placement<'a> {
    pub settings: &'a JobSettings,
    pub machine_role: &'a MachineRole,
    /// The platform of the machines, if the pod runs their programs.
    pub platform: Option<&'a Platform>,
    pub is_openshift_build: bool,
}

impl<'a> From<&'a JobRequest> for Placement<'a> {
    /// `RUN` lines need nodes of the pool's platform; a direct build runs nothing.
    fn from(request: &'a JobRequest) -> Self {
        let platform = request.node_platform.as_ref();
        Self {
            settings: &request.settings,
            machine_role: &request.machine_role,
            platform: platform.filter(|_| request.method == JobMethod::Containerfile),
            is_openshift_build: request.openshift.is_some(),
        }
    }
}

/// Sets the node constraints of a pod.
pub(super) fn place(pod: &mut PodSpec, placement: Placement<'_>) {
    let selector = node_selector(placement);
    pod.node_selector = (!selector.is_empty()).then_some(selector);
    let tolerations = tolerations(placement);
    pod.tolerations = (!tolerations.is_empty()).then_some(tolerations);
    if let (MachineRole::ControlPlane(pool), None) = (placement.machine_role, named(placement)) {
        pod.affinity = Some(Affinity {
            node_affinity: Some(NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                    node_selector_terms: CONTROL_PLANE_LABELS
                        .map(|label| of_control_plane(label, pool))
                        .into(),
                }),
                ..NodeAffinity::default()
            }),
            ..Affinity::default()
        });
    }
}

/// Whether the pods of a workload run on these nodes only, by their specification, which nobody
/// changes later: annotations of a pod can be changed by its kubelet.
pub fn is_confined_to(workload: &Workload, nodes: &BuildNodes) -> bool {
    let spec = match workload {
        Workload::Job(job) => job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()),
        Workload::Pod(pod) => pod.spec.as_ref(),
        // It records nothing for later builds.
        Workload::Build(_) => None,
    };
    match nodes {
        BuildNodes::Any => true,
        BuildNodes::Selected(labels) => {
            let selector = spec.and_then(|spec| spec.node_selector.as_ref());
            let has = |(key, value)| selector.is_some_and(|all| all.get(key) == Some(value));
            labels.iter().all(has)
        }
        BuildNodes::ControlPlane { .. } => spec.is_some_and(requires_control_plane),
    }
}

fn requires_control_plane(spec: &PodSpec) -> bool {
    let is_role = |key: &str| CONTROL_PLANE_LABELS.contains(&key);
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let is_of_role = |term: &NodeSelectorTerm| {
        let mut expressions = term.match_expressions.iter().flatten();
        expressions.any(|one| is_role(&one.key) && one.operator == "Exists")
    };
    // A node of any of the terms is enough.
    let terms = required.map(|required| &required.node_selector_terms);
    spec.node_selector.iter().flatten().any(|(key, _)| is_role(key))
        || terms.is_some_and(|terms| !terms.is_empty() && terms.iter().all(is_of_role))
}

/// Required node labels. An OpenShift Build supports nothing else.
pub(super) fn node_selector(placement: Placement<'_>) -> BTreeMap<String, String> {
    let mut labels = platform(placement);
    match (placement.machine_role, named(placement)) {
        (MachineRole::Other, _) => labels.extend(placement.settings.node_selector.clone()),
        (MachineRole::ControlPlane(_), Some(named)) => labels.extend(named.clone()),
        (MachineRole::ControlPlane(pool), None) => {
            labels.extend(pool.match_labels.clone());
            if placement.is_openshift_build && !has_control_plane_label(&labels) {
                labels.insert(OPENSHIFT_CONTROL_PLANE.to_owned(), String::new());
            }
        }
    }
    labels
}

/// The node selector of the settings for control-plane images.
fn named(placement: Placement<'_>) -> Option<&BTreeMap<String, String>> {
    placement.settings.control_plane.node_selector.as_ref()
}

fn platform(placement: Placement<'_>) -> BTreeMap<String, String> {
    let Some(platform) = placement.platform else {
        return BTreeMap::new();
    };
    [("kubernetes.io/os", platform.os()), ("kubernetes.io/arch", platform.architecture())]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

fn of_control_plane(label: &str, pool: &LabelSelector) -> NodeSelectorTerm {
    let role = NodeSelectorRequirement {
        key: label.to_owned(),
        operator: "Exists".to_owned(),
        values: None,
    };
    let expressions = pool.match_expressions.iter();
    let expressions = expressions.map(|one| NodeSelectorRequirement {
        key: one.key.clone(),
        operator: one.operator.clone(),
        values: (!one.values.is_empty()).then(|| one.values.clone()),
    });
    NodeSelectorTerm {
        match_expressions: Some([role].into_iter().chain(expressions).collect()),
        match_fields: None,
    }
}

fn tolerations(placement: Placement<'_>) -> Vec<Toleration> {
    let settings = placement.settings;
    let everybodys = settings.tolerations.iter().map(toleration);
    let of_control_plane = match (placement.machine_role, &settings.control_plane.tolerations) {
        (MachineRole::Other, _) => Vec::new(),
        (MachineRole::ControlPlane(_), Some(given)) => given.iter().map(toleration).collect(),
        (MachineRole::ControlPlane(_), None) => CONTROL_PLANE_LABELS
            .map(|taint| Toleration {
                key: Some(taint.to_owned()),
                operator: Some("Exists".to_owned()),
                ..Toleration::default()
            })
            .into(),
    };
    everybodys.chain(of_control_plane).collect()
}

fn toleration(one: &cluster_settings::Toleration) -> Toleration {
    Toleration {
        key: one.key.clone(),
        operator: one.operator.clone(),
        value: one.value.clone(),
        effect: one.effect.clone(),
        toleration_seconds: one.toleration_seconds,
    }
}
