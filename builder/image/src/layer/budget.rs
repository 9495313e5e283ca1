//! The limits of all layers of an image together. Layers are read concurrently, so they share one
//! counter.
//!
//! Each limit is at least four times what the largest base of `docs/performance.md` has (40 layers,
//! 100 600 entries with 11 MB of paths, 4.3 GB unpacked); a unit test of the tree compares them.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::tree::retained;
use super::{EntryError, Error, Layer};

/// Maximum number of layers; Linux's overlayfs supports 500 (`OVL_MAX_STACK`).
pub const MAX_LAYERS: usize = 512;
/// Maximum number of entries in all layers.
pub(crate) const MAX_ENTRIES: u64 = 1 << 20;
/// Maximum size of the paths and link targets of all layers.
pub(crate) const MAX_PATH_BYTES: u64 = 128 << 20;
/// Maximum size of all unpacked layers, with tables of contents.
pub(crate) const MAX_UNPACKED_SIZE: u64 = 64 << 30;
/// Maximum size of contents that are in memory before it is known which are retained. Other
/// contents are read again.
const MAX_CONTENT_IN_MEMORY: u64 = 4 * retained::MAX_TOTAL_SIZE;

/// The resources that the layers of an image used so far; clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct Budget(Arc<Spent>);

#[derive(Debug, Default)]
struct Spent {
    entries: AtomicU64,
    path_bytes: AtomicU64,
    unpacked: AtomicU64,
    content: AtomicU64,
}

impl Budget {
    /// The budget of an image with these layers.
    ///
    /// # Errors
    /// If there are too many layers, or too many bytes.
    pub fn of(layers: &[Layer]) -> Result<Self, Error> {
        let found = layers.len() as u64;
        let limit = MAX_LAYERS as u64;
        let more = layers.get(MAX_LAYERS).map(|layer| Error::Limit {
            layer: layer.digest,
            cause: EntryError::TooMuch { what: "layers", limit, found },
        });
        if let Some(error) = more {
            return Err(error);
        }
        let mut found = 0_u64;
        for layer in layers {
            found = found.saturating_add(layer.size);
            if found > MAX_UNPACKED_SIZE {
                let cause = EntryError::TooMuch {
                    what: "bytes in its layers",
                    limit: MAX_UNPACKED_SIZE,
                    found,
                };
                return Err(Error::Limit { layer: layer.digest, cause });
            }
        }
        Ok(Self::default())
    }

    /// Counts an entry with this many bytes of path and link target.
    pub(super) fn add_entry(&self, path_bytes: usize) -> Result<(), EntryError> {
        let spent = &self.0;
        add(&spent.entries, 1, "entries in all layers", MAX_ENTRIES)?;
        let what = "bytes of paths in all layers";
        add(&spent.path_bytes, path_bytes as u64, what, MAX_PATH_BYTES)
    }

    /// Counts unpacked bytes.
    pub(super) fn add_unpacked(&self, bytes: u64) -> Result<(), EntryError> {
        let what = "unpacked bytes in all layers";
        add(&self.0.unpacked, bytes, what, MAX_UNPACKED_SIZE)
    }

    /// Whether this many bytes of content may be held; if so, they are counted.
    pub(super) fn take_content(&self, bytes: u64) -> bool {
        let fits = |spent: u64| {
            let all = spent.checked_add(bytes)?;
            (all <= MAX_CONTENT_IN_MEMORY).then_some(all)
        };
        let spent = &self.0.content;
        let taken = spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken.is_ok()
    }
}

fn add(counter: &AtomicU64, more: u64, what: &'static str, limit: u64) -> Result<(), EntryError> {
    let found = counter.fetch_add(more, Ordering::Relaxed).saturating_add(more);
    if found > limit {
        return Err(EntryError::TooMuch { what, limit, found });
    }
    Ok(())
}

/// A reader whose bytes count as unpacked. Its error at the limit is an [`EntryError`] inside of an
/// [`io::Error`].
#[derive(Debug)]
pub(super) struct Counted<R> {
    inner: R,
    budget: Budget,
}

impl<R> Counted<R> {
    pub(super) fn new(inner: R, budget: &Budget) -> Self {
        Self { inner, budget: budget.clone() }
    }

    pub(super) fn into_inner(self) -> R {
        self.inner
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        let counted = self.budget.add_unpacked(got as u64);
        counted.map_err(io::Error::other).map(|()| got)
    }
}

/// The limit that caused an error of a reader, if any.
pub(super) fn limit_of(error: &io::Error) -> Option<EntryError> {
    error.get_ref()?.downcast_ref().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_count_all_layers_together() {
        let (budget, other) = (Budget::default(), Budget::default());
        let layer = budget.clone();
        assert_eq!(budget.add_unpacked(MAX_UNPACKED_SIZE), Ok(()));
        let too_much = |what, limit, found| Err(EntryError::TooMuch { what, limit, found });
        let (what, limit) = ("unpacked bytes in all layers", MAX_UNPACKED_SIZE);
        assert_eq!(layer.add_unpacked(1), too_much(what, limit, limit + 1));
        assert_eq!(other.add_unpacked(1), Ok(()), "another image");
        let (what, limit) = ("bytes of paths in all layers", MAX_PATH_BYTES);
        let half = usize::try_from(limit / 2).unwrap();
        assert_eq!(budget.add_entry(half), Ok(()));
        assert_eq!(layer.add_entry(half), Ok(()));
        assert_eq!(layer.add_entry(1), too_much(what, limit, limit + 1));
        let (what, limit) = ("entries in all layers", MAX_ENTRIES);
        assert!((1..limit).all(|_| other.add_entry(0) == Ok(())));
        assert_eq!(other.add_entry(0), Ok(()));
        assert_eq!(other.add_entry(0), too_much(what, limit, limit + 1));
    }

    #[test]
    fn content_beyond_limit_needs_a_second_reading() {
        let budget = Budget::default();
        assert!(!budget.take_content(MAX_CONTENT_IN_MEMORY + 1));
        assert!(budget.take_content(MAX_CONTENT_IN_MEMORY));
        assert!(!budget.take_content(1));
    }

    #[test]
    fn the_limit_that_ended_a_reading_is_known() {
        let budget = Budget::default();
        budget.add_unpacked(MAX_UNPACKED_SIZE - 3).unwrap();
        let mut counted = Counted::new(&b"four"[..], &budget);
        let error = counted.read(&mut [0; 8]).unwrap_err();
        let found = limit_of(&error).map(|cause| cause.to_string());
        let want =
            "68719476737 unpacked bytes in all layers, and no more than 68719476736 are read";
        assert_eq!(found.as_deref(), Some(want));
    }
}
