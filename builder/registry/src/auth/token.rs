//! Tokens for a registry: what they are asked for, and how (distribution, token authentication; RFC
//! 6749, 6).

use std::time::{Duration, Instant};

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use url::Url;

use crate::auth::credentials::{Login, basic};
use crate::auth::keyring::{Credential, describe};
use crate::error::Error;
use crate::http::{is_loopback, same_origin};
use crate::transport::Transport;
use crate::transport::request::Request;
use mosb_types::Secret;

/// What a request does, and to which repositories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scopes(Vec<(String, Right)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    Pull,
    Push,
    Delete,
}

impl Scopes {
    pub fn pull(repository: &str) -> Self {
        Self(vec![(repository.to_owned(), Right::Pull)])
    }

    pub fn push(repository: &str) -> Self {
        Self(vec![(repository.to_owned(), Right::Push)])
    }

    /// What the distribution project's registry wants for every DELETE, that of an upload too;
    /// others don't know it.
    pub fn delete(repository: &str) -> Self {
        Self(vec![(repository.to_owned(), Right::Delete)])
    }

    /// A mount reads one repository and writes another.
    pub fn mount(from: &str, to: &str) -> Self {
        Self(vec![(to.to_owned(), Right::Push), (from.to_owned(), Right::Pull)])
    }

    pub fn covers(&self, other: &Self) -> bool {
        let gives =
            |has: Right, wants: Right| has == wants || (has, wants) == (Right::Push, Right::Pull);
        other.0.iter().all(|(name, wants)| {
            let mut mine = self.0.iter();
            mine.any(|(mine, has)| mine == name && gives(*has, *wants))
        })
    }

    /// As a token server is asked for them.
    pub fn texts(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|(name, right)| {
                let actions = match right {
                    Right::Pull => "pull",
                    Right::Push => "pull,push",
                    Right::Delete => "delete",
                };
                format!("repository:{name}:{actions}")
            })
            .collect()
    }
}

/// A token, as a header has it.
#[derive(Debug)]
pub(crate) struct Token {
    pub header: Secret<String>,
    pub renew_at: Instant,
}

/// The server that issues the tokens of a registry.
#[derive(Debug, Clone)]
pub(crate) struct TokenServer {
    realm: Url,
    service: Option<String>,
    /// Whether it may be asked: over TLS, or where the registry has no TLS either, or where both
    /// are on this machine. What it answers goes to the registry, so that it must not be asked
    /// without a login either.
    safe: bool,
    /// Whether it is another server than the registry.
    by_server: bool,
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

impl TokenServer {
    /// The server that a challenge of the registry at `base` names.
    pub fn new(base: &Url, realm: &str, service: Option<String>) -> Option<Self> {
        let mut realm = base.join(realm).ok()?;
        if !matches!(realm.scheme(), "http" | "https") {
            return None;
        }
        let same_host =
            realm.host() == base.host() && (realm.port().is_none() || realm.port() == base.port());
        if base.scheme() == "https" && realm.scheme() == "http" && same_host {
            // A registry behind a TLS proxy that doesn't tell it so names itself with http.
            realm.set_scheme("https").ok()?;
            realm.set_port(base.port()).ok()?;
        }
        let on_loopback = |url: &Url| url.host().is_some_and(|host| is_loopback(&host));
        let safe = realm.scheme() == "https"
            || base.scheme() == "http"
            || (on_loopback(base) && on_loopback(&realm));
        Some(Self { by_server: !same_origin(&realm, base), realm, service, safe })
    }

    /// A new token for these scopes. `image` is what it is needed for.
    pub async fn token(
        &self,
        transport: &Transport,
        scopes: &[String],
        credential: Option<&Credential>,
        image: String,
    ) -> Result<Token, Error> {
        const DOING: &str = "the request for a token";
        if !self.safe {
            return Err(Error::TokenServer {
                image,
                realm: self.realm.origin().ascii_serialization(),
            });
        }
        let (mut call, auth) = token_call(&self.realm, self.service.as_deref(), scopes, credential);
        call.by_server = self.by_server;
        let answer = transport.send(&call, auth.as_ref()).await?;
        let host = self.realm.host_str().unwrap_or_default().to_owned();
        if !answer.is_success() {
            let message = answer.message();
            return Err(match answer.status {
                status @ (400 | 401 | 403) => {
                    Error::Denied { image, status, with: describe(credential), message }
                }
                status => Error::Unexpected { image, host, doing: DOING, status, message },
            });
        }
        let bad = |what: &str| Error::BadAnswer {
            image: image.clone(),
            host: host.clone(),
            doing: DOING,
            what: what.to_owned(),
        };
        let token: TokenAnswer =
            serde_json::from_slice(&answer.body).map_err(|_| bad("text that is not JSON"))?;
        let value = [token.token, token.access_token]
            .into_iter()
            .flatten()
            .find(|value| !value.is_empty())
            .ok_or_else(|| bad("no token"))?;
        let life = token.expires_in.unwrap_or(SHORTEST_LIFE).clamp(1, 24 * 3600);
        Ok(Token {
            header: bearer(&value),
            // A token that ends while a request is on its way would cost another one.
            renew_at: Instant::now() + Duration::from_secs(life).mul_f32(0.9),
        })
    }
}

/// A token as a header has it.
pub(crate) fn bearer(token: &str) -> Secret<String> {
    Secret::new(format!("Bearer {token}"))
}

/// The request for a token: with a refresh token by POST, else by GET.
fn token_call(
    realm: &Url,
    service: Option<&str>,
    scopes: &[String],
    credential: Option<&Credential>,
) -> (Request, Option<Secret<String>>) {
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
            let mut call = Request::new(Method::POST, url)
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
            Request::new(Method::GET, url)
        }
    };
    let auth = match credential.map(|c| &c.login) {
        Some(Login::Password { user, password }) => Some(basic(user, password)),
        Some(Login::Identity(_) | Login::Token(_)) | None => None,
    };
    let call = Request { limit: Some(TOKEN_LIMIT), ..call };
    (call, auth)
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
            ("push for delete", &push, &Scopes::delete("a"), false),
            ("delete for pull", &Scopes::delete("a"), &pull, false),
            ("other repository", &Scopes::push("b"), &pull, false),
        ] {
            assert_eq!(has.covers(wants), want, "{what}");
        }
        assert_eq!(mount.texts(), ["repository:a:pull,push", "repository:b:pull"]);
    }

    #[test]
    fn token_servers_speak_tls_if_their_registry_does() {
        for (base, realm, want, safe, by_server) in [
            ("https://r.example/", "https://t.example/t", "https://t.example/t", true, true),
            ("https://r.example/", "/token", "https://r.example/token", true, false),
            ("https://r.example/", "http://t.example/t", "http://t.example/t", false, true),
            ("https://r.example/", "http://169.254.1.1/", "http://169.254.1.1/", false, true),
            ("https://r.example/", "http://localhost/t", "http://localhost/t", false, true),
            // It is behind a TLS proxy that doesn't say so.
            (
                "https://r.example:8443/",
                "http://r.example/t",
                "https://r.example:8443/t",
                true,
                false,
            ),
            ("http://r.example/", "http://t.example/t", "http://t.example/t", true, true),
            (
                "https://localhost:5000/",
                "http://127.0.0.1:5001/t",
                "http://127.0.0.1:5001/t",
                true,
                true,
            ),
        ] {
            let base = Url::parse(base).unwrap();
            let server = TokenServer::new(&base, realm, None).unwrap();
            assert_eq!(server.realm.as_str(), want, "{base} {realm}");
            assert_eq!((server.safe, server.by_server), (safe, by_server), "{base} {realm}");
        }
        let base = Url::parse("https://r.example/").unwrap();
        assert!(TokenServer::new(&base, "ftp://t.example/", None).is_none());
    }

    #[test]
    fn a_token_is_requested_as_the_server_requires() {
        let realm = Url::parse("https://auth.example/token?x=1").unwrap();
        let credential = |login| Credential { login, origin: "f".to_owned() };
        let secret = |s: &str| Secret::new(s.to_owned());
        let scopes = Scopes::mount("b", "a").texts();
        let (call, auth) = token_call(&realm, Some("reg"), &scopes, None);
        assert_eq!(
            call.url.as_str(),
            "https://auth.example/token?x=1&service=reg&scope=repository%3Aa%3Apull%2Cpush&scope=repository%3Ab%3Apull"
        );
        assert!(auth.is_none());
        let login = Login::Password { user: secret("u"), password: secret("p") };
        let (call, auth) = token_call(&realm, None, &scopes[1..], Some(&credential(login)));
        assert!(call.url.as_str().ends_with("&account=u"), "{}", call.url);
        assert_eq!(auth.map(|a| a.expose().clone()).as_deref(), Some("Basic dTpw"));
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
