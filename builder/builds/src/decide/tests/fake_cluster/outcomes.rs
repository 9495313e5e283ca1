//! Problems and results of builds.

use super::*;

pub fn problem(class: ErrorClass, message: &str) -> Problem {
    Problem { class, reason: "x".to_owned(), message: message.to_owned() }
}

pub fn succeeded(digest: Digest) -> Outcome {
    Outcome::Succeeded {
        digest,
        method: JobMethod::Direct,
        bytes_pulled: 0,
        bytes_pushed: 0,
        phases: Phases::default(),
        base_tree: Some(BaseTreeImage {
            // The initial base.
            base: Digest::of(&0_u32.to_be_bytes()),
            image: Digest::of(b"tree"),
        }),
        prepared: None,
        os_summary: None,
        warnings: Vec::new(),
    }
}

pub fn failed(class: ErrorClass) -> Outcome {
    Outcome::Failed {
        step: Container::ImageBuild,
        class,
        reason: "program-failed".to_owned(),
        message: "dnf ended with 1".to_owned(),
        last_lines: vec!["no package usbguard".to_owned()],
        push: None,
    }
}

pub fn needs_containerfile() -> Outcome {
    let reason = Finding::new("append-to-base", "x");
    Outcome::NeedsContainerfile { reasons: vec![reason], prepared: None }
}
