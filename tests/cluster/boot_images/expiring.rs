//! User data whose CA expires soon, and gets another one.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mosb_tests::Certificate;
use mosb_tests::boot_images::{MACHINE_API_NAMESPACE, ami, aws_machine_set};
use serde_json::json;
use tempfile::TempDir;

use super::{STUB, all_machine_sets, message_of, openshift, wait_for_ami};

#[test]
#[ignore = "make test-all: unit tests have the decisions"]
fn a_ca_that_expires_soon_is_reported() {
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
    // The owner of the Secret lets mosb replace the CA, which it does before the next image.
    let next =
        fs::read_to_string(Certificate::authority(folder.path(), "next").certificate).unwrap();
    let secret = format!("secret/{STUB}");
    let annotation = json!({ "metadata": { "annotations": { "mosb.dev/user-data-ca": "true" } } });
    cluster.patch(MACHINE_API_NAMESPACE, &secret, &annotation);
    let mut settings = all_machine_sets(&[ami(2)]);
    settings["userDataTrustBundle"] = json!(next);
    cluster.settings(&settings);
    cluster.set_release(3);
    wait_for_ami(&cluster, "a", &ami(3));
    let now = cluster.stub_of(MACHINE_API_NAMESPACE, STUB);
    let (mut want, authorities) = (stub.clone(), "/ignition/security/tls/certificateAuthorities");
    let source = now.pointer(&format!("{authorities}/0/source")).unwrap().as_str().unwrap();
    assert!(source.ends_with(&STANDARD.encode(&next)), "{source}");
    *want.pointer_mut(&format!("{authorities}/0/source")).unwrap() = json!(source);
    assert_eq!(now, want, "nothing but the CA differs");

    // Opted out: nothing is reported.
    cluster.settings(&json!({}));
    cluster.wait("no condition", || {
        message_of(&cluster, "BootImageUserDataExpiring", "True").is_none().then_some(())
    });
}
