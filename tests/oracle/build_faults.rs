//! Builds over a network that fails for good: one error message, and no image. `interrupted` has
//! faults at single requests.

use std::cell::Cell;
use std::thread;

use mosb_image::Digest;
use mosb_registry::former_tag;

use crate::kills::{Moments, Program, Requests};
use mosb_tests::build_fixture::{BuildFixture, NAME, assert_refused, config};
use mosb_tests::{Access, Fault, FaultProxy, Mosb, Registry, Seen, Server, Transport};

/// A registry with the base, and a network that can fail.
struct Network {
    registry: Registry,
    fixture: BuildFixture,
}

impl Network {
    fn new(access: Access) -> Self {
        let registry = Registry::start(Server::Distribution, access, Transport::Http);
        let fixture = BuildFixture::new();
        registry.push(&fixture.base, "base", "acme/base:v1");
        Self { registry, fixture }
    }

    /// Builds through a proxy as a new user.
    fn build(&self, proxy: &FaultProxy, name: &str) -> (Mosb, mosb_tests::Finished) {
        let mosb = Mosb::new();
        let authfile = mosb.home().join("auth.json");
        let logins = std::fs::read_to_string(self.registry.authfile()).unwrap();
        std::fs::write(&authfile, logins.replace(self.registry.address(), &proxy.address()))
            .unwrap();
        let (base, target) = (
            format!("{}/acme/base:v1", proxy.address()),
            format!("{}/acme/{name}", proxy.address()),
        );
        let arguments = [
            "build",
            "-",
            "--base",
            &base,
            "--output",
            &target,
            "-o",
            "json",
            "--authfile",
            authfile.to_str().unwrap(),
        ];
        let finished = mosb.run_with(arguments, config().as_bytes());
        (mosb, finished)
    }
}

/// A registry never sends 401 without a challenge, and the first request is needed to get it.
#[test]
fn a_401_at_any_request_changes_nothing() {
    let network = Network::new(Access::Token);
    let proxy = FaultProxy::start(network.registry.address());
    let number = Cell::new(0);
    let program = Program {
        proxy: &proxy,
        clear: &|| number.set(number.get() + 1),
        command: &|| unreachable!("it is not killed"),
        end: &|what| {
            let (mosb, finished) = network.build(&proxy, &format!("n{}", number.get()));
            assert_eq!(finished.code(), Some(0), "{what}: {}", finished.stderr);
            assert_eq!(mosb_tests::build_fixture::names(&mosb.tmp()), [""; 0], "{what}");
            finished.json()["digest"].clone()
        },
        left: &|_, _, _| {},
    };
    let faults = [Fault::status(401)];
    let moments =
        Moments { signals: &[], faults: &faults, first: 1, ..Moments::of(Requests::All, 10) };
    program.ends_the_same(&moments);
}

#[test]
fn without_pull_rights_former_images_get_no_tag() {
    let network = Network::new(Access::Anyone);
    let (registry, fixture) = (&network.registry, &network.fixture);
    let former: Digest = fixture.base.digest("base").parse().unwrap();
    for (name, may_pull) in [("pulls", true), ("pushes-only", false)] {
        let proxy = FaultProxy::start(registry.address());
        let build = || {
            let (_, finished) = network.build(&proxy, name);
            (finished.stderr.clone(), finished.ok().json())
        };
        let (_, built) = build();
        let build_name = built["tags"][1].as_str().unwrap();
        // Somebody gives the tag of the build's name to another image.
        registry.push(&fixture.base, "base", &format!("acme/{name}:{build_name}"));
        proxy.rule(move |seen| {
            let reads = ["GET", "HEAD"].contains(&&*seen.head.method);
            let is_refused = !may_pull && reads && seen.head.path().contains("/acme/pushes-only/");
            is_refused.then(|| Fault::status(403))
        });
        let (log, again) = build();
        assert_eq!(again["digest"], built["digest"], "{name}");
        let inspect =
            |tag: &str| registry.inspect(&format!("acme/{name}:{tag}"), &registry.authfile());
        assert_eq!(inspect(build_name).ok().json()["Digest"], built["digest"], "{name}");
        let tagged = inspect(&former_tag(build_name, &former));
        assert_eq!(tagged.code() == Some(0), may_pull, "{name}");
        let warning = "refuses to show what the tag";
        assert_eq!(log.contains(warning), !may_pull, "{name}: {log}");
    }
}

/// Selects the requests with the fault.
type Which = fn(&Seen) -> bool;

#[test]
fn a_lasting_fault_is_one_sentence() {
    let network = Network::new(Access::Anyone);
    let all: Which = |_| true;
    let layers: Which = |seen| seen.head.method == "GET" && seen.head.path().contains("/blobs/");
    let uploads: Which = |seen| seen.head.path().contains("/blobs/uploads/");
    let manifests: Which =
        |seen| seen.head.method == "PUT" && seen.head.path().contains("/manifests/");
    let cases: [(&str, Which, Fault, i32, &str, &[&str]); 11] = [
        ("cut", all, Fault::CutBefore, 3, "unreachable", &["not reachable", "network"]),
        ("no answer", layers, Fault::CutAnswer, 3, "unreachable", &["not reachable"]),
        ("broken", all, Fault::status(500), 3, "registry-error", &["500", "6 tries", "later"]),
        (
            "too many",
            all,
            Fault::too_many(0),
            3,
            "too-many-requests",
            &["too many requests", "wait"],
        ),
        ("nobody", all, Fault::status(401), 1, "denied", &["401", "give others", "--authfile"]),
        ("forbidden base", all, Fault::status(403), 1, "denied", &["403", "acme/base"]),
        (
            "forbidden push",
            uploads,
            Fault::status(403),
            1,
            "denied",
            &["403", "acme/forbidden-push"],
        ),
        ("no push", uploads, Fault::CutBefore, 3, "unreachable", &["not reachable", "network"]),
        ("full", uploads, Fault::status(507), 3, "registry-error", &["507"]),
        ("no manifest", manifests, Fault::status(500), 3, "registry-error", &["500"]),
        (
            "not taken",
            manifests,
            Fault::status(400),
            1,
            "registry-refused",
            &["400", "acme/not-taken"],
        ),
    ];
    thread::scope(|scope| {
        for (what, which, fault, exit, code, words) in cases {
            let network = &network;
            scope.spawn(move || {
                let proxy = FaultProxy::start(network.registry.address());
                proxy.rule(move |seen| which(seen).then(|| fault.clone()));
                let name = what.replace(' ', "-");
                let (mosb, finished) = network.build(&proxy, &name);
                assert_refused(&finished, what, exit, code, words);
                assert!(finished.text().contains(&proxy.address()), "{what}: which registry?");
                assert_eq!(mosb_tests::build_fixture::names(&mosb.tmp()), [""; 0], "{what}");
                let image = network
                    .registry
                    .inspect(&format!("acme/{name}:{NAME}"), &network.registry.authfile());
                assert_ne!(image.code(), Some(0), "{what}: it is there");
            });
        }
    });
}
