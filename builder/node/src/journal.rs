//! Reads what the machine's journal has of the end of a boot.

use std::time::Duration;

use crate::error::Error;
use crate::finalization::{self, BOOT_COMPLETE_UNIT, FINALIZE_UNIT, Finalization};
use crate::host::{Host, is_boot_id, words};

/// How long the journal may take; it may have years of boots on a slow disk.
const LIMIT: Duration = Duration::from_secs(120);
/// The most lines of a unit that are read, the last ones.
const LINES: &str = "--lines=200";

/// How a boot ended for its staged image. A journal that can't be read shows nothing.
pub(crate) async fn finalization_of(host: &Host, boot_id: &str) -> Finalization {
    let boot: String = boot_id.chars().filter(char::is_ascii_hexdigit).collect();
    let ended = if is_boot_id(&boot) {
        finalization::of_boot(&read(host, &format!("--boot={boot}"), FINALIZE_UNIT).await)
    } else {
        Finalization::NotSeen
    };
    if ended != Finalization::NotSeen {
        return ended;
    }
    finalization::of_next_boot(&read(host, "--boot=0", BOOT_COMPLETE_UNIT).await)
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
