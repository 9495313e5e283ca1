//! What becomes of the files of a machine's first config.

use mosb_types::Finding;

use super::looks_like;
use crate::cli::objects::*;

#[test]
fn what_a_machine_adopts_and_keeps() {
    let kept = |path: &str, differences: &[PathDifference]| KeptPath {
        path: path.to_owned(),
        differences: differences.to_vec(),
    };
    let adoption = NodeAdoption {
        config: "rendered-worker-0123456789abcdef0123456789abcdef".to_owned(),
        source: "/etc/machine-config-daemon/currentconfig".to_owned(),
        dry_run: true,
        adopted: vec!["/etc/chrony.conf".to_owned(), "/etc/systemd/system/a.service".to_owned()],
        kept: vec![kept("/etc/motd", &[PathDifference::Content, PathDifference::Mode])],
        omitted: Some(2),
        undecided: vec![Finding::new("undecided", "it is unknown").path("/etc/line\nbreak")],
    };
    looks_like("node-adoption", &adoption);
}
