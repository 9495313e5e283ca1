//! A MachineOSConfig with user data, its builds, and the results of lookups.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret as SecretResource};
use serde_json::{Value, json};

use crate::decide::{Decision, decide};
use crate::effect::Action;
use crate::ignition_server::ServerKeys;
use crate::snapshot::{Lookup, LookupResults, Snapshot, Subject, UserData};
use crate::user_data::condition::USER_DATA;
use crate::user_data::content::{JoinConfig, MachineInputs};
use crate::user_data::join_tokens::ClusterInfo;
use mosb_api::rollout::NodeTarget;
use mosb_api::{
    ClusterSettings, Condition, MachineOsBuild, MachineOsConfig, RenderedConfig, condition, labels,
};
use mosb_build::new_machine::PullFiles;
use mosb_build::{DOCKER_CONFIG_KEY, DockerConfigJson, PushLogin};
use mosb_cluster::user_data_secret::FoundSecret;
use mosb_image::{Digest, PinnedRef};
use mosb_reconcile::write::NewStatus;
use mosb_types::Secret;

pub const SECRET: &str = "machines/worker-user-data";
pub const PASSWORD: &str = "hunter2";
pub const TOKEN: &str = "join-hunter2";
/// The secret half of a bootstrap token.
pub const TOKEN_SECRET: &str = "joinhunter200000";

pub fn image(number: u32) -> PinnedRef {
    format!("reg.example/os@{}", Digest::of(&number.to_be_bytes())).parse().unwrap()
}

pub fn pin(number: u32) -> String {
    format!("build-{number}@{}", image(number).digest())
}

pub fn rendered_name(number: u32) -> String {
    format!("rendered-worker-{number:032x}")
}

/// A pool `worker` of which this build is in service, and its user data.
#[derive(Clone)]
pub struct Fixture {
    pub config: MachineOsConfig,
    pub builds: Vec<MachineOsBuild>,
    pub rivals: Vec<String>,
    pub sharing: Vec<String>,
    pub other_controller: Option<String>,
    /// The Secret; none if there is none.
    pub secret: Option<SecretResource>,
    /// `host[:port]` of the settings.
    pub endpoint: Option<&'static str>,
    pub unreadable_settings: Option<String>,
    /// The Secrets of `mosb serve-ignition`: that with its CA, and that which it mounts.
    pub authority: Option<SecretResource>,
    pub server: Option<SecretResource>,
    pub now: Timestamp,
    pub join: Option<String>,
    /// ConfigMap `cluster-info`; none if it may not be read.
    pub cluster_info: Option<ConfigMap>,
    pub push_login: Option<String>,
    /// A file of the rendered config, and its source.
    pub file: String,
    pub source: String,
    pub lookups: Vec<Lookup>,
    pub is_checked: bool,
}

impl Fixture {
    pub fn new() -> Self {
        let config = json!({
            "metadata": { "name": "worker", "uid": "c", "resourceVersion": "1", "generation": 1,
                "annotations": { labels::USER_DATA: SECRET } },
            "spec": { "machineConfigPool": { "name": "worker" },
                "renderedImagePushSecret": { "name": "push" },
                "renderedImagePushSpec": "reg.example/os:latest" },
        });
        let secret = json!({
            "metadata": { "name": "worker-user-data", "namespace": "machines", "uid": "s",
                "resourceVersion": "7", "labels": { labels::USER_DATA: "" },
                "annotations": { "team": "a" } },
            "type": "cluster.x-k8s.io/secret",
        });
        let mut fixture = Self {
            config: serde_json::from_value(config).unwrap(),
            builds: [1, 2].map(build).into(),
            rivals: Vec::new(),
            sharing: Vec::new(),
            other_controller: None,
            secret: Some(serde_json::from_value(secret).unwrap()),
            endpoint: None,
            unreadable_settings: None,
            authority: Some(authority()),
            server: Some(of_server("mosb-ignition-server")),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            join: Some(join_config()),
            cluster_info: None,
            push_login: None,
            file: "/etc/motd".to_owned(),
            source: "data:,x".to_owned(),
            lookups: Vec::new(),
            is_checked: false,
        };
        fixture.serve(1);
        fixture
    }

    /// The image of this build comes into service.
    pub fn serve(&mut self, number: u32) {
        self.config.status.current_image_pull_spec = image(number).to_string();
        self.config.status.machine_os_build = serde_json::from_value(json!({
            "group": "machineconfiguration.openshift.io", "resource": "machineosbuilds",
            "name": format!("build-{number}") }))
        .unwrap();
    }

    pub fn annotate(&mut self, key: &str, value: &str) {
        self.config.metadata.annotations.insert(key.to_owned(), value.to_owned());
    }

    fn named(&mut self, secret: &str) -> &mut Option<SecretResource> {
        match secret {
            SECRET => &mut self.secret,
            "mosb-system/mosb-ignition-authority" => &mut self.authority,
            "mosb-ignition/mosb-ignition-server" => &mut self.server,
            other => panic!("{other}"),
        }
    }

    /// A value of the Secret that the server mounts.
    pub fn served(&self, key: &str) -> Option<&[u8]> {
        let data = self.server.as_ref()?.data.as_ref()?;
        data.get(key).map(|value| value.0.as_slice())
    }

    pub fn secret_mut(&mut self) -> &mut SecretResource {
        self.secret.as_mut().unwrap()
    }

    pub fn snapshot(&self) -> Snapshot {
        let user_data = UserData {
            config: self.config.clone(),
            builds: self.builds.clone(),
            rivals: self.rivals.clone(),
            sharing: self.sharing.clone(),
            other_controller: self.other_controller.clone(),
            versions: Default::default(),
        };
        Snapshot {
            namespace: "mosb-system".to_owned(),
            endpoint: match &self.unreadable_settings {
                Some(message) => Err(message.clone()),
                None => Ok(self.endpoint.map(|text| text.to_owned().try_into().unwrap())),
            },
            subject: Subject::UserData(Box::new(user_data)),
            is_checked: self.is_checked,
            lookup_results: LookupResults::default(),
        }
    }

    /// One pass: decides with all lookups, checks what no decision may do, and applies the actions.
    pub fn pass(&mut self) -> Decision {
        let now = self.now;
        let mut snapshot = self.snapshot();
        self.lookups.clear();
        let decision = loop {
            let decision = decide(&snapshot, now);
            let [lookup] = &*decision.lookups else { break decision };
            assert!(decision.actions.is_empty());
            self.lookups.push(lookup.clone());
            match lookup {
                Lookup::Secret(secret) => {
                    let found = match self.named(&secret.to_string()).clone() {
                        Some(found) => FoundSecret::Found(Box::new(Secret::new(found.into()))),
                        None => FoundSecret::Missing,
                    };
                    snapshot.lookup_results.secrets.insert(secret.clone(), found);
                }
                Lookup::Inputs(target) => {
                    snapshot.lookup_results.inputs = Some(Ok(self.inputs(target)));
                }
                Lookup::ClusterInfo => {
                    let info = self.cluster_info.clone();
                    let info = info.map_or(ClusterInfo::Unknown, ClusterInfo::from);
                    snapshot.lookup_results.cluster_info = Some(info);
                }
                Lookup::Keys | Lookup::Certificate { .. } => panic!("{lookup:?}"),
            }
        };
        let most = if self.endpoint.is_some() { 4 } else { 2 };
        let most = most + usize::from(self.lookups.contains(&Lookup::ClusterInfo));
        assert!(self.lookups.len() <= most, "{:?}", self.lookups);
        let shown = format!("{:?} {snapshot:?}", (&decision.actions, &decision.reason));
        for hidden in [PASSWORD, TOKEN, TOKEN_SECRET] {
            assert!(!shown.contains(hidden), "{hidden} in {shown}");
        }
        for action in &decision.actions {
            self.apply(action);
        }
        decision
    }

    fn apply(&mut self, action: &Action) {
        match action {
            Action::Effect(write) => {
                let newer = &write.object.expose().0;
                let there = self.named(&write.secret.to_string());
                let older = there.replace(newer.clone()).expect("a Secret is not created");
                // It is the one that was read, and beside values only its owner is written.
                let mut metadata = newer.metadata.clone();
                metadata.annotations.get_or_insert_default().remove(labels::USER_DATA_OWNER);
                let mut before = older.metadata.clone();
                before.annotations.get_or_insert_default().remove(labels::USER_DATA_OWNER);
                assert_eq!(metadata, before);
                assert_eq!(newer.type_, older.type_);
                assert!(newer.metadata.labels.as_ref().unwrap().contains_key(labels::USER_DATA));
            }
            Action::ReplaceStatus(target, NewStatus::Whole(status)) => {
                assert_eq!(target.version.as_deref(), Some("1"));
                self.config.status = serde_json::from_value(status.clone()).unwrap();
            }
            other => panic!("{other}"),
        }
    }

    pub fn inputs(&self, target: &NodeTarget) -> MachineInputs {
        let config = target.config.as_ref().unwrap().to_string();
        let file = json!({ "path": self.file, "contents": { "source": self.source } });
        let rendered = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": config },
            "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": [file] } } },
        });
        let logins =
            json!({ "auths": { "reg.example": { "username": "puller", "password": PASSWORD } } });
        let logins = SecretResource {
            type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
            data: Some(
                [(DOCKER_CONFIG_KEY.to_owned(), ByteString(logins.to_string().into_bytes()))]
                    .into(),
            ),
            ..SecretResource::default()
        };
        let logins = DockerConfigJson::from_secret(&logins).unwrap();
        MachineInputs {
            rendered: RenderedConfig::from_value(rendered).unwrap(),
            pull_files: match self.push_login.clone() {
                None => Ok(PullFiles::new(&target.image, &logins, &ClusterSettings::default())),
                Some(secret) => Err(PushLogin { image: target.image.to_string(), secret }),
            },
            join: self.join.as_ref().map(|join| JoinConfig {
                origin: "secret mosb-system/join: ignition".to_owned(),
                bytes: Secret::new(join.clone().into_bytes()),
            }),
        }
    }

    pub fn condition(&self) -> Option<&Condition> {
        condition(&self.config.status.conditions, USER_DATA)
    }

    /// Status and reason of the condition.
    pub fn reason(&self) -> (&str, &str) {
        self.condition().map_or(("", ""), |it| (&it.status, &it.reason))
    }

    /// A value of the Secret.
    pub fn value(&self, key: &str) -> Option<&[u8]> {
        let data = self.secret.as_ref()?.data.as_ref()?;
        data.get(key).map(|value| value.0.as_slice())
    }

    /// The Ignition config in the Secret.
    pub fn ignition(&self) -> Value {
        serde_json::from_slice(self.value("value").unwrap()).unwrap()
    }
}

/// An empty Secret of `deploy/ignition-server`.
fn of_server(name: &str) -> SecretResource {
    let object = json!({ "metadata": { "name": name, "uid": name, "resourceVersion": "3",
        "labels": { labels::USER_DATA: "" } } });
    serde_json::from_value(object).unwrap()
}

/// The Secret with the CA and the token key.
fn authority() -> SecretResource {
    let mut secret = of_server("mosb-ignition-authority");
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let keys = ServerKeys::renew(&secret.clone().into(), now).unwrap();
    keys.write(secret.data.get_or_insert_default());
    secret
}

/// What joins a machine.
pub fn join_config() -> String {
    join_config_with(&json!({ "source": format!("data:,{TOKEN}") }))
}

/// What joins a machine: a file with these contents.
pub fn join_config_with(contents: &Value) -> String {
    let file = json!({ "path": "/etc/kubernetes/bootstrap", "contents": contents });
    json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [file] } }).to_string()
}

fn build(number: u32) -> MachineOsBuild {
    let build = json!({
        "metadata": { "name": format!("build-{number}"), "uid": format!("b{number}"),
            "annotations": { "mosb.dev/stage": "replaced" },
            "ownerReferences": [{ "kind": "MachineOSConfig", "name": "worker", "uid": "c", "controller": true }] },
        "spec": { "machineConfig": { "name": rendered_name(number) }, "machineOSConfig": { "name": "worker" } },
        "status": { "digestedImagePushSpec": image(number).to_string(), "conditions": [
            { "type": "Succeeded", "status": "True", "reason": "Ready", "message": "" }] },
    });
    serde_json::from_value(build).unwrap()
}
