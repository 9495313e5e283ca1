//! A blob's bytes, held to its descriptor on their way.

use futures_util::StreamExt as _;
use futures_util::stream::try_unfold;
use sha2::{Digest as _, Sha256};

use mosb_image::{BlobRef, Digest};

use crate::error::Error;
use crate::store::BlobStream;

/// The same bytes; an error instead of the end (or of a byte too many) where size or digest are not
/// the descriptor's.
pub(super) fn verified(image: &str, blob: &BlobRef, bytes: BlobStream<Error>) -> BlobStream<Error> {
    let (image, want, size) = (image.to_owned(), blob.digest, blob.size);
    try_unfold(Some((bytes, Sha256::new(), 0u64)), move |state| {
        let image = image.clone();
        async move {
            let Some((mut bytes, mut hash, mut seen)) = state else {
                return Ok(None);
            };
            let wrong_size = |found| Error::SizeMismatch {
                image: image.clone(),
                digest: want,
                want: size,
                found,
            };
            match bytes.next().await.transpose()? {
                Some(chunk) => {
                    seen += chunk.len() as u64;
                    if seen > size {
                        return Err(wrong_size(seen));
                    }
                    hash.update(&chunk);
                    // The last bytes are passed on only when all of them are right, so that no
                    // upload can complete with wrong ones.
                    if seen == size {
                        let found = Digest::from_sha256(hash.clone());
                        if found != want {
                            return Err(Error::DigestMismatch {
                                image,
                                what: "a blob",
                                want,
                                found,
                            });
                        }
                    }
                    Ok(Some((chunk, Some((bytes, hash, seen)))))
                }
                None if seen < size => Err(wrong_size(seen)),
                // No chunk came to be checked with.
                None if size == 0 && Digest::of(b"") != want => Err(Error::DigestMismatch {
                    image,
                    what: "a blob",
                    want,
                    found: Digest::of(b""),
                }),
                None => Ok(None),
            }
        }
    })
    .boxed()
}

/// All bytes of a small blob.
pub(super) async fn collect(
    image: &str,
    blob: &BlobRef,
    what: &'static str,
    limit: u64,
    bytes: BlobStream<Error>,
) -> Result<bytes::Bytes, Error> {
    if blob.size > limit {
        return Err(Error::TooLarge { image: image.to_owned(), what, limit, found: blob.size });
    }
    let mut all = bytes::BytesMut::new();
    let mut bytes = verified(image, blob, bytes);
    while let Some(chunk) = bytes.next().await {
        all.extend_from_slice(&chunk?);
    }
    let all = all.freeze();
    let found = Digest::of(&all);
    if found != blob.digest {
        return Err(Error::DigestMismatch {
            image: image.to_owned(),
            what,
            want: blob.digest,
            found,
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures_util::stream;
    use mosb_types::Diagnostic as _;

    async fn read(blob: &BlobRef, chunks: &[&'static str]) -> (String, Option<&'static str>) {
        let bytes = stream::iter(
            chunks.iter().map(|c| Ok(Bytes::from_static(c.as_bytes()))).collect::<Vec<_>>(),
        );
        let mut seen = String::new();
        let mut bytes = verified("x", blob, bytes.boxed());
        while let Some(chunk) = bytes.next().await {
            match chunk {
                Ok(chunk) => seen.push_str(std::str::from_utf8(&chunk).unwrap()),
                Err(e) => return (seen, Some(e.code())),
            }
        }
        (seen, None)
    }

    #[tokio::test]
    async fn wrong_bytes_never_come_to_their_end() {
        let blob = BlobRef {
            media_type: String::new(),
            digest: Digest::of(b"hello world"),
            size: 11,
            annotations: Default::default(),
        };
        for (what, chunks, want) in [
            ("right", vec!["hello ", "world"], ("hello world", None)),
            ("wrong", vec!["hello ", "w0rld"], ("hello ", Some("digest-mismatch"))),
            ("short", vec!["hello "], ("hello ", Some("size-mismatch"))),
            ("long", vec!["hello ", "world!"], ("hello ", Some("size-mismatch"))),
            ("more", vec!["hello world", "!"], ("hello world", Some("size-mismatch"))),
        ] {
            let (seen, error) = read(&blob, &chunks).await;
            assert_eq!((&*seen, error), want, "{what}");
        }
        let empty = BlobRef { digest: Digest::of(b"x"), size: 0, ..blob };
        assert_eq!(read(&empty, &[]).await, (String::new(), Some("digest-mismatch")));
        let all = collect("x", &empty, "its config", 10, stream::empty().boxed()).await;
        assert_eq!(all.unwrap_err().code(), "digest-mismatch");
    }
}
