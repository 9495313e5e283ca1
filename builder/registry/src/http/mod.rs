//! What all HTTP code shares: one way to make a client, one reading of proxies, one decision
//! whether a request is sent again, one rule which addresses a server may name, and one measure of
//! a peer that is too slow. No requests are sent from here.

mod client;
mod proxy;
mod retry;
mod speed;
mod url_source;

pub use client::{RequestError, Trust, client, root_cause, same_origin};
pub use proxy::{BadProxy, Proxies, ProxyVariables, is_loopback};
pub use retry::{AttemptOutcome, RetryDecision, RetryPolicy, decide_retry, jitter, retry_after};
pub use speed::{LeastSpeed, SpeedMeter, UploadMeter};
pub use url_source::{ForbiddenAddress, UrlSource};
