//! What every controller of mosb needs, without what any of them is about.
//!
//! | module | does |
//! | --- | --- |
//! | `watch` | objects of the API → stores; which watches failed; our writes that the stores may not show yet |
//! | `queue` | which key is due, and the pause after a failure |
//! | `driver` | workers, and the reconciles that run |
//! | `lease` | only the process that holds the Lease writes |
//! | `http_server` | `/healthz`, `/readyz`, `/metrics` |
//! | `response_timeout` | time limits for the API server |
//! | `kinds`, `error` | the kinds of the API, and its errors |

pub mod driver;
pub mod error;
pub mod http_server;
pub mod kinds;
pub mod lease;
pub mod queue;
pub mod response_timeout;
pub mod watch;

pub use error::Error;
pub use kinds::Kind;
