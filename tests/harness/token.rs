//! A server that issues tokens for a registry, according to the token specification of the
//! distribution project.

use std::io::{self, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::http::{Head, answer};
use super::registry::{PASSWORD, READER, USER};
use super::server::Listener;
use super::tls::Certificate;

/// The issuer and the service of the tokens, which the registry's configuration repeats.
pub const ISSUER: &str = "tests";
pub const SERVICE: &str = "registry-of-tests";
/// Repositories with this prefix can be pulled without credentials.
pub const PUBLIC: &str = "public/";

/// A running token server.
#[derive(Debug)]
pub struct TokenServer {
    listener: Listener,
    /// The certificate that the registry trusts.
    pub certificate: PathBuf,
}

impl TokenServer {
    pub fn start(directory: &Path) -> Self {
        let signer = Arc::new(Certificate::signer(directory, "token-signer"));
        let certificate = signer.certificate.clone();
        let listener = Listener::start(move |stream| serve(stream, &signer));
        Self { listener, certificate }
    }

    /// The realm in the registry's configuration.
    pub fn realm(&self) -> String {
        format!("http://{}/token", self.listener.address())
    }
}

fn serve(stream: TcpStream, signer: &Certificate) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    let Some(head) = Head::read(&mut reader)? else {
        return Ok(());
    };
    head.drain(&mut reader)?;
    if head.method != "GET" || head.path() != "/token" {
        return answer(&mut stream, 404, &[], "");
    }
    let is = |given: &str, user| {
        given == format!("Basic {}", STANDARD.encode(format!("{user}:{PASSWORD}")))
    };
    let who = match head.header("authorization") {
        None => Client::Anonymous,
        Some(given) if is(given, USER) => Client::User,
        Some(given) if is(given, READER) => Client::Reader,
        Some(_) => {
            return answer(&mut stream, 401, &[], r#"{"details":"wrong user or password"}"#);
        }
    };
    let url =
        url::Url::parse(&format!("http://localhost{}", head.target)).map_err(io::Error::other)?;
    let scopes = url.query_pairs().filter(|(name, _)| name == "scope");
    let scopes =
        scopes.flat_map(|(_, scope)| scope.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let granted: Vec<_> = scopes.filter_map(|scope| grant(&scope, who)).collect();
    let token = token(signer, &granted);
    let body = json!({"token": token, "expires_in": 300}).to_string();
    answer(&mut stream, 200, &[("content-type", "application/json")], &body)
}

/// The client that requests a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Anonymous,
    Reader,
    User,
}

/// The granted part of a scope: everything for the user, pulls for the reader, pulls of public
/// repositories for anonymous clients.
fn grant(scope: &str, who: Client) -> Option<Value> {
    let (kind, rest) = scope.split_once(':')?;
    let (name, actions) = rest.rsplit_once(':')?;
    let actions: Vec<_> = actions
        .split(',')
        .filter(|action| match who {
            Client::User => true,
            Client::Reader => *action == "pull",
            Client::Anonymous => *action == "pull" && name.starts_with(PUBLIC),
        })
        .collect();
    Some(json!({"type": kind, "name": name, "actions": actions}))
}

fn token(signer: &Certificate, access: &[Value]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let header = json!({"typ": "JWT", "alg": "RS256", "x5c": [signer.x5c()]});
    let claims = json!({
        "iss": ISSUER, "aud": SERVICE, "sub": "", "jti": now.to_string(),
        "iat": now, "nbf": now - 10, "exp": now + 300, "access": access,
    });
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let signature = URL_SAFE_NO_PAD.encode(signer.sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}
