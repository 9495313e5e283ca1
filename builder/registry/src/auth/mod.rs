//! Authentication: none until the registry requests it, then Basic or a token for each scope. A
//! token is cached until it expires and renewed after a 401. The requests are the challenges of
//! `WWW-Authenticate` (RFC 9110, 11.6.1), several to a header and several headers.

pub mod credentials;
pub(crate) mod keyring;
pub(crate) mod login_key;
pub(crate) mod token;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mosb_types::Secret;
use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};
use tokio::sync::OnceCell;
use url::Url;

use crate::auth::credentials::{Login, basic};
use crate::auth::keyring::{Keyring, describe};
use crate::auth::token::{Scopes, Token, TokenServer, bearer};
use crate::error::Error;
use crate::transport::Transport;

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

/// The credential of a request, for [`Auth::challenged`] if it is refused.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub header: Secret<String>,
    token: Option<Arc<OnceCell<Token>>>,
}

/// The logins of one registry.
pub(crate) struct Auth {
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

/// What a registry wants to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// User and password with each request.
    Basic,
    /// A token from this server.
    Bearer {
        /// URL of the token server.
        realm: String,
        /// The registry's name there.
        service: Option<String>,
        /// What the token must allow.
        scope: Option<String>,
    },
}

/// The challenges that we can meet, in the order in which they were written. Never fails: what
/// can't be read is skipped.
pub fn parse(header: &str) -> Vec<Challenge> {
    let mut found: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find(|c: char| !is_token(c)).unwrap_or(rest.len());
        if end == 0 {
            // Not a token: skip to the next comma, or stop.
            match rest.find(',') {
                Some(comma) => rest = &rest[comma..],
                None => break,
            }
            continue;
        }
        let word = &rest[..end];
        let after = rest[end..].trim_start_matches([' ', '\t']);
        match (after.strip_prefix('='), found.last_mut()) {
            (Some(value), Some((_, parameters))) => {
                let (value, tail) = read_value(value.trim_start_matches([' ', '\t']));
                parameters.push((word.to_ascii_lowercase(), value));
                rest = tail;
            }
            (Some(value), None) => rest = read_value(value).1,
            (None, _) => {
                found.push((word.to_ascii_lowercase(), Vec::new()));
                rest = after;
            }
        }
    }
    found.into_iter().filter_map(|(scheme, parameters)| challenge(&scheme, parameters)).collect()
}

fn challenge(scheme: &str, parameters: Vec<(String, String)>) -> Option<Challenge> {
    match scheme {
        "basic" => Some(Challenge::Basic),
        "bearer" => {
            let (mut realm, mut service, mut scope) = (None, None, None);
            for (name, value) in parameters {
                match &*name {
                    "realm" => realm = Some(value),
                    "service" => service = Some(value),
                    "scope" => scope = Some(value).filter(|s| !s.is_empty()),
                    _ => {}
                }
            }
            Some(Challenge::Bearer { realm: realm?, service, scope })
        }
        _ => None,
    }
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(c)
}

/// A token or a quoted string, and what follows it.
fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c == ',' || c.is_ascii_whitespace()).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        }
    }

    #[test]
    fn challenges_are_read_as_registries_send_them() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/busybox:pull,push""#;
        for (what, header, want) in [
            (
                "docker hub",
                hub,
                vec![bearer(
                    "https://auth.docker.io/token",
                    Some("registry.docker.io"),
                    Some("repository:library/busybox:pull,push"),
                )],
            ),
            ("basic", r#"Basic realm="Registry""#, vec![Challenge::Basic]),
            ("basic, bare", "basic", vec![Challenge::Basic]),
            (
                "two in one header",
                r#"Basic realm="a, b", BEARER realm="https://t/", service=reg"#,
                vec![Challenge::Basic, bearer("https://t/", Some("reg"), None)],
            ),
            (
                "an unknown one, with a token68, between",
                r#"Negotiate YWJj==, Bearer  realm = "https://t/" , scope="""#,
                vec![bearer("https://t/", None, None)],
            ),
            (
                "quoted quote",
                r#"Bearer realm="https://t/\"x",error="invalid_token""#,
                vec![bearer("https://t/\"x", None, None)],
            ),
            ("no realm", r#"Bearer service="x""#, vec![]),
            (
                "unfinished quote",
                r#"Bearer realm="https://t"#,
                vec![bearer("https://t", None, None)],
            ),
            ("rubbish", "=,=\"\u{fc},;, ,", vec![]),
            ("nothing", "", vec![]),
        ] {
            assert_eq!(parse(header), want, "{what}");
        }
    }
}
