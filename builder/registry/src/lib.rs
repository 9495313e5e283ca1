//! Reads and writes images in registries, OCI layout directories and `dir:` directories. This crate
//! does not interpret the content of layers.
//!
//! Input: references of users ([`Source`], [`Target`]) and the bytes of an image. Output: a
//! [`Resolved`] image with its [`Store`] of blobs, and a [`Pushed`] one. Invariant: bytes that are
//! read match their digest, and the registry returned a [`Confirmed`] digest after the push.
//!
//! HTTP is our own thin layer on reqwest and not oci-client, whose 0.18 hides a token server's 429
//! and 5xx behind unauthenticated requests, keeps neither status nor `Retry-After` in its errors,
//! does not renew a token on a 401, asks for no scope on the source of a mount, and has no client
//! certificates, resumed uploads or CAs for one host.
//!
//! | file | holds |
//! | --- | --- |
//! | `client` | `Client`: options, connections, `resolve`, `confirm` |
//! | `location`, `registries_conf`, `signature_policy` | what is meant by a name, where it really is, and whether it may be read |
//! | `transport`, `request`, `error_body`, `certs` | HTTP requests with retries, on top of `http` |
//! | `auth`, `token`, `challenge`, `keyring`, `credentials` | logging in |
//! | `endpoint`, `remote`, `upload`, `probe` | a registry; reading, writing and checking a repository |
//! | `folder`, `atomic`, `layout`, `layout_write` | directories, hostile ones too |
//! | `base_tree`, `blobs`, `cache`, `tree_image` | the tree of a base: from a cache on disk, from an image, from the layers |
//! | `cache_directory`, `prepared_records` | files that can be made again; which prepared base was made for a target |
//! | `manifest`, `select_platform`, `resolve`, `store`, `verify` | reading an image |
//! | `push`, `push_plan`, `push_remote`, `refused_check`, `confirmed` | writing an image |

mod atomic;
mod auth;
pub mod base_tree;
pub mod blobs;
pub mod cache;
mod cache_directory;
pub mod certs;
pub mod challenge;
mod client;
mod confirmed;
pub mod credentials;
mod endpoint;
mod error;
mod error_body;
pub mod folder;
pub mod http;
mod keyring;
mod layout;
mod layout_write;
mod location;
pub mod manifest;
mod prepared_records;
mod probe;
mod push;
mod push_plan;
mod push_remote;
mod refused_check;
pub mod registries_conf;
mod remote;
mod request;
mod resolve;
mod select_platform;
mod setting_names;
mod signature_policy;
mod store;
mod tag_platform;
mod token;
mod transport;
pub mod tree_image;
mod upload;
mod verify;

pub use crate::http::{LeastSpeed, ProxyVariables, RetryPolicy};
pub use blobs::{BlobStream, Blobs};
pub use certs::CertDirs;
pub use client::{Client, Options};
pub use confirmed::Confirmed;
pub use error::Error;
pub use error_body::RegistryMessage;
pub use keyring::{CredentialSources, Logins};
pub use location::{Destination, Source, Target};
pub use manifest::BlobRef;
pub use prepared_records::PreparedRecords;
pub use probe::{OpenUpload, PullRepository};
pub use push::{Push, Pushed};
pub use push_plan::{BlobFrom, BlobToPush, MovedTag, PushPlan, former_tag};
pub use request::{Timeouts, TransferStats};
pub use resolve::Resolved;
pub use setting_names::SettingNames;
pub use signature_policy::read_policy;
pub use store::Store;
