//! The Job of an own check, from `job-templates/check.yaml`.
//!
//! Invariant: the pod of a check has no token and no Secret; a kubelet pulls its image. One Job is for
//! one image and one content of the check's settings: its name follows from them.

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::metadata::{build_annotations, build_labels, by_build};
use super::placement::{Placement, place};
use super::{MachineRole, Workload, resources, template};
use mosb_api::image_checks::CheckMode;
use mosb_api::{JobSettings, MachineOsBuild, OwnCheck, labels};
use mosb_image::{Digest, PinnedRef, Platform};
use mosb_types::canonical_json;

/// Hex digits in the name of a Job.
const FINGERPRINT: usize = 16;
/// The variable with the image that is checked.
const IMAGE: &str = "IMAGE";

/// An own check of one image.
#[derive(Debug, Clone, Copy)]
pub struct CheckRequest<'a> {
    pub name: &'a str,
    pub check: &'a OwnCheck,
    pub image: &'a PinnedRef,
    pub build: &'a MachineOsBuild,
    pub namespace: &'a str,
    pub settings: &'a JobSettings,
    pub machine_role: &'a MachineRole,
    /// The platform of the pool's machines.
    pub platform: Option<&'a Platform>,
    /// Secrets that a kubelet pulls the image with, besides those of the settings.
    pub pull_secrets: &'a [&'a str],
    /// Whether pods can have user namespaces.
    pub user_namespaces: bool,
    /// Whether SecurityContextConstraints say which user a pod runs as.
    pub security_context_constraints: bool,
}

impl CheckRequest<'_> {
    /// Name of the Job: another image, or other settings of the check, give another one.
    pub fn job_name(&self) -> String {
        // The mode does not change what the check finds.
        let check = OwnCheck { mode: CheckMode::Block, ..self.check.clone() };
        let value = json!({
            "check": check, "image": self.image.to_string(), "build": self.build.metadata.uid(),
        });
        let hash = Digest::of(&canonical_json(&value));
        format!("check-{}-{}", self.name, &hash.hex()[..FINGERPRINT])
    }

    pub fn job(&self) -> Workload {
        let mut job = template::check();
        job.metadata = self.metadata();
        let spec = job.spec.as_mut().expect("a test reads the template");
        spec.active_deadline_seconds = Some(self.check.active_deadline_seconds.into());
        let meta = spec.template.metadata.get_or_insert_default();
        let own = meta.labels.take().unwrap_or_default();
        let mut all = self.settings.labels.clone();
        all.extend(own);
        all.extend(job.metadata.labels.clone().unwrap_or_default());
        meta.labels = Some(all);
        let mut all = self.settings.annotations.clone();
        all.extend(job.metadata.annotations.clone().unwrap_or_default());
        meta.annotations = Some(all);
        self.fill_pod(spec.template.spec.as_mut().expect("a test reads the template"));
        job.into()
    }

    fn metadata(&self) -> ObjectMeta {
        let mut labels = build_labels(self.build);
        labels.insert(labels::CHECK.to_owned(), self.name.to_owned());
        ObjectMeta {
            name: Some(self.job_name()),
            namespace: Some(self.namespace.to_owned()),
            labels: Some(labels),
            annotations: Some(build_annotations(self.build)),
            owner_references: Some(vec![by_build(
                &self.build.metadata.name,
                self.build.metadata.uid(),
            )]),
            ..ObjectMeta::default()
        }
    }

    fn fill_pod(&self, pod: &mut PodSpec) {
        let runs_the_image = self.check.image.is_none();
        place(
            pod,
            Placement {
                settings: self.settings,
                machine_role: self.machine_role,
                platform: self.platform.filter(|_| runs_the_image),
                is_openshift_build: false,
            },
        );
        pod.priority_class_name.clone_from(&self.settings.priority_class_name);
        let of_settings = self.settings.image_pull_secrets.iter().map(String::as_str);
        let mut secrets: Vec<&str> = Vec::new();
        for secret in self.pull_secrets.iter().copied().chain(of_settings) {
            if !secrets.contains(&secret) {
                secrets.push(secret);
            }
        }
        let named = |name: &str| LocalObjectReference { name: name.to_owned() };
        pod.image_pull_secrets = Some(secrets.into_iter().map(named).collect());
        self.fill_user(pod);
        let container = &mut pod.containers[0];
        self.name.clone_into(&mut container.name);
        let itself = self.image.to_string();
        container.image = Some(self.check.image.clone().unwrap_or(itself.clone()));
        let given = |words: &Vec<String>| (!words.is_empty()).then(|| words.clone());
        container.command = given(&self.check.command);
        container.args = given(&self.check.args);
        container.env =
            Some(vec![EnvVar { name: IMAGE.to_owned(), value: Some(itself), ..EnvVar::default() }]);
        resources::fill(container.resources.get_or_insert_default(), &self.check.resources);
    }

    fn fill_user(&self, pod: &mut PodSpec) {
        let context = pod.security_context.get_or_insert_default();
        match self.check.run_as_user {
            Some(user) => {
                context.run_as_user = Some(user.into());
                context.run_as_group = Some(user.into());
                context.run_as_non_root = Some(user != 0);
                // Root in the pod is nobody on the node.
                pod.host_users = (user == 0 && self.user_namespaces).then_some(false);
            }
            // Others than those of the namespace's range are refused.
            None if self.security_context_constraints => {
                context.run_as_user = None;
                context.run_as_group = None;
            }
            None => {}
        }
    }
}

/// Whether a Job is that of an own check.
pub fn is_check_job(job: &ObjectMeta) -> bool {
    job.labels.as_ref().is_some_and(|labels| labels.contains_key(labels::CHECK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::batch::v1::Job;
    use mosb_api::cluster_settings::Resources;

    fn build() -> MachineOsBuild {
        let build = json!({
            "metadata": { "name": "worker-0", "uid": "u", "labels": { labels::MACHINE_OS_CONFIG: "worker" } },
            "spec": { "machineConfig": { "name": "rendered" }, "machineOSConfig": { "name": "worker" }, "renderedImagePushSpec": "q.io/a/b:c" },
        });
        serde_json::from_value(build).unwrap()
    }

    fn job_of(
        check: &OwnCheck,
        change: impl for<'a> FnOnce(CheckRequest<'a>) -> CheckRequest<'a>,
    ) -> Job {
        let image = format!("q.io/a/b@{}", Digest::of(b"image")).parse().unwrap();
        let settings = JobSettings {
            labels: [("team".to_owned(), "os".to_owned())].into(),
            image_pull_secrets: vec!["of-mosb".to_owned()],
            ..JobSettings::default()
        };
        let request = CheckRequest {
            name: "lint",
            check,
            image: &image,
            build: &build(),
            namespace: "ns",
            settings: &settings,
            machine_role: &MachineRole::Other,
            platform: Some(&"linux/arm64".parse().unwrap()),
            pull_secrets: &["own", "global"],
            user_namespaces: true,
            security_context_constraints: false,
        };
        match change(request).job() {
            Workload::Job(job) => *job,
            other => panic!("{other}"),
        }
    }

    fn lint() -> OwnCheck {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        OwnCheck { command: words(&["lint", "$(IMAGE)"]), ..OwnCheck::default() }
    }

    /// As the pods of `RUN` lines, it has nothing that it could misuse.
    #[test]
    fn pod_of_check_has_no_rights() {
        for user in [None, Some(0), Some(7)] {
            let job = job_of(&OwnCheck { run_as_user: user, ..lint() }, |request| request);
            let pod = job.spec.unwrap().template.spec.unwrap();
            assert_eq!(pod.automount_service_account_token, Some(false));
            assert_eq!(pod.service_account_name.as_deref(), Some("default"));
            assert_eq!((pod.volumes, pod.init_containers), (None, None));
            let [container] = &pod.containers[..] else { panic!("one container") };
            assert_eq!((&container.env_from, &container.volume_mounts), (&None, &None));
            let context = container.security_context.as_ref().unwrap();
            let dropped = context.capabilities.as_ref().unwrap().drop.as_deref();
            assert_eq!(dropped, Some(&["ALL".to_owned()][..]));
            assert_eq!(context.allow_privilege_escalation, Some(false));
            let of_pod = pod.security_context.unwrap();
            let number = user.unwrap_or(65532);
            assert_eq!(of_pod.run_as_user, Some(number.into()));
            assert_eq!(of_pod.run_as_non_root, Some(number != 0));
            assert_eq!(pod.host_users, (number == 0).then_some(false));
        }
    }

    #[test]
    fn check_runs_image_itself_or_another_one() {
        let image = format!("q.io/a/b@{}", Digest::of(b"image"));
        let job = job_of(&lint(), |request| request);
        assert_eq!(job.spec.as_ref().unwrap().active_deadline_seconds, Some(600));
        let template = job.spec.unwrap().template;
        let labels = template.metadata.unwrap().labels.unwrap();
        for (key, want) in
            [("team", "os"), (labels::CHECK, "lint"), (labels::MACHINE_OS_BUILD, "worker-0")]
        {
            assert_eq!(labels[key], want, "{key}");
        }
        let pod = template.spec.unwrap();
        let secrets = pod.image_pull_secrets.unwrap();
        assert_eq!(
            secrets.iter().map(|one| &*one.name).collect::<Vec<_>>(),
            ["own", "global", "of-mosb"]
        );
        assert_eq!(pod.node_selector.unwrap()["kubernetes.io/arch"], "arm64");
        let container = &pod.containers[0];
        assert_eq!((&*container.name, container.image.as_ref()), ("lint", Some(&image)));
        let env = &container.env.as_ref().unwrap()[0];
        assert_eq!((&*env.name, env.value.as_ref()), (IMAGE, Some(&image)));

        let mut scan = OwnCheck { image: Some("q.io/scan:1".to_owned()), ..OwnCheck::default() };
        scan.args = vec!["$(IMAGE)".to_owned()];
        let job =
            job_of(&scan, |request| CheckRequest { security_context_constraints: true, ..request });
        let pod = job.spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.node_selector, None, "a scanner runs on any platform");
        assert_eq!(pod.security_context.unwrap().run_as_user, None, "the namespace has a range");
        let container = &pod.containers[0];
        assert_eq!(container.image.as_deref(), Some("q.io/scan:1"));
        assert_eq!((container.command.as_ref(), container.args.as_ref()), (None, Some(&scan.args)));
    }

    #[test]
    fn name_of_job_follows_from_image_and_settings() {
        let name = |check: &OwnCheck| job_of(check, |request| request).metadata.name.unwrap();
        let first = name(&lint());
        assert!(first.starts_with("check-lint-") && first.len() <= 63, "{first}");
        assert_eq!(name(&OwnCheck { mode: CheckMode::Warn, ..lint() }), first);
        let limits = [("memory".to_owned(), Some("3Gi".to_owned()))].into();
        let resources = Resources { limits, ..Resources::default() };
        for other in [
            OwnCheck { args: vec!["-v".to_owned()], ..lint() },
            OwnCheck { active_deadline_seconds: 700, ..lint() },
            OwnCheck { resources, ..lint() },
        ] {
            assert_ne!(name(&other), first, "{other:?}");
        }
    }
}
