//! The tree of a base, from the cache or computed from its layers.

use std::io::{self, Read};
use std::ops::Range;
use std::thread;

use bytes::{Buf, Bytes};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_blocking;

use super::blobs::Blobs;
use super::cache::TreeCache;
use crate::image::Digest;
use crate::image::layer::{
    Delta, Error, Layer, Piece, Toc, ranges, read_contents, read_delta, read_pieces, read_toc,
};
use crate::image::tree::{BaseTree, Builder, Wanted};
use crate::report::Finding;

/// Pieces of a blob that wait for the thread that unpacks it.
const PIECES_AHEAD: usize = 16;
/// Layers whose entries wait for a lower layer, for each that is read; what waits is a few hundred KiB a layer.
const LAYERS_AHEAD: usize = 4;

/// Where a base tree came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeSource {
    /// The cache on disk.
    Cache,
    /// The layers.
    Computed,
}

/// The tree of a base, and where it came from.
#[derive(Debug, Clone)]
pub struct Obtained {
    /// The tree.
    pub tree: BaseTree,
    /// From where.
    pub source: TreeSource,
    /// What was wrong with the cache, if anything.
    pub warnings: Vec<Finding>,
}

/// The tree of the image with this manifest: from the cache, or else from its layers and into the cache.
///
/// # Errors
/// Those of [`compute`]; a cache that can't be used is a warning.
pub async fn obtain<B: Blobs>(
    cache: Option<&TreeCache>,
    manifest: &Digest,
    blobs: &B,
    layers: &[Layer],
) -> Result<Obtained, B::Error> {
    let mut warnings = Vec::new();
    if let Some(cache) = cache {
        let (cache, manifest) = (cache.clone(), *manifest);
        match blocking(move || cache.load(&manifest)).await {
            Ok(Some(tree)) => {
                return Ok(Obtained {
                    tree,
                    source: TreeSource::Cache,
                    warnings,
                });
            }
            Ok(None) => {}
            Err(warning) => warnings.push(warning),
        }
    }
    let tree = compute(blobs, layers).await?;
    if let Some(cache) = cache {
        let (cache, manifest, tree) = (cache.clone(), *manifest, tree.clone());
        let stored = blocking(move || cache.store(&manifest, &tree)).await;
        warnings.extend(stored.err());
    }
    Ok(Obtained {
        tree,
        source: TreeSource::Computed,
        warnings,
    })
}

/// Reads the layers of an image, several at once, and lays them onto each other.
///
/// Nothing is stored, and memory is flat. Dropping the future stops reading.
///
/// # Errors
/// Those of the place that holds the blobs, and of layers that aren't what they should be.
pub async fn compute<B: Blobs>(blobs: &B, layers: &[Layer]) -> Result<BaseTree, B::Error> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let turns = &Semaphore::new(threads);
    // Collected, because the compiler can't see that a closure kept across an await is good for any lifetime.
    let deltas: Vec<_> = layers
        .iter()
        .map(|layer| async move {
            let _turn = turns.acquire().await.expect("never closed");
            read_layer(blobs, layer).await
        })
        .collect();
    let mut deltas = stream::iter(deltas).buffered(threads * LAYERS_AHEAD);
    let mut builder = Builder::default();
    let mut next = deltas.try_next().await?;
    let mut tables = Vec::new();
    while let Some((delta, pieces)) = next {
        tables.push(pieces);
        // The layers behind go on being read meanwhile.
        let (applied, read) = tokio::join!(apply(builder, delta), deltas.try_next());
        (builder, next) = (applied?, read?);
    }
    drop(deltas);
    let wanted = builder.wanted();
    let tables = &tables;
    let again: Vec<_> = wanted
        .chunk_by(|a, b| a.layer == b.layer)
        .map(|wanted| async move {
            let _turn = turns.acquire().await.expect("never closed");
            let at = wanted[0].layer;
            contents(blobs, &layers[at], tables[at].as_deref(), wanted).await
        })
        .collect();
    let mut again = stream::iter(again).buffer_unordered(threads);
    while let Some(contents) = again.try_next().await? {
        for (wanted, content) in contents {
            builder.supply(&wanted, &content);
        }
    }
    drop(again);
    Ok(blocking(move || builder.finish()).await?)
}

async fn apply(mut builder: Builder, delta: Delta) -> Result<Builder, Error> {
    blocking(move || builder.apply(&delta).map(|()| builder)).await
}

/// What a layer does: from its table of contents if it has one, with the places of contents, else from all its bytes.
async fn read_layer<B: Blobs>(
    blobs: &B,
    layer: &Layer,
) -> Result<(Delta, Option<Vec<Piece>>), B::Error> {
    if let Some(toc) = Toc::of(layer)? {
        let range = toc.range();
        let read = move |bytes| read_toc(&toc, bytes);
        if let Some((delta, pieces)) = stream_into(blobs, layer, range, read).await? {
            return Ok((delta, Some(pieces)));
        }
    }
    let read = layer.clone();
    let read = move |blob| read_delta(&read, blob);
    let delta = stream_into(blobs, layer, 0..layer.size, read).await?;
    Ok((delta, None))
}

/// Contents that the first reading didn't know to decide something: piece by piece where a table of contents says where
/// they are, else by reading the layer again.
async fn contents<B: Blobs>(
    blobs: &B,
    layer: &Layer,
    pieces: Option<&[Piece]>,
    wanted: &[Wanted],
) -> Result<Vec<(Wanted, Bytes)>, B::Error> {
    let numbers: Vec<u32> = wanted.iter().map(|wanted| wanted.entry).collect();
    let mut found: Vec<(u32, Bytes)> = Vec::new();
    match pieces {
        Some(pieces) => {
            for (range, pieces) in ranges(pieces, &numbers, layer.size) {
                let (digest, within) = (layer.digest, range.clone());
                let read = move |bytes| {
                    let mut found = Vec::new();
                    read_pieces(&digest, &within, &pieces, bytes, |number, content| {
                        found.push((number, Bytes::copy_from_slice(content)));
                    })?;
                    Ok(found)
                };
                found.extend(stream_into(blobs, layer, range, read).await?);
            }
        }
        None => {
            let read = layer.clone();
            let read = move |blob| {
                let mut found = Vec::new();
                read_contents(&read, blob, &numbers, |number, content| {
                    found.push((number, Bytes::copy_from_slice(content)));
                })?;
                Ok(found)
            };
            found = stream_into(blobs, layer, 0..layer.size, read).await?;
        }
    }
    let content = |wanted: &Wanted| {
        let (_, content) = found.iter().find(|(number, _)| *number == wanted.entry)?;
        Some((wanted.clone(), content.clone()))
    };
    Ok(wanted.iter().filter_map(content).collect())
}

/// Runs `read` in a thread of its own on bytes of a blob as they come in.
async fn stream_into<B: Blobs, T: Send + 'static>(
    blobs: &B,
    layer: &Layer,
    range: Range<u64>,
    read: impl FnOnce(Pieces) -> Result<T, Error> + Send + 'static,
) -> Result<T, B::Error> {
    let mut stream = blobs.open(&layer.digest, range).await?;
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    let pieces = Pieces {
        receiver,
        piece: Bytes::new(),
        ended: false,
    };
    let reader = blocking(move || read(pieces));
    let feed = async {
        while let Some(piece) = stream.try_next().await? {
            if sender.send(Some(piece)).await.is_err() {
                // The reader has seen enough; its result says why.
                return Ok(());
            }
        }
        // A send that fails says the same.
        let _ = sender.send(None).await;
        drop(sender);
        Ok::<_, B::Error>(())
    };
    // An error of the stream comes first: to the reader it is only a blob that ends too early.
    let read = async { reader.await.map_err(B::Error::from) };
    tokio::try_join!(feed, read).map(|((), value)| value)
}

/// A blocking step. Dropping the future doesn't end it; a reader of [`Pieces`] then fails at its next piece.
async fn blocking<T: Send + 'static>(step: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(step).await {
        Ok(value) => value,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(failed) => unreachable!("nobody cancels a blocking step: {failed}"),
        },
    }
}

/// The bytes of a blob in a thread, as an async task sends them; `None` is their end, a closed channel is none.
#[derive(Debug)]
struct Pieces {
    receiver: mpsc::Receiver<Option<Bytes>>,
    piece: Bytes,
    ended: bool,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.ended {
            match self.receiver.blocking_recv() {
                Some(Some(piece)) => self.piece = piece,
                Some(None) => self.ended = true,
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        let length = self.piece.len().min(buffer.len());
        self.piece.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::image::DiffId;
    use crate::image::tree::kept;
    use crate::registry::blobs::BlobStream;

    #[derive(Debug)]
    enum Broken {
        Layer(Error),
        Cut,
    }

    impl From<Error> for Broken {
        fn from(error: Error) -> Self {
            Self::Layer(error)
        }
    }

    /// Blobs in memory, in pieces of 1000 bytes; one of them may be cut, or never end.
    #[derive(Debug, Default)]
    struct Memory {
        blobs: HashMap<Digest, Vec<u8>>,
        cut: Option<Digest>,
        endless: bool,
        opened: AtomicUsize,
    }

    impl Blobs for Memory {
        type Error = Broken;

        async fn open(
            &self,
            blob: &Digest,
            range: Range<u64>,
        ) -> Result<BlobStream<Broken>, Broken> {
            self.opened.fetch_add(1, Ordering::Relaxed);
            let range = range.start as usize..range.end as usize;
            let bytes = &self.blobs[blob][range];
            let mut pieces: Vec<_> = bytes
                .chunks(1000)
                .map(|piece| Ok(Bytes::copy_from_slice(piece)))
                .collect();
            if self.cut == Some(*blob) {
                pieces.truncate(1);
                pieces.push(Err(Broken::Cut));
            }
            if self.endless {
                pieces.truncate(1);
                return Ok(stream::iter(pieces).chain(stream::pending()).boxed());
            }
            Ok(stream::iter(pieces).boxed())
        }
    }

    impl Memory {
        fn add(&mut self, tar: &[u8]) -> Layer {
            let mut blob = Vec::new();
            let said = crate::image::gzip::compress(tar, &mut blob).unwrap();
            self.blobs.insert(said.digest, blob);
            Layer {
                media_type: "application/vnd.oci.image.layer.v1.tar+gzip".to_owned(),
                digest: said.digest,
                size: said.size,
                diff_id: said.diff_id,
                annotations: BTreeMap::new(),
            }
        }
    }

    fn tar(files: &[(&str, &str, &str)]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, content, link) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            match *link {
                "" => {
                    tar.append_data(&mut header, path, content.as_bytes())
                        .unwrap();
                }
                link => {
                    header.set_entry_type(tar::EntryType::Link);
                    tar.append_link(&mut header, path, link).unwrap();
                }
            }
        }
        tar.into_inner().unwrap()
    }

    fn base() -> (Memory, Vec<Layer>) {
        let mut memory = Memory::default();
        let object = format!("{}/aa/bb.file", kept::OBJECTS);
        let mut layers: Vec<Layer> = (0..20)
            .map(|n| {
                let name = format!("usr/share/{n}");
                let noise = (0..3000 * n)
                    .map(|i| char::from(b'a' + (i % 1009 * i % 23) as u8))
                    .collect::<String>();
                memory.add(&tar(&[(&name, &noise, ""), ("etc/last", &name, "")]))
            })
            .collect();
        layers.push(memory.add(&tar(&[(&object, "odd text of a unit", "")])));
        let unit = "usr/lib/systemd/system/a.service";
        layers.push(memory.add(&tar(&[(unit, "", &object), ("etc/passwd", "root:", "")])));
        (memory, layers)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn layers_are_read_at_once_and_laid_on_each_other_in_order() {
        let (memory, layers) = base();
        let count = layers.len();
        let (tree, opened) = tokio::spawn(async move {
            let tree = compute(&memory, &layers).await.unwrap();
            (tree, memory.opened.load(Ordering::Relaxed))
        })
        .await
        .unwrap();
        assert_eq!(tree.children("usr/share").len(), 20);
        assert_eq!(tree.get("etc/last").unwrap().size, 12);
        assert_eq!(tree.content("etc/passwd"), Some(&b"root:"[..]));
        let unit = tree.content("usr/lib/systemd/system/a.service");
        assert_eq!(unit, Some(&b"odd text of a unit"[..]));
        assert_eq!(tree.children(kept::OBJECTS), []);
        assert_eq!(opened, count + 1, "the layer of the odd unit is read twice");
    }

    #[tokio::test]
    async fn a_table_of_contents_is_read_instead_of_the_layer() {
        let big = "x".repeat(100_000);
        let files = [
            ("etc/passwd", "root:"),
            ("usr/share/big", &big),
            ("etc/group", "root:x:"),
        ];
        let (blob, layer) = crate::image::layer::chunked(&files);
        // Were all of the blob read, this would show: only what is asked for is right.
        let mut memory = Memory::default();
        memory.blobs.insert(layer.digest, blob);
        let layers = [Layer {
            diff_id: DiffId::of(b"never computed"),
            ..layer
        }];
        let tree = compute(&memory, &layers).await.unwrap();
        assert_eq!(tree.content("etc/passwd"), Some(&b"root:"[..]));
        assert_eq!(tree.content("etc/group"), Some(&b"root:x:"[..]));
        assert_eq!(tree.get("usr/share/big").unwrap().size, 100_000);
    }

    #[tokio::test]
    async fn a_layer_that_lies_or_breaks_is_the_error() {
        for (what, change) in [
            (
                "diffID",
                (|_, layer| layer.diff_id = DiffId::of(b"")) as fn(&mut Memory, &mut Layer),
            ),
            ("size", |_, layer| layer.size -= 1),
            ("media type", |_, layer| layer.media_type.clear()),
            ("cut", |memory, layer| memory.cut = Some(layer.digest)),
        ] {
            let (mut memory, mut layers) = base();
            change(&mut memory, &mut layers[7]);
            let want = layers[7].digest;
            match (what, compute(&memory, &layers).await.unwrap_err()) {
                ("diffID", Broken::Layer(Error::DiffId { layer, .. }))
                | ("size", Broken::Layer(Error::Digest { layer, .. }))
                | ("media type", Broken::Layer(Error::MediaType { layer, .. })) => {
                    assert_eq!(layer, want, "{what}");
                }
                ("cut", Broken::Cut) => {}
                (_, other) => panic!("{what}: {other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn dropping_it_ends_the_threads() {
        let (mut memory, layers) = base();
        memory.endless = true;
        let cancelled = tokio::time::timeout(
            std::time::Duration::from_millis(50),
            compute(&memory, &layers),
        );
        assert!(cancelled.await.is_err());
        // The runtime waits for its blocking threads when it is dropped: a thread that stays would hang this test.
    }

    #[tokio::test]
    async fn the_cache_saves_the_reading_and_never_fails_it() {
        let directory = tempfile::tempdir().unwrap();
        let cache = TreeCache::new(directory.path().join("new"), 1 << 20);
        let manifest = Digest::of(b"manifest");
        let (memory, layers) = base();
        let first = obtain(Some(&cache), &manifest, &memory, &layers)
            .await
            .unwrap();
        let second = obtain(Some(&cache), &manifest, &memory, &layers)
            .await
            .unwrap();
        assert_eq!(
            (first.source, second.source),
            (TreeSource::Computed, TreeSource::Cache)
        );
        assert_eq!(first.tree, second.tree);
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let unusable = TreeCache::new(file, 1 << 20);
        let third = obtain(Some(&unusable), &manifest, &memory, &layers)
            .await
            .unwrap();
        assert_eq!(
            (third.source, third.warnings.len()),
            (TreeSource::Computed, 2)
        );
        assert_eq!(third.tree, first.tree);
    }
}
