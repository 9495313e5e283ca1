//! Whether a boot finalized its staged image when it ended, by what its journal has of ostree's
//! unit.
//!
//! Input: the journal's lines as JSON (`journalctl --output=json`). systemd's messages are known by
//! their ID (systemd.journal-fields(7), `journalctl --catalog`), ostree's by their text.

use std::time::Duration;

use serde::Deserialize;

use crate::error::Error;
use crate::host::{Host, is_boot_id, words};

/// The unit that finalizes a staged image when the machine shuts down.
pub(crate) const FINALIZE_UNIT: &str = "ostree-finalize-staged.service";
/// The unit in which ostree reports a failure of the boot before.
pub(crate) const BOOT_COMPLETE_UNIT: &str = "ostree-boot-complete.service";

/// systemd: a unit entered the failed state.
const UNIT_FAILED: &str = "d9b373ed55a64feb8242e02dbe79a49c";
/// systemd: a unit is started, has started, is stopped, has stopped.
const UNIT_JOBS: [&str; 4] = [
    "7d4958e842da4a758f6c1cdc7b36dcc5",
    "39f53479d3a045ac8e11786248231fbf",
    "de5b426a63be47a7b6ac3eaac82e2f6f",
    "9d1aaa27d60140bd96365438aad20286",
];
/// ostree: it has begun.
const BEGUN: &str = "Finalizing staged deployment";
/// ostree: the new deployment is what the machine boots next. The text depends on whether the boot
/// loader's files were replaced or switched at once, as they are where kernel and arguments stay.
const DEPLOYED: [&str; 2] = ["Bootloader updated", "Transaction complete"];
/// The ID of both messages.
const DEPLOYED_ID: &str = "dd440e3e549083b63d0efc7dc15255f1";
/// ostree, in the next boot.
const FAILED_BEFORE: &str = "ostree-finalize-staged.service failed on previous boot";

/// The most lines that an error has, and the most characters.
const LAST_LINES: usize = 6;
const LAST_CHARACTERS: usize = 600;

/// How a boot ended for its staged image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finalization {
    /// The image became the default of the boot loader.
    Finalized,
    /// The last messages of the unit that failed.
    Failed(String),
    /// It did not begin or did not end, or the journal doesn't show it.
    NotSeen,
}

#[derive(Deserialize)]
struct Entry {
    /// A list of bytes if it is not printable, null if it is too long.
    #[serde(rename = "MESSAGE", default)]
    message: serde_json::Value,
    #[serde(rename = "MESSAGE_ID", default)]
    id: Option<String>,
}

impl Entry {
    fn text(&self) -> &str {
        self.message.as_str().unwrap_or_default()
    }
}

/// What the journal of the boot that staged the image has of [`FINALIZE_UNIT`].
pub(crate) fn of_boot(journal: &str) -> Finalization {
    let entries = entries(journal);
    let failure = format!("{FINALIZE_UNIT}: Failed with result");
    let has_failed = |entry: &Entry| {
        entry.id.as_deref() == Some(UNIT_FAILED) || entry.text().starts_with(&failure)
    };
    let begun = entries.iter().any(|entry| entry.text().starts_with(BEGUN));
    let is_deployed = |entry: &Entry| {
        let has_text = DEPLOYED.iter().any(|text| entry.text().starts_with(text));
        has_text || entry.id.as_deref() == Some(DEPLOYED_ID)
    };
    if entries.iter().any(has_failed) {
        Finalization::Failed(last(&entries))
    } else if begun && entries.iter().any(is_deployed) {
        Finalization::Finalized
    } else {
        Finalization::NotSeen
    }
}

/// What the journal of the next boot has of [`BOOT_COMPLETE_UNIT`], for a machine that doesn't keep
/// the journal of earlier boots.
pub(crate) fn of_next_boot(journal: &str) -> Finalization {
    let entries = entries(journal);
    match entries.iter().find(|entry| entry.text().contains(FAILED_BEFORE)) {
        Some(entry) => Finalization::Failed(shortened(entry.text())),
        None => Finalization::NotSeen,
    }
}

fn entries(journal: &str) -> Vec<Entry> {
    journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The last messages, without systemd's about starting and stopping.
fn last(entries: &[Entry]) -> String {
    let is_cause = |entry: &&Entry| {
        !entry.text().is_empty() && !entry.id.as_deref().is_some_and(|id| UNIT_JOBS.contains(&id))
    };
    let texts: Vec<&str> = entries.iter().filter(is_cause).map(Entry::text).collect();
    shortened(&texts[texts.len().saturating_sub(LAST_LINES)..].join(", "))
}

fn shortened(text: &str) -> String {
    text.chars().take(LAST_CHARACTERS).collect()
}

/// How long the journal may take; it may have years of boots on a slow disk.
const LIMIT: Duration = Duration::from_secs(120);
/// The most lines of a unit that are read, the last ones.
const LINES: &str = "--lines=200";

/// How a boot ended for its staged image. A journal that can't be read shows nothing.
pub(crate) async fn finalization_of(host: &Host, boot_id: &str) -> Finalization {
    let boot: String = boot_id.chars().filter(char::is_ascii_hexdigit).collect();
    let ended = if is_boot_id(&boot) {
        of_boot(&read(host, &format!("--boot={boot}"), FINALIZE_UNIT).await)
    } else {
        Finalization::NotSeen
    };
    if ended != Finalization::NotSeen {
        return ended;
    }
    of_next_boot(&read(host, "--boot=0", BOOT_COMPLETE_UNIT).await)
}

async fn read(host: &Host, boot: &str, unit: &str) -> String {
    let unit = format!("--unit={unit}");
    let fields = "--output-fields=MESSAGE,MESSAGE_ID";
    let command =
        words(["journalctl", boot, &unit, LINES, "--quiet", "--no-pager", "--output=json", fields]);
    let read: Result<String, Error> = host.run("journalctl", &command, LIMIT).await;
    read.unwrap_or_else(|error| {
        tracing::info!("{error}");
        String::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SYSTEMD_STARTED: &str = "39f53479d3a045ac8e11786248231fbf";
    const SYSTEMD_STOPPING: &str = "de5b426a63be47a7b6ac3eaac82e2f6f";
    const SYSTEMD_EXITED: &str = "98e322203f7a4ed290d09fe03c09fe15";
    const SYSTEMD_SUCCESS: &str = "7ad2d189f7e94e70a38c781354912448";

    fn journal(lines: &[(&str, &str)]) -> String {
        let lines = lines.iter().map(|(id, message)| {
            let mut line = json!({
                "__CURSOR": "s=1", "_BOOT_ID": "0".repeat(32), "PRIORITY": "6", "MESSAGE": message,
            });
            if !id.is_empty() {
                line["MESSAGE_ID"] = json!(id);
            }
            line.to_string()
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_journal_shows_how_a_boot_ended() {
        let started = (
            SYSTEMD_STARTED,
            "Finished ostree-finalize-staged.service - OSTree Finalize Staged Deployment.",
        );
        let stopping = (
            SYSTEMD_STOPPING,
            "Stopping ostree-finalize-staged.service - OSTree Finalize Staged Deployment...",
        );
        let begun = ("e8646cd63dff4625b77909a8e7a40994", "Finalizing staged deployment");
        let updated = (
            DEPLOYED_ID,
            "Bootloader updated; bootconfig swap: yes; bootversion: boot.1.1, deployment count change: 1",
        );
        let complete = (
            DEPLOYED_ID,
            "Transaction complete; bootconfig swap: no; bootversion: boot.0.1, deployment count change: 0",
        );
        let success =
            (SYSTEMD_SUCCESS, "ostree-finalize-staged.service: Deactivated successfully.");
        let exited = (
            SYSTEMD_EXITED,
            "ostree-finalize-staged.service: Control process exited, code=exited, status=1/FAILURE",
        );
        let failed =
            (UNIT_FAILED, "ostree-finalize-staged.service: Failed with result 'exit-code'.");
        let full = ("", "error: Installing kernel: No space left on device");
        let none = ("", "No deployment staged for finalization");
        let failure = |lines: &str| Finalization::Failed(lines.to_owned());
        for (what, lines, want) in [
            ("the machine lost its power", &[started][..], Finalization::NotSeen),
            ("no journal of that boot", &[], Finalization::NotSeen),
            (
                "all went well",
                &[started, stopping, begun, updated, success],
                Finalization::Finalized,
            ),
            (
                "only the links of the deployments were switched",
                &[started, stopping, begun, complete, success],
                Finalization::Finalized,
            ),
            ("an ostree without IDs", &[("", begun.1), ("", complete.1)], Finalization::Finalized),
            (
                "an ostree with other texts",
                &[begun, (DEPLOYED_ID, "Deployment complete")],
                Finalization::Finalized,
            ),
            ("the power failed in between", &[started, stopping, begun], Finalization::NotSeen),
            (
                "nothing was staged any more",
                &[started, stopping, none, success],
                Finalization::NotSeen,
            ),
            (
                "/boot was full",
                &[started, stopping, begun, full, exited, failed],
                failure(&[begun.1, full.1, exited.1, failed.1].join(", ")),
            ),
            ("it failed at once", &[exited, failed], failure(&[exited.1, failed.1].join(", "))),
            ("an old systemd has no ID", &[("", failed.1)], failure(failed.1)),
        ] {
            assert_eq!(of_boot(&journal(lines)), want, "{what}");
        }
    }

    #[test]
    fn the_next_boot_reports_a_failure() {
        let text = "error: ostree-finalize-staged.service failed on previous boot: Installing kernel: No space left on device";
        let lines = [(SYSTEMD_STARTED, "Starting OSTree Complete Boot..."), ("", text)];
        assert_eq!(of_next_boot(&journal(&lines)), Finalization::Failed(text.to_owned()));
        assert_eq!(of_next_boot(&journal(&lines[..1])), Finalization::NotSeen);
    }

    #[test]
    fn odd_lines_are_ignored_and_messages_are_bounded() {
        let odd = "not json\n{\"MESSAGE\":[1,2,3]}\n{\"MESSAGE\":null,\"MESSAGE_ID\":null}\n[]\n";
        assert_eq!(of_boot(odd), Finalization::NotSeen);
        let long = "x".repeat(10_000);
        let Finalization::Failed(text) = of_boot(&journal(&[(UNIT_FAILED, &long)])) else {
            panic!("not failed");
        };
        assert_eq!(text.len(), LAST_CHARACTERS);
    }
}
