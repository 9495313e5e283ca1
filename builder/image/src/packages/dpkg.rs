//! dpkg's status file (deb-control(5), dpkg-query(1)): paragraphs of `Field: value` lines.

use std::io::{BufRead, Read as _};

use super::{Collected, DatabaseError, MAX_FIELD, Manager, Package, Packages, field};

/// The first bytes of a line that are looked at; the fields that are read are shorter.
const LINE: u64 = 2 * MAX_FIELD as u64;

/// The fields of a paragraph so far.
#[derive(Debug, Default)]
struct Paragraph {
    name: Vec<u8>,
    version: Vec<u8>,
    arch: Vec<u8>,
    status: Vec<u8>,
}

/// Reads a status file line by line. A package of which only configuration is left is not
/// installed.
pub(super) fn read(mut bytes: impl BufRead) -> Result<Packages, DatabaseError> {
    let mut collected = Collected::default();
    let mut paragraph = Paragraph::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = (&mut bytes).take(LINE).read_until(b'\n', &mut line)?;
        let complete = line.ends_with(b"\n");
        if length > 0 && !complete {
            bytes.skip_until(b'\n')?;
        }
        let text = line.trim_ascii_end();
        if text.is_empty() {
            if let Some(package) = std::mem::take(&mut paragraph).package()? {
                collected.add(package)?;
            }
            if length == 0 {
                return Packages::new(collected.packages);
            }
            continue;
        }
        paragraph.line(text);
    }
}

impl Paragraph {
    fn line(&mut self, line: &[u8]) {
        // A line that continues a field begins with a blank.
        let Some(colon) = line.iter().position(|b| *b == b':') else { return };
        let value = line[colon + 1..].trim_ascii();
        let field = match &line[..colon] {
            b"Package" => &mut self.name,
            b"Version" => &mut self.version,
            b"Architecture" => &mut self.arch,
            b"Status" => &mut self.status,
            _ => return,
        };
        *field = value.to_vec();
    }

    fn package(self) -> Result<Option<Package>, DatabaseError> {
        let state = self.status.rsplit(|b| *b == b' ').next().unwrap_or_default();
        if self.name.is_empty() || matches!(state, b"not-installed" | b"config-files") {
            return Ok(None);
        }
        let (name, version) = (field(&self.name)?, field(&self.version)?);
        let arch = if self.arch.is_empty() { None } else { Some(field(&self.arch)?) };
        Ok(Some(Package { name, version, arch, manager: Manager::Dpkg }))
    }
}
