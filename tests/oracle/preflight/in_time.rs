//! Transient errors are retried, permanent ones end the check, and checks of many images run in
//! parallel.

use super::*;

#[test]
fn transient_errors_are_retried_and_hangs_end() {
    let directory = tempfile::tempdir().unwrap();
    let layout = images(directory.path());
    let registry = Registry::plain();
    let proxy = FaultProxy::start(registry.address());
    let image = pushed(&registry, &layout, "good");
    let through = image.replace(registry.address(), &proxy.address());
    let repository = format!("{}/acme/good", proxy.address());
    let all = [&*through, "--push", &repository];
    for number in 1..=8 {
        for fault in [Fault::status(503), Fault::CutBefore, Fault::too_many(0)] {
            proxy.fail(number, fault.clone());
            let finished = check(&Mosb::new(), all);
            assert_eq!(finished.code(), Some(0), "{fault:?} at {number}: {}", finished.text());
        }
    }
    proxy.rule(|_| Some(Fault::status(503)));
    let finished = check(&Mosb::new(), all);
    let want = format!(
        "registry=unknown:registry-error pull=skipped {NOT_PULLED} push=unknown:registry-error"
    );
    assert_outcomes("in trouble", &finished, 3, &want);
    // One image fails immediately, and the registry of the other one hangs.
    proxy.rule(|_| Some(Fault::Delay(Duration::from_secs(600))));
    let missing = format!("{}@{}", registry.repository("acme/good"), layout.digest("other"));
    let finished = check(&Mosb::new(), [&*missing, &through, "--push", &repository]);
    assert_eq!(finished.code(), Some(1), "{}", finished.text());
    // Without that failure it would end by its own timeout, and not be skipped.
    let second = &finished.json()["images"][1]["checks"];
    let skipped = second.as_array().unwrap().iter().all(|check| check["outcome"] == "skipped");
    assert!(skipped, "{second}");
}

#[test]
fn many_images_are_checked_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let layout = images(directory.path());
    let registry = Registry::plain();
    let proxy = FaultProxy::start(registry.address());
    let names: Vec<String> = (0..12).map(|n| format!("pool{n}/os")).collect();
    for name in &names {
        registry.push(&layout, "good", &format!("{name}:v1"));
    }
    proxy.rule(|_| Some(Fault::Delay(Duration::from_secs(1))));
    let images: Vec<String> =
        names.iter().map(|name| format!("{}/{name}:v1", proxy.address())).collect();
    let finished = check(&Mosb::new(), images.iter().map(String::as_str));
    assert_eq!(finished.code(), Some(0), "{}", finished.text());
    assert_eq!(finished.json()["images"].as_array().unwrap().len(), names.len());
    let seen: Vec<_> = proxy.seen().iter().map(|seen| seen.head.path().to_owned()).collect();
    let of = |name: &String| {
        let part = format!("/v2/{name}/");
        let is_of = |path: &String| path.starts_with(&part);
        (seen.iter().position(is_of).unwrap(), seen.iter().rposition(is_of).unwrap())
    };
    let last_begun = names.iter().map(|name| of(name).0).max();
    let first_ended = names.iter().map(|name| of(name).1).min();
    assert!(last_begun < first_ended, "{seen:#?}");
}
