use super::*;
use mosb_api::image_checks::CheckName;
use mosb_registry::RegistryMessage;

const HOST: &str = "quay.example";

fn denied(with: &str) -> Error {
    Error::Denied {
        image: "quay.example/acme/os@sha256:1".to_owned(),
        status: 403,
        with: with.to_owned(),
        message: RegistryMessage::from_body(br#"{"errors":[{"code":"DENIED","message":"no"}]}"#),
    }
}

fn tls(cause: &str) -> Error {
    Error::Tls { host: HOST.to_owned(), cause: cause.to_owned() }
}

#[test]
fn each_refusal_is_one_sentence_with_its_remedy() {
    use Outcome::{Failed, Unknown};
    use Remedies::{ByHand, Manifests};
    let of_secret = "with the credentials of secret pull";
    let none = "without credentials (none are known for it)";
    let unknown = "invalid peer certificate: UnknownIssuer";
    let host = || HOST.to_owned();
    for (what, kind, error, remedies, want) in [
        (
            "may not pull",
            Kind::Pull,
            denied(of_secret),
            Manifests,
            (
                Failed,
                "denied",
                "the registry refuses pulling quay.example/acme/os@sha256:1 (403: DENIED: no) with the credentials of secret pull",
                "let these logins pull it, or put others for quay.example into the pull secret",
            ),
        ),
        (
            "no logins",
            Kind::Pull,
            denied(none),
            ByHand,
            (
                Failed,
                "denied",
                "the registry refuses pulling quay.example/acme/os@sha256:1 (403: DENIED: no) without credentials (none are known for it)",
                "let these logins pull it, or pass others for quay.example with --authfile",
            ),
        ),
        (
            "may not push",
            Kind::Push,
            denied(of_secret),
            Manifests,
            (
                Failed,
                "denied",
                "the registry refuses pushing to quay.example/acme/os@sha256:1 (403: DENIED: no) with the credentials of secret pull",
                "let these logins push there, or put others for quay.example into the Secret that spec.renderedImagePushSecret names",
            ),
        ),
        (
            "may not push, by hand",
            Kind::Push,
            denied(of_secret),
            ByHand,
            (
                Failed,
                "denied",
                "the registry refuses pushing to quay.example/acme/os@sha256:1 (403: DENIED: no) with the credentials of secret pull",
                "let these logins push there, or pass others for quay.example with --push-authfile",
            ),
        ),
        (
            "no such image",
            Kind::Pull,
            Error::NotFound {
                image: "quay.example/acme/os@sha256:1".to_owned(),
                message: RegistryMessage::default(),
            },
            Manifests,
            (
                Failed,
                "not-found",
                "quay.example/acme/os@sha256:1: the registry has none",
                "push it there, or correct its name and digest; a registry may also say so to logins that may not see it",
            ),
        ),
        (
            "no such repository to push to",
            Kind::Push,
            Error::NotFound {
                image: "quay.example/acme/os".to_owned(),
                message: RegistryMessage::default(),
            },
            Manifests,
            (
                Failed,
                "not-found",
                "quay.example/acme/os: the registry takes no push to it (404)",
                "make the repository, or let these logins see it",
            ),
        ),
        (
            "an authority that nobody knows",
            Kind::Registry,
            tls(unknown),
            ByHand,
            (
                Failed,
                "untrusted-tls",
                "quay.example: its certificate is signed by an authority that is not trusted here (invalid peer certificate: UnknownIssuer)",
                "put that authority's certificate as ca.crt into a folder and pass it with --cert-dir, or put it into /etc/containers/certs.d/quay.example/",
            ),
        ),
        (
            "the same at an installation",
            Kind::Registry,
            tls(unknown),
            Manifests,
            (
                Failed,
                "untrusted-tls",
                "quay.example: its certificate is signed by an authority that is not trusted here (invalid peer certificate: UnknownIssuer)",
                "add that authority's certificate (PEM): additionalTrustBundle of the install-config, or imageRegistryBundles of ConfigMap mosb-config under \"quay.example\"",
            ),
        ),
        (
            "a certificate that has had its time",
            Kind::Registry,
            tls("invalid peer certificate: Expired"),
            Manifests,
            (
                Failed,
                "untrusted-tls",
                "quay.example: no trusted TLS connection: invalid peer certificate: Expired",
                "give the registry a certificate that is good for quay.example now, and check this machine's clock",
            ),
        ),
        (
            "plain HTTP",
            Kind::Registry,
            Error::PlainHttp { host: host() },
            Manifests,
            (
                Failed,
                "untrusted-tls",
                "the registry at quay.example answers in plain HTTP",
                "give the registry a certificate: machines don't pull in plain HTTP",
            ),
        ),
        (
            "plain HTTP, by hand",
            Kind::Registry,
            Error::PlainHttp { host: host() },
            ByHand,
            (
                Failed,
                "untrusted-tls",
                "the registry at quay.example answers in plain HTTP",
                "use --tls-verify=false, or insecure = true in registries.conf (in a cluster registrySources.insecureRegistries of ConfigMap mosb-config), if that is meant",
            ),
        ),
        (
            "no such host",
            Kind::Registry,
            Error::Unreachable { host: host(), cause: "Name or service not known".to_owned() },
            Manifests,
            (
                Unknown,
                "unreachable",
                "quay.example: not reachable: Name or service not known",
                "check the name, the network, the proxy and the mirrors among the manifests",
            ),
        ),
        (
            "no answer",
            Kind::Pull,
            Error::TimedOut { host: host(), tries: 4 },
            ByHand,
            (
                Unknown,
                "timed-out",
                "quay.example: no answer in time (4 tries)",
                "check the network and the proxy variables, or try again later",
            ),
        ),
        (
            "in trouble",
            Kind::Pull,
            Error::Server {
                host: host(),
                status: 503,
                tries: 4,
                message: RegistryMessage::default(),
            },
            Manifests,
            (
                Unknown,
                "registry-error",
                "quay.example: the server answered 503 to 4 tries",
                "try again later",
            ),
        ),
        (
            "a limit",
            Kind::Pull,
            Error::TooManyRequests { host: host(), tries: 4 },
            Manifests,
            (
                Unknown,
                "too-many-requests",
                "quay.example: too many requests, also after 4 tries",
                "wait, or put logins for quay.example with a higher limit into the pull secret",
            ),
        ),
        (
            "other machines",
            Kind::built_in(CheckName::Architecture),
            Error::PlatformMissing {
                image: "quay.example/acme/os:v1".to_owned(),
                wanted: "linux/s390x".parse().unwrap(),
                has: vec!["linux/amd64".to_owned()],
            },
            Manifests,
            (
                Failed,
                "platform-missing",
                "quay.example/acme/os:v1: no image for linux/s390x; it has linux/amd64",
                "build it for linux/s390x",
            ),
        ),
        (
            "no one image",
            Kind::built_in(CheckName::Architecture),
            Error::PlatformAmbiguous {
                image: "quay.example/acme/os:v1".to_owned(),
                has: vec!["linux/amd64".to_owned(), "linux/arm64".to_owned()],
            },
            ByHand,
            (
                Failed,
                "platform-ambiguous",
                "quay.example/acme/os:v1: an index of several images (linux/amd64, linux/arm64)",
                "choose one with --platform",
            ),
        ),
        (
            "damaged",
            Kind::Pull,
            Error::SizeMismatch {
                image: "quay.example/acme/os".to_owned(),
                digest: mosb_image::Digest::of(b""),
                want: 2,
                found: 1,
            },
            Manifests,
            (
                Failed,
                "size-mismatch",
                "quay.example/acme/os: blob sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 should have 2 bytes, but has 1",
                "push the image to quay.example again, and look at what stands between",
            ),
        ),
        (
            "takes no uploads",
            Kind::Push,
            Error::Unexpected {
                image: "quay.example/acme/os".to_owned(),
                host: host(),
                doing: "the beginning of an upload",
                status: 405,
                message: RegistryMessage::default(),
            },
            ByHand,
            (
                Failed,
                "registry-refused",
                "quay.example/acme/os: quay.example answered 405 to the beginning of an upload",
                "push elsewhere, or let quay.example take uploads",
            ),
        ),
        (
            "blocked",
            Kind::Registry,
            Error::Blocked {
                image: "quay.example/acme/os".to_owned(),
                prefix: HOST.to_owned(),
                by: "mirrorSourcePolicy: NeverContactSource of ImageDigestMirrorSet a".to_owned(),
            },
            Manifests,
            (
                Failed,
                "blocked",
                "quay.example/acme/os: blocked by \"quay.example\" in mirrorSourcePolicy: NeverContactSource of ImageDigestMirrorSet a",
                "add a mirror for it, or take it out there",
            ),
        ),
        (
            "not among the allowed registries",
            Kind::Registry,
            Error::NotAllowed {
                image: "quay.example/acme/os".to_owned(),
                list: "spec.registrySources.allowedRegistries of Image cluster (m/image.yaml)"
                    .to_owned(),
            },
            Manifests,
            (
                Failed,
                "rejected",
                "quay.example/acme/os: spec.registrySources.allowedRegistries of Image cluster (m/image.yaml) does not list its registry",
                "add it there, or use another image",
            ),
        ),
    ] {
        let check = explain(kind, &error, HOST, remedies);
        let got = (check.outcome, check.code.unwrap(), &*check.message, &*check.remedy.unwrap());
        assert_eq!(got, want, "{what}");
    }
}
