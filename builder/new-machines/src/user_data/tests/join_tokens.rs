//! Tokens that join machines, and what is said when they have ended.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::fixture::{Fixture, TOKEN_SECRET, join_config_with};
use crate::snapshot::Lookup;
use crate::user_data::content::MachineContent;
use crate::user_data::join_tokens::{ClusterInfo, JoinTokens};
use crate::user_data::view::notices;
use mosb_cluster::target::of_new_machines;
use mosb_plan::payload::gzip;

const END: &str = "2026-01-02T00:00:00Z";

fn jwt(claims: &str) -> String {
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
}

/// A token that expires at [`END`].
fn ending() -> String {
    jwt(&json!({ "exp": time(END).as_second() }).to_string())
}

fn bootstrap(id: &str) -> String {
    format!("{id}.{TOKEN_SECRET}")
}

fn kubeconfig(token: &str) -> String {
    format!("apiVersion: v1\nkind: Config\nusers:\n- name: kubelet\n  user: {{token: {token}}}\n")
}

fn inline(contents: &[u8]) -> Value {
    json!({ "source": format!("data:;base64,{}", STANDARD.encode(contents)) })
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn cluster_info(value: Value) -> k8s_openapi::api::core::v1::ConfigMap {
    serde_json::from_value(json!({ "data": value })).unwrap()
}

/// Why a config whose only file has these contents joins no machine in 2027, with no token alive.
fn ended(contents: &Value) -> Vec<String> {
    let config = serde_json::from_str(&join_config_with(contents)).unwrap();
    let info = ClusterInfo::from(cluster_info(json!({ "kubeconfig": "" })));
    let tokens = JoinTokens::find(&config);
    let ended = tokens.ended(&info, time("2027-01-01T00:00:00Z"));
    ended.iter().map(|token| token.describe_end()).collect()
}

#[test]
fn tokens_are_found_where_kubelets_and_kubeadm_read_them() {
    let (jwt, token) = (ending(), bootstrap("abcdef"));
    let expired = "the token in /etc/kubernetes/bootstrap expired at 2026-01-02T00:00:00Z";
    let unsigned = "bootstrap token abcdef in /etc/kubernetes/bootstrap has no signature in configmap kube-public/cluster-info: it expired or was deleted, or secret kube-system/bootstrap-token-abcdef lacks usage-bootstrap-signing: \"true\"";
    let packed = gzip::packed(kubeconfig(&jwt).as_bytes());
    let packed = json!({ "source": inline(&packed)["source"], "compression": "gzip" });
    let as_json = json!({ "kind": "Config", "users": [{ "user": { "token": jwt } }] });
    let kubeadm = format!(
        "---\nkind: KubeletConfiguration\n---\nkind: JoinConfiguration\ndiscovery:\n  bootstrapToken: {{token: {token}}}\n"
    );
    let bootstrap = format!("kind: JoinConfiguration\ndiscovery: {{tlsBootstrapToken: {token}}}");
    for (what, contents, want) in [
        ("a kubeconfig", inline(kubeconfig(&jwt).as_bytes()), expired),
        ("packed", packed, expired),
        ("as JSON", inline(as_json.to_string().as_bytes()), expired),
        ("a bootstrap token in it", inline(kubeconfig(&token).as_bytes()), unsigned),
        ("the second document", inline(kubeadm.as_bytes()), unsigned),
        ("for TLS", inline(bootstrap.as_bytes()), unsigned),
    ] {
        assert_eq!(ended(&contents), [want], "{what}");
    }
}

#[test]
fn other_contents_have_no_token_that_ends() {
    let late = jwt(&json!({ "exp": 4_000_000_000_i64 }).to_string());
    let aliases = "a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e]\ng: [*f, *f, *f, *f, *f, *f, *f, *f]\n";
    let large = format!("{}# {}", kubeconfig(&ending()), "x".repeat(256 * 1024));
    let nested = format!("{{\"kind\":\"Config\",\"users\":{}", "[".repeat(100_000));
    let other_kind = kubeconfig(&ending()).replace("Config", "Secret");
    for (what, contents) in [
        ("not yet", inline(kubeconfig(&late).as_bytes())),
        ("no date", inline(kubeconfig(&jwt("{}")).as_bytes())),
        ("a date as text", inline(kubeconfig(&jwt(r#"{"exp":"1"}"#)).as_bytes())),
        ("no date of this world", inline(kubeconfig(&jwt(r#"{"exp":1e300}"#)).as_bytes())),
        ("no claims", inline(kubeconfig(&jwt("[")).as_bytes())),
        ("no base64", inline(kubeconfig("a.b?.c").as_bytes())),
        ("four parts", inline(kubeconfig(&format!("{}.x", ending())).as_bytes())),
        ("upper case", inline(kubeconfig("ABCDEF.0123456789abcdef").as_bytes())),
        ("too short", inline(kubeconfig("abcdef.0123456789abcde").as_bytes())),
        ("a list for a token", inline(kubeconfig("[a]").as_bytes())),
        ("users without a list", inline(b"kind: Config\nusers: {a: b}\n")),
        ("another kind", inline(other_kind.as_bytes())),
        ("no UTF-8", inline(b"\xff\xfe")),
        ("aliases", inline(aliases.as_bytes())),
        ("nested", inline(nested.as_bytes())),
        ("large", inline(large.as_bytes())),
        ("remote", json!({ "source": "https://example.com/kubeconfig" })),
        (
            "not packed",
            json!({ "source": inline(kubeconfig(&ending()).as_bytes())["source"], "compression": "gzip" }),
        ),
        ("none", json!({})),
    ] {
        assert_eq!(ended(&contents), [""; 0], "{what}");
    }
    // Seconds with a fraction, and a date before 1970.
    for exp in ["1767312000.9", "-1"] {
        let token = jwt(&format!("{{\"exp\":{exp}}}"));
        assert_eq!(ended(&inline(kubeconfig(&token).as_bytes())).len(), 1, "{exp}");
    }
    let many: String =
        (0..10_000).map(|n| format!("- user: {{token: a{n:05}.{TOKEN_SECRET}}}\n")).collect();
    let many = format!("kind: Config\nusers:\n{}", &many[..200_000]);
    let cut = many.rfind('\n').unwrap();
    assert_eq!(ended(&inline(&many.as_bytes()[..=cut])).len(), 32);
}

#[test]
fn a_token_that_expires_changes_the_condition_alone() {
    let join = |token: &str| Some(join_config_with(&inline(kubeconfig(token).as_bytes())));
    let mut fixture = Fixture { join: join(&ending()), ..Fixture::new() };
    assert_eq!(fixture.pass().actions.len(), 2);
    assert_eq!(fixture.reason(), ("True", "Current"));
    assert_eq!(fixture.lookups.len(), 2, "a JWT needs no ConfigMap");

    // Nothing but the time changes.
    let secret = fixture.secret.clone();
    fixture.now = time("2026-01-02T00:00:00Z");
    assert_eq!(fixture.pass().actions.len(), 1);
    assert_eq!(fixture.reason(), ("True", "JoinTokenExpired"));
    assert_eq!(fixture.secret, secret);
    let message = fixture.condition().unwrap().message.clone();
    for part in [
        "do not join the cluster: the token in /etc/kubernetes/bootstrap expired at 2026-01-02T00:00:00Z;",
        "put a new token into secret mosb-system/join: ignition",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // It stays while nothing changes, also between two checks.
    let reason = fixture.pass().reason;
    fixture.is_checked = true;
    let decision = fixture.pass();
    assert_eq!((decision.actions.len(), decision.reason), (0, reason));

    // A new token.
    fixture.is_checked = false;
    fixture.join = join(&jwt(r#"{"exp":4000000000}"#));
    assert_eq!(fixture.pass().actions.len(), 2);
    assert_eq!(fixture.reason(), ("True", "Current"));
}

#[test]
fn a_bootstrap_token_without_a_signature_is_reported() {
    let signed = json!({ "kubeconfig": "", "jws-kubeconfig-abcdef": "e30..c2ln" });
    for (what, info, want) in [
        ("signed", Some(signed), "Current"),
        (
            "another one is signed",
            Some(json!({ "kubeconfig": "", "jws-kubeconfig-a": "" })),
            "JoinTokenExpired",
        ),
        ("nothing to sign", Some(json!({ "jws-kubeconfig-a": "" })), "Current"),
        ("not readable", None, "Current"),
    ] {
        let contents = inline(kubeconfig(&bootstrap("abcdef")).as_bytes());
        let mut fixture = Fixture {
            join: Some(join_config_with(&contents)),
            cluster_info: info.map(cluster_info),
            ..Fixture::new()
        };
        fixture.pass();
        assert!(fixture.lookups.contains(&Lookup::ClusterInfo), "{what}");
        assert_eq!(fixture.reason(), ("True", want), "{what}");
        let message = &fixture.condition().unwrap().message;
        let is_reported = message.contains("may not join the cluster: bootstrap token abcdef");
        assert_eq!(is_reported, want != "Current", "{message}");
        let has_remedy = message.ends_with("; if the bootstrap token exists, add the usage to it");
        assert_eq!(has_remedy, is_reported, "{message}");
    }
}

#[test]
fn an_ended_token_is_a_notice() {
    let contents = inline(kubeconfig(&ending()).as_bytes());
    let fixture = Fixture { join: Some(join_config_with(&contents)), ..Fixture::new() };
    let (_, target) = of_new_machines(&fixture.config, &fixture.builds).unwrap().unwrap();
    let content = MachineContent::new(&fixture.inputs(&target), None).unwrap();
    let notices = |now| notices(&content, &ClusterInfo::Unknown, time(now));
    assert_eq!(notices("2026-01-01T23:59:59Z"), []);
    let [notice] = &*notices(END) else { panic!("{:?}", notices(END)) };
    assert_eq!(notice.code, "join-token-expired");
    assert_eq!(notice.path.as_deref(), Some("/etc/kubernetes/bootstrap"));
    assert!(notice.message.contains("secret mosb-system/join: ignition"), "{notice:?}");
}
