//! Authentication: none until the registry requests it, then Basic or a token for each scope. A
//! token is cached until it expires and renewed after a 401.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};
use tokio::sync::OnceCell;
use url::Url;

use super::challenge::{Challenge, parse};
use super::credentials::{Login, basic};
use super::error::Error;
use super::keyring::{Keyring, describe};
use super::token::{Scopes, Token, TokenServer, bearer};
use super::transport::Transport;
use mosb_types::Secret;

#[derive(Debug, Clone)]
enum Scheme {
    Basic,
    Bearer(TokenServer),
}

#[derive(Debug)]
struct Grant {
    scopes: Scopes,
    /// A scope as the registry itself writes it, where that isn't one of ours.
    extra: Option<String>,
    /// The first caller requests the token; other callers wait for it.
    token: Arc<OnceCell<Token>>,
}

/// What a request carried, to be describe to [`Auth::challenged`] if it was refused.
#[derive(Debug)]
pub(super) struct Ticket {
    pub header: Secret<String>,
    token: Option<Arc<OnceCell<Token>>>,
}

/// The logins of one registry.
pub(super) struct Auth {
    /// As its credentials are filed.
    host: String,
    keyring: Arc<Keyring>,
    scheme: Mutex<Option<Scheme>>,
    grants: Mutex<Vec<Grant>>,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Auth {
    pub fn new(host: &str, keyring: Arc<Keyring>) -> Self {
        Self { host: host.to_owned(), keyring, scheme: Mutex::default(), grants: Mutex::default() }
    }

    /// Where the credentials for a repository come from, for an error's sentence.
    pub async fn origin(&self, repository: &str) -> String {
        // Reading it again can't fail where it was read before; the sentence is describe in any
        // case.
        let credential = self.keyring.find(&self.host, repository).await;
        describe(credential.ok().flatten().as_deref())
    }

    /// What to send with a request, if the registry asked for anything so far.
    pub async fn ticket(
        &self,
        transport: &Transport,
        scopes: &Scopes,
        repository: &str,
    ) -> Result<Option<Ticket>, Error> {
        let scheme = lock(&self.scheme).clone();
        let Some(scheme) = scheme else {
            return Ok(None);
        };
        let credential = self.keyring.find(&self.host, repository).await?;
        let plain = |header| Ok(Some(Ticket { header, token: None }));
        match (scheme, credential.as_deref().map(|c| &c.login)) {
            (Scheme::Basic, Some(Login::Password { user, password })) => {
                plain(basic(user, password))
            }
            (Scheme::Basic, Some(Login::Token(token)) | Some(Login::Identity(token)))
            | (Scheme::Bearer(_), Some(Login::Token(token))) => plain(bearer(token.expose())),
            (Scheme::Basic, None) => Ok(None),
            (Scheme::Bearer(server), _) => {
                let image = format!("{}/{repository}", self.host);
                let (cell, asked) = self.grant(scopes);
                let token = cell
                    .get_or_try_init(|| {
                        server.token(transport, &asked, credential.as_deref(), image)
                    })
                    .await?;
                let header = token.header.clone();
                Ok(Some(Ticket { header, token: Some(cell) }))
            }
        }
    }

    /// The grant that covers these scopes, made if there is none or its token has had its time.
    fn grant(&self, scopes: &Scopes) -> (Arc<OnceCell<Token>>, Vec<String>) {
        let asked = |grant: &Grant| {
            let texts = grant.scopes.texts().into_iter();
            texts.chain(grant.extra.clone()).collect()
        };
        let mut grants = lock(&self.grants);
        let mut extra = None;
        grants.retain(|grant| {
            let fresh = grant.token.get().is_none_or(|token| token.renew_at > Instant::now());
            if !fresh && grant.scopes == *scopes {
                extra.clone_from(&grant.extra);
            }
            fresh
        });
        if let Some(grant) = grants.iter().find(|grant| grant.scopes.covers(scopes)) {
            return (Arc::clone(&grant.token), asked(grant));
        }
        let grant = Grant { scopes: scopes.clone(), extra, token: Arc::default() };
        let found = (Arc::clone(&grant.token), asked(&grant));
        grants.push(grant);
        found
    }

    /// Learns from a 401. Whether it makes sense to send the request again.
    pub fn challenged(
        &self,
        headers: &HeaderMap,
        scopes: &Scopes,
        used: Option<&Ticket>,
        base: &Url,
    ) -> bool {
        if let Some(stale) = used.and_then(|ticket| ticket.token.as_ref()) {
            lock(&self.grants).retain(|grant| !Arc::ptr_eq(&grant.token, stale));
        }
        let challenges: Vec<_> = headers
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(parse)
            .collect();
        let mut wanted = None;
        for challenge in challenges {
            match challenge {
                Challenge::Basic => {
                    wanted.get_or_insert(Scheme::Basic);
                }
                Challenge::Bearer { realm, service, scope } => {
                    if let Some(server) = TokenServer::new(base, &realm, service) {
                        self.note_extra(scopes, scope);
                        wanted = Some(Scheme::Bearer(server));
                        break;
                    }
                }
            }
        }
        let learned = wanted.is_some();
        if learned {
            *lock(&self.scheme) = wanted;
        }
        // Another request may have learned it meanwhile.
        learned || used.is_some() || lock(&self.scheme).is_some()
    }

    /// A registry that names its scopes differently (one that rewrites paths) is asked for its own
    /// name too.
    fn note_extra(&self, scopes: &Scopes, scope: Option<String>) {
        let foreign = |s: &String| {
            let ours = scopes.texts();
            let name = |text: &str| text.rsplit_once(':').map(|(name, _)| name.to_owned());
            !s.split(' ').all(|one| ours.iter().any(|o| name(o) == name(one)))
        };
        let Some(extra) = scope.filter(foreign) else {
            return;
        };
        lock(&self.grants).push(Grant {
            scopes: scopes.clone(),
            extra: Some(extra),
            token: Arc::default(),
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
