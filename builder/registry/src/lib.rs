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
//! | `client` | `Client`: options, connections, `resolve`, `confirm`; `Confirmed` |
//! | `location`, `registries_conf`, `signature_policy` | what is meant by a name, where it really is, and whether it may be read |
//! | `transport` | HTTP requests with retries, on top of `http`; certificates; a registry |
//! | `auth` | logging in: tokens, where logins are found, docker's files |
//! | `remote`, `upload`, `probe` | reading, writing and checking a repository |
//! | `layout` | directories, hostile ones too |
//! | `base_tree` | the tree of a base: from a cache on disk, from an image, from the layers; which prepared base was made for a target |
//! | `repository` | its tags and what they name, its owners, the deletion of a manifest |
//! | `manifest`, `select_platform`, `resolve`, `store`, `verify` | reading an image |
//! | `attached`, `attach` | signatures, attestations and referrers of an image: read, written |
//! | `signature_rule`, `check_signatures` | the signatures that a policy requires of an image, and whether it has them |
//! | `small_image` | an image with one file |
//! | `push`, `push_remote`, `tag_platform`, `refused_check` | writing an image |

mod attach;
mod attached;
mod auth;
pub mod base_tree;
mod check_signatures;
mod client;
mod error;
pub mod http;
mod layout;
mod location;
pub mod manifest;
mod probe;
mod push;
mod push_remote;
mod refused_check;
pub mod registries_conf;
mod remote;
mod repository;
mod resolve;
mod select_platform;
mod signature_policy;
mod signature_rule;
mod small_image;
mod store;
mod tag_platform;
mod transport;
mod upload;
mod verify;

pub use crate::http::{LeastSpeed, ProxyVariables, RetryPolicy};
pub use attached::{NamedManifest, Referrer};
pub use auth::credentials;
pub use auth::keyring::{CredentialSources, Logins};
pub use base_tree::prepared_records::PreparedRecords;
pub use base_tree::{cache, tree_image};
pub use check_signatures::AcceptedImage;
pub use client::{Client, Confirmed, Options};
pub use error::Error;
pub use layout::folder;
pub use location::{Destination, Source, Target};
pub use mosb_image::BlobRef;
pub use probe::{OpenUpload, PullRepository};
pub use push::{BlobFrom, BlobToPush, MovedTag, Push, PushPlan, Pushed, former_tag};
pub use repository::{Deletion, MAX_TAGS, TaggedImage, other_owners, owner_tag};
pub use resolve::Resolved;
pub use signature_policy::{SettingNames, read_policy, read_signature_rule};
pub use signature_rule::{SignatureRule, pulled_name};
pub use store::{BlobStream, Blobs, Store};
pub use transport::certs;
pub use transport::certs::CertDirs;
pub use transport::request::{RegistryMessage, Timeouts, TransferStats};
