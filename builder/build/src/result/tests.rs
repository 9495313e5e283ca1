//! A written result is read back unchanged, and nothing else is accepted.

use super::*;
use mosb_plan::plan::diff::KernelChange;
use serde_json::json;

fn of(outcome: Outcome) -> JobResult {
    JobResult {
        job_uid: "0b9c".to_owned(),
        build: "worker-0123456789abcdef0123456789abcdef".parse().unwrap(),
        outcome,
    }
}

fn summary(to: &str) -> OsSummary {
    let kernel = KernelChange { from: Some("6.1.140".to_owned()), to: Some(to.to_owned()) };
    OsSummary { from: Digest::of(b"before"), kernel, packages: Some(31) }
}

fn succeeded(warnings: Vec<Finding>) -> JobResult {
    of(Outcome::Succeeded {
        digest: Digest::of(b"image"),
        method: JobMethod::Direct,
        bytes_pulled: 1,
        bytes_pushed: 2,
        phases: Phases { total: 7, ..Phases::default() },
        base_tree: Some(BaseTreeImage { base: Digest::of(b"base"), image: Digest::of(b"tree") }),
        prepared: Some(Box::new(PreparedImage {
            inputs: Digest::of(b"run"),
            image: Digest::of(b"prepared"),
            made_at: "2026-11-25T19:00:00Z".parse().unwrap(),
        })),
        os_summary: Some(Box::new(summary("6.1.148"))),
        warnings,
    })
}

fn failed(message: &str, last_lines: Vec<String>) -> JobResult {
    of(Outcome::Failed {
        step: Step::ImageBuild,
        class: ErrorClass::InvalidInput,
        reason: "bad-config".to_owned(),
        message: message.to_owned(),
        last_lines,
        push: None,
    })
}

fn prepared() -> JobResult {
    let made = PreparedImage {
        inputs: Digest::of(b"inputs"),
        image: Digest::of(b"prepared"),
        made_at: "2026-11-25T19:00:00Z".parse().unwrap(),
    };
    let tree = BaseTreeImage { base: Digest::of(b"prepared"), image: Digest::of(b"tree") };
    let warnings = vec![Finding::new("a", "b")];
    of(Outcome::Prepared { prepared: Box::new(made), base_tree: Some(tree), warnings })
}

#[test]
fn a_written_result_is_read_back() {
    let reasons = vec![Finding::new("append-to-base", "x").path("/etc/a")];
    for result in [
        succeeded(Vec::new()),
        succeeded(vec![Finding::new("a", "b").object("c")]),
        of(Outcome::NeedsContainerfile { reasons, prepared: None }),
        prepared(),
        failed("no", vec!["a".to_owned(), "b".to_owned()]),
    ] {
        let read = JobResult::from_json(result.to_json().as_bytes());
        assert_eq!(read.as_ref(), Ok(&result));
        let read = JobResult::from_config_map(&result.to_config_map());
        assert_eq!(read, Ok(Some(result.clone())));
        let message = result.to_termination_message();
        assert_eq!(JobResult::from_termination_message(&message), Some(result));
    }
    let keys = |result: JobResult| result.to_config_map().into_keys().collect::<Vec<_>>();
    assert_eq!(keys(succeeded(Vec::new())), ["digest", "result.json"]);
    assert_eq!(keys(failed("x", Vec::new())), ["result.json"]);
    assert_eq!(keys(prepared()), ["result.json"], "it is not an image of the build");
}

#[test]
fn the_wire_has_these_words() {
    let value = |result: JobResult| -> serde_json::Value {
        serde_json::from_str(&result.to_json()).unwrap()
    };
    let phases = json!({ "resolve": 0, "tree": 0, "build": 0, "push": 0, "total": 7 });
    assert_eq!(
        value(succeeded(Vec::new())),
        json!({
            "jobUid": "0b9c", "build": "worker-0123456789abcdef0123456789abcdef", "outcome": "Succeeded",
            "digest": Digest::of(b"image"), "method": "direct", "bytesPulled": 1, "bytesPushed": 2, "phases": phases,
            "baseTree": { "base": Digest::of(b"base"), "image": Digest::of(b"tree") },
            "prepared": {
                "inputs": Digest::of(b"run"), "image": Digest::of(b"prepared"),
                "madeAt": "2026-11-25T19:00:00Z",
            },
            "osSummary": {
                "from": Digest::of(b"before"), "kernel": { "from": "6.1.140", "to": "6.1.148" },
                "packages": 31,
            },
        })
    );
    assert_eq!(
        value(failed("m", Vec::new())),
        json!({
            "jobUid": "0b9c", "build": "worker-0123456789abcdef0123456789abcdef", "outcome": "Failed",
            "step": "image-build", "class": "user-input", "reason": "bad-config", "message": "m",
        })
    );
}

#[test]
fn whatever_happened_it_fits() {
    let long = "é\u{1b}[31m".repeat(3000);
    let many = (0..500).map(|n| format!("{n} {long}")).collect::<Vec<_>>();
    let mut renamed = succeeded(Vec::new());
    if let Outcome::Succeeded { os_summary, .. } = &mut renamed.outcome {
        *os_summary = Some(Box::new(summary(&long)));
    }
    let findings: Vec<_> = many.iter().map(|m| Finding::new("a", m.clone())).collect();
    for result in
        [failed(&long, many), failed(&"\"\\".repeat(4000), Vec::new()), succeeded(findings)]
    {
        let (file, message) = (result.to_json(), result.to_termination_message());
        assert!(file.len() <= RESULT_LIMIT, "{}", file.len());
        assert!(message.len() <= TERMINATION_LIMIT, "{}", message.len());
        assert!(!file.contains("\\u001b"));
        assert!(JobResult::from_termination_message(&message).is_some());
        if let Outcome::Failed { last_lines, .. } =
            JobResult::from_json(file.as_bytes()).unwrap().outcome
            && let Some(last) = last_lines.last()
        {
            assert!(last.starts_with("499 "), "{last}");
        }
    }
}

#[test]
fn invalid_results_are_rejected() {
    let of =
        |text: &str| JobResult::from_config_map(&[(RESULT_KEY.to_owned(), text.to_owned())].into());
    assert_eq!(JobResult::from_config_map(&BTreeMap::new()), Ok(None));
    assert_eq!(of(""), Ok(None));
    let good = succeeded(Vec::new()).to_json();
    let changed = |from: &str, to: &str| good.replacen(from, to, 1);
    assert!(of(&changed("{", "{\"added\":[1],")).is_ok(), "what it does not know");
    for (what, text) in [
        ("no JSON", "x".to_owned()),
        ("another outcome", changed("Succeeded", "Sent")),
        ("no digest", changed("\"digest\"", "\"d\"")),
        ("a short digest", changed("sha256:", "sha256:0")),
        ("another build", changed("worker-", "../")),
        ("negative", changed("\"bytesPulled\":1", "\"bytesPulled\":-1")),
        ("another class", failed("", Vec::new()).to_json().replace("user-input", "x")),
        ("too large", " ".repeat(RESULT_LIMIT) + &good),
    ] {
        assert!(of(&text).is_err(), "{what}");
        assert_eq!(
            JobResult::from_termination_message(&text.trim()[..text.trim().len() - 1]),
            None,
            "{what}"
        );
    }
    let mut data = succeeded(Vec::new()).to_config_map();
    data.insert(DIGEST_KEY.to_owned(), Digest::of(b"other").to_string());
    let refused = JobResult::from_config_map(&data);
    assert!(matches!(refused, Err(Error::TwoDigests { .. })), "{refused:?}");
}
