//! A list that finds its entries by key.

use std::collections::HashMap;

/// Entries in their order; removed ones leave a gap.
#[derive(Debug)]
pub(super) struct KeyedList<E> {
    entries: Vec<Option<E>>,
    /// The position of each key; empty if the list has no keys.
    index: HashMap<String, usize>,
}

impl<E> KeyedList<E> {
    pub fn new() -> Self {
        Self { entries: Vec::new(), index: HashMap::new() }
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut E> {
        self.entries[*self.index.get(key)?].as_mut()
    }

    /// Appends an entry without a key.
    pub fn push(&mut self, entry: E) {
        self.entries.push(Some(entry));
    }

    /// Appends an entry whose key is not in the list.
    pub fn insert(&mut self, key: String, entry: E) {
        self.index.insert(key, self.entries.len());
        self.push(entry);
    }

    pub fn remove(&mut self, key: &str) -> Option<E> {
        self.entries[self.index.remove(key)?].take()
    }

    pub fn entries(&self) -> impl Iterator<Item = &E> {
        self.entries.iter().flatten()
    }

    pub fn into_entries(self) -> impl Iterator<Item = E> {
        self.entries.into_iter().flatten()
    }
}
