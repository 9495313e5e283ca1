//! Decides what to write into the server's Secrets. Pure: a snapshot gives the actions.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::ByteString;

use super::secrets::{Unusable, authority_secret, server_secret, unusable, usable};
use super::server_keys::ServerKeys;
use super::snapshot::ServerSnapshot;
use crate::user_data::{Action, UserDataWrite};
use mosb_build::SecretObject;
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::{Unwritable, UserDataSecret};
use mosb_ignition_server::{
    CERTIFICATE, CERTIFICATE_INFO, CertificateInfo, PRIVATE_KEY, ServingCertificate, pool_of,
};
use mosb_reconcile::driver::Decision;
use mosb_reconcile::waits::{SECRET_RECHECK, SECRET_REFUSED};
use mosb_types::Secret;

/// What to do about the server's Secrets.
pub type ServerDecision = Decision<ServerLookup, ServerReason, UserDataWrite>;

/// What the watches don't show, and what is random.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerLookup {
    /// A Secret. Result: its entry in `secrets`.
    Secret(SecretRef),
    /// Keys, of which some are new. Result: `keys`.
    Keys,
    /// A new certificate for this host. Result: `certificate`.
    Certificate { host: String },
}

/// Why the server's Secrets are as they are, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerReason {
    LookingUp,
    /// They have what they need, or get it now.
    Current(usize),
    /// The endpoint is not set: nothing is served.
    Off,
    /// A Secret can't be used. Conditions of MachineOSConfigs say so too.
    Unusable(String),
}

pub(super) fn decide(snapshot: &ServerSnapshot, now: Timestamp) -> ServerDecision {
    let reason = match &snapshot.endpoint {
        Some(_) => ServerReason::Current(snapshot.pools.len()),
        None => ServerReason::Off,
    };
    if snapshot.is_current {
        return ServerDecision {
            requeue_after: Some(SECRET_RECHECK),
            ..ServerDecision::unchanged(reason)
        };
    }
    match evaluate(snapshot, now) {
        Ok(Evaluation::LookUp(lookup)) => {
            ServerDecision::looking_up(lookup, ServerReason::LookingUp)
        }
        Ok(Evaluation::Write(writes)) => {
            let actions = writes.into_iter().map(Action::Effect);
            ServerDecision {
                requeue_after: Some(SECRET_RECHECK),
                ..ServerDecision::of(reason, actions.collect())
            }
        }
        Err(unusable) => ServerDecision {
            requeue_after: Some(SECRET_REFUSED),
            ..ServerDecision::unchanged(ServerReason::Unusable(unusable.message))
        },
    }
}

enum Evaluation {
    LookUp(ServerLookup),
    Write(Vec<UserDataWrite>),
}

fn evaluate(snapshot: &ServerSnapshot, now: Timestamp) -> Result<Evaluation, Unusable> {
    let results = &snapshot.lookup_results;
    let (authority, server) = (authority_secret(&snapshot.namespace), server_secret());
    for secret in [&authority, &server] {
        if !results.secrets.contains_key(secret) {
            return Ok(Evaluation::LookUp(ServerLookup::Secret(secret.clone())));
        }
    }
    let server_now = usable(&server, &results.secrets)?;
    let mut writes = Vec::new();
    let mut certificate = None;
    if let Some(endpoint) = &snapshot.endpoint {
        let authority_now = usable(&authority, &results.secrets)?;
        let in_secret = ServerKeys::in_secret(authority_now);
        let keys = match in_secret.filter(|keys| keys.authority.is_good(now)) {
            Some(keys) => keys,
            None => match &results.keys {
                Some(keys) => keys.clone(),
                None => return Ok(Evaluation::LookUp(ServerLookup::Keys)),
            },
        };
        // First, so that no certificate is in use whose CA is lost.
        let newer = authority_now.changed(|data| keys.write(data));
        writes.extend(write(&authority, newer)?);
        let host = endpoint.host();
        if !has_certificate(server_now, &host, &keys, now) {
            certificate = match &results.certificate {
                Some(new) => Some(new),
                None => return Ok(Evaluation::LookUp(ServerLookup::Certificate { host })),
            };
        }
    }
    let newer = server_now.changed(|data| {
        data.retain(|key, _| pool_of(key).is_none_or(|pool| is_served(snapshot, pool)));
        for (key, value) in certificate.into_iter().flat_map(values) {
            data.insert(key.to_owned(), ByteString(value));
        }
    });
    writes.extend(write(&server, newer)?);
    Ok(Evaluation::Write(writes))
}

fn is_served(snapshot: &ServerSnapshot, pool: &str) -> bool {
    snapshot.endpoint.is_some() && snapshot.pools.contains(pool)
}

fn has_certificate(server: &UserDataSecret, host: &str, keys: &ServerKeys, now: Timestamp) -> bool {
    let info = server.value(CERTIFICATE_INFO).and_then(CertificateInfo::from_json);
    let pem = server.value(CERTIFICATE).unwrap_or_default();
    server.value(PRIVATE_KEY).is_some()
        && info.is_some_and(|info| info.fits(pem, host, &keys.authority.certificate, now))
}

fn values(certificate: &ServingCertificate) -> [(&'static str, Vec<u8>); 3] {
    [
        (CERTIFICATE, certificate.certificate.clone().into_bytes()),
        (PRIVATE_KEY, certificate.key.expose().clone().into_bytes()),
        (CERTIFICATE_INFO, certificate.info.to_json()),
    ]
}

fn write(
    secret: &SecretRef,
    newer: Result<Option<SecretObject>, Unwritable>,
) -> Result<Option<UserDataWrite>, Unusable> {
    let newer = newer.map_err(|unwritable| unusable(secret, unwritable))?;
    let secret = secret.clone();
    Ok(newer.map(|object| UserDataWrite { secret, object: Secret::new(object) }))
}

impl fmt::Display for ServerReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LookingUp => f.write_str("reading its Secrets"),
            Self::Current(pools) => write!(f, "its Secrets are current, for {pools} pools"),
            Self::Off => f.write_str("userData.endpoint is not set, so nothing is served"),
            Self::Unusable(message) => f.write_str(message),
        }
    }
}
