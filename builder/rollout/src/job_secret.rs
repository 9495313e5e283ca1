//! What the Secret of a Job on a machine has. It is read when the Secret is created, shared by the
//! Jobs of one pass, and part of no decision.

use std::collections::BTreeMap;

use super::job_request::{LoginGrant, NodeLogin};
use super::machine_part::machine_part_of;
use super::node_job::JobSecretContent;
use mosb_api::RenderedName;
use mosb_api::rollout::NodeTarget;
use mosb_cluster::resolver::{MachineAccess, Resolver, get_rendered_config};
use mosb_image::Digest;
use mosb_plan::plan::SignatureFiles;
use mosb_reconcile::Problem;
use mosb_types::Secret;

/// What the Secrets of one pass are made of, once they have been read: all machines of a pool have
/// the same pull secrets and settings, and mostly one target.
#[derive(Debug, Default)]
pub(super) struct JobSecrets {
    access: Option<MachineAccess>,
    machine_parts: BTreeMap<Digest, Secret<Vec<u8>>>,
    signatures: BTreeMap<RenderedName, SignatureFiles>,
}

impl JobSecrets {
    pub async fn content(
        &mut self,
        resolver: &Resolver,
        login: &NodeLogin,
    ) -> Result<JobSecretContent, Problem> {
        let image = &login.target.image;
        let machine_part = self.machine_part(resolver, login).await?;
        match &login.grant {
            LoginGrant::OwnImage => {}
            LoginGrant::Rendered(rendered) => {
                resolver.check_stock_repository(image, rendered).await?;
            }
            LoginGrant::NothingToPull => {
                return Ok(JobSecretContent { auth: None, pull_settings: None, machine_part });
            }
        }
        let signatures = self.signature_files(resolver, &login.target).await?;
        let access = match self.access.take() {
            Some(read) => read,
            None => resolver.machine_access(&login.secrets).await?,
        };
        let access = self.access.insert(access);
        let auth = Some(access.pull_only_login_for(image)?.to_bytes());
        let pull_settings = Some(access.settings_for(image, signatures)?.to_json());
        Ok(JobSecretContent { auth, pull_settings, machine_part })
    }

    /// How the new config verifies signatures: its image brings that to the machine only with the pull
    /// that must be verified.
    async fn signature_files(
        &mut self,
        resolver: &Resolver,
        target: &NodeTarget,
    ) -> Result<SignatureFiles, Problem> {
        let Some(name) = target.config.as_ref().filter(|_| target.verify) else {
            return Ok(SignatureFiles::default());
        };
        if let Some(read) = self.signatures.get(name) {
            return Ok(read.clone());
        }
        let read = SignatureFiles::of(&get_rendered_config(resolver, name.as_str()).await?);
        self.signatures.insert(name.clone(), read.clone());
        Ok(read)
    }

    async fn machine_part(
        &mut self,
        resolver: &Resolver,
        login: &NodeLogin,
    ) -> Result<Option<Secret<Vec<u8>>>, Problem> {
        let Some(digest) = login.target.machine_part else {
            return Ok(None);
        };
        if let Some(read) = self.machine_parts.get(&digest) {
            return Ok(Some(read.clone()));
        }
        let read = machine_part_of(resolver, &login.target).await?;
        self.machine_parts.extend(read.iter().map(|part| (digest, part.clone())));
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{Value, json};

    use super::*;
    use mosb_cluster::ClusterCache;
    use mosb_cluster::resolver::{LookupLimits, MachineSecrets};
    use mosb_image::Digest;
    use mosb_reconcile::fake_api::FakeApi;

    const RENDERED: &str = "rendered-worker-00000000000000000000000000000000";

    /// A Secret with this user's login for each registry.
    fn logins(user: &str) -> Value {
        let auth = STANDARD.encode(format!("{user}:hunter2"));
        let hosts = ["reg.example", "reg.elsewhere", "quay.io"];
        let auths: Value =
            hosts.map(|host| (host.to_owned(), json!({ "auth": auth }))).into_iter().collect();
        let data = STANDARD.encode(json!({ "auths": auths }).to_string());
        json!({ "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": { "name": "x", "namespace": "mosb" }, "data": { ".dockerconfigjson": data } })
    }

    /// A cluster whose machines pull with the login of `puller`, and whose builds push with that of
    /// `pusher`.
    fn resolver(puller: &'static str) -> Resolver {
        let api = FakeApi::new(move |request| match request.path.rsplit('/').next() {
            Some("push") => logins("pusher"),
            Some(RENDERED) => json!({ "apiVersion": "machineconfiguration.openshift.io/v1",
                "kind": "MachineConfig", "metadata": { "name": RENDERED },
                "spec": { "osImageURL": "quay.io/base:1", "config": {
                    "ignition": { "version": "3.5.0" },
                    "storage": { "files": [{ "path": "/etc/containers/policy.json",
                        "contents": { "source": "data:,policy" } }] } } } }),
            _ => logins(puller),
        });
        Resolver {
            client: api.client,
            cache: Arc::new(ClusterCache::empty("mosb")),
            registries: Arc::default(),
            limits: Arc::new(LookupLimits::new(Duration::from_secs(5))),
        }
    }

    #[tokio::test]
    async fn machines_get_pull_logins_for_their_own_images_only() {
        let rendered = || LoginGrant::Rendered(RENDERED.to_owned());
        for (what, puller, repository, grant, want) in [
            (
                "an own image",
                "puller",
                "reg.example/os",
                LoginGrant::OwnImage,
                Ok(vec!["reg.example"]),
            ),
            (
                "a login that pushes",
                "pusher",
                "reg.example/os",
                LoginGrant::OwnImage,
                Err("push-login"),
            ),
            ("the stock image", "puller", "quay.io/base", rendered(), Ok(vec!["quay.io"])),
            (
                "another image of that registry",
                "puller",
                "quay.io/private",
                rendered(),
                Err("image-not-ours"),
            ),
            ("another registry", "puller", "reg.elsewhere/base", rendered(), Err("image-not-ours")),
            ("nothing to pull", "pusher", "reg.example/os", LoginGrant::NothingToPull, Ok(vec![])),
        ] {
            let image = format!("{repository}@{}", Digest::of(b"image")).parse().unwrap();
            let login = NodeLogin {
                job: "job".to_owned(),
                job_uid: "uid".to_owned(),
                target: NodeTarget {
                    image,
                    config: None,
                    machine_part: None,
                    live_from: None,
                    verify: false,
                },
                grant,
                secrets: MachineSecrets { pull: None, push: Some("push".to_owned()) },
            };
            let content = JobSecrets::default().content(&resolver(puller), &login).await;
            let hosts = content.map(|content| {
                assert_eq!(content.auth.is_some(), content.pull_settings.is_some(), "{what}");
                let auth = content.auth.map(|auth| auth.expose().clone());
                let auth: Value = serde_json::from_slice(&auth.unwrap_or(b"{}".to_vec())).unwrap();
                let auths = auth["auths"].as_object().into_iter().flatten();
                auths.map(|(host, _)| host.clone()).collect::<Vec<_>>()
            });
            let want = want.map(|hosts| hosts.into_iter().map(str::to_owned).collect::<Vec<_>>());
            let want = want.map_err(str::to_owned);
            assert_eq!(hosts.map_err(|problem| problem.reason), want, "{what}");
        }
    }

    #[tokio::test]
    async fn verified_targets_bring_the_policy_of_their_config() {
        for (verify, want) in [(false, Value::Null), (true, json!({ "policy.json": "policy" }))] {
            let image = format!("reg.example/os@{}", Digest::of(b"image"));
            let target = json!({ "image": image, "config": RENDERED, "verify": verify });
            let login = NodeLogin {
                job: "job".to_owned(),
                job_uid: "uid".to_owned(),
                target: serde_json::from_value(target).unwrap(),
                grant: LoginGrant::OwnImage,
                secrets: MachineSecrets { pull: None, push: Some("push".to_owned()) },
            };
            let content = JobSecrets::default().content(&resolver("puller"), &login).await.unwrap();
            let settings = content.pull_settings.unwrap();
            let settings: Value = serde_json::from_slice(settings.expose()).unwrap();
            assert_eq!(settings["signatures"], want);
        }
    }
}
