//! What a machine reports.

use super::{RENDERED, digest, looks_like};
use crate::cli::node::report::MachineReport;
use crate::cli::node::{NodeAdoption, NodeDrift};
use mosb_api::rollout::{
    AttemptedTarget, Deployment, NodeTarget, NodeTool, ReportError, SoftReboot, WentBack,
};
use mosb_commands::output::Object as _;
use mosb_image::Digest;
use mosb_node::{Adoption, Difference, Drift, HiddenPath, KeptPath};
use mosb_types::Finding;

#[test]
fn a_machine() {
    let digest_of = |of: &str| Digest::of(of.as_bytes());
    let deployment =
        |image: String, of: Option<&str>| Deployment { image, digest: of.map(digest_of) };
    let target = |of: &str, config: Option<&str>| NodeTarget {
        image: format!("registry.example.com/os/worker@{}", digest(of)).parse().unwrap(),
        config: config.map(|name| name.parse().unwrap()),
        machine_part: None,
        live_from: None,
        verify: false,
    };
    let os = "registry.example.com/os/worker";
    let report = MachineReport {
        boot_id: "0b9c1f6e-9d6e-4d0f-8f0e-3d2c1b0a9f8e".to_owned(),
        tool: Some(NodeTool::Bootc),
        booted: Some(deployment(format!("{os}:latest"), Some("booted"))),
        staged: Some(deployment(format!("{os}@{}", digest("staged")), Some("staged"))),
        rollback: Some(deployment("fedora/x86_64/coreos/stable".to_owned(), None)),
        rollback_queued: false,
        applied: Some(target("booted", Some(RENDERED))),
        soft_reboot: Some(SoftReboot::not_used("this machine takes images without bootc")),
        live_incomplete: false,
        boot_full: true,
        attempted: None,
        unchecked: false,
        unconfirmed: true,
        went_back: None,
        etc: None,
        error: None,
    };
    looks_like("node-report", &report);
    let failed = MachineReport {
        tool: None,
        booted: Some(deployment(String::new(), None)),
        staged: None,
        rollback: Some(deployment(format!("{os}:before"), Some("before"))),
        rollback_queued: true,
        applied: None,
        soft_reboot: None,
        live_incomplete: true,
        boot_full: false,
        attempted: Some(AttemptedTarget { target: target("staged", None), attempt: 2 }),
        unchecked: true,
        unconfirmed: false,
        went_back: Some(WentBack::new(digest_of("staged"), "no default route")),
        etc: None,
        error: Some(ReportError {
            code: "no-image-tool".to_owned(),
            message: "this machine has neither bootc nor rpm-ostree".to_owned(),
        }),
        ..report
    };
    looks_like("node-report-failed", &failed);
}

#[test]
fn the_files_that_a_machine_hides() {
    use Difference::{Content, Mode, Owner, Removed, Target, Type};
    let hidden = |path: &str, differences: &[Difference]| HiddenPath {
        path: path.to_owned(),
        differences: differences.to_vec(),
    };
    let paths = vec![
        hidden("/etc/chrony.conf", &[Content, Mode, Owner]),
        hidden("/etc/line\nbreak", &[Type]),
        hidden("/etc/localtime", &[Target]),
        hidden("/etc/motd", &[Removed]),
    ];
    looks_like("node-drift", &NodeDrift(Drift { paths, omitted: 3 }));
    let none = NodeDrift(Drift { paths: Vec::new(), omitted: 0 });
    assert_eq!(none.text(), "");
}

#[test]
fn what_a_machine_adopts_and_keeps() {
    let kept = |path: &str, differences: &[Difference]| KeptPath {
        path: path.to_owned(),
        differences: differences.to_vec(),
    };
    let adoption = Adoption {
        config: "rendered-worker-0123456789abcdef0123456789abcdef".to_owned(),
        source: "/etc/machine-config-daemon/currentconfig".to_owned(),
        dry_run: true,
        adopted: vec!["/etc/chrony.conf".to_owned(), "/etc/systemd/system/a.service".to_owned()],
        kept: vec![kept("/etc/motd", &[Difference::Content, Difference::Mode])],
        omitted: 2,
        undecided: vec![Finding::new("undecided", "it is unknown").path("/etc/line\nbreak")],
    };
    looks_like("node-adoption", &NodeAdoption(adoption));
}
