//! User data whose CA expires soon.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mosb_tests::Certificate;
use mosb_tests::boot_images::{MACHINE_API_NAMESPACE, ami, aws_machine_set};
use serde_json::json;
use tempfile::TempDir;

use super::{STUB, all_machine_sets, message_of, openshift};

#[test]
fn a_ca_that_expires_soon_is_reported_where_the_secret_may_be_read() {
    let cluster = openshift(2);
    let folder = TempDir::new().unwrap();
    // It is valid for less than 90 days.
    let pem = fs::read(Certificate::authority(folder.path(), "ca").certificate).unwrap();
    let stub = json!({ "ignition": { "version": "3.1.0",
        "config": { "merge": [{ "source": "https://api-int.example.com:22623/config/worker" }] },
        "security": { "tls": { "certificateAuthorities": [{
            "source": format!("data:text/plain;base64,{}", STANDARD.encode(pem)) }] } } } });
    cluster.stub(MACHINE_API_NAMESPACE, STUB, &stub);
    // It has its image, so nothing else needs the stub.
    cluster.apply(MACHINE_API_NAMESPACE, &aws_machine_set("a", &ami(2)));
    cluster.settings(&all_machine_sets(&[]));
    cluster.start_controller();
    let message =
        cluster.wait("the condition", || message_of(&cluster, "BootImageUserDataExpiring", "True"));
    assert!(message.contains(&format!("{MACHINE_API_NAMESPACE}/{STUB} (20")), "{message}");
    assert_eq!(cluster.stub_of(MACHINE_API_NAMESPACE, STUB), stub, "it is not written");
    let shown = cluster.mosb(&["boot-images", "status"]).ok().text();
    assert!(shown.contains(&format!("warning: {message}")), "{shown}");
    // Opted out: nothing is reported.
    cluster.settings(&json!({}));
    cluster.wait("no condition", || {
        message_of(&cluster, "BootImageUserDataExpiring", "True").is_none().then_some(())
    });
}
