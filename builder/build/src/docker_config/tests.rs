//! Valid and invalid registry Secrets, and the logins of pods.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::*;
use mosb_image::RepoRef;

fn secret(kind: Option<&str>, data: &[(&str, &str)]) -> Secret {
    let bytes =
        |(key, text): &(&str, &str)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec()));
    Secret {
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some("s".to_owned()),
            ..Default::default()
        },
        type_: kind.map(str::to_owned),
        data: Some(data.iter().map(bytes).collect()),
        ..Secret::default()
    }
}

const NEW: (Option<&str>, &str) = (Some("kubernetes.io/dockerconfigjson"), ".dockerconfigjson");
const OLD: (Option<&str>, &str) = (Some("kubernetes.io/dockercfg"), ".dockercfg");

fn text(config: &DockerConfigJson) -> String {
    String::from_utf8(config.to_bytes().expose().clone()).unwrap()
}

#[test]
fn both_forms_become_one() {
    for (what, (kind, key), given, want) in [
        ("new", NEW, r#"{"auths":{"q":{"auth":"YTpi"}}}"#, r#"{"auths":{"q":{"auth":"YTpi"}}}"#),
        (
            "old",
            OLD,
            r#"{"q":{"username":"u","email":"e"}}"#,
            r#"{"auths":{"q":{"email":"e","username":"u"}}}"#,
        ),
        ("new in the old key", OLD, r#"{"auths":{"q":{}}}"#, r#"{"auths":{"q":{}}}"#),
        (
            "old in the new key",
            NEW,
            r#"{"q":{"auth":"YTpi"}}"#,
            r#"{"auths":{"q":{"auth":"YTpi"}}}"#,
        ),
        (
            "programs",
            NEW,
            r#"{"auths":{"q":{}},"credHelpers":{"g":"x"},"credsStore":"y"}"#,
            r#"{"auths":{"q":{}}}"#,
        ),
        ("programs only", NEW, r#"{"credsStore":"y"}"#, r#"{"auths":{}}"#),
        ("nothing", NEW, "{}", r#"{"auths":{}}"#),
        (
            "an auth that nobody needs, and a token",
            NEW,
            r#"{"auths":{"fake":{"auth":"bar"},"q":{"auth":"YTpi","identitytoken":"t"}}}"#,
            r#"{"auths":{"fake":{"auth":"bar"},"q":{"auth":"YTpi","identitytoken":"t"}}}"#,
        ),
        (
            "settings of docker, and more in a login",
            NEW,
            r#"{"auths":{"q":{"auth":"YTpi","serveraddress":"q"}},"HttpHeaders":{"a":"b"},"psFormat":"c"}"#,
            r#"{"auths":{"q":{"auth":"YTpi"}}}"#,
        ),
        ("headers only", NEW, r#"{"HttpHeaders":{"a":"b"}}"#, r#"{"auths":{}}"#),
        ("null logins", NEW, r#"{"auths":null}"#, r#"{"auths":{}}"#),
        (
            "an email that is not a text",
            NEW,
            r#"{"auths":{"q":{"auth":"YTpi","email":false}}}"#,
            r#"{"auths":{"q":{"auth":"YTpi"}}}"#,
        ),
        (
            "null in a login",
            NEW,
            r#"{"auths":{"q":{"auth":"YTpi","email":null}}}"#,
            r#"{"auths":{"q":{"auth":"YTpi"}}}"#,
        ),
    ] {
        let config = DockerConfigJson::from_secret(&secret(kind, &[(key, given)]));
        assert_eq!(config.map(|config| text(&config)), Ok(want.to_owned()), "{what}");
    }
}

#[test]
fn a_build_gets_the_login_that_each_of_its_images_is_reached_with() {
    let given = r#"{"auths":{
        "quay.io":{"auth":"YTpi"},"quay.io/acme":{"auth":"YTpi"},"quay.io/acme/os":{"auth":""},"quay.io/acme/secret":{"auth":"YTpi"},
        "https://index.docker.io/v1/":{"username":"u","password":"p"},"docker.io/library/own":{"auth":"YTpi"},
        "docker.io/a":{"auth":"YTpi"},"mirror.example:5000":{"auth":"YTpi"},"quay.io.evil":{"auth":"YTpi"}}}"#;
    let logins = DockerConfigJson::from_secret(&secret(NEW.0, &[(NEW.1, given)])).unwrap();
    for (what, repos, want) in [
        ("no image", &[][..], &[][..]),
        ("an empty login is none", &["quay.io/acme/os"], &["quay.io/acme"]),
        ("its own", &["quay.io/acme/secret"], &["quay.io/acme/secret"]),
        ("the registry's", &["quay.io/acmes/os"], &["quay.io"]),
        ("Docker Hub by another name", &["docker.io/library/a"], &["https://index.docker.io/v1/"]),
        (
            "Docker Hub's own image, whose path is library/a",
            &["docker.io/a"],
            &["https://index.docker.io/v1/"],
        ),
        (
            "Docker Hub's own image with a login of its own",
            &["index.docker.io/own"],
            &["docker.io/library/own"],
        ),
        (
            "several",
            &["mirror.example:5000/a", "quay.io/acme/a", "quay.io/acme/b"],
            &["mirror.example:5000", "quay.io/acme"],
        ),
        ("a registry without one", &["mirror.example/a", "evil.example/a"], &[]),
    ] {
        let repos: Vec<RepoRef> = repos.iter().map(|repo| repo.parse().unwrap()).collect();
        let used = logins.used_for(&repos).to_bytes().expose().clone();
        let used: serde_json::Value = serde_json::from_slice(&used).unwrap();
        let keys: Vec<&String> = used["auths"].as_object().unwrap().keys().collect();
        assert_eq!(keys, want, "{what}");
    }
}

#[test]
fn rejections_name_the_cause_and_quote_no_secret() {
    use SecretProblem as P;
    let (new, new_key) = NEW;
    let (old, old_key) = OLD;
    let fine = r#"{"auths":{"q":{"auth":"YTpi"}}}"#;
    let key = new_key;
    let content = |problem| P::Content { key, problem };
    let json = |line, column| content(CredentialsError::Json { line, column });
    let shape =
        |place: &str, want| content(CredentialsError::Shape { place: place.to_owned(), want });
    let unknown = |place: &str| content(CredentialsError::UnknownField { place: place.to_owned() });
    for (what, secret, want) in [
        ("no type", secret(None, &[(new_key, fine)]), P::NoType),
        ("empty type", secret(Some(""), &[(new_key, fine)]), P::NoType),
        ("other type", secret(Some("Opaque"), &[(new_key, fine)]), P::Type("Opaque".to_owned())),
        ("no data", secret(new, &[]), P::NoData(".dockerconfigjson")),
        ("type and key differ", secret(new, &[("x", fine)]), P::NoKey(".dockerconfigjson")),
        ("the other's key", secret(new, &[(old_key, fine)]), P::OtherKey(".dockercfg")),
        (
            "both keys",
            secret(old, &[(new_key, fine), (old_key, fine)]),
            P::OtherKey(".dockerconfigjson"),
        ),
        ("empty", secret(new, &[(new_key, "")]), P::EmptyKey(".dockerconfigjson")),
        ("no JSON", secret(new, &[(new_key, "hunter2")]), json(1, 1)),
        ("null", secret(new, &[(new_key, "null")]), json(1, 4)),
        ("a list", secret(new, &[(new_key, "[\"hunter2\"]")]), json(1, 0)),
        (
            "nothing else in a login",
            secret(new, &[(new_key, r#"{"auths":{"q":{"token":"hunter2"}}}"#)]),
            unknown("\"q\".token"),
        ),
        (
            "malformed new, no way back",
            secret(new, &[(new_key, r#"{"auths":["hunter2"]}"#)]),
            shape("auths", "an object"),
        ),
        (
            "a login that is none",
            secret(new, &[(new_key, r#"{"auths":{"q":"hunter2"}}"#)]),
            shape("\"q\"", "an object with username and password, or auth"),
        ),
        (
            "a number",
            secret(new, &[(new_key, r#"{"auths":{"q":{"auth":1}}}"#)]),
            shape("\"q\".auth", "a text"),
        ),
    ] {
        let error = DockerConfigJson::from_secret(&secret).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{what}: {error}");
        assert!(error.to_string().starts_with("secret s: "), "{what}: {error}");
        assert_eq!(error.problem, want, "{what}");
    }
}

#[test]
fn a_bad_form_is_asked_for_by_its_type() {
    for ((kind, key), want) in [
        (
            NEW,
            "secret s: .dockerconfigjson: not a docker config: line 1, column 1: want JSON with \"auths\"",
        ),
        (
            OLD,
            "secret s: .dockercfg: not a docker config: line 1, column 1: want JSON of logins by registry",
        ),
    ] {
        let error = DockerConfigJson::from_secret(&secret(kind, &[(key, "hunter2")])).unwrap_err();
        assert_eq!(error.to_string(), want);
    }
}

#[test]
fn the_base_secret_goes_over_the_global_one_registry_by_registry() {
    let read =
        |text: &str| DockerConfigJson::from_secret(&secret(NEW.0, &[(NEW.1, text)])).unwrap();
    let global = read(r#"{"auths":{"a":{"auth":"YTox"},"b":{"auth":"YTox","email":"e"}}}"#);
    let base = read(r#"{"auths":{"b":{"auth":"YToy"},"c":{"auth":"YToy"}}}"#);
    let want = r#"{"auths":{"a":{"auth":"YTox"},"b":{"auth":"YToy"},"c":{"auth":"YToy"}}}"#;
    assert_eq!(text(&base.over(&global)), want);
    assert_eq!(text(&base.over(&DockerConfigJson::empty())), text(&base));
    assert!(!format!("{global:?}").contains("auth"));
}

#[test]
fn a_login_is_known_again_in_another_form_and_for_another_registry() {
    let logins =
        |text: &str| DockerConfigJson::from_secret(&secret(NEW.0, &[(NEW.1, text)])).unwrap();
    // `me:hunter2`, of which both forms are.
    let pushes = logins(
        r#"{"auths":{"reg.example":{"auth":"bWU6aHVudGVyMg=="},"b.example":{"username":"b","password":"b"},"c.example":{"identitytoken":"hunter3"},"d.example":{"username":"d","password":""}}}"#,
    );
    for (what, text, want) in [
        ("the same", r#"{"auths":{"reg.example":{"auth":"bWU6aHVudGVyMg=="}}}"#, true),
        (
            "the other form",
            r#"{"auths":{"reg.example":{"username":"me","password":"hunter2"}}}"#,
            true,
        ),
        ("elsewhere", r#"{"auths":{"mirror.example/os":{"auth":"bWU6aHVudGVyMg"}}}"#, true),
        (
            "one of several",
            r#"{"auths":{"a":{"username":"a","password":"a"},"b":{"username":"b","password":"b"}}}"#,
            true,
        ),
        (
            "another password",
            r#"{"auths":{"reg.example":{"username":"me","password":"x"}}}"#,
            false,
        ),
        (
            "another user",
            r#"{"auths":{"reg.example":{"username":"you","password":"hunter2"}}}"#,
            false,
        ),
        ("a token", r#"{"auths":{"a":{"auth":"MDo","identitytoken":"hunter3"}}}"#, true),
        ("no password", r#"{"auths":{"a":{"username":"d","password":""}}}"#, false),
        ("none", "{}", false),
    ] {
        assert_eq!(logins(text).has_login_of(&pushes), want, "{what}");
    }
}
