//! The tree of a base, from the cache or computed from its layers; of an image on top of it, from the
//! base's tree and the layers on top.

pub mod cache;
pub(crate) mod cache_directory;
pub(crate) mod prepared_records;
pub mod tree_image;

use std::io::{self, Read};
use std::ops::Range;
use std::thread;

use bytes::{Buf, Bytes};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_blocking;

use crate::base_tree::cache::TreeCache;
use crate::store::Blobs;
use mosb_image::Digest;
use mosb_image::layer::{
    Budget, Delta, EntryError, Error, Layer, Piece, Toc, database_piece, ranges, read_contents,
    read_delta, read_listing, read_listing_piece, read_pieces, read_toc,
};
use mosb_image::packages::{Effort, Listing};
use mosb_image::tree::{BaseTree, Builder, MissingContent};
use mosb_types::Finding;

/// Pieces of a blob that wait for the thread that unpacks it.
const PIECES_AHEAD: usize = 16;
/// Layers whose entries wait for a lower layer, for each that is read; what waits is a few hundred
/// KiB a layer.
const LAYERS_AHEAD: usize = 4;

/// Where a base tree came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeSource {
    /// A cache: on disk, or an image.
    Cache,
    Computed,
}

/// The tree of a base, and where it came from.
#[derive(Debug, Clone)]
pub struct Obtained {
    pub tree: BaseTree,
    /// From where.
    pub source: TreeSource,
    /// What was wrong with the cache, if anything.
    pub warnings: Vec<Finding>,
}

/// The tree of the image below an image, and the layers that both have.
#[derive(Debug, Clone, Copy)]
pub struct Below<'a> {
    pub tree: &'a BaseTree,
    pub layers: &'a [Layer],
}

/// The tree of the image with this manifest: from the cache, or else from its layers and into the
/// cache. If the image is one on top of `below`, only the layers on top are read.
///
/// # Errors
/// Those of [`compute`]; a cache that can't be used is a warning.
pub async fn obtain<B: Blobs>(
    cache: Option<&TreeCache>,
    manifest: &Digest,
    blobs: &B,
    layers: &[Layer],
    below: Option<Below<'_>>,
) -> Result<Obtained, B::Error> {
    let mut warnings = Vec::new();
    if let Some(cache) = cache {
        match load(cache, manifest).await {
            Ok(Some(tree)) => {
                return Ok(Obtained { tree, source: TreeSource::Cache, warnings });
            }
            Ok(None) => {}
            Err(warning) => warnings.push(warning),
        }
    }
    let tree = match below {
        Some(below) => extend(blobs, below, layers).await?,
        None => compute(blobs, layers).await?,
    };
    if let Some(cache) = cache {
        let (cache, manifest, tree) = (cache.clone(), *manifest, tree.clone());
        let stored = blocking(move || cache.store(&manifest, &tree)).await;
        warnings.extend(stored.err());
    }
    Ok(Obtained { tree, source: TreeSource::Computed, warnings })
}

/// The tree of the image with this manifest, if the cache has it.
///
/// # Errors
/// A warning if the cache can't be used.
pub async fn load(cache: &TreeCache, manifest: &Digest) -> Result<Option<BaseTree>, Finding> {
    let (cache, manifest) = (cache.clone(), *manifest);
    blocking(move || cache.load(&manifest)).await
}

/// Reads the layers of an image, several at once, and lays them onto each other.
///
/// Nothing is stored, and memory is flat. Dropping the future stops reading.
///
/// # Errors
/// Those of the place that holds the blobs, and of layers that aren't what they should be.
pub async fn compute<B: Blobs>(blobs: &B, layers: &[Layer]) -> Result<BaseTree, B::Error> {
    let budget = Budget::of(layers)?;
    let builder = read_onto(Builder::default(), blobs, layers, &budget).await?;
    Ok(finish(builder).await?)
}

/// The tree of an image on top of another one: only the layers on top are read. All are read if the
/// image isn't on top of the other one, or if its layers have hard links to what only the layers
/// below have.
///
/// As [`Builder::on`] says, contents may be missing that [`compute`] finds.
///
/// # Errors
/// As [`compute`].
pub async fn extend<B: Blobs>(
    blobs: &B,
    below: Below<'_>,
    layers: &[Layer],
) -> Result<BaseTree, B::Error> {
    Budget::of(layers)?;
    let same = |ours: &Layer, theirs: &Layer| {
        (ours.digest, ours.diff_id) == (theirs.digest, theirs.diff_id)
    };
    let on_top = layers.split_at_checked(below.layers.len()).and_then(|(first, on_top)| {
        let is_on_top = first.iter().zip(below.layers).all(|(ours, theirs)| same(ours, theirs));
        is_on_top.then_some(on_top)
    });
    if let Some(on_top) = on_top
        && let Some(tree) = read_on_top(blobs, Some(below.tree), on_top).await?
    {
        return Ok(tree);
    }
    compute(blobs, layers).await
}

/// The tree of layers on top of this tree, or without what is below them. The layers below are not read;
/// `None` if they would have to be, because these have hard links to what only those have.
///
/// # Errors
/// As [`compute`].
pub async fn read_on_top<B: Blobs>(
    blobs: &B,
    tree: Option<&BaseTree>,
    layers: &[Layer],
) -> Result<Option<BaseTree>, B::Error> {
    let budget = Budget::of(layers)?;
    let builder = match tree.cloned() {
        Some(tree) => blocking(move || Builder::on(&tree)).await.ok(),
        None => Some(Builder::default()),
    };
    let Some(builder) = builder else { return Ok(None) };
    let builder = read_onto(builder, blobs, layers, &budget).await?;
    match finish(builder).await {
        Err(Error::Entry { cause: EntryError::DanglingLink(_), .. }) => Ok(None),
        finished => Ok(Some(finished?)),
    }
}

/// Reads layers and lays them onto what the builder has.
async fn read_onto<B: Blobs>(
    mut builder: Builder,
    blobs: &B,
    layers: &[Layer],
    budget: &Budget,
) -> Result<Builder, B::Error> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let turns = &Semaphore::new(threads);
    // Collected, because the compiler can't prove that a closure held across an await is valid for
    // any lifetime.
    let deltas: Vec<_> = layers
        .iter()
        .map(|layer| async move {
            let _turn = turns.acquire().await.expect("never closed");
            read_layer(blobs, layer, budget).await
        })
        .collect();
    let mut deltas = stream::iter(deltas).buffered(threads * LAYERS_AHEAD);
    let mut next = deltas.try_next().await?;
    let mut tables = Vec::new();
    while let Some((delta, pieces)) = next {
        tables.push(pieces);
        // The layers behind go on being read meanwhile.
        let (applied, read) = tokio::join!(apply(builder, delta), deltas.try_next());
        (builder, next) = (applied?, read?);
    }
    drop(deltas);
    let wanted = builder.missing_contents();
    let tables = &tables;
    // What is read twice has been counted.
    let budget = &Budget::default();
    let again: Vec<_> = wanted
        .chunk_by(|a, b| a.layer == b.layer)
        .map(|wanted| async move {
            let _turn = turns.acquire().await.expect("never closed");
            let at = wanted[0].layer;
            let pieces = tables[at].as_deref();
            contents(blobs, &layers[at], pieces, wanted, budget).await
        })
        .collect();
    let mut again = stream::iter(again).buffer_unordered(threads);
    while let Some(contents) = again.try_next().await? {
        for (wanted, content) in contents {
            builder.supply(&wanted, &content);
        }
    }
    drop(again);
    Ok(builder)
}

async fn finish(builder: Builder) -> Result<BaseTree, Error> {
    blocking(move || builder.finish()).await
}

async fn apply(mut builder: Builder, delta: Delta) -> Result<Builder, Error> {
    blocking(move || builder.apply(&delta).map(|()| builder)).await
}

/// What a layer does: from its table of contents if it has one, with the places of contents, else
/// from all its bytes.
async fn read_layer<B: Blobs>(
    blobs: &B,
    layer: &Layer,
    budget: &Budget,
) -> Result<(Delta, Option<Vec<Piece>>), B::Error> {
    let budget = budget.clone();
    if let Some(toc) = Toc::of(layer)? {
        let range = toc.range();
        let spent = budget.clone();
        let read = move |bytes| read_toc(&toc, bytes, &spent);
        if let Some((delta, pieces)) = stream_into(blobs, layer, range, read).await? {
            return Ok((delta, Some(pieces)));
        }
    }
    let read = layer.clone();
    let read = move |blob| read_delta(&read, blob, &budget);
    let delta = stream_into(blobs, layer, 0..layer.size, read).await?;
    Ok((delta, None))
}

/// Contents that the first reading didn't know to decide something: piece by piece where a table of
/// contents says where they are, else by reading the layer again.
async fn contents<B: Blobs>(
    blobs: &B,
    layer: &Layer,
    pieces: Option<&[Piece]>,
    wanted: &[MissingContent],
    budget: &Budget,
) -> Result<Vec<(MissingContent, Bytes)>, B::Error> {
    let mut listed = Vec::new();
    for database in wanted.iter().filter(|wanted| wanted.database.is_some()) {
        let listing = listing(blobs, layer, pieces, database, budget).await?;
        listed.extend(listing.map(|listing| (database.clone(), Bytes::from(listing.to_bytes()))));
    }
    let wanted: Vec<_> = wanted.iter().filter(|wanted| wanted.database.is_none()).collect();
    let numbers: Vec<u32> = wanted.iter().map(|wanted| wanted.entry).collect();
    let mut found: Vec<(u32, Bytes)> = Vec::new();
    match pieces {
        _ if numbers.is_empty() => {}
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
            let (read, budget) = (layer.clone(), budget.clone());
            let read = move |blob| {
                let mut found = Vec::new();
                read_contents(&read, blob, &budget, &numbers, |number, content| {
                    found.push((number, Bytes::copy_from_slice(content)));
                })?;
                Ok(found)
            };
            found = stream_into(blobs, layer, 0..layer.size, read).await?;
        }
    }
    found.sort_by_key(|(number, _)| *number);
    let content = |wanted: &MissingContent| {
        let at = found.binary_search_by_key(&wanted.entry, |(number, _)| *number).ok()?;
        Some((wanted.clone(), found[at].1.clone()))
    };
    listed.extend(wanted.into_iter().filter_map(content));
    Ok(listed)
}

/// The packages of a database that the first reading didn't list.
async fn listing<B: Blobs>(
    blobs: &B,
    layer: &Layer,
    pieces: Option<&[Piece]>,
    database: &MissingContent,
    budget: &Budget,
) -> Result<Option<Listing>, B::Error> {
    let Some(manager) = database.database else { return Ok(None) };
    let Some(pieces) = pieces else {
        let (read, budget, entry) = (layer.clone(), budget.clone(), database.entry);
        let read = move |blob| read_listing(&read, blob, &budget, (entry, manager));
        return stream_into(blobs, layer, 0..layer.size, read).await;
    };
    let piece = database_piece(pieces, database.entry);
    let Some(piece) = piece.filter(|piece| piece.range.end <= layer.size) else {
        return Ok(None);
    };
    for effort in [Effort::Streaming, Effort::Thorough] {
        let (digest, read) = (layer.digest, piece.clone());
        let read = move |bytes| read_listing_piece(&digest, &read, manager, effort, bytes);
        let listing = stream_into(blobs, layer, piece.range.clone(), read).await?;
        if listing.is_some() {
            return Ok(listing);
        }
    }
    Ok(None)
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
    let pieces = Pieces { receiver, piece: Bytes::new(), ended: false };
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

/// A blocking step. Dropping the future doesn't end it; a reader of [`Pieces`] then fails at its
/// next piece.
async fn blocking<T: Send + 'static>(step: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(step).await {
        Ok(value) => value,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(failed) => unreachable!("nobody cancels a blocking step: {failed}"),
        },
    }
}

/// The bytes of a blob in a thread, as an async task sends them; `None` is their end, a closed
/// channel is none.
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
mod tests;
