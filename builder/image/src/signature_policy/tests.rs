use super::*;

const ACCEPT: &str = "accept";
const REJECT: &str = "reject";

fn kind(requirement: &Requirement) -> &'static str {
    match requirement {
        Requirement::Accept => ACCEPT,
        Requirement::Reject => REJECT,
        Requirement::Signatures(all) => match all[0].check {
            SignatureCheck::Sigstore { .. } => "sigstoreSigned",
            SignatureCheck::Unsupported(asks) => asks,
        },
    }
}

fn verdict(policy: &SignaturePolicy, image: &str) -> &'static str {
    kind(policy.verdict(image).requirement)
}

/// As OpenShift writes it for allowed registries and a ClusterImagePolicy.
const OPENSHIFT: &str = r#"{
    "default": [{ "type": "reject" }],
    "transports": {
        "atomic": { "quay.io": [{ "type": "insecureAcceptAnything" }] },
        "docker": {
            "quay.io": [{ "type": "insecureAcceptAnything" }],
            "*.apps.example": [{ "type": "insecureAcceptAnything" }],
            "registry.example:5000/acme": [{ "type": "insecureAcceptAnything" }],
            "quay.io/openshift-release-dev/ocp-release": [{
                "type": "sigstoreSigned",
                "keyData": "LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0K",
                "signedIdentity": { "type": "matchRepoDigestOrExact" }
            }],
            "registry.redhat.io": [{
                "type": "signedBy", "keyType": "GPGKeys", "keyPath": "/etc/pki/rpm-gpg/RPM-GPG-KEY-redhat-release"
            }],
            "quay.io/evil": [{ "type": "sigstoreSigned", "keyData": "eA==" }, { "type": "reject" }]
        },
        "docker-daemon": { "": [{ "type": "insecureAcceptAnything" }] }
    }
}"#;

#[test]
fn the_narrowest_scope_counts() {
    let policy = SignaturePolicy::parse(OPENSHIFT.as_bytes()).unwrap();
    for (image, scope, want) in [
        ("quay.io/acme/os:v1", "quay.io", ACCEPT),
        ("quay.io/evil/os@sha256:00", "quay.io/evil", REJECT),
        ("quay.io/evil", "quay.io/evil", REJECT),
        ("quay.io/evilest/os", "quay.io", ACCEPT),
        (
            "quay.io/openshift-release-dev/ocp-release:4.19@sha256:00",
            "quay.io/openshift-release-dev/ocp-release",
            "sigstoreSigned",
        ),
        ("registry.redhat.io/ubi9:latest", "registry.redhat.io", "signedBy"),
        ("registry.example:5000/acme/os:v1", "registry.example:5000/acme", ACCEPT),
        ("registry.example:5000/other/os", "default", REJECT),
        ("registry.example/acme/os", "default", REJECT),
        ("r.apps.example/x", "*.apps.example", ACCEPT),
        ("r.apps.example:5000/x", "*.apps.example", ACCEPT),
        ("apps.example/x", "default", REJECT),
        ("docker.io/busybox", "default", REJECT),
    ] {
        let verdict = policy.verdict(image);
        assert_eq!((&*verdict.scope, kind(verdict.requirement)), (scope, want), "{image}");
    }
    let hub = r#"{"default":[{"type":"reject"}],"transports":{"docker":{"docker.io/library":[{"type":"insecureAcceptAnything"}]}}}"#;
    let hub = SignaturePolicy::parse(hub.as_bytes()).unwrap();
    assert_eq!(verdict(&hub, "docker.io/busybox:1"), ACCEPT);
    assert_eq!(verdict(&hub, "docker.io/acme/x:1"), REJECT);
    assert_eq!(verdict(&hub, "index.docker.io/busybox:1"), ACCEPT);
}

#[test]
fn policies_that_podman_rejects_are_rejected() {
    for (what, text) in [
        ("no JSON", "{"),
        ("no default", r#"{"transports":{}}"#),
        ("no requirements", r#"{"default":[]}"#),
        ("a list", r#"[[{"type":"reject"}]]"#),
        ("a list as requirement", r#"{"default":[["reject"]]}"#),
        (
            "a doubled scope",
            r#"{"default":[{"type":"reject"}],"transports":{"docker":{"":[{"type":"reject"}],"":[{"type":"reject"}]}}}"#,
        ),
        (
            "a list as identity",
            r#"{"default":[{"type":"sigstoreSigned","keyData":"eA==","signedIdentity":["matchExact"]}]}"#,
        ),
        ("another field of a requirement", r#"{"default":[{"type":"reject","keyData":"eA=="}]}"#),
        ("another type", r#"{"default":[{"type":"accept"}]}"#),
        ("another field", r#"{"default":[{"type":"reject"}],"transport":{}}"#),
        (
            "in another transport",
            r#"{"default":[{"type":"reject"}],"transports":{"dir":{"/x":[{"type":"maybe"}]}}}"#,
        ),
    ] {
        assert!(SignaturePolicy::parse(text.as_bytes()).is_err(), "{what}");
    }
}

#[test]
fn allowed_registries_and_a_policy_both_hold() {
    let policy = SignaturePolicy::parse(OPENSHIFT.as_bytes()).unwrap();
    let allowed = ["quay.io/acme", "quay.io/evil/good", "other.example"].map(str::to_owned);
    let both = policy.only(&allowed);
    for (image, want) in [
        ("quay.io/acme/os:v1", ACCEPT),
        ("quay.io/other/os:v1", REJECT),
        ("quay.io/evil/good/x", REJECT),
        ("quay.io/openshift-release-dev/ocp-release", REJECT),
        ("other.example/x", REJECT),
    ] {
        assert_eq!(verdict(&both, image), want, "{image}");
    }
    let all = SignaturePolicy::default().only(&allowed);
    assert_eq!(verdict(&all, "other.example/x"), ACCEPT);
    assert_eq!(verdict(&all, "quay.io/evil/x"), REJECT);
}

#[test]
fn of_two_policies_both_hold() {
    let signed = |key: &str| format!(r#"[{{"type":"sigstoreSigned","keyData":"{key}"}}]"#);
    let accept = r#"[{"type":"insecureAcceptAnything"}]"#;
    let policy = |default: &str, scopes: &[(&str, &str)]| {
        let scopes = scopes.iter().map(|(scope, list)| format!("{scope:?}:{list}"));
        let scopes = scopes.collect::<Vec<_>>().join(",");
        let text = format!(r#"{{"default":{default},"transports":{{"docker":{{{scopes}}}}}}}"#);
        SignaturePolicy::parse(text.as_bytes()).unwrap()
    };
    let (a, b) = (signed("YQ=="), signed("Yg=="));
    let one = policy(accept, &[("quay.io", &a), ("quay.io/os/free", accept)]);
    let other = policy(&b, &[("quay.io/os", &a), ("quay.io/bad", r#"[{"type":"reject"}]"#)]);
    assert!(one.requires_signatures() && !SignaturePolicy::default().requires_signatures());
    for (image, want) in [
        ("quay.io/x", Some(2)),
        ("quay.io/os/x", Some(1)),
        ("quay.io/os/free/x", Some(1)),
        ("quay.io/bad/x", None),
        ("other.example/x", Some(1)),
    ] {
        for both in [one.and(&other), other.and(&one)] {
            let count = match both.verdict(image).requirement {
                Requirement::Accept => Some(0),
                Requirement::Reject => None,
                Requirement::Signatures(all) => Some(all.len()),
            };
            assert_eq!(count, want, "{image}");
        }
    }
}

#[test]
fn other_tools_get_rejections_but_not_signatures() {
    let policy = SignaturePolicy::parse(OPENSHIFT.as_bytes()).unwrap();
    let text = policy.without_signatures();
    assert!(!text.contains("igned") && text.contains("containers-storage"), "{text}");
    let read = SignaturePolicy::parse(text.as_bytes()).unwrap();
    for (image, want) in [
        ("quay.io/evil/os", REJECT),
        ("other.example/x", REJECT),
        ("quay.io/openshift-release-dev/ocp-release", ACCEPT),
        ("registry.redhat.io/ubi9", ACCEPT),
    ] {
        assert_eq!(verdict(&read, image), want, "{image}");
    }
    let named = SignaturePolicy::parse(policy.with_signatures().as_bytes());
    assert_eq!(named, Ok(policy));
}
