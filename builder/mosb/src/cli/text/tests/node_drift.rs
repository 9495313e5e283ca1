//! The files of an image that a machine hides.

use super::looks_like;
use crate::cli::objects::*;

#[test]
fn the_files_that_a_machine_hides() {
    use PathDifference::{Content, Mode, Owner, Removed, Target, Type};
    let hidden = |path: &str, differences: &[PathDifference]| HiddenPath {
        path: path.to_owned(),
        differences: differences.to_vec(),
    };
    let paths = vec![
        hidden("/etc/chrony.conf", &[Content, Mode, Owner]),
        hidden("/etc/line\nbreak", &[Type]),
        hidden("/etc/localtime", &[Target]),
        hidden("/etc/motd", &[Removed]),
    ];
    looks_like("node-drift", &NodeDrift { paths, omitted: Some(3) });
    let none = NodeDrift { paths: Vec::new(), omitted: None };
    assert_eq!(none.text(), "");
}
