//! rpm's database in SQLite: the table `Packages(hnum INTEGER PRIMARY KEY, blob BLOB)` has the header
//! of each package.
//!
//! The file streams by, page by page, and only its end shows which pages belong to the table. So every
//! row that looks like one of it is read, and at the end those of the table count. A header has some
//! ten pages, of which the first few are read. They may come before the page with the row, so pages
//! that no row is known for are held: rpm writes a row and its pages one after the other, so these are
//! few. Pages that were used before may be anywhere, and what remains on an unused page may lead to
//! pages of other rows. Then rows are incomplete, and the file must be read a second time,
//! [`Thorough`](Effort::Thorough): with all pages held until the rows of the table are known.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;

use super::rpm_header::{self, Start};
use super::sqlite::{Cell, Page, Value, each_page};
use super::{Collected, DatabaseError, Effort, MAX_FIELDS, MAX_SIZE, Package, Packages};

/// The most bytes of pages that are held while streaming. With what is in use beside them, reading a
/// base needs at most 16 MiB more because of its packages.
const MAX_HELD: usize = 8 << 20;
/// The same for a second reading.
const MAX_HELD_THOROUGH: usize = 96 << 20;
/// Pages of a row that are held before the row is known; more are rarely needed.
const MAX_DEPTH: u8 = 16;
/// The most numbers of pages in the inner pages of all tables.
const MAX_CHILDREN: usize = 1 << 20;
/// What a row counts beside the bytes of its package.
const ROW: usize = 64;
/// The root of the table of tables.
const SCHEMA: u32 = 1;

/// Reads a database.
pub(super) fn read(bytes: impl Read, effort: Effort) -> Result<Packages, DatabaseError> {
    let mut database = Database::new(effort);
    each_page(bytes, |number, page| database.page(number, page))?;
    database.finish()
}

/// A page of a table.
#[derive(Debug)]
enum Node {
    Interior(Vec<u32>),
    /// A leaf, and the root of the table `Packages` if a row says it.
    Leaf(Option<u32>),
    Damaged(&'static str),
}

/// The start of a header that is not long enough, and the page with more of it.
#[derive(Debug)]
struct Row {
    /// The page that the row is on.
    leaf: u32,
    length: usize,
    start: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Held {
    next: u32,
    content: Box<[u8]>,
}

#[derive(Debug)]
struct Database {
    effort: Effort,
    nodes: HashMap<u32, Node>,
    children: usize,
    /// The rows that were read, by leaf.
    read: Vec<(u32, Result<Package, DatabaseError>)>,
    /// The rows that wait for a page.
    waiting: HashMap<u32, Vec<Row>>,
    /// Overflow pages of rows that are not known yet.
    held: BTreeMap<u32, Held>,
    /// Bytes of the pages and rows that are held.
    held_bytes: usize,
    /// How many pages of a row are before this page. [`MAX_DEPTH`]: it is not needed.
    depths: HashMap<u32, u8>,
    /// Bytes that were appended to rows, and those of the packages that were read.
    appended: usize,
    read_bytes: usize,
}

impl Database {
    fn new(effort: Effort) -> Self {
        Self {
            effort,
            nodes: HashMap::new(),
            children: 0,
            read: Vec::new(),
            waiting: HashMap::new(),
            held: BTreeMap::new(),
            held_bytes: 0,
            depths: HashMap::new(),
            appended: 0,
            read_bytes: 0,
        }
    }

    fn page(&mut self, number: u32, page: Page<'_>) -> Result<(), DatabaseError> {
        let node = match page {
            Page::Leaf(cells) => {
                let mut packages = None;
                for cell in &cells {
                    match row(cell) {
                        Some(RowOf::Schema(root)) => packages = Some(root),
                        Some(RowOf::Packages(start, length)) => {
                            let row = Row { leaf: number, length, start: start.to_vec() };
                            self.add(row, cell.next)?;
                        }
                        None => {}
                    }
                }
                Node::Leaf(packages)
            }
            Page::Interior(children) => {
                self.children += children.len();
                if self.children > MAX_CHILDREN {
                    let what = "pages in its tables";
                    return Err(DatabaseError::TooMuch { what, limit: MAX_CHILDREN });
                }
                Node::Interior(children)
            }
            Page::Overflow { next, content } => {
                return self.overflow(number, next, content);
            }
            Page::Damaged(what) => Node::Damaged(what),
            Page::Other => return Ok(()),
        };
        self.nodes.insert(number, node);
        Ok(())
    }

    /// Adds a row whose rest begins on the page `next`.
    fn add(&mut self, row: Row, next: u32) -> Result<(), DatabaseError> {
        match self.effort {
            Effort::Streaming => self.follow(row, next),
            Effort::Thorough => self.wait(row, next),
        }
    }

    fn wait(&mut self, row: Row, page: u32) -> Result<(), DatabaseError> {
        self.hold(row.start.len())?;
        self.waiting.entry(page).or_default().push(row);
        Ok(())
    }

    /// Makes room for bytes to hold. A row that needs a page that is dropped is incomplete.
    fn hold(&mut self, bytes: usize) -> Result<(), DatabaseError> {
        let limit = match self.effort {
            Effort::Streaming => MAX_HELD,
            Effort::Thorough => MAX_HELD_THOROUGH,
        };
        self.held_bytes += bytes;
        while self.held_bytes > limit {
            let (_, held) = self.held.pop_first().ok_or(DatabaseError::Order)?;
            self.held_bytes -= held.content.len();
        }
        Ok(())
    }

    /// Appends pages to a row until its package is known, or a page is missing.
    fn follow(&mut self, mut row: Row, mut next: u32) -> Result<(), DatabaseError> {
        let result = loop {
            match rpm_header::read(&row.start, row.length) {
                Ok(Start::Package(package)) => break Ok(package),
                Err(error) => break Err(error),
                Ok(Start::Short) if next == 0 => {
                    break Err(DatabaseError::Header("its row has too few pages"));
                }
                Ok(Start::Short) => {}
            }
            let held = match self.effort {
                Effort::Streaming => self.take(next),
                // A page that another row led to, perhaps one that is not in use.
                Effort::Thorough => self.held.get(&next).cloned(),
            };
            let Some(held) = held else { return self.wait(row, next) };
            self.append(&mut row, &held.content)?;
            next = held.next;
        };
        // Rows of pages that are not in use count, too.
        self.read_bytes += ROW + result.as_ref().map_or(0, Package::size);
        if self.read_bytes > 2 * MAX_FIELDS {
            let what = "bytes in names and versions of packages";
            return Err(DatabaseError::TooMuch { what, limit: 2 * MAX_FIELDS });
        }
        self.read.push((row.leaf, result));
        if self.effort == Effort::Streaming {
            self.skip(next);
        }
        Ok(())
    }

    /// Appends the content of the next page. A page belongs to one row, so all rows together are not
    /// longer than the file.
    fn append(&mut self, row: &mut Row, content: &[u8]) -> Result<(), DatabaseError> {
        let missing = row.length - row.start.len();
        let more = &content[..content.len().min(missing)];
        self.appended += more.len();
        if self.appended as u64 > MAX_SIZE {
            return Err(DatabaseError::Header("its pages are those of other rows"));
        }
        row.start.extend_from_slice(more);
        Ok(())
    }

    fn take(&mut self, page: u32) -> Option<Held> {
        let held = self.held.remove(&page)?;
        self.held_bytes -= held.content.len();
        Some(held)
    }

    /// Drops this page and those behind it, also those to come.
    fn skip(&mut self, mut page: u32) {
        while page != 0 {
            match self.take(page) {
                Some(held) => page = held.next,
                None => {
                    self.depths.insert(page, MAX_DEPTH);
                    return;
                }
            }
        }
    }

    fn overflow(&mut self, number: u32, next: u32, content: &[u8]) -> Result<(), DatabaseError> {
        if self.effort == Effort::Streaming {
            if let Some(rows) = self.waiting.remove(&number) {
                for mut row in rows {
                    self.held_bytes -= row.start.len();
                    self.append(&mut row, content)?;
                    self.follow(row, next)?;
                }
                return Ok(());
            }
            let depth = self.depths.remove(&number).unwrap_or_default();
            if depth == MAX_DEPTH {
                self.skip(next);
                return Ok(());
            }
            if next > number {
                self.depths.entry(next).or_insert(depth + 1);
            }
        }
        self.hold(content.len())?;
        self.held.insert(number, Held { next, content: content.into() });
        Ok(())
    }

    fn finish(mut self) -> Result<Packages, DatabaseError> {
        let schema = self.leaves(SCHEMA)?;
        let mut roots = schema.iter().filter_map(|leaf| match self.nodes.get(leaf) {
            Some(Node::Leaf(packages)) => *packages,
            Some(Node::Interior(_) | Node::Damaged(_)) | None => None,
        });
        let root = roots.next().ok_or(DatabaseError::NoTable)?;
        let leaves = self.leaves(root)?;
        let mut waiting = std::mem::take(&mut self.waiting);
        if self.effort == Effort::Thorough {
            for (next, rows) in std::mem::take(&mut waiting) {
                for row in rows.into_iter().filter(|row| leaves.contains(&row.leaf)) {
                    self.held_bytes -= row.start.len();
                    self.follow(row, next)?;
                }
            }
            waiting = std::mem::take(&mut self.waiting);
        }
        if waiting.values().flatten().any(|row| leaves.contains(&row.leaf)) {
            return Err(DatabaseError::Order);
        }
        let mut collected = Collected::default();
        for (leaf, package) in self.read {
            if leaves.contains(&leaf) {
                collected.add(package?)?;
            }
        }
        Packages::new(collected.packages)
    }

    /// The leaves of the table with this root.
    fn leaves(&self, root: u32) -> Result<HashSet<u32>, DatabaseError> {
        let mut leaves = HashSet::new();
        let mut seen = HashSet::new();
        let mut open = vec![root];
        while let Some(page) = open.pop() {
            let damaged = |what| DatabaseError::Page { page, what };
            if !seen.insert(page) {
                return Err(damaged("two pages lead to it"));
            }
            match self.nodes.get(&page) {
                Some(Node::Interior(children)) => open.extend(children),
                Some(Node::Leaf(_)) => {
                    leaves.insert(page);
                }
                Some(Node::Damaged(what)) => return Err(damaged(what)),
                None => return Err(damaged("it is not a page of a table")),
            }
        }
        Ok(leaves)
    }
}

/// A row of a table that is read.
enum RowOf<'p> {
    /// The root of the table `Packages`.
    Schema(u32),
    /// A header as far as the page has it, and its length.
    Packages(&'p [u8], usize),
}

fn row<'p>(cell: &Cell<'p>) -> Option<RowOf<'p>> {
    if let Some([Value::Null, Value::Blob(start, length)]) = cell.values() {
        return Some(RowOf::Packages(start, length));
    }
    match cell.values()? {
        [Value::Text(b"table"), Value::Text(b"Packages"), _, Value::Integer(root), _] => {
            u32::try_from(root).ok().map(RowOf::Schema)
        }
        _ => None,
    }
}
