//! What every room that speaks HTTP shares: one way to make a client, one reading of proxies, one decision whether
//! a request is sent again, one rule which addresses a server may name, one measure of a
//! peer that is too slow, and values that are never printed. No requests are sent from here.

mod broken;
mod client;
mod named_by;
mod proxy;
mod retry;
mod secret;
mod speed;
mod upload_speed;

pub use broken::Broken;
pub use client::{Trust, client, same_origin};
pub use named_by::{ForbiddenAddress, NamedBy};
pub use proxy::{BadProxy, ProxyVariables};
pub use proxy::{Proxies, is_loopback};
pub use retry::{Next, Outcome, RetryPolicy, decide, jitter, retry_after};
pub use secret::{Secret, Wipe};
pub use speed::LeastSpeed;
pub use speed::SpeedMeter;
pub use upload_speed::UploadMeter;
