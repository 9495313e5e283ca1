//! What all HTTP code shares: one way to make a client, one reading of proxies, one decision
//! whether a request is sent again, one rule which addresses a server may name, and one measure of
//! a peer that is too slow. No requests are sent from here.

mod client;
mod proxy;
mod request_error;
mod retry;
mod speed;
mod upload_speed;
mod url_source;

pub use client::{Trust, client, same_origin};
pub use proxy::{BadProxy, ProxyVariables};
pub use proxy::{Proxies, is_loopback};
pub use request_error::RequestError;
pub use retry::{AttemptOutcome, RetryDecision, RetryPolicy, decide_retry, jitter, retry_after};
pub use speed::LeastSpeed;
pub use speed::SpeedMeter;
pub use upload_speed::UploadMeter;
pub use url_source::{ForbiddenAddress, UrlSource};
