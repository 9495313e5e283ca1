//! Evaluates what the server's Secrets should have. Pure.

use jiff::Timestamp;
use k8s_openapi::ByteString;

use super::secrets::{authority_secret, server_secret, unusable, usable};
use super::server_keys::ServerKeys;
use crate::effect::SecretWrite;
use crate::evaluation::{Evaluated, Evaluation, Reason, Refusal};
use crate::snapshot::{Lookup, Server, Snapshot};
use mosb_build::SecretObject;
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::{Unwritable, UserDataSecret};
use mosb_ignition_server::{
    CERTIFICATE, CERTIFICATE_INFO, CertificateInfo, PRIVATE_KEY, ServingCertificate, pool_of,
};
use mosb_types::Secret;

pub fn evaluate(snapshot: &Snapshot, server: &Server, now: Timestamp) -> Evaluated {
    let endpoint = snapshot.endpoint.as_ref().ok().and_then(Option::as_ref);
    let served_pools = endpoint.map(|_| &server.pools);
    let reason = served_pools.map_or(Reason::NothingServed, |pools| Reason::Served(pools.len()));
    if snapshot.is_checked {
        return Ok(Evaluation::Checked(reason));
    }
    let results = &snapshot.lookup_results;
    let (authority, mounted) = (authority_secret(&snapshot.namespace), server_secret());
    for secret in [&authority, &mounted] {
        if !results.secrets.contains_key(secret) {
            return Ok(Evaluation::LookUp(Lookup::Secret(secret.clone())));
        }
    }
    let mounted_now = usable(&mounted, &results.secrets)?;
    let mut writes = Vec::new();
    let mut certificate = None;
    if let Some(endpoint) = endpoint {
        let authority_now = usable(&authority, &results.secrets)?;
        let in_secret = ServerKeys::in_secret(authority_now);
        let keys = match in_secret.filter(|keys| keys.authority.is_good(now)) {
            Some(keys) => keys,
            None => match &results.keys {
                Some(keys) => keys.clone(),
                None => return Ok(Evaluation::LookUp(Lookup::Keys)),
            },
        };
        // First, so that no certificate is in use whose CA is lost.
        let newer = authority_now.changed(|data| keys.write(data));
        writes.extend(write(&authority, newer)?);
        let host = endpoint.host();
        if !has_certificate(mounted_now, &host, &keys, now) {
            certificate = match &results.certificate {
                Some(new) => Some(new),
                None => return Ok(Evaluation::LookUp(Lookup::Certificate { host })),
            };
        }
    }
    let is_served = |pool: &str| served_pools.is_some_and(|pools| pools.contains(pool));
    let newer = mounted_now.changed(|data| {
        data.retain(|key, _| pool_of(key).is_none_or(is_served));
        for (key, value) in certificate.into_iter().flat_map(values) {
            data.insert(key.to_owned(), ByteString(value));
        }
    });
    writes.extend(write(&mounted, newer)?);
    Ok(Evaluation::Read { writes, reason })
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
) -> Result<Option<SecretWrite>, Refusal> {
    let newer = newer.map_err(|unwritable| unusable(secret, unwritable))?;
    let secret = secret.clone();
    Ok(newer.map(|object| SecretWrite { secret, object: Secret::new(object) }))
}
