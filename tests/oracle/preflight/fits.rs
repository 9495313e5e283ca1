//! Images that can be pulled but that machines cannot boot.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::*;

#[test]
fn an_incompatible_image_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let layout = images(directory.path());
    let registry = Registry::plain();
    let image = |tag: &str| pushed(&registry, &layout, tag);
    let base = image("base");
    let (good, other, container, both, later) =
        (image("good"), image("other"), image("container"), image("both"), image("later"));
    let missing = format!("{}@{}", registry.repository("acme/good"), layout.digest("other"));
    let amd64 = ["--platform", "linux/amd64"];
    let s390x = ["--platform", "linux/s390x"];
    let start = "registry=passed pull=passed bootable=passed";
    let not_this = "registry=passed pull=skipped bootable=skipped";
    for (what, image, more, code, want) in [
        ("right", &good, &amd64[..], 0, format!("{start} architecture=passed release=skipped")),
        ("other machines", &other, &amd64[..], 1, format!("{start} architecture=failed:platform-missing release=skipped")),
        ("other machines than the base", &other, &["--base", &base][..], 1, format!("{start} architecture=failed:platform-missing release=passed")),
        ("one of an index", &both, &["--platform", "linux/arm64"][..], 0, format!("{start} architecture=passed release=skipped")),
        ("none of an index", &both, &s390x[..], 1, format!("{not_this} architecture=failed:platform-missing release=skipped")),
        ("an index, and nobody says", &both, &[][..], 1, format!("{not_this} architecture=failed:platform-ambiguous release=skipped")),
        ("an index, and the base says", &both, &["--base", &base][..], 0, format!("{start} architecture=passed release=passed")),
        ("not bootable", &container, &amd64[..], 1, "registry=passed pull=passed bootable=failed:not-bootable architecture=passed release=skipped".to_owned()),
        ("another release", &later, &["--base", &base][..], 1, format!("{start} architecture=passed release=failed:release-differs")),
        ("no such image", &missing, &amd64[..], 1, format!("registry=passed pull=failed:not-found {NOT_PULLED}")),
    ] {
        let arguments = [&**image].into_iter().chain(more.iter().copied());
        assert_outcomes(what, &check(&Mosb::new(), arguments), code, &want);
    }
    let wrong = check(&Mosb::new(), ["not-an-image"]);
    assert_eq!((wrong.code(), &wrong.json()["code"]), (Some(2), &Value::from("bad-reference")));
}

#[test]
fn a_missing_blob_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let layout = images(directory.path());
    for server in [Server::Debian, Server::Distribution] {
        let registry = Registry::start(server, Access::Anyone, Transport::Http);
        let image = pushed(&registry, &layout, "good");
        let manifest = layout.json(&layout.digest("good"));
        let layer = |n: usize| manifest["layers"][n]["digest"].as_str().unwrap().to_owned();
        let config = manifest["config"]["digest"].as_str().unwrap().to_owned();
        let failed = |code: &str, rest: &str| format!("registry=passed pull=failed:{code} {rest}");
        let read = "bootable=passed architecture=skipped release=skipped";
        for (what, digest, want) in [
            ("the lowest layer", layer(0), failed("blob-missing", read)),
            ("the top layer", layer(1), failed("blob-missing", read)),
            ("the config", config, failed("not-found", NOT_PULLED)),
        ] {
            let blob = registry.blob_path(&digest);
            let original = fs::read(&blob).unwrap();
            fs::remove_file(&blob).unwrap();
            let finished = check(&Mosb::new(), [&*image]);
            assert_outcomes(&format!("{server:?}: {what}"), &finished, 1, &want);
            assert!(remedy(&finished, "pull").contains(&digest), "{what}");
            // A truncated blob: fewer bytes than in the manifest.
            fs::write(&blob, &original[..original.len() / 2]).unwrap();
            let finished = check(&Mosb::new(), [&*image]);
            let lowest = what == "the lowest layer";
            assert_eq!(
                finished.code(),
                Some(if lowest { 0 } else { 1 }),
                "{what}: {}",
                finished.text()
            );
            fs::write(&blob, original).unwrap();
        }
        let finished = check(&Mosb::new(), [&*image]);
        assert_eq!(finished.code(), Some(0), "{}", finished.text());
    }
}

#[test]
fn preflight_makes_the_whole_list_of_checks() {
    let directory = tempfile::tempdir().unwrap();
    let layout = images(directory.path());
    let registry = Registry::plain();
    let image = pushed(&registry, &layout, "good");
    let mosb = Mosb::new();
    let file = |name: &str| path(&mosb.home().join(name));
    mosb.run(["keys", "new", &file("os.key")]).ok();
    let key = STANDARD.encode(fs::read(file("os.key.pub")).unwrap());
    let policy = |requirement: Value| {
        let accept = json!([{ "type": "insecureAcceptAnything" }]);
        let scope = registry.repository("acme");
        json!({ "default": accept, "transports": { "docker": { scope: [requirement] } } })
            .to_string()
    };
    let signed = policy(json!({ "type": "sigstoreSigned", "keyData": key }));
    let checks = json!({ "modes": { "release": "off" }, "heldPackages": { "kernel": "6.12" },
        "own": { "lint": { "command": ["lint"] } } });
    let settings = json!({ "signaturePolicy": signed, "checks": checks }).to_string();
    fs::write(file("settings.yaml"), settings).unwrap();
    fs::write(file("accept.json"), policy(json!({ "type": "insecureAcceptAnything" }))).unwrap();
    fs::write(file("reject.json"), policy(json!({ "type": "reject" }))).unwrap();
    let run = |more: &[&str]| {
        let file = file("settings.yaml");
        let all = [&*image, "--checks", &file].into_iter().chain(more.iter().copied());
        check(&mosb, all)
    };
    let list = |signature: &str| {
        format!(
            "registry=passed pull=passed base-layers=skipped bootable=passed architecture=skipped kubelet-skew=skipped packages-held=skipped size=passed signature={signature} lint=skipped"
        )
    };
    let all = |finished: &Finished| outcomes_of(finished, |_| true);

    let unsigned = run(&[]);
    assert_eq!(all(&unsigned), list("failed:signature-not-accepted"));
    assert_eq!(unsigned.code(), Some(1));
    let sentence = remedy(&unsigned, "signature");
    for part in ["it has no signature", "in signaturePolicy of ", "settings.yaml", "; sign it"] {
        assert!(sentence.contains(part), "{part}: {sentence}");
    }
    // The policy that is given counts.
    let accepted = run(&["--signature-policy", &file("accept.json")]);
    assert_eq!((all(&accepted), accepted.code()), (list("passed"), Some(0)));
    let rejected = run(&["--signature-policy", &file("reject.json")]);
    assert!(outcomes(&rejected).starts_with("registry=failed:rejected"), "{}", rejected.text());

    mosb.run(["sign", &image, "--sign-key", &file("os.key")]).ok();
    let signed = run(&[]);
    assert_eq!((all(&signed), signed.code()), (list("passed"), Some(0)), "{}", signed.text());
    assert!(signed.text().contains("signed for "), "{}", signed.text());
    // What the registry does not answer is not known.
    let proxy = FaultProxy::start(registry.address());
    let through = image.replace(registry.address(), &proxy.address());
    let of_proxy = fs::read_to_string(file("settings.yaml")).unwrap();
    let of_proxy = of_proxy.replace(registry.address(), &proxy.address());
    fs::write(file("settings.yaml"), of_proxy).unwrap();
    proxy.rule(|seen| seen.head.target.ends_with(".sig").then(|| Fault::status(503)));
    let unknown = check(&mosb, [&*through, "--checks", &file("settings.yaml")]);
    assert_eq!(all(&unknown), list("unknown:registry-error"));
    assert_eq!(unknown.code(), Some(3));
}
