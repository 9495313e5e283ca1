//! The Ignition config of a new machine. Pure: what it is made of was read before.

use jiff::Timestamp;

use super::join_tokens::{ClusterInfo, JoinToken, JoinTokens};
use mosb_api::RenderedConfig;
use mosb_build::PushLogin;
use mosb_build::new_machine::{self, ConfigError, OwnConfig, OwnConfigError, PullFiles};
use mosb_ignition as ignition;
use mosb_plan::plan::secret_files;
use mosb_types::{Diagnostic, Finding, Secret, canonical_json};
use serde_json::Value;

/// What the config of a pool's new machines is made of.
#[derive(Debug, Clone)]
pub struct MachineInputs {
    /// The config that the image was built of.
    pub rendered: RenderedConfig,
    pub pull_files: Result<PullFiles, PushLogin>,
    /// The config that joins a machine to the cluster.
    pub join: Option<JoinConfig>,
}

/// The config that joins a machine to the cluster, as its Secret has it.
#[derive(Debug, Clone)]
pub struct JoinConfig {
    /// Secret and key, for messages.
    pub origin: String,
    pub bytes: Secret<Vec<u8>>,
}

/// What joins machines to the cluster.
#[derive(Debug, Clone)]
pub struct JoinSource {
    /// Secret and key, for messages.
    pub origin: String,
    pub tokens: JoinTokens,
}

/// The Ignition config of a machine.
#[derive(Debug, Clone)]
pub struct MachineContent {
    config: Secret<Value>,
    /// What joins the machines to the cluster; without it, they do not join.
    pub join: Option<JoinSource>,
    pub has_logins: bool,
    /// Paths of files that probably contain secrets.
    pub secret_paths: Vec<String>,
    /// What of the rendered config reaches no machine, and what it lacks for the pull.
    pub findings: Vec<Finding>,
}

/// Why there is no config.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum ContentError {
    #[error(transparent)]
    #[diagnostic(transparent)]
    PushLogin(#[from] PushLogin),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Own(#[from] OwnConfigError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigError),
}

impl MachineContent {
    /// The config with what joins the machine, and then `own` over it.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn new(inputs: &MachineInputs, own: Option<OwnConfig>) -> Result<Self, ContentError> {
        let pull_files = inputs.pull_files.as_ref().map_err(Clone::clone)?;
        let rendered = &inputs.rendered;
        let join = inputs.join.as_ref();
        let joining = join.map(|join| OwnConfig::parse(&join.origin, join.bytes.expose()));
        let over: Vec<OwnConfig> = joining.transpose()?.into_iter().chain(own).collect();
        let config = Secret::new(new_machine::config(rendered, pull_files)?);
        let parsed = rendered.ignition().and_then(|config| ignition::parse(config).ok());
        let secret_paths = parsed.iter().flat_map(|parsed| secret_files(&parsed.config));
        let config = new_machine::merge(rendered.pool().as_str(), config.expose(), over)?;
        Ok(Self {
            join: join.map(|join| JoinSource {
                origin: join.origin.clone(),
                tokens: JoinTokens::find(config.expose()),
            }),
            config,
            has_logins: pull_files.has_logins(),
            secret_paths: secret_paths.map(|(path, _)| path.to_owned()).collect(),
            findings: {
                let left_out = new_machine::left_out(rendered);
                left_out.into_iter().chain(pull_files.without_policy()).collect()
            },
        })
    }

    /// Whether [`ended_tokens`](Self::ended_tokens) depends on [`ClusterInfo`].
    pub fn needs_cluster_info(&self) -> bool {
        self.join.as_ref().is_some_and(|join| join.tokens.need_cluster_info())
    }

    /// The tokens with which no machine joins any more.
    pub fn ended_tokens(&self, info: &ClusterInfo, now: Timestamp) -> Vec<&JoinToken> {
        self.join.iter().flat_map(|join| join.tokens.ended(info, now)).collect()
    }

    pub fn config(&self) -> &Secret<Value> {
        &self.config
    }

    /// Its `ignition.version`.
    pub fn version(&self) -> &str {
        let version = self.config.expose().pointer("/ignition/version");
        version.and_then(Value::as_str).unwrap_or_default()
    }

    /// The config as text: the same config, the same bytes.
    pub fn to_bytes(&self) -> Secret<Vec<u8>> {
        Secret::new(canonical_json(self.config.expose()))
    }
}
