//! Where the bytes of blobs come from: a repository of a registry, or a layout directory.

use std::future::Future;
use std::ops::Range;

use bytes::Bytes;
use futures_util::stream::BoxStream;

use mosb_image::{Digest, layer};

/// The bytes of a blob on their way in.
pub type BlobStream<E> = BoxStream<'static, Result<Bytes, E>>;

/// A place that holds blobs.
///
/// Retries and resuming after a cut are the place's business. Whether the bytes are those of the
/// digest is the reader's: a stream may be dropped at any time, and a range can't be verified by
/// itself.
pub trait Blobs: Sync {
    /// What goes wrong here; an unreadable layer is one of these things.
    type Error: From<layer::Error> + Send + 'static;

    /// The bytes `range` of the blob, exactly these and in order; fewer only together with an
    /// error.
    ///
    /// `range` is within `0..size` of the descriptor; the whole blob is asked for as `0..size`.
    fn open(
        &self,
        blob: &Digest,
        range: Range<u64>,
    ) -> impl Future<Output = Result<BlobStream<Self::Error>, Self::Error>> + Send;
}
