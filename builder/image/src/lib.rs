//! OCI values, all pure: bytes in, bytes out, the same bytes every time.
//!
//! Input: the bytes of manifests, configs and layers. Output: references, digests, the
//! [`tree::BaseTree`] of a base, the [`overlay::Overlay`] of its changes, and the new layer, config
//! and manifest. Invariant: equal values are equal bytes, whatever the clock, user, umask, locale or
//! order of a map.

mod blob_ref;
pub mod digest;
pub mod edit;
pub mod gzip;
pub mod hidden;
pub mod layer;
pub mod media_type;
pub mod ostree_reference;
pub mod overlay;
pub mod packages;
pub mod path;
pub mod platform;
pub mod reference;
pub mod signature_policy;
pub mod tree;

pub use blob_ref::BlobRef;
pub use digest::{DiffId, Digest, DigestError};
pub use ostree_reference::OstreeImageRef;
pub use path::{TreePath, TreePathError};
pub use platform::{Platform, PlatformError};
pub use reference::{ImageRef, PinnedRef, ReferenceError, RepoRef};
