//! Where `merging.md` decides otherwise: what the real ones do, what we do, and why.

use serde_json::{Value, json};

use super::compare::{merge, without_empties};
use crate::harness::Oracle;

/// What comes out, at one place.
enum Outcome {
    Is(Value),
    /// With this in the message, or this code.
    Refused(&'static str),
}

use Outcome::{Is, Refused};

struct Decision {
    why: &'static str,
    configs: Vec<Value>,
    /// What to look at.
    place: &'static str,
    theirs: Outcome,
    ours: Outcome,
}

/// Each decision is one, on both sides.
pub fn hold(oracle: &mut Oracle) {
    for Decision {
        why,
        configs,
        place,
        theirs,
        ours,
    } in all()
    {
        let real = oracle.merge(&configs);
        let there = || without_empties(real["config"].pointer(place).unwrap_or(&Value::Null));
        match theirs {
            Is(wanted) => assert_eq!(there(), wanted, "{why}: {real}"),
            Refused(words) => {
                assert_eq!(real["accepted"], false, "{why}: {real}");
                assert!(
                    real["error"].as_str().unwrap().contains(words),
                    "{why}: {real}"
                );
            }
        }
        match (ours, merge(&configs)) {
            (Is(wanted), Ok(own)) => {
                let own = own.pointer(place).unwrap_or(&Value::Null);
                assert_eq!(own, &wanted, "{why}");
            }
            (Refused(code), Err(refused)) => {
                assert!(refused.codes.contains(code), "{why}: {refused:?}");
            }
            (_, outcome) => panic!("{why}: {outcome:?}"),
        }
    }
}

fn all() -> Vec<Decision> {
    of_contents()
}

fn of_contents() -> Vec<Decision> {
    let config = |contents: Value| {
        json!({"ignition": {"version": "3.5.0"}, "storage": {
            "files": [{"path": "/f", "contents": contents}],
        }})
    };
    let key = |contents: Value| {
        json!({"ignition": {"version": "3.5.0"}, "storage": {
            "luks": [{"name": "l", "device": "/d", "keyFile": contents}],
        }})
    };
    let hash = format!("sha512-{}", "a".repeat(128));
    let remote = json!({
        "source": "http://a/a", "compression": "gzip", "verification": {"hash": hash}, "httpHeaders": [{"name": "a", "value": "b"}],
    });
    let mixed = json!({
        "source": "data:,b", "compression": "gzip", "verification": {"hash": hash}, "httpHeaders": [{"name": "a", "value": "b"}],
    });
    let own = json!({"source": "data:,b"});
    vec![
        Decision {
            why: "nodes can't read new contents with the compression, hash and headers of former ones",
            configs: vec![config(remote.clone()), config(own.clone())],
            place: "/storage/files/0/contents",
            theirs: Is(mixed.clone()),
            ours: Is(own.clone()),
        },
        Decision {
            why: "the same of the key of an encrypted volume",
            configs: vec![key(remote), key(own.clone())],
            place: "/storage/luks/0/keyFile",
            theirs: Is(mixed),
            ours: Is(own),
        },
    ]
}
