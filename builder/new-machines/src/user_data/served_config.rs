//! The config of a pool at `mosb serve-ignition`, and the stub that fetches it. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;

use crate::effect::SecretWrite;
use crate::evaluation::Refusal;
use crate::ignition_server::{
    NO_SERVER, ServerKeys, TOO_LARGE, authority_secret, server_secret, unusable, usable,
};
use mosb_api::cluster_settings::Endpoint;
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::{FoundSecret, MAX_SECRET_SIZE, UserDataSecret};
use mosb_ignition_server::{Period, accepted_tokens, config_key, stub, tokens_key};
use mosb_plan::payload::gzip;
use mosb_types::Secret;

/// The most bytes of one pool's config, of the Secret that all share.
const MAX_POOL_SIZE: usize = MAX_SECRET_SIZE / 4;

/// What is needed to serve configs.
#[derive(Debug)]
pub(super) struct ServingPlace<'s> {
    endpoint: &'s Endpoint,
    keys: ServerKeys,
    server: &'s UserDataSecret,
}

/// A pool's config as it is served.
#[derive(Debug)]
pub(super) struct ServedConfig {
    pub url: String,
    /// The user data that fetches it.
    pub stub: Secret<Vec<u8>>,
    /// The write of the server's Secret, if it differs.
    pub write: Option<SecretWrite>,
}

impl<'s> ServingPlace<'s> {
    /// # Errors
    /// A Secret can't be used.
    pub fn new(
        endpoint: &'s Endpoint,
        secrets: &'s BTreeMap<SecretRef, FoundSecret>,
        namespace: &str,
    ) -> Result<Self, Refusal> {
        let (authority, server) = (authority_secret(namespace), server_secret());
        let keys = ServerKeys::in_secret(usable(&authority, secrets)?);
        let keys = keys.ok_or_else(|| {
            let message = format!(
                "secret {authority}: it has no CA and token key yet; mosb makes them within a minute"
            );
            Refusal::new(NO_SERVER, message)
        })?;
        Ok(Self { endpoint, keys, server: usable(&server, secrets)? })
    }

    /// Serves this config, and makes the stub for it.
    ///
    /// # Errors
    /// The configs of all pools are too large together.
    pub fn serve(
        &self,
        pool: &str,
        config: &Secret<Vec<u8>>,
        now: Timestamp,
    ) -> Result<ServedConfig, Refusal> {
        let config = gzip::packed(config.expose());
        if config.len() > MAX_POOL_SIZE {
            let message = format!(
                "secret {}: the config of pool {pool} has {} bytes when it is compressed, and each pool takes at most {MAX_POOL_SIZE}, so that others have space; move large files out of its MachineConfigs",
                server_secret(),
                config.len()
            );
            return Err(Refusal::new(TOO_LARGE, message));
        }
        let newer = self.server.changed(|data| {
            let config = ByteString(config);
            let tokens = ByteString(accepted_tokens(&self.keys.tokens, pool, now));
            data.extend([(config_key(pool), config), (tokens_key(pool), tokens)]);
        });
        let secret = server_secret();
        let newer = newer.map_err(|unwritable| unusable(&secret, unwritable))?;
        let token = self.keys.tokens.token(pool, Period::at(now));
        let url = self.endpoint.url(pool);
        Ok(ServedConfig {
            stub: stub(&url, &self.keys.authority.certificate, &token),
            url,
            write: newer.map(|object| SecretWrite { secret, object: Secret::new(object) }),
        })
    }
}
