//! rpm's database for tests.

use super::sqlite::MAGIC;

/// A database of these headers.
pub fn rpm_database(headers: &[Vec<u8>]) -> Vec<u8> {
    database(headers, &in_order(headers))
}

/// The header of a package, with a description of so many bytes before its architecture.
pub fn header(
    name: &str,
    epoch: Option<u32>,
    version: &str,
    arch: &str,
    description: usize,
) -> Vec<u8> {
    let (mut index, mut data) = (Vec::new(), Vec::new());
    let mut tag = |tag: u32, kind: u32, value: &[u8]| {
        for number in [tag, kind, data.len() as u32, 1] {
            index.extend(number.to_be_bytes());
        }
        data.extend(value);
    };
    let text = |value: &str| format!("{value}\0").into_bytes();
    tag(1000, 6, &text(name));
    tag(1001, 6, &text(version));
    tag(1002, 6, &text("1.fc44"));
    if let Some(epoch) = epoch {
        tag(1003, 4, &epoch.to_be_bytes());
    }
    tag(1005, 6, &text(&"d".repeat(description)));
    if !arch.is_empty() {
        tag(1022, 6, &text(arch));
    }
    tag(1080, 7, &[b'c'; 3000]);
    let numbers = [index.len() as u32 / 16, data.len() as u32];
    [numbers.map(u32::to_be_bytes).concat(), index, data].concat()
}

pub(super) const PAGE: usize = 512;

fn varint(number: usize) -> Vec<u8> {
    assert!(number < 1 << 14);
    if number < 0x80 {
        vec![number as u8]
    } else {
        vec![0x80 | (number >> 7) as u8, number as u8 & 0x7f]
    }
}

/// A row `(NULL, blob)`.
fn package_row(blob: &[u8]) -> Vec<u8> {
    let kind = varint(12 + 2 * blob.len());
    [&[2 + kind.len() as u8, 0], &*kind, blob].concat()
}

fn schema_row(root: u8) -> Vec<u8> {
    let texts = ["table", "Packages", "Packages"];
    let mut types: Vec<u8> = texts.iter().map(|text| 13 + 2 * text.len() as u8).collect();
    types.extend([1, 13 + 2 * 3]);
    [&[6], &*types, texts.concat().as_bytes(), &[root], b"sql"].concat()
}

/// The header of a page of a table, its rows from its end on, and their places.
fn table_page(kind: u8, start: usize, last: &[u8], cells: &[Vec<u8>]) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    page[start] = kind;
    page[start + 3..start + 5].copy_from_slice(&(cells.len() as u16).to_be_bytes());
    page[start + 8..start + 8 + last.len()].copy_from_slice(last);
    let mut end = PAGE;
    for (at, cell) in cells.iter().enumerate() {
        end -= cell.len();
        page[end..end + cell.len()].copy_from_slice(cell);
        let place = start + 8 + last.len() + 2 * at;
        assert!(place + 2 <= end, "the page is full");
        page[place..place + 2].copy_from_slice(&(end as u16).to_be_bytes());
    }
    page
}

/// How many bytes of a row are on its leaf.
fn on_leaf(row: &[u8]) -> usize {
    let most = PAGE - 35;
    if row.len() <= most {
        return row.len();
    }
    let here = 39 + (row.len() - 39) % (PAGE - 4);
    if here <= most { here } else { 39 }
}

/// A database of these headers, one on each leaf. Page 2 is the root; `order` has the numbers of the
/// others, in the order in which they are written.
pub(super) fn database(headers: &[Vec<u8>], order: &[u32]) -> Vec<u8> {
    let mut order = order.iter().copied();
    let mut pages: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut leaves = Vec::new();
    for header in headers {
        let row = package_row(header);
        let here = on_leaf(&row);
        let rest: Vec<&[u8]> = row[here..].chunks(PAGE - 4).collect();
        let leaf = order.next().unwrap();
        let numbers: Vec<u32> = rest.iter().map(|_| order.next().unwrap()).collect();
        for (at, content) in rest.iter().enumerate() {
            let next = numbers.get(at + 1).copied().unwrap_or_default();
            let mut page = [&next.to_be_bytes(), *content].concat();
            page.resize(PAGE, 0);
            pages.push((numbers[at], page));
        }
        let mut cell = [varint(row.len()), varint(leaf as usize), row[..here].to_vec()].concat();
        cell.extend(numbers.first().iter().flat_map(|number| number.to_be_bytes()));
        pages.push((leaf, table_page(0x0d, 0, &[], &[cell])));
        leaves.push(leaf);
    }
    let mut first =
        table_page(0x0d, 100, &[], &[[&[schema_row(2).len() as u8, 1], &*schema_row(2)].concat()]);
    first[..16].copy_from_slice(MAGIC);
    first[16..18].copy_from_slice(&(PAGE as u16).to_be_bytes());
    first[56..60].copy_from_slice(&1_u32.to_be_bytes());
    pages.push((1, first));
    let last = leaves.pop().map(u32::to_be_bytes).unwrap_or_default();
    let cells: Vec<Vec<u8>> =
        leaves.iter().map(|leaf| [&leaf.to_be_bytes()[..], &[1]].concat()).collect();
    let root = if headers.is_empty() {
        table_page(0x0d, 0, &[], &[])
    } else {
        table_page(0x05, 0, &last, &cells)
    };
    pages.push((2, root));
    pages.sort();
    let numbers: Vec<u32> = pages.iter().map(|(number, _)| *number).collect();
    let all: Vec<u32> = (1..=pages.len() as u32).collect();
    assert_eq!(numbers, all, "each page has one number");
    pages.into_iter().flat_map(|(_, page)| page).collect()
}

/// The numbers of all pages behind those of the schema and the root.
pub(super) fn in_order(headers: &[Vec<u8>]) -> Vec<u32> {
    let pages = headers.iter().map(|header| {
        let row = package_row(header);
        1 + (row.len() - on_leaf(&row)).div_ceil(PAGE - 4)
    });
    (3..3 + pages.sum::<usize>() as u32).collect()
}
