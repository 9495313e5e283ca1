//! The controller on a real node: what somebody does to a pool, and what becomes of it.

use serde_json::Value;

use crate::cluster_world::Cluster;

#[test]
fn a_pool_opts_in_and_gets_an_image_directly() {
    let mut cluster = Cluster::new("direct");
    let rendered = cluster.render("one");
    cluster.start();
    assert_eq!(cluster.builds(), Vec::<Value>::new(), "nobody asked");
    cluster.opt_in(None);
    let image = cluster.image_after("");
    assert_eq!(cluster.file(&image, "/etc/story"), "one");
    let builds = cluster.builds();
    assert_eq!(builds.len(), 1);
    assert_eq!(
        builds[0]["spec"]["machineConfig"]["name"],
        rendered.as_str()
    );
    println!("{}", cluster.log());
}
