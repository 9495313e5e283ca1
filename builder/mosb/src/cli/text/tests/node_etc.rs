//! The `/etc` of the machines of a pool.

use super::looks_like;
use crate::cli::objects::*;

#[test]
fn what_machines_hide_and_could_adopt() {
    let list = |count, paths: &[&str]| PathList {
        count,
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    };
    let first = NodeEtc {
        hidden: list(3, &["/etc/machine-id", "/etc/motd"]),
        adoptable: Some(list(12, &["/etc/chrony.conf"])),
        kept: Some(list(1, &["/etc/line\nbreak"])),
        adopted: true,
    };
    // Without a record: nothing is hidden, a config was given, or something could be done.
    let second = NodeEtc { hidden: list(0, &[]), ..NodeEtc::default() };
    let given = NodeEtc { hidden: list(1, &["/etc/motd"]), adopted: true, ..NodeEtc::default() };
    let lacking = NodeEtc { adopted: false, ..given.clone() };
    let nodes = [
        ("node-1", Some(first)),
        ("node-2", Some(second)),
        ("node-3", None),
        ("node-4", Some(given)),
        ("node-5", Some(lacking)),
    ];
    let nodes = nodes.map(|(node, etc)| NodeEtcOf { node: node.to_owned(), etc });
    let drift = PoolDrift { pool: "worker".to_owned(), adopts: true, nodes: nodes.to_vec() };
    looks_like("pool-drift", &drift);
    let none = PoolDrift { adopts: false, nodes: Vec::new(), ..drift };
    assert_eq!(none.text(), "no nodes\n");
}
