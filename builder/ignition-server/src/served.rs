//! Who gets which config. Pure: files of the mounted directory → pools; a request → an answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use rustls::sign::CertifiedKey;

use super::authority::CertificateInfo;
use super::tls::certified_key;
use super::token::{AcceptedTokens, TokenMatch};

/// The files of the directory, by name.
pub(crate) type Files = BTreeMap<String, Bytes>;

/// What is served at a moment.
pub(crate) struct Served {
    files: Files,
    pools: BTreeMap<String, PoolConfig>,
    pub certificate: Option<Arc<CertifiedKey>>,
    certificate_end: Option<Timestamp>,
}

struct PoolConfig {
    tokens: AcceptedTokens,
    /// gzip of an Ignition config.
    config: Bytes,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Config(Bytes),
    /// A token or a config that the server may have later: Ignition asks again. The peer does not learn
    /// which; the log does.
    NotYet(Refusal),
    NotFound(Refusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoToken,
    NoSuchPool,
    WrongToken,
    ExpiredToken,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoToken => "it has no token",
            Self::NoSuchPool => "there is no config for this path",
            Self::WrongToken => "its token is not one of this pool",
            Self::ExpiredToken => "its token expired: make the machine from the current user data",
        })
    }
}

impl Served {
    /// What these files serve, and what of them can't be used.
    pub fn new(files: Files) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let file = |key: &str| files.get(key).filter(|bytes| !bytes.is_empty());
        let certificate = match (file(CERTIFICATE), file(PRIVATE_KEY)) {
            (Some(certificate), Some(key)) => certified_key(certificate, key)
                .map_err(|problem| problems.push(format!("{CERTIFICATE}: {problem}")))
                .ok(),
            _ => None,
        };
        let info = file(CERTIFICATE_INFO).and_then(|bytes| CertificateInfo::from_json(bytes));
        let certificate_end = info.and_then(|info| info.not_after.parse().ok());
        let mut pools = BTreeMap::new();
        for pool in files.keys().filter_map(|key| pool_of(key)) {
            let both = (file(&config_key(pool)), file(&tokens_key(pool)));
            let (Some(config), Some(tokens)) = both else {
                continue;
            };
            match AcceptedTokens::parse(tokens) {
                Ok(tokens) => {
                    pools.insert(pool.to_owned(), PoolConfig { tokens, config: config.clone() });
                }
                Err(problem) => problems.push(format!("{}: {problem}", tokens_key(pool))),
            }
        }
        problems.dedup();
        (Self { files, pools, certificate, certificate_end }, problems)
    }

    /// Whether it is made of these files.
    pub fn is_of(&self, files: &Files) -> bool {
        self.files == *files
    }

    /// The names of the pools.
    pub fn pools(&self) -> impl Iterator<Item = &str> {
        self.pools.keys().map(String::as_str)
    }

    /// Why machines can't fetch their config.
    pub fn not_ready(&self, now: Timestamp) -> Option<String> {
        match (&self.certificate, self.certificate_end) {
            (None, _) => Some("the server has no certificate yet".to_owned()),
            (Some(_), Some(end)) if end <= now => {
                Some(format!("the server's certificate expired at {end}"))
            }
            _ => None,
        }
    }

    /// The answer to a GET of this path. `token` is what the request shows, if anything.
    pub fn answer(&self, path: &str, token: Option<&str>, now: Timestamp) -> Answer {
        let pool = path.strip_prefix('/').and_then(|pool| self.pools.get(pool));
        let nobody;
        let tokens = match pool {
            Some(pool) => &pool.tokens,
            None => {
                nobody = AcceptedTokens::of_nobody();
                &nobody
            }
        };
        let found = tokens.find(token.unwrap_or_default(), now);
        match (pool, token, found) {
            (None, None, _) => Answer::NotFound(Refusal::NoSuchPool),
            (None, Some(_), _) => Answer::NotYet(Refusal::NoSuchPool),
            (Some(_), None, _) => Answer::NotFound(Refusal::NoToken),
            (Some(_), Some(_), TokenMatch::Unknown) => Answer::NotYet(Refusal::WrongToken),
            (Some(_), Some(_), TokenMatch::Expired) => Answer::NotFound(Refusal::ExpiredToken),
            (Some(pool), Some(_), TokenMatch::Accepted) => Answer::Config(pool.config.clone()),
        }
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pools: Vec<&str> = self.pools().collect();
        f.debug_struct("Served").field("pools", &pools).finish_non_exhaustive()
    }
}

/// The certificates that the server shows, as PEM.
pub const CERTIFICATE: &str = "tls.crt";
/// The private key, as PEM.
pub const PRIVATE_KEY: &str = "tls.key";
/// What the certificate is for, as JSON; for the controller, which renews it.
pub const CERTIFICATE_INFO: &str = "tls.json";
/// Ends the key with the gzip of a pool's config.
const CONFIG_SUFFIX: &str = ".ign.gz";
/// Ends the key with the hashes of a pool's tokens.
const TOKENS_SUFFIX: &str = ".tokens";

/// The key with the gzip of a pool's config.
pub fn config_key(pool: &str) -> String {
    format!("{pool}{CONFIG_SUFFIX}")
}

/// The key with the hashes of a pool's tokens.
pub fn tokens_key(pool: &str) -> String {
    format!("{pool}{TOKENS_SUFFIX}")
}

/// The pool that a key is for; none if it is for the server itself, or of somebody else.
pub fn pool_of(key: &str) -> Option<&str> {
    key.strip_suffix(CONFIG_SUFFIX).or_else(|| key.strip_suffix(TOKENS_SUFFIX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Authority, Period, TokenKey, accepted_tokens};

    const NOW: &str = "2026-11-25T10:00:00Z";

    fn files(all: &[(String, Vec<u8>)]) -> Files {
        all.iter().map(|(key, bytes)| (key.clone(), bytes.clone().into())).collect()
    }

    fn text(key: &str, bytes: &[u8]) -> (String, Vec<u8>) {
        (key.to_owned(), bytes.to_vec())
    }

    #[test]
    fn configs_need_a_token_of_their_pool() {
        let now: Timestamp = NOW.parse().unwrap();
        let key = TokenKey::generate();
        let pools = ["worker", "infra"];
        let all = pools.map(|pool| {
            let config = text(&config_key(pool), format!("config of {pool}").as_bytes());
            [config, text(&tokens_key(pool), &accepted_tokens(&key, pool, now))]
        });
        let (served, problems) = Served::new(files(&all.concat()));
        assert_eq!(
            (problems, served.pools().collect::<Vec<_>>()),
            (vec![], vec!["infra", "worker"])
        );
        let period = Period::at(now);
        let token = |pool: &str, period| key.token(pool, period).expose().clone();
        let own = token("worker", period);
        let older = token("worker", period.previous());
        let oldest = token("worker", period.previous().previous());
        let others = token("infra", period);
        let later: Timestamp = "2027-11-25T10:00:00Z".parse().unwrap();
        let config = Answer::Config("config of worker".into());
        let (refused, not_yet) = (Answer::NotFound, Answer::NotYet);
        for (what, path, token, at, want) in [
            ("its own token", "/worker", Some(&own), now, config.clone()),
            ("the previous token", "/worker", Some(&older), now, config),
            ("the one before", "/worker", Some(&oldest), now, not_yet(Refusal::WrongToken)),
            ("too late", "/worker", Some(&own), later, refused(Refusal::ExpiredToken)),
            ("another pool's", "/worker", Some(&others), now, not_yet(Refusal::WrongToken)),
            ("none", "/worker", None, now, refused(Refusal::NoToken)),
            ("no pool", "/none", Some(&own), now, not_yet(Refusal::NoSuchPool)),
            ("neither", "/none", None, now, refused(Refusal::NoSuchPool)),
            ("a key", "/tls.key", Some(&own), now, not_yet(Refusal::NoSuchPool)),
            ("no slash", "worker", Some(&own), now, not_yet(Refusal::NoSuchPool)),
            ("more", "/worker/", Some(&own), now, not_yet(Refusal::NoSuchPool)),
            ("a way out", "/../worker", Some(&own), now, not_yet(Refusal::NoSuchPool)),
        ] {
            assert_eq!(served.answer(path, token.map(String::as_str), at), want, "{what}");
        }
    }

    #[test]
    fn only_broken_configs_are_not_served() {
        let now: Timestamp = NOW.parse().unwrap();
        let key = TokenKey::generate();
        let good = accepted_tokens(&key, "worker", now);
        let (served, problems) = Served::new(files(&[
            text("worker.ign.gz", b"config"),
            text("worker.tokens", &good),
            text("bad.ign.gz", b"config"),
            text("bad.tokens", b"{"),
            text("alone.ign.gz", b"config"),
            text("empty.ign.gz", b""),
            text("empty.tokens", &good),
            text("tls.crt", b"-----BEGIN CERTIFICATE-----"),
            text("tls.key", b"hunter2"),
        ]));
        assert_eq!(served.pools().collect::<Vec<_>>(), ["worker"]);
        let places: Vec<_> = problems.iter().map(|text| text.split(':').next().unwrap()).collect();
        assert_eq!(places, ["tls.crt", "bad.tokens"], "{problems:?}");
        assert!(!format!("{problems:?} {served:?}").contains("hunter2"));
        assert_eq!(served.not_ready(now).as_deref(), Some("the server has no certificate yet"));
    }

    #[test]
    fn it_is_ready_while_its_certificate_is_valid() {
        let now: Timestamp = NOW.parse().unwrap();
        let authority = Authority::generate(now).unwrap();
        let issued = authority.issue("ignition.example.com", now).unwrap();
        let other = authority.issue("ignition.example.com", now).unwrap();
        let of = |key: &str| {
            Served::new(files(&[
                text("tls.crt", issued.certificate.as_bytes()),
                text("tls.key", key.as_bytes()),
                text("tls.json", &issued.info.to_json()),
            ]))
        };
        let (served, problems) = of(issued.key.expose());
        assert_eq!(problems, [""; 0]);
        assert_eq!(served.not_ready(now), None);
        let end = "2027-02-23T00:00:00Z".parse().unwrap();
        assert!(served.not_ready(end).unwrap().contains("expired"));
        // The key of another certificate.
        let (served, problems) = of(other.key.expose());
        assert_eq!(problems.len(), 1);
        assert!(served.not_ready(now).is_some());
    }

    #[test]
    fn keys_name_their_pool() {
        for pool in ["worker", "tls", "a.tokens", "b.ign.gz"] {
            assert_eq!(pool_of(&config_key(pool)), Some(pool));
            assert_eq!(pool_of(&tokens_key(pool)), Some(pool));
        }
        for key in [CERTIFICATE, PRIVATE_KEY, CERTIFICATE_INFO, "worker"] {
            assert_eq!(pool_of(key), None, "{key}");
        }
    }
}
