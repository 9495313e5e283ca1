use super::*;
use crate::auth::keyring::CredentialSources;
use crate::http::ProxyVariables;

#[test]
fn plain_http_needs_loopback_or_a_request() {
    let certs = tempfile::tempdir().unwrap();
    std::fs::create_dir(certs.path().join("localhost:5001")).unwrap();
    let settings = |tls_verify| Settings {
        keyring: Arc::new(Keyring::read(&CredentialSources::default()).unwrap()),
        proxies: Arc::new(Proxies::new(&ProxyVariables::default()).unwrap()),
        certs: CertDirs {
            cert_dir: None,
            per_host: vec![certs.path().to_owned()],
            ..CertDirs::default()
        },
        tls_verify,
        timeouts: Timeouts::default(),
        policy: RetryPolicy::default(),
    };
    for (host, insecure, verify, want) in [
        ("quay.io", false, true, Trust::Verified),
        ("quay.io", true, true, Trust::Insecure),
        ("quay.io", false, false, Trust::Insecure),
        ("localhost", false, true, Trust::Plain),
        ("localhost:5000", false, true, Trust::Plain),
        ("localhost:5001", false, true, Trust::Verified),
        ("127.0.0.9:5000", false, true, Trust::Plain),
        ("[::1]:5000", false, true, Trust::Plain),
        ("[::1]", false, true, Trust::Plain),
        ("127.0.0.1:5000", false, false, Trust::Insecure),
        ("10.0.0.1:5000", false, true, Trust::Verified),
        ("localhost.example", false, true, Trust::Verified),
    ] {
        let endpoint =
            Endpoint::new(host, insecure, &settings(verify), RetryPolicy::default()).unwrap();
        assert_eq!(endpoint.trust, want, "{host}");
    }
}

#[test]
fn docker_hub_is_reached_under_its_other_name() {
    let settings = Settings {
        keyring: Arc::new(Keyring::read(&CredentialSources::default()).unwrap()),
        proxies: Arc::new(Proxies::new(&ProxyVariables::default()).unwrap()),
        certs: CertDirs::default(),
        tls_verify: true,
        timeouts: Timeouts::default(),
        policy: RetryPolicy::default(),
    };
    let endpoint = Endpoint::new("docker.io", false, &settings, RetryPolicy::default()).unwrap();
    assert_eq!(endpoint.root("https").unwrap().as_str(), "https://registry-1.docker.io/");
    assert_eq!(endpoint.host(), "docker.io");
}
