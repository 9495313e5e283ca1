use std::time::Duration;

use super::{digest, looks_like};
use crate::bootstrap::preflight::{Check, ImageReport, Kind, Outcome, Report};
use crate::cli::objects::Preflight;

fn took(millis: u64, check: Check) -> Check {
    let took = Duration::from_millis(millis);
    Check { took, ..check }
}

#[test]
fn checks_of_two_images() {
    let good = format!("quay.io/acme/master@{}", digest("master"));
    let bad = format!("quay.io/acme/worker@{}", digest("worker"));
    let refused = "the registry refuses pushing to quay.io/acme/worker (401: UNAUTHORIZED: no) with the credentials of secret push";
    let remedy = "let these logins push there, or put others for quay.io into the Secret that spec.renderedImagePushSecret names";
    let report = Report {
        images: vec![
            ImageReport {
                what: "MachineOSConfig master".to_owned(),
                image: good,
                checks: vec![took(45, Check::passed(Kind::Registry, "quay.io answers"))],
            },
            ImageReport {
                what: String::new(),
                image: bad,
                checks: vec![
                    took(45, Check::passed(Kind::Registry, "mirror registry.example answers")),
                    took(1430, Check::skipped(Kind::Release, "it has no label with an OS version")),
                    took(
                        212,
                        Check::not_passed(Kind::Push, Outcome::Failed, "denied", refused, remedy),
                    ),
                ],
            },
        ],
        took: Duration::from_millis(1500),
    };
    looks_like("preflight", &Preflight::from(&report));
    let findings = report.findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].object.as_deref(), Some(&*report.images[1].image));
    assert_eq!(findings[0].message, format!("{refused}; {remedy}"));
}
