//! The message of a failed build.

/// Maximum characters of a condition's message.
const LIMIT: usize = 32_768;

/// What failed, where, and the last log lines. The beginning of the message and the end of the
/// lines are lines.
pub fn failed_message(
    place: &str,
    message: &str,
    reason: Option<&str>,
    last_lines: &[String],
) -> String {
    let code = reason.map(|code| format!(" ({code})")).unwrap_or_default();
    let head: String = format!("{place}: {message}{code}").chars().take(LIMIT / 2).collect();
    if last_lines.is_empty() {
        return head;
    }
    let head = format!("{head}\nIts last lines:");
    let mut chars_left = LIMIT - head.chars().count();
    let mut lines: Vec<&str> = Vec::new();
    for line in last_lines.iter().rev() {
        let size = line.chars().count() + 1;
        if size > chars_left {
            break;
        }
        chars_left -= size;
        lines.push(line);
    }
    let lines = lines.iter().rev().map(|line| format!("\n{line}"));
    lines.fold(head, |text, line| text + &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_fits_and_keeps_the_end() {
        assert_eq!(failed_message("image-push", "no", None, &[]), "image-push: no");
        let lines = ["a".to_owned(), "b".to_owned()];
        assert_eq!(
            failed_message("image-build", "buildah ended with 1", Some("run-failed"), &lines),
            "image-build: buildah ended with 1 (run-failed)\nIts last lines:\na\nb"
        );
        let many: Vec<_> = (0..10_000).map(|n| format!("{n} é")).collect();
        let text = failed_message("image-build", &"x".repeat(100_000), None, &many);
        assert!(text.chars().count() <= LIMIT);
        assert!(text.ends_with("\n9999 é"), "the end is there");
        assert!(text.chars().count() > LIMIT - 10, "as much as fits");
    }
}
