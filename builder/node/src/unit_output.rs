//! What the last run of a unit wrote, by the machine's journal.
//!
//! Input: the journal's lines as JSON (`journalctl --output=json`), those of the unit and those of
//! process 1 about it. Runs are told apart by the invocation ID, which both have
//! (systemd.journal-fields(7)).

use serde::Deserialize;
use serde_json::Value;

use crate::host::words;

/// How many lines are read of the journal: those that a text has, and those of process 1.
const LINES: &str = "--lines=40";
/// The fields that are read.
const FIELDS: &str = "--output-fields=MESSAGE,_SYSTEMD_UNIT,_SYSTEMD_INVOCATION_ID,INVOCATION_ID";
/// How many lines the text has, the last ones.
const LAST_LINES: usize = 15;

#[derive(Deserialize)]
struct Entry {
    /// A list of bytes if it is not printable, as with colours.
    #[serde(rename = "MESSAGE", default)]
    message: Value,
    #[serde(rename = "_SYSTEMD_UNIT", default)]
    unit: Option<String>,
    #[serde(rename = "_SYSTEMD_INVOCATION_ID", default)]
    own_run: Option<String>,
    /// Of process 1: the run that its message is about.
    #[serde(rename = "INVOCATION_ID", default)]
    run_of_unit: Option<String>,
}

impl Entry {
    /// The run of the unit that wrote it or that it is about.
    fn run(&self, unit: &str) -> Option<&str> {
        let is_own = self.unit.as_deref() == Some(unit);
        if is_own { self.own_run.as_deref() } else { self.run_of_unit.as_deref() }
    }

    fn text(&self) -> String {
        match &self.message {
            Value::String(text) => without_escapes(text),
            Value::Array(bytes) => {
                let byte = |value: &Value| u8::try_from(value.as_u64()?).ok();
                let bytes: Vec<u8> = bytes.iter().filter_map(byte).collect();
                without_escapes(&String::from_utf8_lossy(&bytes))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
        }
    }
}

/// The command that reads the journal.
pub(crate) fn command(unit: &str) -> Vec<String> {
    let mut command =
        words(["journalctl", "--boot", "--quiet", "--no-pager", "--all", "--output=json"]);
    command.extend(words([LINES, FIELDS]));
    command.extend([format!("_SYSTEMD_UNIT={unit}"), "+".to_owned()]);
    command.extend(["_PID=1".to_owned(), format!("UNIT={unit}")]);
    command
}

/// The end of what the last run wrote. If it wrote nothing, such as one whose program could not be
/// started, what process 1 wrote about it.
pub(crate) fn of_last_run(journal: &str, unit: &str) -> String {
    let entries: Vec<Entry> =
        journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let last = entries.iter().rev().find_map(|entry| entry.run(unit));
    let (own, about): (Vec<&Entry>, Vec<&Entry>) = entries
        .iter()
        .filter(|entry| entry.run(unit) == last)
        .partition(|entry| entry.unit.as_deref() == Some(unit));
    let written = if own.is_empty() { about } else { own };
    let texts: Vec<String> = written.into_iter().map(Entry::text).collect();
    texts[texts.len().saturating_sub(LAST_LINES)..].join("\n").trim_end().to_owned()
}

/// Without colours and other sequences of a terminal (ECMA-48: `ESC [`, parameters, a final byte from `@`
/// to `~`).
fn without_escapes(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::new();
    while let Some(at) = rest.find('\u{1b}') {
        plain += &rest[..at];
        rest = &rest[at + 1..];
        if let Some(sequence) = rest.strip_prefix('[') {
            let end = sequence.find(|c: char| ('@'..='~').contains(&c));
            rest = end.map_or("", |end| &sequence[end + 1..]);
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const UNIT: &str = "mosb-stage-x.service";

    fn of_unit(run: &str, message: Value) -> String {
        json!({ "_SYSTEMD_UNIT": UNIT, "_SYSTEMD_INVOCATION_ID": run, "MESSAGE": message })
            .to_string()
    }

    fn of_systemd(run: &str, message: &str) -> String {
        json!({ "_SYSTEMD_UNIT": "init.scope", "INVOCATION_ID": run, "MESSAGE": message })
            .to_string()
    }

    /// As systemd 252 writes it of a unit of type `simple`: systemd-run succeeds although nothing was
    /// run. With `--service-type=exec` it fails, and says only that the journal has more.
    const EXEC_FAILED: &str = "\
        Started mosb-stage-x.service - /usr/bin/bootc switch reg.example/os.\n\
        mosb-stage-x.service: Main process exited, code=exited, status=203/EXEC\n\
        mosb-stage-x.service: Failed with result 'exit-code'.";

    #[test]
    fn the_text_is_that_of_the_last_run() {
        let coloured: Vec<u8> = b"\x1b[31mERROR\x1b[0m Switching: denied".to_vec();
        let first = [
            of_systemd("1", "Started"),
            of_unit("1", json!("Pulling")),
            of_unit("1", json!("ERROR of before")),
            of_systemd("1", "Failed with result"),
        ];
        let second = [
            of_systemd("2", "Started"),
            of_unit("2", json!("Pulling")),
            of_unit("2", json!(coloured)),
            of_systemd("2", "Failed with result"),
        ];
        let silent = [of_systemd("3", "Started"), of_systemd("3", "Failed with result")];
        let exec = EXEC_FAILED.lines().map(|line| of_systemd("3", line));
        let exec: Vec<String> = second.iter().cloned().chain(exec).collect();
        let both = [first.clone(), second.clone()].concat();
        let with_silent = [&both[..], &silent].concat();
        for (what, journal, want) in [
            ("one run", first.to_vec(), "Pulling\nERROR of before"),
            ("two runs", both, "Pulling\nERROR Switching: denied"),
            ("nothing of systemd", vec![of_unit("1", json!("a")), of_unit("2", json!("b"))], "b"),
            ("the last wrote nothing", with_silent, "Started\nFailed with result"),
            ("its program is missing", exec, EXEC_FAILED),
            ("nothing", Vec::new(), ""),
        ] {
            assert_eq!(of_last_run(&journal.join("\n"), UNIT), want, "{what}");
        }
        let many: Vec<String> = (0..30).map(|n| of_unit("1", json!(n.to_string()))).collect();
        let text = of_last_run(&many.join("\n"), UNIT);
        assert_eq!((text.lines().count(), text.lines().next()), (LAST_LINES, Some("15")));
    }

    #[test]
    fn a_text_has_no_sequences_of_a_terminal() {
        for (text, want) in [
            ("plain", "plain"),
            ("\u{1b}[1;31mERROR\u{1b}[0m: x", "ERROR: x"),
            ("a\u{1b}b", "ab"),
            ("a\u{1b}[3", "a"),
        ] {
            assert_eq!(without_escapes(text), want, "{text:?}");
        }
    }
}
