//! `mosb verify` accepts and rejects the same as containers/image, the library inside podman, CRI-O,
//! skopeo and bootc's proxy, for each policy and image of a table.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mosb_tests::parts::CONTAINERS_IMAGE;
use mosb_tests::{
    Access, Compression, Image, Layout, Mosb, Registry, Server, Transport, Tree, finish, limited,
};
use serde_json::{Value, json};

/// Two keys, and the files that policies name.
struct Keys {
    directory: tempfile::TempDir,
}

impl Keys {
    fn make(mosb: &Mosb) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["first", "second"] {
            mosb.run(["keys", "new", directory.path().join(name).to_str().unwrap()]).ok();
        }
        Self { directory }
    }

    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn data(&self, name: &str) -> String {
        STANDARD.encode(fs::read(self.file(&format!("{name}.pub"))).unwrap())
    }
}

fn image(architecture: &str, content: &str) -> Image {
    let layer = Tree::new().file("etc/content", 0o644, content).tar();
    Image::new().architecture(architecture).layer(Compression::Gzip, layer)
}

/// The requirements of policies for images in `host`.
fn requirements(keys: &Keys, host: &str) -> Vec<(&'static str, Value)> {
    let (first, second) = (keys.data("first"), keys.data("second"));
    let by = |identity: Value| json!([{ "type": "sigstoreSigned", "keyData": first, "signedIdentity": identity }]);
    let with = |fields: Value| {
        let mut requirement = json!({ "type": "sigstoreSigned" });
        requirement.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        requirement
    };
    let path = |name: &str| keys.file(name);
    let kind = |kind: &str| json!({ "type": kind });
    vec![
        ("accept", json!([kind("insecureAcceptAnything")])),
        ("reject", json!([kind("reject")])),
        ("a key", json!([with(json!({ "keyData": first }))])),
        ("another key", json!([with(json!({ "keyData": second }))])),
        ("keys", json!([with(json!({ "keyDatas": [second, first] }))])),
        ("a file", json!([with(json!({ "keyPath": path("first.pub") }))])),
        ("files", json!([with(json!({ "keyPaths": [path("second.pub"), path("first.pub")] }))])),
        ("no such file", json!([with(json!({ "keyPath": path("none") }))])),
        ("a broken key", json!([with(json!({ "keyData": "eA==" }))])),
        ("a good and a broken key", json!([with(json!({ "keyDatas": [first, "eA=="] }))])),
        ("a private key", json!([with(json!({ "keyPath": path("first") }))])),
        ("no base64", json!([with(json!({ "keyData": "*" }))])),
        (
            "line ends in base64",
            json!([with(json!({ "keyData": format!("{}\n{}\r\n", &first[..40], &first[40..]) }))]),
        ),
        (
            "both keys",
            json!([with(json!({ "keyData": first })), with(json!({ "keyData": second }))]),
        ),
        (
            "accept and another key",
            json!([kind("insecureAcceptAnything"), with(json!({ "keyData": second }))]),
        ),
        ("a key, and reject", json!([with(json!({ "keyData": first })), kind("reject")])),
        ("no key", json!([kind("sigstoreSigned")])),
        ("two sources", json!([with(json!({ "keyData": first, "keyPath": path("first.pub") }))])),
        ("an empty list of keys", json!([with(json!({ "keyDatas": [] }))])),
        ("an empty path", json!([with(json!({ "keyPath": "" }))])),
        ("an empty path and a key", json!([with(json!({ "keyPath": "", "keyData": first }))])),
        ("an unknown field", json!([with(json!({ "keyData": first, "more": 1 }))])),
        ("a field of accept", json!([{ "type": "insecureAcceptAnything", "keyData": first }])),
        ("an unknown type", json!([kind("signed")])),
        ("nothing", json!([])),
        (
            "GPG",
            json!([{ "type": "signedBy", "keyType": "GPGKeys", "keyPath": path("first.pub") }]),
        ),
        ("GPG without a key", json!([{ "type": "signedBy", "keyType": "GPGKeys" }])),
        ("GPG without a type", json!([{ "type": "signedBy", "keyPath": path("first.pub") }])),
        ("Rekor", json!([with(json!({ "keyData": first, "rekorPublicKeyData": first }))])),
        (
            "Rekor twice",
            json!([with(
                json!({ "keyData": first, "rekorPublicKeyData": first, "rekorPublicKeyPath": "/x" })
            )]),
        ),
        ("exact", by(kind("matchExact"))),
        ("the default", by(kind("matchRepoDigestOrExact"))),
        ("the repository", by(kind("matchRepository"))),
        ("an unknown identity", by(kind("matchAll"))),
        ("an unknown field of an identity", by(json!({ "type": "matchExact", "more": 1 }))),
        ("null as identity", by(Value::Null)),
        (
            "this name",
            by(
                json!({ "type": "exactReference", "dockerReference": format!("{host}/acme/os:v1") }),
            ),
        ),
        (
            "another name",
            by(
                json!({ "type": "exactReference", "dockerReference": format!("{host}/acme/os:v2") }),
            ),
        ),
        (
            "a name without tag",
            by(json!({ "type": "exactReference", "dockerReference": format!("{host}/acme/os") })),
        ),
        (
            "this repository",
            by(json!({ "type": "exactRepository", "dockerRepository": format!("{host}/acme/os") })),
        ),
        (
            "another repository",
            by(json!({ "type": "exactRepository", "dockerRepository": "quay.io/acme/os" })),
        ),
        (
            "remapped",
            by(json!({ "type": "remapIdentity", "prefix": host, "signedPrefix": "quay.io" })),
        ),
        (
            "remapped path",
            by(
                json!({ "type": "remapIdentity", "prefix": format!("{host}/acme"), "signedPrefix": "quay.io/acme" }),
            ),
        ),
        (
            "remapped from elsewhere",
            by(json!({ "type": "remapIdentity", "prefix": "quay.io", "signedPrefix": host })),
        ),
        (
            "a prefix with a tag",
            by(
                json!({ "type": "remapIdentity", "prefix": format!("{host}/a:1"), "signedPrefix": host }),
            ),
        ),
        ("no prefix", by(json!({ "type": "remapIdentity", "signedPrefix": host }))),
    ]
}

/// Policies whose scopes matter: `accept`, `reject` and `signed` by scope.
fn scoped(keys: &Keys, host: &str) -> Vec<(String, String)> {
    let accept = json!([{ "type": "insecureAcceptAnything" }]);
    let reject = json!([{ "type": "reject" }]);
    let signed = json!([{ "type": "sigstoreSigned", "keyData": keys.data("first") }]);
    let tag = format!("{host}/acme/os:v1");
    let repository = format!("{host}/acme/os");
    let mut policies = Vec::new();
    for (what, default, scopes) in [
        ("a tag before its repository", &reject, vec![(&*tag, &accept), (&*repository, &reject)]),
        ("a repository before its host", &accept, vec![(&*repository, &signed), (host, &reject)]),
        ("a host", &reject, vec![(host, &signed)]),
        ("all", &reject, vec![("", &signed)]),
        ("a domain, without the port", &accept, vec![("*.0.0.1", &signed)]),
        ("a domain with the port", &accept, vec![("*.0.0.1:5000", &reject)]),
        ("another repository", &signed, vec![("quay.io/acme/os", &reject)]),
    ] {
        let scopes: serde_json::Map<_, _> =
            scopes.into_iter().map(|(scope, list)| (scope.to_owned(), list.clone())).collect();
        let policy = json!({ "default": default, "transports": { "docker": scopes, "dir": { "": accept } } });
        policies.push((what.to_owned(), policy.to_string()));
    }
    let list = accept.to_string();
    for (what, text) in [
        (
            "a doubled scope",
            format!(r#"{{"default":{list},"transports":{{"docker":{{"":{list},"":{list}}}}}}}"#),
        ),
        ("a doubled field", format!(r#"{{"default":{list},"default":{list}}}"#)),
        (
            "a doubled type",
            r#"{"default":[{"type":"reject","type":"insecureAcceptAnything"}]}"#.to_owned(),
        ),
        ("an unknown field of a policy", format!(r#"{{"default":{list},"more":1}}"#)),
        ("no default", "{}".to_owned()),
        ("text after it", format!(r#"{{"default":{list}}}{{}}"#)),
        ("no JSON", String::new()),
    ] {
        policies.push((what.to_owned(), text));
    }
    policies
}

#[test]
fn policies_accept_the_same_as_podman() {
    let mosb = Mosb::new();
    let keys = Keys::make(&mosb);
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(&directory.path().join("layout"));
    let digest = layout.put("v1", &image("amd64", "signed"));
    layout.put("plain", &image("amd64", "unsigned"));
    layout.put_index("all", &[image("amd64", "a"), image("arm64", "b")]);
    let registry = Registry::start(Server::Olareg, Access::Anyone, Transport::Http);
    for (tag, name) in [
        ("v1", "acme/os:v1"),
        ("v1", "acme/os:v2"),
        ("plain", "acme/os:plain"),
        ("all", "acme/os:all"),
    ] {
        registry.push(&layout, tag, name);
    }
    let host = registry.address();
    let sign = |name: &str, key: &str, identities: &[&str]| {
        let (image, key) = (registry.repository(name), keys.file(key));
        let mut arguments = vec!["sign", &image, "--sign-key", &key];
        identities.iter().for_each(|identity| arguments.extend(["--sign-identity", identity]));
        mosb.run(arguments).ok();
    };
    sign("acme/os:v1", "first", &[]);
    sign("acme/os:all", "first", &[]);
    let images: Vec<_> = ["acme/os:v1", "acme/os:v2", "acme/os:plain", "acme/os:all"]
        .map(|name| registry.repository(name))
        .into_iter()
        .chain([format!("{host}/acme/os@{digest}")])
        .collect();
    let registries = directory.path().join("registries.d");
    fs::create_dir(&registries).unwrap();
    fs::write(registries.join("all.yaml"), "default-docker:\n  use-sigstore-attachments: true\n")
        .unwrap();

    let mut policies: Vec<_> = requirements(&keys, host)
        .into_iter()
        .map(|(what, list)| (what.to_owned(), json!({ "default": list }).to_string()))
        .chain(scoped(&keys, host))
        .collect();
    let mut accepted = 0;
    for round in ["our own name", "other names, and both keys"] {
        let queries: Vec<_> = policies
            .iter()
            .flat_map(|policy| images.iter().map(move |image| (policy, image)))
            .collect();
        let podman = ask(&queries, &registries, true);
        let bootc = ask(&queries, &registries, false);
        for (((what, policy), image), (podman, bootc)) in
            queries.into_iter().zip(podman.iter().zip(&bootc))
        {
            let what = format!("{round}: {what}, {image}");
            let file = directory.path().join("policy.json");
            fs::write(&file, policy).unwrap();
            let file = file.to_str().unwrap();
            let finished = mosb.run(["verify", image, "--signature-policy", file, "-o", "json"]);
            let ours = finished.json();
            assert_eq!(podman["valid"], bootc["valid"], "{what}");
            let is_invalid = ours["code"] == "bad-signature-policy";
            assert_eq!(is_invalid, podman["valid"] == false, "{what}: {ours:#}\n{podman}");
            let allowed = podman["allowed"] == true && bootc["allowed"] == true;
            assert_eq!(finished.code() == Some(0), allowed, "{what}: {ours:#}\n{podman}\n{bootc}");
            assert!(matches!(finished.code(), Some(0..=2)), "{what}: {finished:?}");
            accepted += usize::from(allowed);
        }
        // What is accepted for another name, or by two keys.
        let (other, bare) = (format!("{host}/acme/os:v2"), format!("{host}/acme/os"));
        sign("acme/os:v1", "first", &[&other, &bare, "quay.io/acme/os:v1"]);
        sign("acme/os:v1", "second", &[]);
        policies.retain(|(_, policy)| policy.contains("sigstoreSigned"));
    }
    assert!(accepted > 60, "{accepted}");
}

/// The answers of containers/image: for the image of the platform as podman asks, or for what the
/// name itself has, as bootc does.
fn ask(queries: &[(&(String, String), &String)], registries: &Path, instance: bool) -> Vec<Value> {
    let lines = queries.iter().map(|((_, policy), image)| {
        json!({ "policy": policy, "image": image, "registriesDir": registries, "instance": instance })
            .to_string()
            + "\n"
    });
    let input: String = lines.collect();
    let text = finish(&mut limited(CONTAINERS_IMAGE.program()), input.as_bytes()).ok().text();
    let answers: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), queries.len());
    answers
}
