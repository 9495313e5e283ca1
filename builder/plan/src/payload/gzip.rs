//! gzip of small things, bounded.

use std::io::{Read, Write};

use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};

/// The usual level, no time, no name: the same bytes every time. Level 9 takes twice as long for a
/// config and saves nothing.
pub fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    writer.write_all(bytes).and_then(|()| writer.finish()).expect("writing to memory can't fail")
}

/// At most `limit` bytes; `None` if there would be more.
pub fn unpacked(bytes: &[u8], limit: usize) -> std::io::Result<Option<Vec<u8>>> {
    let mut out = Vec::new();
    let mut reader = GzDecoder::new(bytes);
    let more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    reader.by_ref().take(more).read_to_end(&mut out)?;
    Ok((out.len() <= limit).then_some(out))
}
