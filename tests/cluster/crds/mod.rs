//! The CRDs of `deploy/crds` beside those that OpenShift publishes. `testdata/crds/differences` lists
//! what differs. Where a rule is worded in another way, a real API server takes and refuses the same
//! by both, on copies in API groups of their own.
//!
//! Rows are those of `docs/reference/behaviours.md`; `docs/reference/api.md` explains the rules.

mod differences;
mod refusals;
mod verdict;

use std::time::Duration;

use serde_json::json;

use mosb_tests::{PUBLISHED_KINDS, deployed_crd, node, published_crd, wait};
use verdict::{OURS, REAL, apply, ask, good, same_verdicts, same_verdicts_on, set};

/// Names, good and bad, up to one character more than fits.
fn names() -> Vec<String> {
    let parts = ["a", "b", "c", "d"].map(|letter| letter.repeat(63)).join(".");
    let fixed = [
        "a",
        "9",
        "a-b.c",
        "A1",
        "a-B.c",
        "",
        "-a",
        "a-",
        "a..b",
        "a.",
        ".a",
        "a_b",
        "ä",
        "a b",
        "1s",
        "rendered-a",
        "rendered-",
        "Rendered-crds",
    ];
    let long =
        [63, 64, 253].into_iter().flat_map(|length| ["a".repeat(length), "A".repeat(length)]);
    let more = ["a".repeat(254), parts[..253].to_owned(), format!("{}x", &parts[..253])];
    fixed.map(str::to_owned).into_iter().chain(long).chain(more).collect()
}

#[test]
fn names_are_taken_as_by_the_published() {
    for (plural, place, rest) in [
        ("machineosbuilds", "/spec/machineConfig", json!({})),
        ("machineosbuilds", "/spec/machineOSConfig", json!({})),
        ("machineosconfigs", "/spec/renderedImagePushSecret", json!({})),
        ("machineosconfigs", "/spec/baseImagePullSecret", json!({})),
        ("machineconfigpools", "/spec/osImageStream", json!({})),
        ("machineconfigpools", "/status/osImageStream", json!({})),
        ("machineosconfigs", "/status/machineOSBuild", json!({ "group": "a", "resource": "jobs" })),
    ] {
        let with = |name: String| {
            let mut object = rest.clone();
            object["name"] = json!(name);
            object
        };
        same_verdicts_on(plural, place, names().into_iter().map(with));
    }
    let set = |name: String| json!([{ "name": name }]);
    same_verdicts_on("machineconfigpools", "/spec/pinnedImageSets", names().into_iter().map(set));
    for field in ["group", "resource", "name", "namespace"] {
        let reference = |name: String| {
            let mut one = json!({ "group": "batch", "resource": "jobs", "name": "a" });
            one[field] = json!(name);
            one
        };
        let all = || names().into_iter().map(reference);
        same_verdicts_on("machineosconfigs", "/status/machineOSBuild", all());
        same_verdicts_on(
            "machineosbuilds",
            "/status/relatedObjects",
            all().map(|one| json!([one])),
        );
        let builder = |job| json!({ "imageBuilderType": "Job", "job": job });
        same_verdicts_on("machineosbuilds", "/status/builder", all().map(builder));
    }
}

/// Row 2.
#[test]
fn push_specs_are_taken_as_by_the_published() {
    let most = format!("a.example/{}:v", "n".repeat(447 - 12));
    let component = "c".repeat(61);
    let images = [
        "registry.test.example.local:5000/test/custom-os-image:v0.1",
        "foo.bar",
        "127.0.0.1:5000/os:v1",
        "registry.example.com/a/b/c/d/os:v1",
        "registry.example.com/os.with.dots_and-more:V_1.a-b",
        "registry.example.com/UPPER/-os:v1",
        "registry.example.com/os",
        "registry.example.com/os:",
        "registry.example.com/os:v1@sha256:0",
        "registry.example.com/my.team/os:v1",
        "registry.example.com//os:v1",
        "registry.example.com:1/os:v1",
        "registry.example.com:123456/os:v1",
        "localhost:5000/os:v1",
        "my_registry.example.com/os:v1",
        "https://registry.example.com/os:v1",
        "",
        &most,
        &format!("{most}1"),
        &format!("a.example/{component}/os:v1"),
        &format!("a.example/{component}c/os:v1"),
        // The second form, which takes nearly anything.
        "image-registry.openshift-image-registry.svc:5000/ns/os:v1",
        "a_b.c_d.svc:5/name space/os@sha256:0",
        "a_b.c_d.svc/ns/os:v1",
        "a_b.c_d.svc:5000/os:v1",
        "a_b.c_d.svc:5000/ns/more/os:v1",
    ];
    for plural in ["machineosconfigs", "machineosbuilds"] {
        same_verdicts_on(plural, "/spec/renderedImagePushSpec", images.map(|image| json!(image)));
    }
}

/// Ours take nested repositories, and the published ones don't.
#[test]
fn digests_are_taken_as_by_the_published() {
    let hex = "0123456789abcdef".repeat(4);
    let most = format!("a.example/{}@sha256:{hex}", "n".repeat(447 - 72 - 10));
    let images = [
        format!("registry.example.com/os@sha256:{hex}"),
        format!("registry.example.com:5000/acme/os@sha256:{hex}"),
        format!("registry.example.com//os@sha256:{hex}"),
        format!("registry.example.com/@sha256:{hex}"),
        format!("registry.example.com@sha256:{hex}"),
        format!("registry.example.com/os:v1@sha256:{hex}"),
        format!("registry.example.com/my.team/os@sha256:{hex}"),
        format!("my_registry.example.com/os@sha256:{hex}"),
        format!("localhost/os@sha256:{hex}"),
        format!("registry.example.com/os@sha256:{}", hex.to_uppercase()),
        format!("registry.example.com/os@sha256:{hex}0"),
        format!("registry.example.com/os@sha512:{hex}"),
        format!("registry.example.com/os@sha256:{hex}@sha256:{hex}"),
        "registry.example.com/os:v1".to_owned(),
        String::new(),
        format!("a{most}"),
        most,
    ];
    let nested = json!(format!("registry.example.com/a/b/c/d/os@sha256:{hex}"));
    for (plural, place) in [
        ("machineosconfigs", "/status/currentImagePullSpec"),
        ("machineosbuilds", "/status/digestedImagePushSpec"),
    ] {
        same_verdicts_on(plural, place, images.iter().map(|image| json!(image)));
        let mut object = good(plural, OURS, "crds-nested");
        object = ask("POST", OURS, plural, &object, "").unwrap();
        set(&mut object, place, nested.clone());
        let taken =
            ask("PUT", OURS, &format!("{plural}/crds-nested/status?dryRun=All"), &object, place);
        assert_eq!(taken.as_ref(), Ok(&nested));
    }
}

/// Row 7.
#[test]
fn conditions_freeze_as_by_the_published() {
    let one = |kind: &str, status: &str, time: &str| {
        json!({ "type": kind, "status": status, "reason": "Because", "message": "",
            "lastTransitionTime": time })
    };
    let (time, elsewhere) = ("2026-01-02T03:04:05Z", "2026-01-02T05:04:05+02:00");
    let two = |kind, status| json!([one("Building", "False", time), one(kind, status, time)]);
    let mut cases = Vec::new();
    for kind in ["Failed", "Interrupted", "Succeeded", "Prepared"] {
        let over = two(kind, "True");
        let mut reason = over.clone();
        reason[1]["reason"] = json!("Other");
        let (first, last) = (over[0].clone(), over[1].clone());
        let more = json!([first, last, one("New", "True", time)]);
        let again = json!([first, one(kind, "True", elsewhere)]);
        for new in [&over, &two(kind, "False"), &reason, &more, &json!([last, first]), &again] {
            cases.push((over.clone(), new.clone()));
        }
        cases.push((over.clone(), json!([])));
        cases.push((two(kind, "False"), over.clone()));
        cases.push((two(kind, "Unknown"), two(kind, "False")));
    }
    same_verdicts("machineosbuilds", "/status/conditions", &cases);
}

/// Rows 5 and 6, and statuses whose parts depend on each other.
#[test]
fn statuses_are_taken_as_by_the_published() {
    let times = |start: &str, end: &str| match (start, end) {
        ("", "") => json!({}),
        ("", end) => json!({ "buildEnd": end }),
        (start, "") => json!({ "buildStart": start }),
        (start, end) => json!({ "buildStart": start, "buildEnd": end }),
    };
    let ten = "2026-01-02T10:00:00Z";
    let mut cases = Vec::new();
    for (start, end) in [
        (ten, "2026-01-02T11:00:00Z"),
        (ten, "2026-01-02T09:00:00Z"),
        (ten, ten),
        (ten, "2026-01-02T10:00:00.000001Z"),
        ("2026-01-02T12:00:00+02:00", ""),
        ("2026-01-02T11:00:00Z", ""),
        ("", ten),
        ("ten", ""),
        ("", ""),
    ] {
        cases.push((times("", ""), times(start, end)));
        cases.push((times(ten, ""), times(start, end)));
        cases.push((times(ten, "2026-01-02T11:00:00Z"), times(start, end)));
    }
    same_verdicts("machineosbuilds", "/status", &cases);

    let job = json!({ "group": "batch", "resource": "jobs", "namespace": "a", "name": "build" });
    let builders = [
        json!({ "imageBuilderType": "Job", "job": job }),
        json!({ "imageBuilderType": "Job" }),
        json!({ "imageBuilderType": "Homemade" }),
        json!({ "imageBuilderType": "Homemade", "job": job }),
        json!({ "job": job }),
    ];
    same_verdicts_on("machineosbuilds", "/status/builder", builders.clone());
    let by_job = |new| (builders[0].clone(), new);
    same_verdicts("machineosbuilds", "/status/builder", &builders.clone().map(by_job));

    let generation = |old: i64, new: i64| (json!(old), json!(new));
    let generations = [generation(5, 6), generation(5, 5), generation(5, 4), generation(5, 0)];
    same_verdicts("machineosconfigs", "/status/observedGeneration", &generations);

    let sync = |counts: [i64; 6]| {
        json!([{ "poolSynchronizerType": "PinnedImageSets", "machineCount": counts[0],
            "updatedMachineCount": counts[1], "availableMachineCount": counts[2],
            "readyMachineCount": counts[3], "unavailableMachineCount": counts[4],
            "observedGeneration": counts[5] }])
    };
    let good = [3, 1, 2, 2, 1, 5];
    let mut cases = Vec::new();
    for (at, value) in
        [(1, -1), (1, 4), (2, 4), (3, 3), (3, 4), (4, 4), (5, 6), (5, 4), (5, 0), (0, 3)]
    {
        let mut counts = good;
        counts[at] = value;
        cases.push((sync(good), sync(counts)));
    }
    cases.push((sync(good), sync([3, 1, 2, 2, 1, 5])));
    same_verdicts("machineconfigpools", "/status/poolSynchronizersStatus", &cases);
}

#[test]
fn specs_change_as_by_the_published() {
    let config = |name: &str| json!({ "name": name });
    let same = config("rendered-crds-1");
    let changes = [(same.clone(), same.clone()), (same, config("rendered-crds-2"))];
    same_verdicts("machineosbuilds", "/spec/machineConfig", &changes);
}

/// Row 3. Only a name that was stored before the rule was can be another one than the pool's.
#[test]
fn stored_names_stay_as_by_the_published() {
    const CONFIGS: &str = "machineosconfigs";
    const RULE: &str = "self.metadata.name == self.spec";
    let of_pool = |group: &str, name: &str, pool: &str| {
        let mut object = good(CONFIGS, group, name);
        object["spec"]["machineConfigPool"]["name"] = json!(pool);
        object
    };
    for (crd, group) in [
        (published_crd(CONFIGS), "old-published.mosb.test"),
        (deployed_crd(CONFIGS), "old-ours.mosb.test"),
    ] {
        let strict = crd.to_string().replace(REAL, group);
        assert_eq!(strict.matches(RULE).count(), 1, "{strict}");
        apply(&strict.replace(RULE, &format!("true || {RULE}")));
        let there = ask("POST", group, CONFIGS, &of_pool(group, "first", "second"), "").unwrap();
        apply(&strict);
        let dry = format!("{CONFIGS}?dryRun=All");
        wait("the rule", Duration::from_secs(120), || {
            ask("POST", group, &dry, &of_pool(group, "third", "second"), "").err()
        });
        let target = format!("{CONFIGS}/first?dryRun=All");
        let change = |place: &str, value: &str| {
            let mut object = there.clone();
            set(&mut object, place, json!(value));
            ask("PUT", group, &target, &object, "").is_ok()
        };
        assert!(change("/spec/renderedImagePushSpec", "a.example/os:v2"), "{group}");
        let to_pool = |pool| change("/spec/machineConfigPool/name", pool);
        assert_eq!(["third", "first"].map(to_pool), [false, true], "{group}");
    }
}

/// The columns tell the story of a build; the published CRD has only its conditions.
#[test]
fn columns_show_where_a_build_stands() {
    node().install_kinds();
    let base = format!("quay.io/acme/base@sha256:{}", "0".repeat(64));
    let mut build = good("machineosbuilds", REAL, "crds-columns");
    build["metadata"]["labels"] = json!({ format!("{REAL}/target-machine-config-pool"): "a-pool" });
    build["metadata"]["annotations"] =
        json!({ "mosb.dev/method": "direct", "mosb.dev/base": base });
    node().apply(&build.to_string());
    let shown = node().kubectl(&["get", "machineosbuild", "crds-columns", "--output=wide"]);
    let shown = shown.ok().text();
    node().kubectl(&["delete", "machineosbuild", "crds-columns"]).ok();
    for value in ["a-pool", "direct", &base] {
        assert!(shown.split_whitespace().any(|word| word == value), "{value}: {shown}");
    }
    // The API server says of a schema that it could not use in this condition.
    for kind in PUBLISHED_KINDS {
        let crd = node().get(&format!("crd/{kind}.{REAL}"));
        let conditions = crd["status"]["conditions"].as_array().unwrap();
        assert!(
            conditions.iter().all(|one| one["type"] != "NonStructuralSchema"),
            "{conditions:?}"
        );
    }
}
