//! What every controller of mosb needs: no decision of one is here. Of what they are about, it has the
//! lengths of waits.
//!
//! A controller is a [`Reconciler`](driver::Reconciler): it observes the stores, decides, looks up
//! what they lack, and applies [`Action`](write::Action)s. Those that only one controller knows how
//! to make are effects of its own.
//!
//! | module | does |
//! | --- | --- |
//! | `watch` | objects of the API → stores; which watches failed; our writes that the stores may not show yet |
//! | `queue` | which key is due |
//! | `driver` | event → key → observe, decide, look up, apply → the next time |
//! | `write` | actions → requests to the API, with the versions that they were decided on |
//! | `waits` | back-offs, and other waits until something is tried again |
//! | `lease` | only the process that holds the Lease writes |
//! | `http_server` | `/healthz`, `/readyz`, `/metrics` |
//! | `response_timeout` | time limits for the API server |
//! | `kind`, `error`, `problem` | what a kind of the API is, its errors, and what a decision sees of an error |
//! | `fake_api` | the API server of unit tests, with the feature `test` |
//!
//! It is not `kube::runtime::Controller`. That one runs a key only while the object of this name is
//! in the store of one kind, and waits for the first list of that store alone; here a key outlives
//! its object, and a snapshot needs all stores. Its queue has no priorities, and any event ends a
//! back-off; here a failed key pauses until an input of its problem changes. It does not end a
//! running reconcile when the inputs change. Each of its `owns` and `watches` is one more watch
//! (shared streams are an unstable feature); here all controllers share the stores.

pub mod driver;
pub mod error;
#[cfg(any(test, feature = "test"))]
pub mod fake_api;
pub mod http_server;
pub mod kind;
pub mod lease;
pub mod problem;
pub mod queue;
pub mod response_timeout;
pub mod waits;
pub mod watch;
pub mod write;

pub use error::Error;
pub use kind::Kind;
pub use problem::{EarlierProblem, Problem};
