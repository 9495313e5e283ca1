//! Pushes and pulls with registries that behave as `docs/registries.md` describes. They are
//! stand-ins, because tests cannot run the real ones.

use std::fs;
use std::path::Path;

use mosb_image::{Digest, PinnedRef};
use mosb_registry::{Client, CredentialSources, Error, Options, PushPlan};

use mosb_tests::registry_fixture::{base, options, plan_on, source, target};
use mosb_tests::{Layout, Location, Login, PLAIN, Profile, Refusal, StandIn};
use mosb_types::Diagnostic as _;

/// The behaviour in `docs/registries.md`. Fields without an entry there have the value of the
/// profile above.
const PROFILES: [Profile; 12] = [
    PLAIN,
    Profile {
        name: "Quay",
        actions: &["pull", "push", "*"],
        cancel_wants_delete: false,
        no_repository: Refusal(401, "UNAUTHORIZED"),
        location: Location::Absolute,
        ..PLAIN
    },
    Profile {
        name: "GHCR",
        no_repository: Refusal(403, "DENIED"),
        forbidden: Refusal(403, "DENIED"),
        ..PLAIN
    },
    Profile {
        name: "Docker Hub",
        no_repository: Refusal(401, "UNAUTHORIZED"),
        limit: Some(5),
        ..PLAIN
    },
    Profile {
        name: "ECR",
        login: Login::Basic,
        first_upload: Some(Refusal(404, "NAME_UNKNOWN")),
        mounts: false,
        ..PLAIN
    },
    Profile {
        name: "GAR and gcr.io",
        login: Login::TokenByPing,
        no_repository: Refusal(403, "DENIED"),
        forbidden: Refusal(403, "DENIED"),
        location: Location::Elsewhere,
        redirects: true,
        ..PLAIN
    },
    Profile { name: "ACR", limit: Some(7), ..PLAIN },
    Profile {
        name: "Harbor",
        basic_too: true,
        no_repository: Refusal(404, "NOT_FOUND"),
        no_manifest: Refusal(404, "NOT_FOUND"),
        bad_mount: Some(Refusal(401, "UNAUTHORIZED")),
        ..PLAIN
    },
    Profile {
        name: "Artifactory",
        no_repository: Refusal(403, "DENIED"),
        no_manifest: Refusal(403, "DENIED"),
        forbidden: Refusal(403, "DENIED"),
        takes_whole: false,
        ..PLAIN
    },
    Profile { name: "GitLab", token: Some(Refusal(403, "DENIED")), one_scope: true, ..PLAIN },
    Profile {
        name: "OpenShift",
        basic_too: true,
        cancel_wants_delete: false,
        bad_mount: Some(Refusal(401, "UNAUTHORIZED")),
        ..PLAIN
    },
    Profile {
        name: "the least that clients get along with",
        mounts: false,
        part: 204,
        cancel: 405,
        redirects: true,
        names_digest: false,
        ..PLAIN
    },
];

/// More bytes than one request sends.
const LARGE: usize = 5 << 20;
const SMALL: usize = 1 << 10;

/// A client with the user's credentials, or with a wrong password.
fn client(directory: &Path, registry: &StandIn, password: &str) -> Client {
    let file = directory.join(format!("{password}.json"));
    fs::write(&file, registry.logins(password)).unwrap();
    let credentials = CredentialSources { authfile: Some(file), ..CredentialSources::default() };
    Client::new(&Options { credentials, ..options() }).unwrap()
}

/// A stand-in with the image of a layout as `acme/base:v1`, and a client for it.
fn with_base(directory: &Path, layout: &Layout, profile: Profile) -> (StandIn, Client) {
    let registry = StandIn::start(profile);
    let digest = layout.digest("v1");
    let blob = |digest: &str| fs::read(layout.blob_path(digest)).unwrap();
    registry.put("acme/base", "v1", &blob(&digest), blob);
    let client = client(directory, &registry, "not-a-secret");
    (registry, client)
}

fn pinned(registry: &StandIn, name: &str, plan: &PushPlan) -> PinnedRef {
    let text = format!("{}@{}", registry.repository(name), Digest::of(&plan.manifest));
    text.parse().unwrap()
}

/// Reads a complete image and verifies every blob.
async fn whole(client: &Client, image: &str, to: &Path, what: &str) {
    let found = client.resolve(&source(image), None).await;
    let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
    let plan = plan_on(&found, "read", &["read"]);
    let place = target(&format!("oci:{}", to.display()));
    let read = client.push(&place, &plan).await;
    read.unwrap_or_else(|error| panic!("{what}: {error}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stand_in_takes_a_first_push() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(&directory.path().join("base"), LARGE);
    for profile in PROFILES {
        let what = profile.name;
        let (registry, client) = with_base(directory.path(), &layout, profile);
        let from = registry.repository("acme/base:v1");
        let here = client.resolve(&source(&from), None).await;
        let here = here.unwrap_or_else(|error| panic!("{what}: {error}"));
        let elsewhere = source(&layout.reference("v1"));
        let elsewhere = client.resolve(&elsewhere, None).await.unwrap();
        for (name, base, early) in [
            ("acme/mounted", &here, false),
            ("acme/early", &here, true),
            ("acme/sent", &elsewhere, false),
        ] {
            let what = format!("{what}, {name}");
            if profile.first_upload.is_some() {
                registry.create(name);
            }
            for content in ["first", "second"] {
                let plan = plan_on(base, content, &["moves", content]);
                let place = target(&registry.repository(name));
                let pushed = if early {
                    let push = client.begin_push(&place, &plan.tags, 2).await;
                    let push = push.unwrap_or_else(|error| panic!("{what}: {error}"));
                    push.finish(&plan, None).await
                } else {
                    client.push(&place, &plan).await
                };
                let pushed = pushed.unwrap_or_else(|error| panic!("{what}, {content}: {error}"));
                assert_eq!(*pushed.digest.value(), Digest::of(&plan.manifest), "{what}");
                let image = pinned(&registry, name, &plan);
                let confirmed = client.confirm(&image).await.unwrap().unwrap();
                assert_eq!(*confirmed.value(), image, "{what}");
            }
            let read = directory.path().join(profile.name).join(name);
            whole(&client, &registry.repository(&format!("{name}:moves")), &read, &what).await;
        }
        // The client cancels an upload once and does not retry a rejected cancellation.
        let left = registry.open_uploads();
        let cancels = profile.cancel == 204 && profile.limit.is_none() && profile.takes_whole;
        assert!(!cancels || left == 0, "{what}: {left} uploads are left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_push_is_reported_with_its_question() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(&directory.path().join("base"), SMALL);
    for profile in PROFILES {
        let what = profile.name;
        let (registry, right) = with_base(directory.path(), &layout, profile);
        let from = registry.repository("acme/base:v1");
        let base = right.resolve(&source(&from), None).await.unwrap();
        let plan = plan_on(&base, "x", &["one", "two"]);
        let wrong = client(directory.path(), &registry, "wrong");
        for (why, client, name, early) in [
            ("another's", &right, "foreign/os", false),
            ("another's", &right, "foreign/os", true),
            ("wrong password", &wrong, "acme/os", false),
            ("wrong password", &wrong, "acme/os", true),
        ] {
            let what = format!("{what}, {why}, early: {early}");
            let place = target(&registry.repository(name));
            registry.seen();
            let error = if early {
                client.begin_push(&place, &plan.tags, 2).await.unwrap_err()
            } else {
                client.push(&place, &plan).await.unwrap_err()
            };
            assert_eq!(error.code(), "denied", "{what}: {error}");
            let text = error.to_string();
            let question = format!("asked before whether {}", registry.repository(name));
            assert!(text.contains(&question), "{what}: {text}");
            // A wrong password is not retried for every blob of a large image.
            let seen = registry.seen();
            assert!(seen.len() < 60, "{what}: {seen:#?}");
        }
        // The preflight opens an upload, so it gets the same answer as a push.
        let repo = |name: &str| registry.repository(name).parse().unwrap();
        let denied = right.open_upload(&repo("foreign/os")).await.unwrap_err();
        assert_eq!(denied.code(), "denied", "{what}: {denied}");
        let new = right.open_upload(&repo("acme/new")).await;
        match profile.first_upload {
            None => {
                let cancelled = new.unwrap().cancel().await;
                let may_fail = profile.cancel != 204 || profile.limit.is_some();
                assert!(cancelled || may_fail, "{what}");
            }
            Some(_) => {
                let error = new.unwrap_err();
                assert_eq!(error.code(), "not-found", "{what}: {error}");
                let place = target(&registry.repository("acme/new"));
                let error = right.push(&place, &plan).await.unwrap_err();
                assert_eq!(error.code(), "not-found", "{what}: {error}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stand_in_knows_present_and_missing_images() {
    let directory = tempfile::tempdir().unwrap();
    let layout = base(&directory.path().join("base"), SMALL);
    for profile in PROFILES {
        let what = profile.name;
        let (registry, client) = with_base(directory.path(), &layout, profile);
        let from = registry.repository("acme/base:v1");
        let base = client.resolve(&source(&from), None).await.unwrap();
        let plan = plan_on(&base, "x", &["one"]);
        registry.create("acme/os");
        let place = target(&registry.repository("acme/os"));
        client.push(&place, &plan).await.unwrap();
        let image = pinned(&registry, "acme/os", &plan);
        assert!(client.confirm(&image).await.unwrap().is_some(), "{what}");

        registry.lock_out(true);
        let fresh = self::client(directory.path(), &registry, "not-a-secret");
        let error = fresh.confirm(&image).await.unwrap_err();
        assert_eq!(error.code(), "denied", "{what}: {error}");
        registry.lock_out(false);
        let fresh = self::client(directory.path(), &registry, "not-a-secret");
        assert!(fresh.confirm(&image).await.unwrap().is_some(), "{what}");

        registry.delete("acme/os", &image.digest().to_string());
        match (fresh.confirm(&image).await, profile.no_manifest.0) {
            (Ok(None), 404) | (Err(Error::Denied { .. }), 401 | 403) => {}
            (other, status) => panic!("{what}: {status}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_404_without_a_code_means_nothing() {
    // An ingress sends this answer while the registry behind it is down.
    let directory = tempfile::tempdir().unwrap();
    let ingress = Profile { no_manifest: Refusal(404, ""), ..PLAIN };
    let layout = base(directory.path(), SMALL);
    let (registry, client) = with_base(directory.path(), &layout, ingress);
    let nothing = Digest::of(b"nothing");
    let image: PinnedRef = registry.repository(&format!("acme/base@{nothing}")).parse().unwrap();
    let error = client.confirm(&image).await.unwrap_err();
    assert!(matches!(error, Error::BadAnswer { .. }), "{error}");
    // For the tag of a push this answer is sufficient.
    let base = client.resolve(&source(&registry.repository("acme/base:v1")), None).await.unwrap();
    let plan = plan_on(&base, "x", &["new"]);
    client.push(&target(&registry.repository("acme/base")), &plan).await.unwrap();
}
