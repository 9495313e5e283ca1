//! Writes the bytes of a base tree.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{BaseTree, CONTENT, HEADER, MAGIC, META, NODE, TRAILER, VERSION};
use crate::layer::EntryError;
use crate::tree::Kind;

/// Writes a tree node by node, in the order of the format.
#[derive(Debug, Default)]
pub(in crate::tree) struct Writer {
    nodes: Vec<u8>,
    metas: Vec<u8>,
    /// The contents of files, by node. They come last in the data.
    contents: Vec<(u32, Arc<[u8]>)>,
    data: Vec<u8>,
    known_metas: HashMap<(Kind, u32, u32, u32), u32>,
    known_data: HashMap<Box<[u8]>, u32>,
}

/// A node's type with its fields.
#[derive(Debug, Clone, Copy)]
pub(in crate::tree) enum Value<'a> {
    Directory { first: u32, count: u32 },
    File { size: u64, content: Option<&'a Arc<[u8]>> },
    Symlink { target: &'a [u8] },
    Other,
}

/// The maximum index of an owner and mode, which has 24 bits.
const MAX_META_INDEX: u32 = (1 << 24) - 1;

fn too_much(what: &'static str, limit: u32, found: usize) -> EntryError {
    EntryError::TooMuch { what, limit: u64::from(limit), found: found as u64 }
}

/// A number of the format.
fn number(found: usize) -> Result<u32, EntryError> {
    u32::try_from(found).map_err(|_| too_much("bytes in its tree", u32::MAX, found))
}

impl Writer {
    pub(in crate::tree) fn node(
        &mut self,
        name: &[u8],
        mode: u32,
        uid: u32,
        gid: u32,
        value: Value<'_>,
    ) -> Result<(), EntryError> {
        let at = number(self.nodes.len() / NODE)?;
        let (kind, low, high) = match value {
            Value::Directory { first, count } => (Kind::Directory, first, count),
            Value::File { size, content } => {
                self.contents.extend(content.map(|content| (at, Arc::clone(content))));
                (Kind::File, size as u32, (size >> 32) as u32)
            }
            Value::Symlink { target } => {
                (Kind::Symlink, self.intern(target)?, number(target.len())?)
            }
            Value::Other => (Kind::Other, 0, 0),
        };
        let next = number(self.known_metas.len())?;
        let meta = *self.known_metas.entry((kind, mode, uid, gid)).or_insert(next);
        if meta > MAX_META_INDEX {
            let what = "kinds of owner and mode";
            return Err(too_much(what, MAX_META_INDEX, meta as usize));
        }
        if meta == next {
            self.metas.extend_from_slice(&[kind as u8, 0]);
            self.metas.extend_from_slice(&(mode as u16).to_le_bytes());
            self.metas.extend_from_slice(&uid.to_le_bytes());
            self.metas.extend_from_slice(&gid.to_le_bytes());
        }
        let length =
            u32::from(u8::try_from(name.len()).expect("a component has at most 255 bytes"));
        for number in [self.intern(name)?, meta << 8 | length, low, high] {
            self.nodes.extend_from_slice(&number.to_le_bytes());
        }
        Ok(())
    }

    /// The position of these bytes in the data, which has equal names and targets only once.
    fn intern(&mut self, bytes: &[u8]) -> Result<u32, EntryError> {
        if let Some(at) = self.known_data.get(bytes) {
            return Ok(*at);
        }
        let at = number(self.data.len())?;
        self.data.extend_from_slice(bytes);
        self.known_data.insert(bytes.into(), at);
        Ok(at)
    }

    pub(in crate::tree) fn finish(self) -> Result<BaseTree, EntryError> {
        drop(self.known_data);
        let mut data = self.data.len();
        let mut contents = Vec::with_capacity(self.contents.len() * CONTENT);
        for (at, content) in &self.contents {
            for number in [*at, number(data)?, number(content.len())?] {
                contents.extend_from_slice(&number.to_le_bytes());
            }
            data += content.len();
        }
        let tables = [(self.nodes, NODE), (self.metas, META), (contents, CONTENT), (self.data, 1)];
        let length: usize = tables.iter().map(|(table, _)| table.len()).sum();
        let unshared: usize = self.contents.iter().map(|(_, content)| content.len()).sum();
        let mut bytes = Vec::with_capacity(HEADER + length + unshared + TRAILER);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        for (table, width) in &tables[..3] {
            bytes.extend_from_slice(&number(table.len() / width)?.to_le_bytes());
        }
        bytes.extend_from_slice(&number(data)?.to_le_bytes());
        for (table, _) in tables {
            bytes.extend_from_slice(&table);
        }
        for (_, content) in self.contents {
            bytes.extend_from_slice(&content);
        }
        let sum = Sha256::digest(&bytes);
        bytes.extend_from_slice(&sum);
        Ok(BaseTree::from_bytes(bytes).expect("a tree that was just written can be read"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_that_exceeds_the_format_is_an_error() {
        assert_eq!(number(u32::MAX as usize), Ok(u32::MAX));
        let found = 1_u64 << 32;
        let want =
            EntryError::TooMuch { what: "bytes in its tree", limit: u64::from(u32::MAX), found };
        assert_eq!(number(found as usize), Err(want));
    }
}
