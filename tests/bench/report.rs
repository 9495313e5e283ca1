//! Fills the template `performance.md` beside this file with the measured tables: all of it into
//! `docs/performance.md`, or only the measured sections on stdout. Progress is on stderr.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use crate::race::Times;

const TEMPLATE: &str = "tests/bench/performance.md";

/// The results of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// Tables by their name in the template.
    tables: Vec<(&'static str, Table)>,
    goals: Vec<Goal>,
    /// Required goals that were not reached.
    failed: Vec<String>,
}

#[derive(Debug)]
struct Goal {
    what: String,
    wanted: String,
    found: String,
    reached: bool,
}

/// A table of text.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<const N: usize>(head: [&str; N]) -> Self {
        let head = head.map(str::to_owned).to_vec();
        Self { rows: vec![head] }
    }

    pub fn row<const N: usize>(&mut self, row: [String; N]) {
        self.rows.push(row.to_vec());
    }

    /// A table of contenders with their ratio to the first one.
    pub fn of_race(times: &[Times], against: &str) -> Self {
        let mut table = Self::new(["", "median", &format!("× {against}"), "rounds"]);
        for contender in times {
            table.row([
                contender.name.clone(),
                seconds(contender.median()),
                format!("{:.2}", contender.to(&times[0])),
                contender.rounds.len().to_string(),
            ]);
        }
        table
    }

    fn markdown(&self) -> String {
        let mut lines: Vec<_> =
            self.rows.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
        lines.insert(1, format!("| --- {}|", "| ---: ".repeat(self.rows[0].len() - 1)));
        lines.join("\n")
    }
}

impl Report {
    pub fn table(&mut self, name: &'static str, table: Table) {
        eprintln!("\n{name}\n\n{}\n", table.markdown());
        self.tables.push((name, table));
    }

    pub fn at_most(&mut self, what: impl Into<String>, found: f64, limit: f64, unit: &str) {
        let reached = found <= limit;
        self.goal(what.into(), format!("≤ {limit} {unit}"), format!("{found:.2} {unit}"), reached);
    }

    /// Like [`at_most`](Self::at_most), and the run fails at its end if it is more.
    pub fn required(&mut self, what: &str, found: f64, limit: f64, unit: &str) {
        self.at_most(what, found, limit, unit);
        if found > limit {
            self.failed.push(what.to_owned());
        }
    }

    /// Panics if a [`required`](Self::required) goal was not reached.
    pub fn check_required(&self) {
        assert!(self.failed.is_empty(), "not reached: {}", self.failed.join("; "));
    }

    pub fn at_least(&mut self, what: impl Into<String>, found: f64, limit: f64, unit: &str) {
        let reached = found >= limit;
        self.goal(what.into(), format!("≥ {limit} {unit}"), format!("{found:.0} {unit}"), reached);
    }

    fn goal(&mut self, what: String, wanted: String, found: String, reached: bool) {
        eprintln!("{what}: {found} (goal {wanted}): {}", yes(reached));
        self.goals.push(Goal { what, wanted, found, reached });
    }

    /// Writes the page. It fails if a table of the template was not measured.
    pub fn write(&self, path: &Path) {
        let mut text = template().replace("{machine}", &machine());
        for (placeholder, table) in self.placeholders() {
            text = text.replace(&placeholder, &table);
        }
        assert!(!text.contains('{'), "a table of the template was not measured:\n{text}");
        fs::create_dir_all(path.parent().expect("a directory")).unwrap();
        fs::write(path, text).unwrap();
        eprintln!("\nwritten: {}", path.display());
    }

    /// Prints the sections with a measured table, as they are in the page. The section of the goals
    /// has only those that were measured; a table that was not measured stays a placeholder.
    pub fn print(&self) {
        let template = template();
        let placeholders = self.placeholders();
        let measured = template.split("\n## ").skip(1).filter_map(|section| {
            let found: Vec<_> =
                placeholders.iter().filter(|(name, _)| section.contains(name)).collect();
            let fill = |text: String, (name, table): &&(String, String)| text.replace(name, table);
            let text = found.iter().fold(section.trim_end().to_owned(), fill);
            (!found.is_empty()).then(|| format!("## {text}\n"))
        });
        print!("{}", measured.collect::<Vec<_>>().join("\n"));
    }

    /// The placeholders of what was measured, and the tables that replace them.
    fn placeholders(&self) -> Vec<(String, String)> {
        let mut goals = Table::new(["goal", "limit", "measured", "reached"]);
        for goal in &self.goals {
            goals.row([
                goal.what.clone(),
                goal.wanted.clone(),
                goal.found.clone(),
                yes(goal.reached).to_owned(),
            ]);
        }
        let goals = (!self.goals.is_empty()).then_some(("goals", &goals));
        let tables = self.tables.iter().map(|(name, table)| (*name, table));
        let all = goals.into_iter().chain(tables);
        all.map(|(name, table)| (format!("{{{name}}}"), table.markdown())).collect()
    }
}

fn template() -> String {
    fs::read_to_string(mosb_tests::repository().join(TEMPLATE)).unwrap()
}

fn yes(reached: bool) -> &'static str {
    if reached { "yes" } else { "**no**" }
}

/// A duration with three significant digits.
pub fn seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        ..100.0 => format!("{seconds:.2} s"),
        _ => format!("{seconds:.0} s"),
    }
}

pub fn megabytes(bytes: u64) -> String {
    let mut text = String::new();
    write!(text, "{:.1} MB", bytes as f64 / 1e6).expect("memory can be written");
    text
}

/// Describes the machine that the measurements ran on.
fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let version = env!("CARGO_PKG_VERSION");
    format!("{cores} cores, mosb {version}")
}
