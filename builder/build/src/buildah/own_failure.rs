//! Recognises failures of buildah, its storage and its runtime by their output. Unlike the failure of
//! a program of a `RUN` line, they are transient.
//!
//! Only the end of the output counts: buildah's `Error:` line without the instruction that it quotes.
//! If that line has only the exit status of a child, the line before it counts, in which buildah's
//! child reports why it did not start. A `RUN` line can write such a line too, so there are at most
//! [`TRIES`].

/// How often a command of buildah is tried.
pub const TRIES: u32 = 3;

/// The start of buildah's line with its error (cmd/buildah/main.go).
const ERROR: &str = "Error: ";

/// Parts of that line. Paths are of containers/buildah 1.44; `storage` and `image` are its modules
/// go.podman.io/storage and go.podman.io/image, until 2025 containers/storage and containers/image.
/// All are in buildah 1.28, too.
const IN_ERROR: [&str; 9] = [
    // image: storage/storage_reference.go, storage_src.go, storage_dest.go.
    "reading image \"",
    // imagebuildah/stage_executor.go.
    "mounting new container: ",
    // mount.go, new.go.
    "mounting build container \"",
    // storage: drivers/overlay/overlay.go.
    "creating overlay mount to ",
    // run_common.go.
    "while starting runtime: ",
    // storage: types/errors.go, ErrLayerUnknown.
    "layer not known",
    // EAGAIN: storage: pkg/lockfile/lockfile.go, and every fork.
    "resource temporarily unavailable",
    // EBUSY: mounts that are still in use.
    "device or resource busy",
    // A child that the kernel killed: Go, os/exec_posix.go.
    "signal: killed",
];

/// Starts of the last line of a child of buildah that fails before it runs a program.
const BEFORE_ERROR: [&str; 8] = [
    // storage: pkg/unshare/unshare.c, copy_self_proc_exe and containers_reexec.
    "Close_Fd sealing memfd copy: ",
    "memfd_create(): ",
    "write(anonfd): ",
    "open(\"/proc/self/exe\"): ",
    "read(\"/proc/self/exe\"): ",
    "fstat(\"/proc/self/exe\"): ",
    "Error during reexec(...): ",
    // chroot/run_common.go.
    "subprocess exited on killed",
];

/// Lines without a cause: the instruction, and what the children with `--isolation chroot` add to
/// an exit status (chroot/run_common.go).
const SKIPPED: [&str; 2] = ["STEP ", "subprocess exited with status "];

/// The text that identifies a failure of buildah itself, from the end of its output; `None` for a
/// failed program of a `RUN` line, and for any other failure.
pub(super) fn own_failure(output: &str) -> Option<&'static str> {
    let says = |line: &&str| {
        let skipped = SKIPPED.iter().any(|begins| line.starts_with(begins));
        !line.trim().is_empty() && !skipped
    };
    let lines: Vec<&str> = output.lines().filter(says).collect();
    let begins = |line: &&str| {
        let mut texts = BEFORE_ERROR.into_iter();
        texts.find(|text| line.starts_with(text))
    };
    let Some(at) = lines.iter().rposition(|line| line.starts_with(ERROR)) else {
        return lines.last().and_then(begins);
    };
    let cause = without_instruction(&lines[at][ERROR.len()..]);
    if is_exit_status(cause) {
        return lines[..at].last().and_then(begins);
    }
    IN_ERROR.into_iter().find(|text| cause.contains(text))
}

/// The error after `building at STEP "…": ` (imagebuildah/stage_executor.go), as the instruction
/// is the user's text.
fn without_instruction(error: &str) -> &str {
    match error.split_once("at STEP \"") {
        Some((_, rest)) => rest.split_once("\": ").map_or("", |(_, cause)| cause),
        None => error,
    }
}

/// Whether an error has only the exit status of a child, as that of a `RUN` line.
fn is_exit_status(cause: &str) -> bool {
    let begins = ["error while running runtime: ", "while running runtime: "];
    let cause = begins.iter().find_map(|begins| cause.strip_prefix(begins)).unwrap_or(cause);
    let number = cause.strip_prefix("exit status ");
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEAL: &str = "Close_Fd sealing memfd copy: ";

    #[test]
    fn only_buildahs_own_last_error_line_counts() {
        let sealing = "STEP 3/4: RUN true\nClose_Fd sealing memfd copy: Device or resource busy\n";
        let ended = "Error: building at STEP \"RUN true\": exit status 1\n";
        for (what, output, want) in [
            ("the race at the start of a RUN", [sealing, ended].concat(), Some(SEAL)),
            (
                "the same a level deeper, with lines of stdout between",
                [sealing, "subprocess exited with status 1\nSTEP 3/4: RUN true\n", ended].concat(),
                Some(SEAL),
            ),
            (
                "the race at buildah's own start",
                format!("{SEAL}Device or resource busy\n"),
                Some(SEAL),
            ),
            (
                "a RUN line's exit status",
                "no mirror\nsubprocess exited with status 7\nError: building at STEP \"RUN dnf\": exit status 7\n".to_owned(),
                None,
            ),
            (
                "the same with a runtime",
                "Error: building at STEP \"RUN dnf\": while running runtime: exit status 1\n".to_owned(),
                None,
            ),
            (
                "an instruction that holds the words",
                "Error: building at STEP \"RUN echo reading image device or resource busy\": exit status 1\n".to_owned(),
                None,
            ),
            (
                "a RUN line's output that holds the words, and then something else",
                [sealing, "dnf: no such package\n", ended].concat(),
                None,
            ),
            (
                "a RUN line's error line, and then buildah's own",
                format!("Error: reading image \"x\": device or resource busy\n{ended}"),
                None,
            ),
            (
                "an image that can't be read",
                "time=\"…\" level=warning msg=x\nError: creating build container: reading image \"4f2a\": layer not known\n".to_owned(),
                Some("reading image \""),
            ),
            (
                "a mount",
                "Error: mounting new container: mounting build container \"9c\": creating overlay mount to /s/merged: x\n".to_owned(),
                Some("mounting new container: "),
            ),
            (
                "a lock",
                "Error: building at STEP \"COPY a b\": resource temporarily unavailable\n".to_owned(),
                Some("resource temporarily unavailable"),
            ),
            (
                "a runtime that was killed",
                "Error: building at STEP \"RUN x\": while running runtime: signal: killed\n".to_owned(),
                Some("signal: killed"),
            ),
            (
                "a child that was killed",
                format!("subprocess exited on killed\n{ended}"),
                Some("subprocess exited on killed"),
            ),
            (
                "a base that isn't there",
                "Error: creating build container: initializing source docker://x/y:1: manifest unknown\n".to_owned(),
                None,
            ),
            ("nothing", String::new(), None),
        ] {
            assert_eq!(own_failure(&output), want, "{what}");
        }
    }
}
