//! `mosb preflight` with real registries: each check passes and fails correctly, and leaves no data
//! in the registry.

mod fits;
mod in_time;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use mosb_tests::build_fixture::assert_valid;
use mosb_tests::{
    Access, Compression, Fault, FaultProxy, Finished, Image, Layout, Location, Login, Mosb, PLAIN,
    Profile, Refusal, Registry, Server, StandIn, Transport, Tree,
};

const RELEASE: &str = "418.94.202501221327-0";

/// A bootable image of the release.
fn bootable() -> Image {
    let tar = Tree::new().file("usr/lib/os-release", 0o644, "ID=test\n");
    Image::new()
        .layer(Compression::Gzip, tar.tar())
        .layer(Compression::Plain, Tree::new().file("etc/motd", 0o644, "hi\n").tar())
        .label("containers.bootc", "1")
        .label("version", RELEASE)
}

/// Images of every kind.
fn images(directory: &Path) -> Layout {
    let layout = Layout::create(directory);
    layout.put("good", &bootable());
    layout.put("base", &bootable().label("base", "yes"));
    layout.put("later", &bootable().label("version", "419.96.202506010000-0"));
    layout.put("other", &bootable().architecture("arm64"));
    layout.put("container", &Image::new().layer(Compression::Gzip, Tree::new().tar()));
    layout.put_index("both", &[bootable(), bootable().architecture("arm64")]);
    layout
}

fn pushed(registry: &Registry, layout: &Layout, tag: &str) -> String {
    registry.push(layout, tag, &format!("acme/{tag}:v1"));
    format!("{}@{}", registry.repository(&format!("acme/{tag}")), layout.digest(tag))
}

fn check<'a>(mosb: &Mosb, arguments: impl IntoIterator<Item = &'a str>) -> Finished {
    let fixed = ["preflight", "-o", "json"];
    mosb.run(fixed.into_iter().chain(arguments))
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Whether a check is compared: those of the list that these images pass, or skip, are left out.
pub fn is_compared(check: &Value) -> bool {
    let text = |key: &str| check[key].as_str().unwrap();
    let all = ["registry", "pull", "bootable", "architecture", "release", "push"];
    all.contains(&text("check")) || !["passed", "skipped"].contains(&text("outcome"))
}

/// `check=outcome` or `check=outcome:code` for each check of the only image that is compared, in order.
fn outcomes(finished: &Finished) -> String {
    outcomes_of(finished, is_compared)
}

fn outcomes_of(finished: &Finished, is_shown: impl Fn(&Value) -> bool) -> String {
    let object = finished.json();
    assert_valid(&object, "Preflight");
    let checks = object["images"][0]["checks"].as_array().unwrap();
    let shown = checks.iter().filter(|check| is_shown(check)).map(|check| {
        let text = |key: &str| check[key].as_str();
        let code = text("code").map(|code| format!(":{code}")).unwrap_or_default();
        format!("{}={}{code}", text("check").unwrap(), text("outcome").unwrap())
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn assert_outcomes(what: &str, finished: &Finished, code: i32, want: &str) {
    let report = format!("{what}: {}\n{}", finished.text(), finished.stderr);
    assert_eq!(outcomes(finished), want, "{report}");
    assert_eq!(finished.code(), Some(code), "{report}");
}

/// The files in a registry's storage. Both registries write the checksum state of an upload again
/// after they have deleted the upload (`Close` after `Cancel`); without its other files this is no
/// upload.
fn stored_files(registry: &Registry) -> Vec<PathBuf> {
    let mut files = registry.files();
    files.retain(|file| !file.components().any(|part| part.as_os_str() == "hashstates"));
    files
}

fn remedy(finished: &Finished, kind: &str) -> String {
    let object = finished.json();
    let checks = object["images"][0]["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["check"] == kind).unwrap();
    format!("{}; {}", check["message"].as_str().unwrap(), check["remedy"].as_str().unwrap())
}

/// The outcomes of a successful check.
const PASSED: &str =
    "registry=passed pull=passed bootable=passed architecture=passed release=passed push=passed";
/// The outcomes if nothing can be read.
const NOT_PULLED: &str = "bootable=skipped architecture=skipped release=skipped";

#[test]
fn all_is_well_and_nothing_is_left_behind() {
    let directory = tempfile::tempdir().unwrap();
    let layout = images(directory.path());
    for (server, access, transport) in [
        (Server::Debian, Access::Anyone, Transport::Http),
        (Server::Debian, Access::Basic, Transport::Https),
        (Server::Distribution, Access::Basic, Transport::Https),
        (Server::Distribution, Access::Token, Transport::Https),
        (Server::Distribution, Access::Token, Transport::MutualTls),
    ] {
        let what = format!("{server:?} {access:?} {transport:?}");
        let registry = Registry::start(server, access, transport);
        let image = pushed(&registry, &layout, "good");
        let base = pushed(&registry, &layout, "base");
        let before = stored_files(&registry);
        let mosb = Mosb::new();
        let (authfile, certificates) = (path(&registry.authfile()), path(&registry.certificates()));
        let mut arguments = vec![&*image, "--base", &base, "--authfile", &authfile, "-v"];
        arguments.extend(["--platform", "linux/amd64"]);
        if transport != Transport::Http {
            arguments.extend(["--cert-dir", &certificates]);
        }
        let (new, old) = (registry.repository("acme/new"), registry.repository("acme/good"));
        for repository in [&new, &old] {
            let all = arguments.iter().copied().chain(["--push", repository]);
            let finished = check(&mosb, all);
            assert_outcomes(&what, &finished, 0, PASSED);
            let text = finished.text();
            assert!(text.contains("was begun and cancelled"), "{what}: {text}");
            assert_eq!(stored_files(&registry), before, "{what}: something is left behind");
            log_is_for_a_bundle(&finished);
        }
    }
}

/// Each line has a timestamp, and none contains a credential.
#[track_caller]
fn log_is_for_a_bundle(finished: &Finished) {
    let log = &finished.stderr;
    assert!(log.lines().count() >= 6, "{log}");
    for line in log.lines() {
        let (time, _) = line.split_once(' ').unwrap();
        let shape: String =
            time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000000Z", "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
    }
    // The password, and the credentials as in a header.
    for canary in ["not-a-secret", "YnVpbGRlcjpub3QtYS1zZWNyZXQ", "Bearer", "eyJ"] {
        let all = format!("{log}{}", finished.text());
        assert!(!all.contains(canary), "{canary}: {all}");
    }
}

#[test]
fn a_login_without_permission_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let layout = images(directory.path());
    let no_login = path(&directory.path().join("nobody.json"));
    fs::write(&no_login, "{}").unwrap();
    let basic = Registry::start(Server::Debian, Access::Basic, Transport::Http);
    let token = Registry::start(Server::Distribution, Access::Token, Transport::Http);
    let refused = format!("registry=passed pull=failed:denied {NOT_PULLED} push=failed:denied");
    let reads = "registry=passed pull=passed bootable=passed architecture=skipped release=skipped push=failed:denied";
    let writes = reads.replace("push=failed:denied", "push=passed");
    for (what, registry, authfile, code, want) in [
        ("basic, wrong", &basic, path(&basic.wrong_authfile()), 1, &*refused),
        ("basic, none", &basic, no_login.clone(), 1, &refused),
        ("token, wrong", &token, path(&token.wrong_authfile()), 1, &refused),
        ("token, none", &token, no_login, 1, &refused),
        ("token, read-only", &token, path(&token.reader_authfile()), 1, reads),
        ("token, all", &token, path(&token.authfile()), 0, &writes),
    ] {
        let image = pushed(registry, &layout, "good");
        let before = stored_files(registry);
        let repository = registry.repository("acme/good");
        let arguments = [&*image, "--authfile", &authfile, "--push", &repository, "-v"];
        let finished = check(&Mosb::new(), arguments);
        assert_outcomes(what, &finished, code, want);
        assert_eq!(stored_files(registry), before, "{what}");
        log_is_for_a_bundle(&finished);
        if want.contains("push=failed") {
            let hint = remedy(&finished, "push");
            assert!(hint.contains("--push-authfile"), "{what}: {hint}");
        }
    }
    // The credentials for pushes may differ from those for pulls.
    let image = pushed(&token, &layout, "good");
    let (reader, user) = (path(&token.reader_authfile()), path(&token.authfile()));
    let repository = token.repository("acme/good");
    let arguments =
        [&*image, "--authfile", &reader, "--push-authfile", &user, "--push", &repository];
    assert_outcomes("two files", &check(&Mosb::new(), arguments), 0, &writes);
    let hint = remedy(
        &check(&Mosb::new(), [&*image, "--authfile", &reader, "--push", &repository]),
        "push",
    );
    assert!(hint.contains(&reader), "{hint}");
}

#[test]
fn a_registry_without_uploads_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let layout = images(directory.path());
    let registry = Registry::plain();
    let proxy = FaultProxy::start(registry.address());
    let image = pushed(&registry, &layout, "good").replace(registry.address(), &proxy.address());
    let repository = format!("{}/acme/good", proxy.address());
    for (status, code, want) in [
        (403, 1, "push=failed:denied"),
        (404, 1, "push=failed:not-found"),
        (405, 1, "push=failed:registry-refused"),
        (503, 3, "push=unknown:registry-error"),
    ] {
        proxy.rule(move |seen| (seen.head.method == "POST").then(|| Fault::status(status)));
        let finished = check(&Mosb::new(), [&*image, "--push", &repository]);
        assert!(outcomes(&finished).ends_with(want), "{status}: {}", outcomes(&finished));
        assert_eq!(finished.code(), Some(code), "{status}");
    }
}

#[test]
fn a_push_check_answers_like_a_push() {
    let directory = tempfile::tempdir().unwrap();
    let layout = images(directory.path());
    let read = "registry=passed pull=passed bootable=passed architecture=skipped release=skipped";
    // Both reject requests for a missing repository. One of them creates it at the first push.
    let creates = Profile {
        no_repository: Refusal(401, "UNAUTHORIZED"),
        location: Location::Absolute,
        ..PLAIN
    };
    let wants_it_made =
        Profile { login: Login::Basic, first_upload: Some(Refusal(404, "NAME_UNKNOWN")), ..PLAIN };
    for (profile, new) in [(creates, "passed"), (wants_it_made, "failed:not-found")] {
        let registry = StandIn::start(profile);
        let digest = layout.digest("good");
        let blob = |digest: &str| fs::read(layout.blob_path(digest)).unwrap();
        registry.put("acme/good", "v1", &blob(&digest), blob);
        let image = format!("{}@{digest}", registry.repository("acme/good"));
        let authfile = directory.path().join("stand-in.json");
        fs::write(&authfile, registry.logins("not-a-secret")).unwrap();
        let authfile = path(&authfile);
        for (name, want) in
            [("acme/good", "passed"), ("acme/new", new), ("foreign/os", "failed:denied")]
        {
            let repository = registry.repository(name);
            let arguments = [&*image, "--authfile", &authfile, "--push", &repository];
            let finished = check(&Mosb::new(), arguments);
            let code = i32::from(want != "passed");
            assert_outcomes(name, &finished, code, &format!("{read} push={want}"));
            assert_eq!(registry.open_uploads(), 0, "{name}");
        }
    }
}

#[test]
fn an_unreachable_or_untrusted_registry_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let layout = images(directory.path());
    let secure = Registry::start(Server::Debian, Access::Anyone, Transport::Https);
    let other = Registry::start(Server::Debian, Access::Anyone, Transport::Https);
    let plain = Registry::plain();
    let of_other = path(&other.certificates());
    let image = pushed(&secure, &layout, "good");
    let in_plain = pushed(&plain, &layout, "good");
    let unread = |registry: &str| format!("registry={registry} pull=skipped {NOT_PULLED}");
    let digest = layout.digest("good");
    let (nowhere, closed) =
        (format!("nothing.invalid/acme/os@{digest}"), format!("127.0.0.1:1/acme/os@{digest}"));
    for (what, arguments, code, want, part) in [
        (
            "another's CA",
            vec![&*image, "--cert-dir", &of_other],
            1,
            "failed:untrusted-tls",
            "); put that authority's certificate as ca.crt into a folder and pass it with --cert-dir",
        ),
        (
            "no CA on loopback",
            vec![&*image],
            1,
            "failed:untrusted-tls",
            "put its CA as ca.crt in --cert-dir",
        ),
        (
            "plain HTTP",
            vec![&*in_plain, "--cert-dir", &of_other],
            1,
            "failed:untrusted-tls",
            "answers in plain HTTP; use --tls-verify=false",
        ),
        ("no such host", vec![&*nowhere], 3, "unknown:unreachable", "check the name"),
        (
            "nobody listens",
            vec![&*closed],
            3,
            "unknown:unreachable",
            "Connection refused; check the name",
        ),
    ] {
        let finished = check(&Mosb::new(), arguments);
        assert_outcomes(what, &finished, code, &unread(want));
        let sentence = remedy(&finished, "registry");
        assert!(sentence.contains(part), "{what}: {sentence}");
    }
    let insecure = [&*image, "--tls-verify=false"];
    let passed = "registry=passed pull=passed bootable=passed architecture=skipped release=skipped";
    assert_outcomes("asked for", &check(&Mosb::new(), insecure), 0, passed);
}

#[test]
fn mirrors_are_requested_as_machines_do() {
    let directory = tempfile::tempdir().unwrap();
    let layout = images(directory.path());
    let (full, empty) = (Registry::plain(), Registry::plain());
    pushed(&full, &layout, "good");
    let conf = |name: &str, mirrors: &[&str], blocked: bool| -> PathBuf {
        let file = directory.path().join(name);
        let mut text =
            format!("[[registry]]\nlocation = 'quay.invalid/acme'\nblocked = {blocked}\n");
        for mirror in mirrors {
            text.push_str(&format!("[[registry.mirror]]\nlocation = '{mirror}/acme'\n"));
        }
        fs::write(&file, text).unwrap();
        file
    };
    let image = format!("quay.invalid/acme/good@{}", layout.digest("good"));
    let passed = "registry=passed pull=passed bootable=passed architecture=skipped release=skipped";
    let missing = format!("registry=passed pull=failed:not-found {NOT_PULLED}");
    for (what, mirrors, blocked, code, want) in [
        ("it has it", vec![full.address()], false, 0, passed),
        ("the first is silent", vec!["127.0.0.1:1", full.address()], false, 0, passed),
        ("the first has none", vec![empty.address(), full.address()], true, 0, passed),
        ("none has it", vec![empty.address()], true, 1, &missing),
        ("nor is its source there", vec![empty.address()], false, 1, &missing),
        (
            "no mirror",
            vec![],
            true,
            1,
            "registry=failed:blocked pull=skipped bootable=skipped architecture=skipped release=skipped",
        ),
    ] {
        let conf = path(&conf("registries.conf", &mirrors, blocked));
        let finished = check(&Mosb::new(), [&*image, "--registries-conf", &conf]);
        assert_outcomes(what, &finished, code, want);
        if mirrors == [empty.address()] {
            let hint = remedy(&finished, "pull");
            assert!(hint.contains(&empty.repository("acme/good")), "{hint}");
        }
    }
}
