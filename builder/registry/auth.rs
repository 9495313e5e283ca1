//! Logging in: nothing until asked, then Basic or a token for each scope, kept until it expires and renewed on a 401
//! (distribution, token authentication; RFC 6749, 6).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE};
use serde::Deserialize;
use tokio::sync::OnceCell;
use url::Url;

use super::challenge::{Challenge, parse};
use super::credentials::{Login, basic};
use super::error::Error;
use super::keyring::{Credential, Keyring};
use super::proxy::is_loopback;
use super::secret::Secret;
use super::wire::{Call, Wire};

/// What a request does, and to which repositories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scopes(Vec<(String, bool)>);

impl Scopes {
    pub fn pull(repository: &str) -> Self {
        Self(vec![(repository.to_owned(), false)])
    }

    pub fn push(repository: &str) -> Self {
        Self(vec![(repository.to_owned(), true)])
    }

    /// A mount reads one repository and writes another.
    pub fn mount(from: &str, to: &str) -> Self {
        Self(vec![(to.to_owned(), true), (from.to_owned(), false)])
    }

    fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|(name, push)| {
            self.0
                .iter()
                .any(|(mine, can_push)| mine == name && (*can_push || !push))
        })
    }

    /// As a token server is asked for them.
    fn texts(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|(name, push)| {
                let actions = if *push { "pull,push" } else { "pull" };
                format!("repository:{name}:{actions}")
            })
            .collect()
    }
}

#[derive(Debug, Clone)]
enum Scheme {
    Basic,
    Bearer {
        realm: Url,
        service: Option<String>,
        /// Whether a login may be sent there: over TLS, on this machine, or where the registry has no TLS either.
        safe: bool,
    },
}

#[derive(Debug)]
struct Token {
    header: Secret<String>,
    renew_at: Instant,
}

#[derive(Debug)]
struct Grant {
    scopes: Scopes,
    /// A scope as the registry itself writes it, where that isn't one of ours.
    extra: Option<String>,
    /// Filled by the first who needs it; the others wait for that.
    token: Arc<OnceCell<Token>>,
}

/// What a request carried, to be told to [`Auth::challenged`] if it was refused.
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
        f.debug_struct("Auth")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

/// A token is good for a minute unless its server says more (distribution, token specification).
const SHORTEST_LIFE: u64 = 60;
/// Most bytes of a token server's answer.
const TOKEN_LIMIT: u64 = 1 << 20;

impl Auth {
    pub fn new(host: &str, keyring: Arc<Keyring>) -> Self {
        Self {
            host: host.to_owned(),
            keyring,
            scheme: Mutex::default(),
            grants: Mutex::default(),
        }
    }

    /// Where the credentials for a repository come from, for an error's sentence.
    pub async fn origin(&self, repository: &str) -> String {
        match self.keyring.find(&self.host, repository).await {
            Ok(Some(credential)) => format!("with the credentials of {}", credential.origin),
            Ok(None) | Err(_) => "without credentials (none are known for it)".to_owned(),
        }
    }

    /// What to send with a request, if the registry asked for anything so far.
    pub async fn ticket(
        &self,
        wire: &Wire,
        scopes: &Scopes,
        repository: &str,
    ) -> Result<Option<Ticket>, Error> {
        let scheme = lock(&self.scheme).clone();
        let Some(scheme) = scheme else {
            return Ok(None);
        };
        let credential = self.keyring.find(&self.host, repository).await?;
        let plain = |header| {
            Ok(Some(Ticket {
                header,
                token: None,
            }))
        };
        match (scheme, credential.as_deref().map(|c| &c.login)) {
            (Scheme::Basic, Some(Login::Password { user, password })) => {
                plain(basic(user, password))
            }
            (Scheme::Basic, Some(Login::Token(token)) | Some(Login::Identity(token)))
            | (Scheme::Bearer { .. }, Some(Login::Token(token))) => plain(bearer(token.expose())),
            (Scheme::Basic, None) => Ok(None),
            (
                Scheme::Bearer {
                    realm,
                    service,
                    safe,
                },
                _,
            ) => {
                if credential.is_some() && !safe {
                    return Err(Error::Credentials {
                        origin: format!("{}/{repository}", self.host),
                        cause: format!(
                            "its token server {realm} is not https, so no credentials are sent there"
                        ),
                    });
                }
                let (cell, asked, extra) = self.grant(scopes);
                let token = cell
                    .get_or_try_init(|| {
                        self.fetch(
                            wire,
                            &realm,
                            service.as_deref(),
                            &asked,
                            extra,
                            credential.as_deref(),
                            repository,
                        )
                    })
                    .await?;
                let header = token.header.clone();
                Ok(Some(Ticket {
                    header,
                    token: Some(cell),
                }))
            }
        }
    }

    /// The grant that covers these scopes, made if there is none or its token has had its time.
    fn grant(&self, scopes: &Scopes) -> (Arc<OnceCell<Token>>, Scopes, Option<String>) {
        let mut grants = lock(&self.grants);
        let mut extra = None;
        grants.retain(|grant| {
            let fresh = grant
                .token
                .get()
                .is_none_or(|token| token.renew_at > Instant::now());
            if !fresh && grant.scopes == *scopes {
                extra.clone_from(&grant.extra);
            }
            fresh
        });
        if let Some(grant) = grants.iter().find(|grant| grant.scopes.covers(scopes)) {
            return (
                Arc::clone(&grant.token),
                grant.scopes.clone(),
                grant.extra.clone(),
            );
        }
        let token = Arc::default();
        grants.push(Grant {
            scopes: scopes.clone(),
            extra: extra.clone(),
            token: Arc::clone(&token),
        });
        (token, scopes.clone(), extra)
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
                Challenge::Bearer {
                    realm,
                    service,
                    scope,
                } => {
                    if let Ok(realm) = base.join(&realm) {
                        self.note_extra(scopes, scope);
                        let loopback = realm.host().is_some_and(|host| is_loopback(&host));
                        let safe = realm.scheme() == "https" || base.scheme() == "http" || loopback;
                        wanted = Some(Scheme::Bearer {
                            realm,
                            service,
                            safe,
                        });
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

    /// A registry that names its scopes differently (one that rewrites paths) is asked for its own name too.
    fn note_extra(&self, scopes: &Scopes, scope: Option<String>) {
        let foreign = |s: &String| {
            let ours = scopes.texts();
            let name = |text: &str| text.rsplit_once(':').map(|(name, _)| name.to_owned());
            !s.split(' ')
                .all(|one| ours.iter().any(|o| name(o) == name(one)))
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

    #[expect(clippy::too_many_arguments, reason = "all that a token depends upon")]
    async fn fetch(
        &self,
        wire: &Wire,
        realm: &Url,
        service: Option<&str>,
        scopes: &Scopes,
        extra: Option<String>,
        credential: Option<&Credential>,
        repository: &str,
    ) -> Result<Token, Error> {
        let image = format!("{}/{repository}", wire.host);
        let mut asked = scopes.texts();
        asked.extend(extra);
        let (call, auth) = token_call(realm, service, &asked, credential);
        let answer = wire.send(&call, auth.as_ref()).await?;
        if !answer.is_success() {
            return Err(match answer.status {
                status @ (400 | 401 | 403) => Error::Denied {
                    image,
                    status,
                    with: self.origin(repository).await,
                    said: answer.said(),
                },
                status => Error::Unexpected {
                    image,
                    host: realm.host_str().unwrap_or_default().to_owned(),
                    doing: "the request for a token",
                    status,
                    said: answer.said(),
                },
            });
        }
        let bad = |what: &str| Error::BadAnswer {
            image: image.clone(),
            host: realm.host_str().unwrap_or_default().to_owned(),
            doing: "the request for a token",
            what: what.to_owned(),
        };
        let token: TokenAnswer =
            serde_json::from_slice(&answer.body).map_err(|_| bad("no JSON"))?;
        let value = [token.token, token.access_token]
            .into_iter()
            .flatten()
            .find(|value| !value.is_empty())
            .ok_or_else(|| bad("no token"))?;
        let life = token
            .expires_in
            .unwrap_or(SHORTEST_LIFE)
            .clamp(1, 24 * 3600);
        Ok(Token {
            header: bearer(&value),
            // A token that ends while a request is on its way would cost another one.
            renew_at: Instant::now() + Duration::from_secs(life).mul_f32(0.9),
        })
    }
}

fn bearer(token: &str) -> Secret<String> {
    Secret::new(format!("Bearer {token}"))
}

/// The request for a token: with a refresh token by POST, else by GET.
fn token_call(
    realm: &Url,
    service: Option<&str>,
    scopes: &[String],
    credential: Option<&Credential>,
) -> (Call, Option<Secret<String>>) {
    let mut url = realm.clone();
    let call = match credential.map(|c| &c.login) {
        Some(Login::Identity(token)) => {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            form.append_pair("grant_type", "refresh_token");
            form.append_pair("client_id", "mosb");
            form.append_pair("refresh_token", token.expose());
            form.append_pair("scope", &scopes.join(" "));
            if let Some(service) = service {
                form.append_pair("service", service);
            }
            let mut call = Call::new(Method::POST, url)
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
            call.body = form.finish().into();
            call
        }
        Some(Login::Password { .. } | Login::Token(_)) | None => {
            {
                let mut query = url.query_pairs_mut();
                if let Some(service) = service {
                    query.append_pair("service", service);
                }
                for scope in scopes {
                    query.append_pair("scope", scope);
                }
                if let Some(Login::Password { user, .. }) = credential.map(|c| &c.login) {
                    query.append_pair("account", user.expose());
                }
            }
            Call::new(Method::GET, url)
        }
    };
    let auth = match credential.map(|c| &c.login) {
        Some(Login::Password { user, password }) => Some(basic(user, password)),
        Some(Login::Identity(_) | Login::Token(_)) | None => None,
    };
    let call = Call {
        limit: Some(TOKEN_LIMIT),
        ..call
    };
    (call, auth)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_for_more_serves_for_less() {
        let pull = Scopes::pull("a");
        let push = Scopes::push("a");
        let mount = Scopes::mount("b", "a");
        for (what, has, wants, want) in [
            ("same", &pull, &pull, true),
            ("push for pull", &push, &pull, true),
            ("pull for push", &pull, &push, false),
            ("mount for push", &mount, &push, true),
            ("push for mount", &push, &mount, false),
            ("other repository", &Scopes::push("b"), &pull, false),
        ] {
            assert_eq!(has.covers(wants), want, "{what}");
        }
        assert_eq!(
            mount.texts(),
            ["repository:a:pull,push", "repository:b:pull"]
        );
    }

    #[test]
    fn a_token_is_asked_for_as_the_server_wants_it() {
        let realm = Url::parse("https://auth.example/token?x=1").unwrap();
        let credential = |login| Credential {
            login,
            origin: "f".to_owned(),
        };
        let secret = |s: &str| Secret::new(s.to_owned());
        let scopes = Scopes::mount("b", "a").texts();
        let (call, auth) = token_call(&realm, Some("reg"), &scopes, None);
        assert_eq!(
            call.url.as_str(),
            "https://auth.example/token?x=1&service=reg&scope=repository%3Aa%3Apull%2Cpush&scope=repository%3Ab%3Apull"
        );
        assert!(auth.is_none());
        let login = Login::Password {
            user: secret("u"),
            password: secret("p"),
        };
        let (call, auth) = token_call(&realm, None, &scopes[1..], Some(&credential(login)));
        assert!(call.url.as_str().ends_with("&account=u"), "{}", call.url);
        assert_eq!(
            auth.map(|a| a.expose().clone()).as_deref(),
            Some("Basic dTpw")
        );
        let (call, auth) = token_call(
            &realm,
            Some("reg"),
            &scopes,
            Some(&credential(Login::Identity(secret("idt")))),
        );
        assert_eq!((call.method, call.url), (Method::POST, realm));
        assert_eq!(
            std::str::from_utf8(&call.body).unwrap(),
            "grant_type=refresh_token&client_id=mosb&refresh_token=idt&scope=repository%3Aa%3Apull%2Cpush+repository%3Ab%3Apull&service=reg"
        );
        assert!(auth.is_none());
    }
}
