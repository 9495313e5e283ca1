//! The CRDs of `deploy/crds` on the real API server: what they take and what they refuse is what
//! the real ones do, but for nested repositories in a digest form, which ours take.
//!
//! The rules are tried on copies in an API group of their own, so that no controller sees the
//! objects and a rule can be relaxed for a moment. Rows are those of
//! `docs/reference/behaviours.md`; `docs/reference/api.md` explains the rules.

mod api;
mod conditions;
mod edit;
mod images;
mod lists;
mod machine_configs;
mod os_builds;
mod os_configs;
mod pools;

use serde_json::Value;

use api::Api;
use edit::{Edit, edited};

/// What the API server makes of an object.
#[derive(Debug, Clone, Copy)]
enum Want {
    Taken,
    /// With a text that has this in it.
    Refused(&'static str),
}
use Want::{Refused, Taken};

impl Want {
    /// What is wrong with the API server's answer to a case.
    fn problem(self, case: &str, answer: &Result<Value, String>) -> Option<String> {
        let is_right = match (answer, self) {
            (Ok(_), Taken) => true,
            (Err(text), Refused(part)) => text.contains(part),
            (Ok(_), Refused(_)) | (Err(_), Taken) => false,
        };
        (!is_right).then(|| format!("{case}: {self:?}, but {answer:?}"))
    }
}

/// Holds each object of a table, made by edits of a good one, against what is wanted.
#[track_caller]
fn hold(
    good: &Value,
    cases: &[(&str, &[Edit], Want)],
    ask: impl Fn(&Value) -> Result<Value, String>,
) {
    let mut wrong = Vec::new();
    for (what, edits, want) in cases {
        let answer = ask(&edited(good, edits));
        wrong.extend(want.problem(what, &answer));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The same for a status that replaces another: `old` makes the status that is there, `new` the one
/// that is sent.
#[track_caller]
fn hold_status(api: &Api, object: &Value, cases: &[(&str, &[Edit], &[Edit], Want)]) {
    let mut wrong = Vec::new();
    for (number, (what, old, new, want)) in cases.iter().enumerate() {
        let name = object["metadata"]["name"].as_str().unwrap();
        let there = api.created(&named(object, &format!("{name}-{number}")));
        let there = api
            .write_status(&edited(&there, old))
            .unwrap_or_else(|why| panic!("{what}: what was to be there already: {why}"));
        let answer = api.try_status(&edited(&there, new));
        wrong.extend(want.problem(what, &answer));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// With another name; a MachineOSConfig's pool has it, too.
fn named(object: &Value, name: &str) -> Value {
    let mut object = edited(object, &[Edit::set("/metadata/name", name)]);
    if let Some(pool) = object.pointer_mut("/spec/machineConfigPool/name") {
        *pool = name.into();
    }
    object
}
