//! The two forms of images in MachineOSConfig and MachineOSBuild: with a tag, and with a digest.

use super::api::Api;
use super::edit::Edit;
use super::os_configs::{PUSH, good};
use super::{Refused, Taken, Want, hold, hold_status, named};

#[test]
fn push_specs_are_validated() {
    let api = Api::new();
    let most = format!("a.example/{}:v", "n".repeat(447 - 12));
    let component = "c".repeat(61);
    let cases: &[(&str, Want)] = &[
        // Row 2.
        ("registry.test.example.local:5000/test/custom-os-image:v0.1", Taken),
        ("foo.bar", Refused("must be host")),
        ("127.0.0.1:5000/os:v1", Taken),
        ("registry.example.com/a/b/c/d/os:v1", Taken),
        ("registry.example.com/os:v1", Taken),
        ("registry.example.com/os.with.dots_and-more:V_1.a-b", Taken),
        ("registry.example.com/UPPER/-os:v1", Taken),
        ("registry.example.com/os", Refused("must be host")),
        ("registry.example.com/os:", Refused("must be host")),
        ("registry.example.com/os:v1@sha256:0", Refused("must be host")),
        ("registry.example.com/my.team/os:v1", Refused("must be host")),
        ("registry.example.com//os:v1", Refused("must be host")),
        ("registry.example.com:1/os:v1", Refused("must be host")),
        ("registry.example.com:123456/os:v1", Refused("must be host")),
        ("localhost:5000/os:v1", Refused("must be host")),
        ("my_registry.example.com/os:v1", Refused("must be host")),
        ("https://registry.example.com/os:v1", Refused("must be host")),
        ("", Refused("should be at least 1 chars long")),
        (&most, Taken),
        (&format!("{most}1"), Refused("Too long")),
        (&format!("a.example/{component}/os:v1"), Taken),
        (&format!("a.example/{component}c/os:v1"), Refused("must be host")),
        // The second form, which takes nearly anything.
        ("image-registry.openshift-image-registry.svc:5000/ns/os:v1", Taken),
        ("a_b.c_d.svc:5/name space/os@sha256:0", Taken),
        ("a_b.c_d.svc/ns/os:v1", Refused("must be host")),
        ("a_b.c_d.svc:5000/os:v1", Refused("must be host")),
        ("a_b.c_d.svc:5000/ns/more/os:v1", Refused("must be host")),
    ];
    let edits: Vec<_> = cases.iter().map(|(text, _)| [Edit::set(PUSH, *text)]).collect();
    let cases: Vec<_> = cases
        .iter()
        .zip(&edits)
        .map(|((text, want), edit)| (*text, edit.as_slice(), *want))
        .collect();
    hold(&good(), &cases, |object| api.try_create(object));
}

#[test]
fn image_references_in_a_status_are_validated() {
    let api = Api::new();
    let hex = "0123456789abcdef".repeat(4);
    let refused = Refused("must be host");
    let most = format!("a.example/{}@sha256:{hex}", "n".repeat(447 - 72 - 10));
    let images: Vec<(String, Want)> = vec![
        (format!("registry.example.com/os@sha256:{hex}"), Taken),
        (format!("registry.example.com:5000/acme/os@sha256:{hex}"), Taken),
        // Where ours differ: the real ones refuse these two.
        (format!("registry.example.com/acme/team/os@sha256:{hex}"), Taken),
        (format!("registry.example.com/a/b/c/d/os@sha256:{hex}"), Taken),
        (format!("registry.example.com//os@sha256:{hex}"), Taken),
        (format!("registry.example.com/@sha256:{hex}"), Taken),
        (format!("registry.example.com@sha256:{hex}"), refused),
        (format!("registry.example.com/os:v1@sha256:{hex}"), refused),
        (format!("registry.example.com/my.team/os@sha256:{hex}"), refused),
        (format!("my_registry.example.com/os@sha256:{hex}"), refused),
        (format!("localhost/os@sha256:{hex}"), refused),
        (format!("registry.example.com/os@sha256:{}", hex.to_uppercase()), refused),
        (format!("registry.example.com/os@sha256:{hex}0"), refused),
        (format!("registry.example.com/os@sha512:{hex}"), refused),
        (format!("registry.example.com/os@sha256:{hex}@sha256:{hex}"), refused),
        ("registry.example.com/os:v1".to_owned(), refused),
        (String::new(), Refused("should be at least 1 chars long")),
        (format!("a{most}"), Refused("Too long")),
        (most, Taken),
    ];
    let edits: Vec<_> = images
        .iter()
        .map(|(text, _)| [Edit::set("/status/currentImagePullSpec", text.as_str())])
        .collect();
    let cases: Vec<_> = images
        .iter()
        .zip(&edits)
        .map(|((text, want), edit)| (text.as_str(), [].as_slice(), edit.as_slice(), *want))
        .collect();
    hold_status(&api, &named(&good(), "crds-image"), &cases);
}
