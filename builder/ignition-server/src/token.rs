//! A pool's tokens. Each is made of one key, the pool and a period, so that a controller that is
//! started again has the same ones; the server knows their hashes only. Pure but for a new key.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use mosb_image::Digest;
use mosb_types::Secret;
use serde::{Deserialize, Serialize};

/// How long a token is the current one. It is accepted for as long again, and for as long before,
/// when nobody has it: a new stub may be used before the server has new hashes, and the clock of
/// another controller may be slower.
const PERIOD_SECONDS: i64 = 30 * 24 * 3600;
const KEY_LEN: usize = 32;
/// Separates these tokens from other uses of the key.
const PURPOSE: &[u8] = b"mosb ignition token\0";
/// The most hashes of a pool's tokens.
const MAX_TOKENS: usize = 8;

/// The key of which the tokens of all pools are made.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenKey(Secret<Vec<u8>>);

#[derive(Debug, thiserror::Error)]
#[error("a token key has {KEY_LEN} bytes, not {0}")]
pub struct TokenKeyError(usize);

/// What a machine of a pool shows to the server.
pub type Token = Secret<String>;

/// 30 days, counted from 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(i64);

/// The hash of a token, as the server has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TokenRecord {
    token: Digest,
    /// RFC 3339.
    not_after: String,
}

/// The tokens with which a pool's config is served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AcceptedTokens(Vec<(Digest, Timestamp)>);

/// What a token is to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenMatch {
    Accepted,
    Expired,
    Unknown,
}

impl TokenKey {
    /// A new key.
    ///
    /// # Panics
    /// Never: the operating system's random numbers do not fail once the program runs.
    pub fn generate() -> Self {
        let mut bytes = vec![0; KEY_LEN];
        rand::fill(&mut bytes).expect("the operating system has random numbers");
        Self(Secret::new(bytes))
    }

    /// # Errors
    /// Another length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenKeyError> {
        if bytes.len() != KEY_LEN {
            return Err(TokenKeyError(bytes.len()));
        }
        Ok(Self(Secret::new(bytes.to_vec())))
    }

    pub fn bytes(&self) -> &[u8] {
        self.0.expose()
    }

    /// The token of a pool in a period.
    pub fn token(&self, pool: &str, period: Period) -> Token {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.expose());
        let mut context = hmac::Context::with_key(&key);
        // The name of a pool has no NUL.
        for part in [PURPOSE, pool.as_bytes(), b"\0", period.0.to_string().as_bytes()] {
            context.update(part);
        }
        Secret::new(URL_SAFE_NO_PAD.encode(context.sign()))
    }
}

impl Period {
    /// The period of an instant.
    pub fn at(now: Timestamp) -> Self {
        Self(now.as_second().div_euclid(PERIOD_SECONDS))
    }

    /// The one before.
    pub fn previous(self) -> Self {
        Self(self.0 - 1)
    }

    /// The one after.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// When a token of this period is not accepted any more: a period after it was replaced.
    fn not_after(self) -> Timestamp {
        Timestamp::from_second((self.0 + 2) * PERIOD_SECONDS).unwrap_or(Timestamp::MAX)
    }
}

/// The hashes of the tokens that are accepted now, as JSON: of this period, of the one before and of
/// the next one. The same inputs give the same bytes.
pub fn accepted_tokens(key: &TokenKey, pool: &str, now: Timestamp) -> Vec<u8> {
    let period = Period::at(now);
    let record = |period: Period| TokenRecord {
        token: Digest::of(key.token(pool, period).expose().as_bytes()),
        not_after: period.not_after().to_string(),
    };
    let records = [record(period), record(period.previous()), record(period.next())];
    serde_json::to_vec(&records).expect("digests and texts are JSON")
}

impl AcceptedTokens {
    /// What [`accepted_tokens`] wrote.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let records: Vec<TokenRecord> =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if records.len() > MAX_TOKENS {
            return Err(format!("it has {} tokens, more than {MAX_TOKENS}", records.len()));
        }
        let parsed = records.into_iter().map(|record| {
            let not_after = record.not_after.parse::<Timestamp>();
            Ok((record.token, not_after.map_err(|error| format!("notAfter: {error}"))?))
        });
        Ok(Self(parsed.collect::<Result<_, String>>()?))
    }

    /// Compares a presented token with all of them, in a time that does not depend on its text.
    pub fn find(&self, presented: &str, now: Timestamp) -> TokenMatch {
        let presented = Digest::of(presented.as_bytes()).to_string();
        let mut found = TokenMatch::Unknown;
        for (token, not_after) in &self.0 {
            let is_equal =
                verify_slices_are_equal(token.to_string().as_bytes(), presented.as_bytes());
            if is_equal.is_ok() {
                found = if now < *not_after { TokenMatch::Accepted } else { TokenMatch::Expired };
            }
        }
        found
    }

    /// Tokens that nobody has: to take as long for a pool that there is not.
    pub fn of_nobody() -> Self {
        let digest = Digest::of(b"");
        Self(vec![(digest, Timestamp::MIN), (digest, Timestamp::MIN)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn key(byte: u8) -> TokenKey {
        TokenKey::from_bytes(&[byte; KEY_LEN]).unwrap()
    }

    #[test]
    fn a_token_follows_from_key_pool_and_period() {
        let (start, end) = (at(600 * PERIOD_SECONDS), at(601 * PERIOD_SECONDS - 1));
        let token =
            |key: &TokenKey, pool: &str, now| key.token(pool, Period::at(now)).expose().clone();
        let first = token(&key(1), "worker", start);
        assert_eq!(first.len(), 43);
        for (what, other, is_same) in [
            ("the end of the period", token(&key(1), "worker", end), true),
            ("the next period", token(&key(1), "worker", at(601 * PERIOD_SECONDS)), false),
            ("another pool", token(&key(1), "worker6", start), false),
            ("another key", token(&key(2), "worker", start), false),
        ] {
            assert_eq!(other == first, is_same, "{what}");
        }
    }

    #[test]
    fn a_token_is_accepted_in_its_period_in_the_next_one_and_by_what_was_written_before_it() {
        let key = key(1);
        let issued = at(600 * PERIOD_SECONDS);
        let token = key.token("worker", Period::at(issued));
        for (what, written, asked, want) in [
            ("at once", 0, 0, TokenMatch::Accepted),
            ("by hashes from before its period", -1, 1, TokenMatch::Accepted),
            ("by older hashes", -31 * DAY, 1, TokenMatch::Unknown),
            ("after its period", 31 * DAY, 31 * DAY, TokenMatch::Accepted),
            ("its last second", 31 * DAY, 60 * DAY - 1, TokenMatch::Accepted),
            ("after that", 31 * DAY, 60 * DAY, TokenMatch::Expired),
            ("with newer tokens", 61 * DAY, 61 * DAY, TokenMatch::Unknown),
            // The controller does not run: what was written ends by itself.
            ("long after", 0, 400 * DAY, TokenMatch::Expired),
        ] {
            let written = at(issued.as_second() + written);
            let tokens = AcceptedTokens::parse(&accepted_tokens(&key, "worker", written)).unwrap();
            let asked = at(issued.as_second() + asked);
            assert_eq!(tokens.find(token.expose(), asked), want, "{what}");
        }
    }

    #[test]
    fn other_texts_are_no_token() {
        let now = at(600 * PERIOD_SECONDS);
        let bytes = accepted_tokens(&key(1), "worker", now);
        assert_eq!(bytes, accepted_tokens(&key(1), "worker", now), "the same bytes again");
        let tokens = AcceptedTokens::parse(&bytes).unwrap();
        let infra = key(1).token("infra", Period::at(now));
        let text = String::from_utf8(bytes).unwrap();
        let hash = &text[text.find("sha256:").unwrap()..][.."sha256:".len() + 64];
        for (what, token) in [
            ("nothing", ""),
            ("the token of another pool", infra.expose()),
            ("the hash itself", hash),
        ] {
            assert_eq!(tokens.find(token, now), TokenMatch::Unknown, "{what}");
        }
        assert_eq!(AcceptedTokens::of_nobody().find("", now), TokenMatch::Expired);
    }

    #[test]
    fn what_is_no_list_of_tokens_is_rejected() {
        let record = r#"{"token":"sha256:aa","notAfter":"2026-01-01T00:00:00Z"}"#.to_owned();
        let good = record.replace("aa", &"ab".repeat(32));
        let many = format!("[{}]", [good.as_str(); MAX_TOKENS + 1].join(","));
        assert!(AcceptedTokens::parse(format!("[{good}]").as_bytes()).is_ok());
        for (what, text) in [
            ("no JSON", "{".to_owned()),
            ("no list", good.clone()),
            ("a short hash", format!("[{record}]")),
            ("no time", format!("[{}]", good.replace("2026-01-01T00:00:00Z", "soon"))),
            ("another field", format!("[{}]", good.replace('{', r#"{"a":1,"#))),
            ("too many", many),
        ] {
            assert!(AcceptedTokens::parse(text.as_bytes()).is_err(), "{what}");
        }
        assert!(TokenKey::from_bytes(&[0; 31]).is_err());
        assert_ne!(TokenKey::generate().bytes(), TokenKey::generate().bytes());
    }
}
