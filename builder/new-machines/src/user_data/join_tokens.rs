//! The tokens with which new machines join the cluster, as far as it can be known when they end. Pure.
//!
//! Invariant: nothing here shows a token. Of a bootstrap token only its ID is kept, which is public.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use mosb_api::yaml;
use mosb_ignition::{Compression, Resource};
use serde_json::Value;

/// Larger contents are not looked at: a kubeconfig has a few KiB, and a long list of CAs fits.
const MAX_CONTENTS: u64 = 256 * 1024;
/// The most tokens of a config that are looked at.
const MAX_TOKENS: usize = 32;
/// Precedes the ID of a bootstrap token in the keys of `cluster-info`.
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

/// The tokens of a config with which machines join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinTokens(Vec<JoinToken>);

/// A token in a file of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// The file on the machine.
    pub path: String,
    life: TokenLife,
}

/// What shows when a token ends.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TokenLife {
    /// The field `exp` of a JSON Web Token (RFC 7519, 4.1.4).
    Until(Timestamp),
    /// The ID of a bootstrap token. Its Secret in kube-system has the date, and is not read.
    Bootstrap(String),
}

/// The bootstrap tokens with a signature in ConfigMap `cluster-info` of `kube-public`. The cluster
/// signs with each token that is alive and has the usage `signing`.
#[derive(Debug, Clone)]
pub enum ClusterInfo {
    /// There is none, it has nothing to sign, or it may not be read.
    Unknown,
    Signed(BTreeSet<String>),
}

impl JoinTokens {
    /// Finds them in the inline files of a valid config of spec 3: in kubeconfigs, and in
    /// JoinConfigurations of kubeadm.
    pub fn find(config: &Value) -> Self {
        let mut tokens = Vec::new();
        let files = config.pointer("/storage/files").and_then(Value::as_array);
        for file in files.into_iter().flatten() {
            // Most files are something else.
            let (Some(path), Some(documents)) = (file["path"].as_str(), documents(file)) else {
                continue;
            };
            for life in documents.iter().flat_map(texts).filter_map(TokenLife::of) {
                let token = JoinToken { path: path.to_owned(), life };
                if tokens.len() < MAX_TOKENS && !tokens.contains(&token) {
                    tokens.push(token);
                }
            }
        }
        Self(tokens)
    }

    /// Whether [`ended`](Self::ended) depends on [`ClusterInfo`].
    pub fn need_cluster_info(&self) -> bool {
        self.0.iter().any(|token| matches!(token.life, TokenLife::Bootstrap(_)))
    }

    /// Those with which no machine joins any more, or that only lack their signature.
    pub fn ended(&self, info: &ClusterInfo, now: Timestamp) -> Vec<&JoinToken> {
        let has_ended = |token: &&JoinToken| match (&token.life, info) {
            (TokenLife::Until(end), _) => *end <= now,
            (TokenLife::Bootstrap(_), ClusterInfo::Unknown) => false,
            (TokenLife::Bootstrap(id), ClusterInfo::Signed(ids)) => !ids.contains(id),
        };
        self.0.iter().filter(has_ended).collect()
    }
}

impl JoinToken {
    /// Why no machine joins with it, as far as it is known.
    pub fn describe_end(&self) -> String {
        let path = &self.path;
        match &self.life {
            TokenLife::Until(end) => format!("the token in {path} expired at {end}"),
            TokenLife::Bootstrap(id) => format!(
                "bootstrap token {id} in {path} has no signature in configmap kube-public/cluster-info: it expired or was deleted, or secret kube-system/bootstrap-token-{id} lacks usage-bootstrap-signing: \"true\""
            ),
        }
    }

    /// What helps beside a new token, if machines may be able to join with this one.
    pub fn other_remedy(&self) -> Option<&'static str> {
        match self.life {
            TokenLife::Until(_) => None,
            TokenLife::Bootstrap(_) => Some("; if the bootstrap token exists, add the usage to it"),
        }
    }
}

impl TokenLife {
    fn of(token: &str) -> Option<Self> {
        let parts: Vec<&str> = token.splitn(4, '.').collect();
        match parts[..] {
            [id, secret] if is_lower(id, 6) && is_lower(secret, 16) => {
                Some(Self::Bootstrap(id.to_owned()))
            }
            [_, payload, _] => Some(Self::Until(expiration(payload)?)),
            _ => None,
        }
    }
}

/// The contents of a file as YAML or JSON; `None` if they are something else, or not in the config.
fn documents(file: &Value) -> Option<Vec<Value>> {
    let contents = &file["contents"];
    let compression = match contents["compression"].as_str() {
        Some("gzip") => Compression::Gzip,
        _ => Compression::None,
    };
    let source = contents["source"].as_str()?.to_owned();
    let contents = Resource { source: Some(source), compression, verification: None };
    yaml::parse_all(&contents.bytes(MAX_CONTENTS).ok()?, yaml::Limits::OBJECT).ok()
}

/// The texts where a document has tokens.
fn texts(document: &Value) -> impl Iterator<Item = &str> {
    let (users, pointers): (&[Value], &[&str]) = match document["kind"].as_str() {
        Some("Config") => (document["users"].as_array().map_or(&[], Vec::as_slice), &[]),
        Some("JoinConfiguration") => {
            (&[], &["/discovery/bootstrapToken/token", "/discovery/tlsBootstrapToken"])
        }
        _ => (&[], &[]),
    };
    let of_users = users.iter().map(|user| &user["user"]["token"]);
    let of_pointers = pointers.iter().filter_map(|pointer| document.pointer(pointer));
    of_users.chain(of_pointers).filter_map(Value::as_str)
}

/// `exp` of a payload. Nothing is verified: the API server does that.
fn expiration(payload: &str) -> Option<Timestamp> {
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&bytes).ok()?;
    // Seconds since 1970, also with a fraction.
    let seconds = SignedDuration::try_from_secs_f64(claims["exp"].as_f64()?.floor()).ok()?;
    Timestamp::from_duration(seconds).ok()
}

/// Whether a text has so many lower-case letters and digits, and nothing else.
fn is_lower(text: &str, length: usize) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() == length && text.bytes().all(is_allowed)
}

impl From<ConfigMap> for ClusterInfo {
    fn from(info: ConfigMap) -> Self {
        let data = info.data.unwrap_or_default();
        if !data.contains_key("kubeconfig") {
            return Self::Unknown;
        }
        let ids = data.keys().filter_map(|key| key.strip_prefix(SIGNATURE_PREFIX));
        Self::Signed(ids.map(str::to_owned).collect())
    }
}
