//! Converts the failure of a container to a result: the error class for the controller, and the
//! message for users.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;

use mosb_types::ErrorClass;

use crate::exec;
use crate::redactor::Redactor;
use crate::result::{Outcome, Step, millis};

/// A resource that a program exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shortage {
    Memory,
    Disk,
}

impl Shortage {
    /// From the last output of a program, and the [kernel's counts](oom_counts): the
    /// parent of a process doesn't see that it was killed for lack of memory.
    fn of(last_output: Option<&str>, oom_counts: &[String]) -> Option<Self> {
        let is_kill = |line: &str| {
            let count = line.strip_prefix("oom_kill ").map(|count| count.trim().parse::<u64>());
            count.is_some_and(|count| count.is_ok_and(|count| count > 0))
        };
        if oom_counts.iter().flat_map(|text| text.lines()).any(is_kill) {
            return Some(Self::Memory);
        }
        let is_full = last_output.is_some_and(|last| last.contains("no space left on device"));
        is_full.then_some(Self::Disk)
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Memory => {
                ", and a process of this container was killed for lack of memory; raise its limit under job.resources in ConfigMap mosb-config, or let the build use less"
            }
            Self::Disk => {
                ", as a disk is full; raise the container's ephemeral-storage under job.resources in ConfigMap mosb-config, free disk space on the node, or let the build write less"
            }
        }
    }
}

/// The failure of a container of a build's pod.
#[derive(Debug)]
pub struct StepFailure<'a> {
    /// As on a user's machine.
    pub class: ErrorClass,
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// The message with each finding.
    pub text: String,
    /// The program that failed, if one did.
    pub program: Option<&'a exec::Error>,
}

impl StepFailure<'_> {
    /// The result. `push` is the time since the push began, if it did.
    pub fn outcome(
        &self,
        step: Step,
        push: Option<Duration>,
        oom_counts: &[String],
        redactor: &Redactor,
    ) -> Outcome {
        let last_output = self.program.and_then(last_output);
        let shortage = self.program.and_then(|_| Shortage::of(last_output, oom_counts));
        let (message, last_lines) = match last_output {
            Some(last) => {
                let message = self.message.split("; its last output:").next().unwrap_or_default();
                let remedy = shortage.map(Shortage::remedy).unwrap_or_default();
                let lines = last.lines().map(|line| redactor.redact(line));
                (format!("{message}{remedy}"), lines.collect())
            }
            None => (self.text.clone(), Vec::new()),
        };
        Outcome::Failed {
            step,
            class: self.class_in_pod(shortage),
            reason: self.code.to_owned(),
            message: redactor.redact(&message),
            last_lines,
            push: push.map(millis),
        }
    }

    /// What the controller should do. It differs from the exit code where a pod differs from a
    /// user's machine: its disk, its files and its command line are not the user's doing, and its
    /// credentials are.
    fn class_in_pod(&self, shortage: Option<Shortage>) -> ErrorClass {
        match (self.code, self.program) {
            _ if shortage == Some(Shortage::Memory) => ErrorClass::Rejected,
            // Another node may have space, or this one later.
            _ if shortage == Some(Shortage::Disk) => ErrorClass::Transient,
            // The base was just resolved with the same credentials, so it is the network or the
            // registry.
            (_, Some(exec::Error::Failed { action, .. })) if action == "pull" => {
                ErrorClass::Transient
            }
            // Killed, for memory or with its node.
            (_, Some(exec::Error::Failed { status, .. })) if status.signal().is_some() => {
                ErrorClass::Transient
            }
            ("denied", _) => ErrorClass::InvalidInput,
            ("no-space" | "unusable-file" | "file-error" | "unwritable-file", _) => {
                ErrorClass::Transient
            }
            (
                "unreadable-file" | "wrong-use" | "no-cache-directory" | "payload-parts"
                | "payload-content" | "payload-bomb",
                _,
            ) => ErrorClass::Internal,
            _ => self.class,
        }
    }
}

fn last_output(error: &exec::Error) -> Option<&str> {
    match error {
        exec::Error::Failed { last, .. } | exec::Error::TimedOut { last, .. } => Some(last),
        _ => None,
    }
}

/// The files with the number of processes that were killed for lack of memory, by version 2 of
/// control groups and by version 1. Only one of them exists; outside of a container perhaps none.
pub(crate) fn oom_counts() -> Vec<String> {
    let files = ["memory.events", "memory/memory.oom_control"].into_iter();
    let paths = files.map(|file| Path::new("/sys/fs/cgroup").join(file));
    paths.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn shortage_of_memory_or_disk_is_recognised() {
        let events = "low 0\nmax 41\noom 3\noom_kill 2\n";
        let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n";
        let full = "write layout/x: no space left on device";
        for (what, last, counts, want) in [
            ("neither", "exit status 1", &[control][..], None),
            ("killed", "exit status 137", &[events], Some(Shortage::Memory)),
            ("full", full, &[control], Some(Shortage::Disk)),
            ("nothing is counted", full, &[], Some(Shortage::Disk)),
        ] {
            let counts: Vec<_> = counts.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(Shortage::of(Some(last), &counts), want, "{what}");
        }
    }

    #[test]
    fn failed_program_is_reported_with_its_last_lines() {
        let program = |action: &str, status: i32| exec::Error::Failed {
            program: "buildah".to_owned(),
            action: action.to_owned(),
            status: ExitStatus::from_raw(status),
            last: "first\nsecond".to_owned(),
        };
        let killed = ["oom_kill 1".to_owned()];
        for (what, program, counts, want) in [
            ("a failing RUN", program("bud", 256), &[][..], ErrorClass::Rejected),
            ("a signal", program("bud", 9), &[], ErrorClass::Transient),
            ("out of memory", program("bud", 9), &killed, ErrorClass::Rejected),
            ("blobs that don't come", program("pull", 256), &[], ErrorClass::Transient),
        ] {
            let failure = StepFailure {
                class: ErrorClass::Rejected,
                code: "program-failed",
                message: program.to_string(),
                text: program.to_string(),
                program: Some(&program),
            };
            let redactor = Redactor::default();
            match failure.outcome(Step::ImageBuild, None, counts, &redactor) {
                Outcome::Failed { class, message, last_lines, .. } => {
                    assert_eq!(class, want, "{what}");
                    assert_eq!(last_lines, ["first", "second"], "{what}");
                    assert!(!message.contains("second"), "{what}: {message}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
