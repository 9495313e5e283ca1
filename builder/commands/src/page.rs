//! Text in sections and columns.

use std::collections::BTreeMap;

use mosb_types::{Finding, escape_control};

/// A text to which sections and tables are appended.
#[derive(Debug, Default)]
pub struct Page(String);

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Left-aligned words.
    Left,
    /// Right-aligned numbers.
    Right,
}

impl Page {
    /// A line without indentation.
    pub fn line(&mut self, text: &str) {
        self.0.push_str(&escape_control(text));
        self.0.push('\n');
    }

    /// A blank line and a headline.
    pub fn section(&mut self, headline: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.line(headline);
    }

    /// Names and values in two columns. A missing value has no line.
    pub fn pairs(&mut self, pairs: &[(&str, Option<&str>)]) {
        let rows = pairs
            .iter()
            .filter_map(|(name, value)| Some(vec![(*name).to_owned(), (*value)?.to_owned()]));
        self.table(&[], &rows.collect::<Vec<_>>());
    }

    /// A section with the labels of an image.
    pub fn labels(&mut self, labels: &BTreeMap<String, String>) {
        self.section("Labels");
        let pairs = labels.iter().map(|(key, value)| (key.as_str(), Some(value.as_str())));
        self.pairs(&pairs.collect::<Vec<_>>());
    }

    /// Rows with aligned columns; columns without an alignment are words.
    pub fn table(&mut self, aligns: &[Align], rows: &[Vec<String>]) {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| escape_control(cell)).collect()).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let blanks = " ".repeat(widths[column] - cell.chars().count());
                line.push_str("  ");
                match aligns.get(column) {
                    Some(Align::Right) => line.extend([blanks.as_str(), cell]),
                    Some(Align::Left) | None => line.extend([cell, blanks.as_str()]),
                }
            }
            self.0.push_str(line.trim_end());
            self.0.push('\n');
        }
    }

    /// Rows below the names of their columns.
    pub fn headed_table(&mut self, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
        let head = head.iter().map(|cell| (*cell).to_owned()).collect();
        self.table(&[], &std::iter::once(head).chain(rows).collect::<Vec<_>>());
    }

    /// Findings, one a line, with the code at the end.
    pub fn findings(&mut self, findings: &[Finding]) {
        for finding in findings {
            let place = finding.object.as_deref().or(finding.path.as_deref());
            // Most messages name their object themselves.
            let place = place.filter(|place| !finding.message.contains(place));
            let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
            self.line(&format!("  - {place}{} [{}]", finding.message, finding.code));
        }
    }

    /// Returns the text.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// Formats bytes with a suitable unit.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A cell, which is never blank.
pub fn or_none(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned()
}

/// Formats a number with a noun.
pub fn count(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_units() {
        for (bytes, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (34_900, "34.0 KiB"),
            (1024 * 1024 - 1, "1023.9 KiB"),
            (1024 * 1024, "1.0 MiB"),
            (1_717_986_918, "1.5 GiB"),
            (u64::MAX, "16383.9 PiB"),
        ] {
            assert_eq!(size(bytes), want);
        }
    }

    #[test]
    fn columns_line_up_and_control_characters_are_escaped() {
        let mut page = Page::default();
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        page.table(
            &[Align::Left, Align::Right],
            &[row(["a", "1", "ü"]), row(["long", "100", "\u{1b}[2J"])],
        );
        assert_eq!(page.into_text(), "  a       1  ü\n  long  100  \\u{1b}[2J\n");
    }
}
