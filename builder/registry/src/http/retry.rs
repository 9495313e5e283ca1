//! Decides whether and when a request is retried.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, SystemTime};

/// How often and how long a request is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts of one request, including the first.
    pub tries: u32,
    /// Pause after the first attempt; doubled each time.
    pub first: Duration,
    /// Longest pause, even if the registry asks for a longer one.
    pub cap: Duration,
    /// No attempt begins after this time.
    pub total: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            tries: 6,
            first: Duration::from_millis(300),
            cap: Duration::from_secs(20),
            total: Duration::from_secs(90),
        }
    }
}

/// How one attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    Status {
        /// The HTTP status.
        status: u16,
        /// What `Retry-After` asks for.
        retry_after: Option<Duration>,
    },
    NoConnection,
    /// The connection was closed before the response was complete.
    Cut,
    TimedOut,
    /// The transfer was below the minimum speed.
    TooSlow,
    /// A retry can't help: untrusted TLS, an invalid request.
    Fatal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// The response is final: use it, success or error.
    Return,
    RetryAfter(Duration),
    /// Retries are exhausted.
    GiveUp,
}

/// Decides after attempt number `attempt` (from 1) and `spent` time. `jitter` (any number) spreads
/// the pause between half and all of its length, so that many builds do not retry at the same time.
pub fn decide_retry(
    outcome: AttemptOutcome,
    attempt: u32,
    spent: Duration,
    policy: &RetryPolicy,
    jitter: u64,
) -> RetryDecision {
    let asked = match outcome {
        AttemptOutcome::Status { status: 408 | 425 | 429 | 500..=599, retry_after } => retry_after,
        AttemptOutcome::Status { .. } => return RetryDecision::Return,
        AttemptOutcome::NoConnection
        | AttemptOutcome::Cut
        | AttemptOutcome::TimedOut
        | AttemptOutcome::TooSlow => None,
        AttemptOutcome::Fatal => return RetryDecision::GiveUp,
    };
    let doubled =
        policy.first.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(policy.cap);
    let half = doubled / 2;
    let spread = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
    let pause = half + Duration::from_nanos(jitter % spread);
    let pause = asked.map_or(pause, |asked| asked.min(policy.cap).max(pause));
    if attempt >= policy.tries || spent + pause > policy.total {
        return RetryDecision::GiveUp;
    }
    RetryDecision::RetryAfter(pause)
}

/// A random number for [`decide_retry`].
pub fn jitter() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// `Retry-After`: seconds, or a date (RFC 9110, 10.2.3).
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        tries: 4,
        first: Duration::from_secs(2),
        cap: Duration::from_secs(6),
        total: Duration::from_secs(60),
    };

    fn status(status: u16, retry_after: Option<u64>) -> AttemptOutcome {
        AttemptOutcome::Status { status, retry_after: retry_after.map(Duration::from_secs) }
    }

    #[test]
    fn transient_errors_are_retried_and_permanent_ones_returned() {
        let again = |s| RetryDecision::RetryAfter(Duration::from_secs(s));
        for (what, outcome, attempt, spent, want) in [
            ("fine", status(200, None), 1, 0, RetryDecision::Return),
            ("not there", status(404, None), 1, 0, RetryDecision::Return),
            ("unauthorized", status(401, None), 1, 0, RetryDecision::Return),
            ("forbidden", status(403, Some(1)), 1, 0, RetryDecision::Return),
            ("our fault", status(400, None), 1, 0, RetryDecision::Return),
            ("slow request", status(408, None), 1, 0, again(1)),
            ("server", status(500, None), 1, 0, again(1)),
            ("server, second", status(503, None), 2, 0, again(2)),
            ("server, third, capped", status(503, None), 3, 0, again(3)),
            ("server, last", status(503, None), 4, 0, RetryDecision::GiveUp),
            ("too many, told", status(429, Some(5)), 1, 0, again(5)),
            ("too many, told too long", status(429, Some(500)), 1, 0, again(6)),
            ("too many, told less than ours", status(429, Some(0)), 2, 0, again(2)),
            ("no time left", status(503, None), 1, 60, RetryDecision::GiveUp),
            ("no connection", AttemptOutcome::NoConnection, 1, 0, again(1)),
            ("cut", AttemptOutcome::Cut, 1, 0, again(1)),
            ("slow", AttemptOutcome::TimedOut, 4, 0, RetryDecision::GiveUp),
            ("dripping", AttemptOutcome::TooSlow, 1, 30, again(1)),
            ("untrusted", AttemptOutcome::Fatal, 1, 0, RetryDecision::GiveUp),
        ] {
            let got = decide_retry(outcome, attempt, Duration::from_secs(spent), &POLICY, 0);
            assert_eq!(got, want, "{what}");
        }
    }

    #[test]
    fn jitter_stays_between_half_and_all() {
        for jitter in [0, 1, 999_999_999, u64::MAX, jitter()] {
            let RetryDecision::RetryAfter(pause) =
                decide_retry(AttemptOutcome::Cut, 1, Duration::ZERO, &POLICY, jitter)
            else {
                panic!("not tried again with {jitter}");
            };
            assert!(
                pause >= Duration::from_secs(1) && pause <= Duration::from_secs(2),
                "{pause:?}"
            );
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        // 2026-11-21 18:00:00 UTC
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_284_000);
        for (value, want) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Sat, 21 Nov 2026 18:00:30 GMT", Some(30)),
            ("Sun, 22 Nov 2026 18:00:00 GMT", Some(86_400)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0)),
            ("Tue, 29 Feb 2028 00:00:00 GMT", Some(40_111_200)),
            ("-1", None),
            ("soon", None),
            ("Sat, 21 Foo 2026 18:00:30 GMT", None),
            ("Sat, 21 Nov 2026 18:00:30 CET", None),
            ("Sun, 21 Nov 2026 18:00:30 GMT", None),
            ("Sat, 21 Nov 2026 99:00:30 GMT", None),
            ("", None),
        ] {
            assert_eq!(retry_after(value, now), want.map(Duration::from_secs), "{value:?}");
        }
    }
}
