//! regctl lists and copies what a signed build attaches, in registries with and without the API for
//! referrers.

use std::path::Path;

use mosb_tests::build_fixture::{BuildFixture, NAME, config};
use mosb_tests::parts::REGCTL;
use mosb_tests::{Access, Finished, Registry, Server, Transport, finish, limited};
use mosb_trust::AttachmentKind;
use serde_json::Value;

fn regctl(home: &Path, registry: &Registry, words: &[&str]) -> Finished {
    let host = format!("reg={},tls=disabled", registry.address());
    let mut command = limited(REGCTL.program());
    command.env_clear().env("HOME", home).args(["--host", &host]);
    finish(command.args(words), &[])
}

#[test]
fn regctl_lists_and_copies_what_is_attached() {
    let user = BuildFixture::new();
    let key = user.mosb.home().join("os.key").display().to_string();
    user.mosb.run(["keys", "new", &key]).ok();
    for server in [Server::Olareg, Server::Debian] {
        let what = format!("{server:?}");
        let registry = Registry::start(server, Access::Anyone, Transport::Http);
        let run = |words: &[&str]| regctl(user.mosb.home(), &registry, words);
        let output = registry.repository("os/worker");
        user.build(config().as_bytes(), &["--output", &output, "--sign-key", &key]).ok();
        let image = format!("{output}:{NAME}");

        let listed = run(&["artifact", "list", &image, "--format", "{{json .Descriptors}}"]);
        let listed: Value = listed.ok().json();
        let mut kinds: Vec<_> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["artifactType"].as_str().unwrap())
            .collect();
        kinds.sort_unstable();
        let want = [AttachmentKind::Attestation, AttachmentKind::Signature];
        assert_eq!(kinds, want.map(AttachmentKind::artifact_type), "{what}: {listed:#}");

        let verified = |image: &str| {
            let words = ["verify", image, "--key", &format!("{key}.pub"), "-o", "json"];
            let finished = user.mosb.run(words);
            (finished.code(), finished.json()["manifests"][0].clone())
        };
        let copy = format!("{}:{NAME}", registry.repository("os/copy"));
        run(&["image", "copy", "--referrers", "--digest-tags", &image, &copy]).ok();
        let (of_image, of_copy) = (verified(&image), verified(&copy));
        assert_eq!(of_image.0, Some(0), "{what}");
        assert_eq!(of_copy, of_image, "{what}");
        assert_eq!(of_copy.1["attestations"].as_array().unwrap().len(), 2, "{what}");

        // Without both flags, nothing comes along.
        let bare = format!("{}:{NAME}", registry.repository("os/bare"));
        run(&["image", "copy", &image, &bare]).ok();
        assert_eq!(verified(&bare).0, Some(1), "{what}");
    }
}
