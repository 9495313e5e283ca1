//! The report of a machine.

use super::{RENDERED, digest, looks_like};
use crate::cli::objects::*;

#[test]
fn a_machine() {
    let deployment =
        |image: String, of: Option<&str>| NodeDeployment { image, digest: of.map(digest) };
    let os = "registry.example.com/os/worker";
    let report = NodeReport {
        boot_id: "0b9c1f6e-9d6e-4d0f-8f0e-3d2c1b0a9f8e".to_owned(),
        tool: Some("bootc".to_owned()),
        booted: Some(deployment(format!("{os}:latest"), Some("booted"))),
        staged: Some(deployment(format!("{os}@{}", digest("staged")), Some("staged"))),
        rollback: Some(deployment("fedora/x86_64/coreos/stable".to_owned(), None)),
        rollback_queued: false,
        applied: Some(AppliedTarget {
            image: format!("{os}@{}", digest("booted")),
            config: Some(RENDERED.to_owned()),
            machine_part: None,
            live_from: None,
        }),
        live_incomplete: false,
        boot_full: true,
        attempted: None,
        etc: None,
        error: None,
    };
    looks_like("node-report", &report);
    let failed = NodeReport {
        tool: None,
        booted: Some(deployment(String::new(), None)),
        staged: None,
        rollback: Some(deployment(format!("{os}:before"), Some("before"))),
        rollback_queued: true,
        applied: None,
        live_incomplete: true,
        boot_full: false,
        attempted: Some(AttemptedTarget {
            target: AppliedTarget {
                image: format!("{os}@{}", digest("staged")),
                config: None,
                machine_part: None,
                live_from: None,
            },
            attempt: 2,
        }),
        etc: None,
        error: Some(NodeError {
            code: "no-image-tool".to_owned(),
            message: "this machine has neither bootc nor rpm-ostree".to_owned(),
        }),
        ..report
    };
    looks_like("node-report-failed", &failed);
}
