//! Files with logins, and which login is for which repository.

use super::*;

fn password(user: &str, password: &str) -> Login {
    Login::Password {
        user: Secret::new(user.to_owned()),
        password: Secret::new(password.to_owned()),
    }
}

#[test]
fn the_most_specific_login_is_found() {
    let config = DockerConfig::parse(
        br#"{"auths": {
            "quay.io": {"auth": "aG9zdDpw"},
            "quay.io/acme": {"auth": "YWNtZTpwOnc="},
            "quay.io/acme/os": {"auth": "b3M6cA"},
            "https://index.docker.io/v1/": {"username": "hub", "password": "p"},
            "localhost:5000": {"identitytoken": "idt"},
            "reg.example:5000/": {"registrytoken": "rt", "auth": "eDp5"},
            "empty.example": {}
        }, "credHelpers": {"gcr.io": "gcloud"}, "HttpHeaders": {"x": "y"}}"#,
    )
    .unwrap();
    let identity = Login::Identity(Secret::new("idt".to_owned()));
    let token = Login::Token(Secret::new("rt".to_owned()));
    for (host, repository, want) in [
        ("quay.io", "other/os", Some(password("host", "p"))),
        ("quay.io", "acme/other", Some(password("acme", "p:w"))),
        ("quay.io", "acmes", Some(password("host", "p"))),
        ("quay.io", "acme/os", Some(password("os", "p"))),
        ("quay.io", "acme/os/deeper", Some(password("os", "p"))),
        ("docker.io", "library/busybox", Some(password("hub", "p"))),
        ("registry-1.docker.io", "library/busybox", Some(password("hub", "p"))),
        ("localhost:5000", "os", Some(identity)),
        ("reg.example:5000", "os", Some(token)),
        ("localhost", "os", None),
        ("empty.example", "os", None),
    ] {
        assert_eq!(
            config.find(host, repository),
            Ok(want.map(CredentialEntry::Login)),
            "{host}/{repository}"
        );
    }
    assert_eq!(config.find("gcr.io", "a/b"), Ok(Some(CredentialEntry::Helper("gcloud"))));
}

#[test]
fn both_formats_and_nothing_are_read() {
    let old = DockerConfig::parse(br#"{"quay.io": {"auth": "YTpi", "email": "x"}}"#).unwrap();
    assert_eq!(old.find("quay.io", "x"), Ok(Some(CredentialEntry::Login(password("a", "b")))));
    let store =
        DockerConfig::parse(br#"{"auths": {"quay.io": {}}, "credsStore": "pass"}"#).unwrap();
    assert_eq!(store.find("quay.io", "x"), Ok(Some(CredentialEntry::Helper("pass"))));
    for nothing in ["", " \n", "{}", r#"{"auths": null}"#, r#"{"detachKeys": "ctrl-x"}"#] {
        let config = DockerConfig::parse(nothing.as_bytes()).unwrap();
        assert_eq!(config.find("quay.io", "x"), Ok(None), "{nothing:?}");
    }
}

#[test]
fn errors_of_unusable_files_quote_nothing() {
    for (what, text, want) in [
        ("not JSON", "hunter2", CredentialsError::Json { line: 1, column: 1 }),
        ("a list", "[\"hunter2\"]", CredentialsError::Json { line: 1, column: 0 }),
    ] {
        let error = DockerConfig::parse(text.as_bytes()).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{what}");
        assert_eq!(error, want, "{what}");
    }
}

#[test]
fn an_odd_entry_harms_only_its_own_registry() {
    let wrong = |key: &str| Err(CredentialsError::Auth(key.to_owned()));
    let config = DockerConfig::parse(
        br#"{"auths": {
            "fake": {"auth": "bar"},
            "a.io": {"auth": "hunter2!"},
            "b.io/x": {"auth": "aHVudGVyMg=="},
            "c.io": {"auth": "dTpw\n"},
            "d.io": {"auth": "dT\r\npw"},
            "f.io": "hunter2",
            "g.io": {"auth": "dTpw", "password": 1},
            "h.io": {"auth": "dTpw", "email": false}
        }, "credHelpers": {"e.io": "../sh"}}"#,
    )
    .unwrap();
    let odd = |place: &str, want| Err(shape(place, want));
    let login = || Ok(Some(CredentialEntry::Login(password("u", "p"))));
    for (host, repository, want) in [
        ("registry.example.com", "os", Ok(None)),
        ("a.io", "os", wrong("a.io")),
        ("b.io", "os", Ok(None)),
        ("b.io", "x/os", wrong("b.io/x")),
        ("c.io", "os", login()),
        ("d.io", "os", login()),
        ("e.io", "os", Err(CredentialsError::HelperName("../sh".to_owned()))),
        ("f.io", "os", odd("\"f.io\"", "an object with username and password, or auth")),
        ("g.io", "os", odd("\"g.io\".password", "a text")),
        ("h.io", "os", login()),
    ] {
        assert_eq!(config.find(host, repository), want, "{host}/{repository}");
    }
}
