//! The differences of two configs or images, as Markdown for a pull request.
//!
//! Texts of configs and images are within code, so that none of them becomes markup.

use super::Diff;
use super::os_text::{counts, kernel, most_changed, package_counts};
use crate::output::Object as _;
use crate::page::count;
use mosb_plan::plan::diff::PackageChanges;
use mosb_types::escape_control;

impl Diff {
    /// A headline, what matters of the OS, and all changes folded in.
    pub fn markdown(&self) -> String {
        let (from, to) = (code(&self.from.operand), code(&self.to.operand));
        let mut lines = vec![format!("### {from} → {to}"), String::new()];
        if self.same {
            lines.push("Nothing changes.".to_owned());
            return lines.join("\n") + "\n";
        }
        let changes = &self.changes;
        let of_configs = [
            ("setting", changes.settings.len()),
            ("path", changes.paths.len()),
            ("unit", changes.units.len()),
        ];
        lines.extend(counted("config", &of_configs));
        if let Some(os) = &self.os {
            lines.push(format!("- kernel: {}", code(&kernel(&os.kernel))));
            lines.push(format!("- packages: {}", package_counts(&os.packages)));
            lines.push(format!("- files: {}", counts(&os.files)));
            let of_os = [
                ("user", os.users.len()),
                ("group", os.groups.len()),
                ("unit", os.units.len()),
                ("preset file", os.presets.len()),
                ("label", os.labels.len()),
            ];
            lines.extend(counted("in the OS", &of_os));
            lines.extend(package_table(&os.packages));
            let (most, others) = most_changed(&os.files.directories);
            if !most.is_empty() {
                lines.extend(
                    ["", "| directory | added | removed | changed |", "| --- | --: | --: | --: |"]
                        .map(str::to_owned),
                );
                lines.extend(most.iter().map(|it| {
                    format!(
                        "| {} | {} | {} | {} |",
                        code(&it.directory),
                        it.added,
                        it.removed,
                        it.changed
                    )
                }));
            }
            if others > 0 {
                lines.push(format!("| {others} others | | | |"));
            }
        }
        let text = self.text();
        let fence = "`".repeat(longest_run(&text).max(2) + 1);
        lines.extend(["", "<details><summary>All changes</summary>", ""].map(str::to_owned));
        lines.extend([fence.clone() + "text", text.trim_end().to_owned(), fence]);
        lines.extend(["", "</details>"].map(str::to_owned));
        lines.join("\n") + "\n"
    }
}

/// Packages that are shown before the text with all changes.
const SHOWN_PACKAGES: usize = 100;

fn package_table(packages: &PackageChanges) -> Vec<String> {
    let all = packages.all();
    let mut lines = Vec::new();
    if !all.is_empty() {
        lines
            .extend(["", "| package | before | after |", "| --- | --- | --- |"].map(str::to_owned));
    }
    let version = |version: &Option<String>| version.as_deref().map(code).unwrap_or_default();
    lines.extend(
        all.iter().take(SHOWN_PACKAGES).map(|it| {
            format!("| {} | {} | {} |", code(&it.name), version(&it.from), version(&it.to))
        }),
    );
    if let Some(others) = all.len().checked_sub(SHOWN_PACKAGES).filter(|others| *others > 0) {
        lines.push(format!("| {others} others | | |"));
    }
    lines
}

/// An item of a list with the things of which there are some.
fn counted(of: &str, things: &[(&str, usize)]) -> Option<String> {
    let some = things.iter().filter(|(_, number)| *number > 0);
    let some: Vec<_> = some.map(|(thing, number)| count(*number, thing)).collect();
    (!some.is_empty()).then(|| format!("- {of}: {}", some.join(", ")))
}

/// A text as code in a line or a cell of a table.
fn code(text: &str) -> String {
    let text = escape_control(text).replace('|', "\\|");
    let fence = "`".repeat(longest_run(&text) + 1);
    let blank = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{blank}{text}{blank}{fence}")
}

/// The most backticks in a row.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_can_not_end_early() {
        for (text, want) in [("a", "`a`"), ("a`b", "``a`b``"), ("`", "`` ` ``"), ("a|b", "`a\\|b`")]
        {
            assert_eq!(code(text), want);
        }
    }
}
