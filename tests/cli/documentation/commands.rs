//! The commands and flags that the documents show are those of `docs/cli/help.md`, which is
//! generated from the program.

use super::{documents, read};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The long flags in a text.
fn flags(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| c.is_whitespace() || "[],'\"(".contains(c));
    let flags = words.filter(|word| word.starts_with("--")).map(|word| {
        let end = word[2..].find(|c: char| !c.is_ascii_lowercase() && c != '-');
        &word[..end.map_or(word.len(), |end| end + 2)]
    });
    flags.filter(|flag| flag.len() > 2).collect()
}

/// Each command, such as `mosb cache list`, with its help.
fn helps() -> BTreeMap<String, String> {
    let help = format!("\n{}", read("docs/cli/help.md"));
    let parts = help.split("\n# ").skip(1).map(|part| part.split_once('\n').unwrap());
    parts.map(|(command, text)| (command.to_owned(), text.to_owned())).collect()
}

#[test]
fn every_command_is_in_the_reference() {
    let document = read("docs/commands.md");
    let helps = helps();
    assert!(helps.len() > 40, "{:?}", helps.keys());
    let anchor = |command: &&String| format!("(cli/help.md#{})", command.replace(' ', "-"));
    let commands = helps.keys().filter(|command| *command != "mosb");
    let missing: Vec<_> = commands.filter(|command| !document.contains(&anchor(command))).collect();
    assert!(missing.is_empty(), "not linked in docs/commands.md: {missing:?}");
}

/// The code of a document: each span in backticks and each line of a block.
fn code_texts(document: &str) -> Vec<String> {
    let mut spans = String::new();
    let mut texts = Vec::new();
    for (number, part) in document.split("```").enumerate() {
        if number % 2 == 0 {
            spans.push_str(part);
        } else {
            texts.extend(part.replace("\\\n", " ").lines().map(str::to_owned));
        }
    }
    texts.extend(spans.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " ")));
    texts
}

/// The command of mosb in a line of code, such as `mosb cache list`, and what follows it.
fn shown_command(line: &str, helps: &BTreeMap<String, String>) -> Option<(String, String)> {
    let words = line.split(|c: char| c.is_whitespace() || "[],".contains(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let start = words.iter().position(|word| *word == "mosb")?;
    // `mosb` is also the name of a Helm release.
    if words[..start].contains(&"helm") {
        return None;
    }
    let mut command = "mosb".to_owned();
    for word in &words[start + 1..] {
        let below = format!("{command} {word}");
        if !helps.contains_key(&below) {
            break;
        }
        command = below;
    }
    Some((command, words[start + 1..].join(" ")))
}

/// Flags in the commands that documents show are in the help of these commands.
#[test]
fn every_flag_of_a_shown_command_exists() {
    let helps = helps();
    let (mut shown, mut unknown) = (0, BTreeSet::new());
    for path in documents().iter().filter(|path| !path.ends_with("CHANGELOG.md")) {
        let texts = code_texts(&fs::read_to_string(path).unwrap());
        let lines = texts.iter().flat_map(|text| text.split(['|', ';', '#', '&']));
        for (command, arguments) in lines.filter_map(|line| shown_command(line, &helps)) {
            for flag in flags(&arguments) {
                shown += 1;
                if ![&*command, "mosb"].iter().any(|one| flags(&helps[*one]).contains(flag)) {
                    unknown.insert(format!("{}: {command} {flag}", path.display()));
                }
            }
        }
    }
    assert!(shown > 100, "{shown}");
    assert!(unknown.is_empty(), "{unknown:#?}");
}
