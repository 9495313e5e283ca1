//! Alerts and dashboard of `deploy/monitoring`: they name what the controller exports, fire when
//! they should, and a real Prometheus reads it all from a real controller.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use mosb_api::MachineOsBuild;
use mosb_api::boot_images::ManagedKind;
use mosb_build::JobMethod;
use mosb_cluster::gate::Gate;
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_controller::builds::{Action, Attempt, BuildEffect, PreparedUse, Snapshot, new_object};
use mosb_controller::machine_sets::BootImageFigures;
use mosb_controller::metrics::Metrics;
use mosb_controller::rollout::{
    Blocked, EndedPhase, MachinePhase, MachineProgress, MachineStatus, PoolStatus, RolloutReason,
};
use serde_json::{Value, json};

use crate::test_cluster::{Cluster, SOON};
use mosb_tests::{ask, run, wait};

mod expression;
pub mod prometheus;

use expression::selectors;
use prometheus::Prometheus;

const ALERTS: &str = include_str!("../../../deploy/monitoring/alerts.yaml");
const DASHBOARD: &str = include_str!("../../../deploy/monitoring/dashboard.json");
const WHAT_FIRES: &str = include_str!("../../../testdata/monitoring/alerts.yaml");

/// Names of labels and their values, by name of the metric.
type Exported = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// What a text of `/metrics` holds, and the families that it declares.
fn read(text: &str) -> (Exported, BTreeSet<String>) {
    let (mut exported, mut families) = (Exported::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            families.insert(declared.split(' ').next().unwrap().to_owned());
        }
        if line.starts_with('#') {
            continue;
        }
        let one = selectors(line.rsplit_once(' ').unwrap().0).remove(0);
        let labels = exported.entry(one.metric).or_default();
        for (label, _, value) in one.matchers {
            labels.entry(label).or_default().insert(value);
        }
    }
    (exported, families)
}

/// A cluster in which everything is counted.
fn everything() -> Metrics {
    let metadata =
        json!({"name": "worker-b", "uid": "b", "creationTimestamp": "2026-01-01T00:00:00Z"});
    let new: MachineOsBuild =
        serde_json::from_value(json!({"metadata": metadata.clone()})).unwrap();
    let ended: MachineOsBuild = serde_json::from_value(json!({"metadata": metadata, "status": {
        "conditions": [{"type": "Succeeded", "status": "True"}],
        "buildStart": "2026-01-01T00:00:01Z", "buildEnd": "2026-01-01T00:00:03Z",
    }}))
    .unwrap();
    let result = json!({
        "build": format!("worker-{:032x}", 1), "outcome": "Succeeded", "digest": format!("sha256:{:064x}", 1), "method": "direct",
    });
    let pool = json!({"metadata": {"name": "worker"}});
    let mut cluster = Snapshot {
        name: "worker".to_owned(),
        config: serde_json::from_value(pool.clone()).unwrap(),
        pool: serde_json::from_value(pool).unwrap(),
        results: [("worker-b".to_owned(), serde_json::from_value(result).unwrap())].into(),
        builds: vec![new.clone()],
        ..Snapshot::default()
    };
    let metrics = Metrics::default();
    let steps = [
        Action::Create(new_object::build(&new)),
        Action::Effect(BuildEffect::CreateWorkload(Attempt {
            build: "worker-b".to_owned(),
            build_uid: "b".to_owned(),
            number: 2,
            builder: mosb_api::ImageBuilderType::Job,
            method: JobMethod::Direct,
            prepared: PreparedUse::Without,
        })),
        object::replace_status(kinds::MACHINE_OS_BUILD, &ended.metadata, &ended.status),
    ];
    metrics.builds.record_actions(&cluster, &steps);
    cluster.builds = vec![ended];
    metrics.builds.observe(&cluster);
    for reason in Gate::HELD {
        let pool = json!({"metadata": {"name": reason}});
        let mut config = pool.clone();
        config["status"]["conditions"] =
            json!([{"type": "ImageInService", "status": "False", "reason": reason}]);
        metrics.builds.observe(&Snapshot {
            name: reason.to_owned(),
            config: serde_json::from_value(config).unwrap(),
            pool: serde_json::from_value(pool).unwrap(),
            ..Snapshot::default()
        });
    }
    metrics.builds.reconciled(Duration::from_secs(1), Some("denied"));
    let since = "2026-01-01T00:00:00Z".parse().unwrap();
    let machine = MachineStatus {
        progress: MachineProgress::Draining,
        slot_since: Some(since),
        ..MachineStatus::default()
    };
    let blocked = Blocked { reason: "MachineLost", message: String::new() };
    let reason = RolloutReason::Blocked(blocked);
    let status = PoolStatus { reason, machines: vec![machine], ring: None, next_window: None };
    metrics.rollout.set("worker", &status);
    metrics.user_data.set("worker", "worker", Some("NoSecret"));
    let sets = [((ManagedKind::MachineApiMachineSets, "current"), 1)].into();
    metrics.boot_images.set(&BootImageFigures { sets, ..BootImageFigures::default() });
    metrics.bases.set_age("worker", Some(since), since);
    metrics.bases.set_newer("worker", Some(true));
    metrics.bases.overridden.set("worker", "worker", Some("OlderThanRelease"));
    for phase in MachinePhase::ALL {
        metrics.rollout.record_phase("worker", &EndedPhase { phase, took: Duration::from_secs(1) });
    }
    metrics
}

/// A regular expression of an alert is a list of values.
#[test]
fn every_value_that_an_alert_lists_exists() {
    let (exported, _) = read(&everything().text());
    let mut lists = 0;
    for (name, expression) in alerts() {
        for one in selectors(&expression) {
            for (label, _, values) in one.matchers.iter().filter(|matcher| matcher.1 == "=~") {
                let known = &exported[&one.metric][label];
                let unknown: Vec<_> =
                    values.split('|').filter(|one| !known.contains(*one)).collect();
                assert!(unknown.is_empty(), "{name}: {unknown:?} of {label}");
                lists += 1;
            }
        }
    }
    assert_eq!(lists, 3);
}

/// The alerts of a roll-out lead to sections that say what to do.
#[test]
fn sections_that_descriptions_name_exist() {
    let document = include_str!("../../../docs/rollout.md");
    let rules = rules();
    let mut found = 0;
    for rule in rules["groups"][0]["rules"].as_array().unwrap() {
        let text = rule["annotations"]["description"].as_str().unwrap();
        let Some((_, rest)) = text.split_once("docs/rollout.md, \"") else {
            continue;
        };
        let title = rest.split('"').next().unwrap();
        let is_title = |line: &str| line.trim_start_matches('#').trim() == title;
        let mut lines = document.lines().filter(|line| line.starts_with('#'));
        assert!(lines.any(is_title), "{}: {title}", rule["alert"]);
        found += 1;
    }
    assert_eq!(found, 3);
}

/// The expressions of all alerts.
fn alerts() -> Vec<(String, String)> {
    let rules = rules();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rules.iter().map(|rule| (text(&rule["alert"]), text(&rule["expr"]))).collect()
}

/// As a Prometheus without its operator reads it.
fn rules() -> Value {
    let object: Value = serde_saphyr::from_str(ALERTS).unwrap();
    assert_eq!(object["kind"], "PrometheusRule");
    object["spec"].clone()
}

/// The panels' expressions as Grafana asks them, with the labels that their legends name.
fn panels() -> Vec<(String, String, Vec<String>)> {
    let board: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut all = Vec::new();
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let expression = expression.replace("$pool", ".*").replace("$__rate_interval", "5m");
            assert!(!expression.contains('$'), "{expression}");
            let legend = target["legendFormat"].as_str().unwrap();
            let named = legend.split("{{").skip(1);
            let named = named.map(|rest| rest.split("}}").next().unwrap().to_owned());
            let title = panel["title"].as_str().unwrap().to_owned();
            all.push((title, expression, named.collect()));
        }
    }
    all
}

#[test]
fn expressions_use_exported_metrics_and_all_of_them() {
    let text = everything().text();
    let (exported, families) = read(&text);
    let idle: Vec<_> = families
        .iter()
        .filter(|family| !exported.keys().any(|name| name.starts_with(*family)))
        .collect();
    assert!(idle.is_empty(), "not counted here: {idle:?}\n{text}");

    let all = alerts().into_iter().map(|(name, expression)| (name, expression, Vec::new()));
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for (what, expression, legend) in all.chain(panels()) {
        let found = selectors(&expression);
        assert!(!found.is_empty(), "{what}: {expression}");
        let mut exported_labels = BTreeSet::new();
        for one in &found {
            let Some(labels) = exported.get(&one.metric) else {
                wrong.push(format!("{what}: there is no {}", one.metric));
                continue;
            };
            used.insert(one.metric.clone());
            exported_labels.extend(labels.keys().cloned());
            for (label, operator, value) in &one.matchers {
                let known = labels.get(label);
                if known.is_none() || operator == "=" && !known.unwrap().contains(value) {
                    wrong.push(format!("{what}: {} never has {label}={value}", one.metric));
                }
            }
        }
        let grouped = expression::grouping(&expression);
        let strange = |label: &&String| !exported_labels.contains(*label);
        wrong.extend(
            grouped.iter().filter(strange).map(|label| format!("{what}: no metric has {label}")),
        );
        // What a legend shows is left by the grouping.
        let lost = legend.iter().filter(|label| !grouped.contains(*label));
        wrong.extend(lost.map(|label| format!("{what}: the legend's {label} is grouped away")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unused: Vec<_> = families
        .iter()
        .filter(|family| !used.iter().any(|name| name.starts_with(*family)))
        .collect();
    assert!(unused.is_empty(), "neither watched nor shown: {unused:?}");
}

#[test]
fn every_metric_and_every_alert_is_documented() {
    let document = include_str!("../../../docs/operations.md");
    let (exported, families) = read(&everything().text());
    for name in exported.keys() {
        // A histogram goes by its family's name.
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| families.get(name.strip_suffix(end)?));
        let name = family.unwrap_or(name);
        assert!(document.contains(&format!("`{name}`")), "{name}");
    }
    for (name, _) in alerts() {
        assert!(document.contains(&format!("| `{name}` |")), "{name}");
    }
}

#[test]
fn alerts_fire_when_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("rules.yaml"), rules().to_string()).unwrap();
    fs::write(path("tests.yaml"), WHAT_FIRES).unwrap();
    run("promtool", ["check", "rules", "--lint=all", "--lint-fatal", &path("rules.yaml")]);
    run("promtool", ["test", "rules", &path("tests.yaml")]);
    let untested: Vec<_> = alerts()
        .into_iter()
        .filter(|(name, _)| !WHAT_FIRES.contains(&format!("alertname: {name}")))
        .collect();
    assert!(untested.is_empty(), "{untested:?}");
}

/// As long as a pool's machines are not counted, both gauges are 0, which does not say how many
/// wait.
#[test]
fn waiting_machines_are_shown_where_they_count() {
    let panels = panels();
    let (_, expression, _) =
        panels.iter().find(|(title, ..)| title == "Machines that wait for their image").unwrap();
    let tests: Vec<Value> = [
        ("nobody counts", [("worker", 0, 0), ("infra", 0, 0)], None),
        ("two wait", [("worker", 3, 1), ("infra", 0, 0)], Some(2)),
        ("none waits", [("worker", 3, 3), ("infra", 2, 2)], Some(0)),
    ]
    .into_iter()
    .map(|(name, pools, want)| {
        let series = pools.iter().flat_map(|(pool, total, updated)| {
            [("total", total), ("updated", updated)].map(|(what, count)| {
                json!({ "series": format!("ocl_rollout_{what}_nodes{{pool=\"{pool}\"}}"), "values": format!("{count}x5") })
            })
        });
        let samples = want.map(|value| json!({ "labels": "{}", "value": value }));
        json!({ "name": name, "interval": "1m", "input_series": series.collect::<Vec<_>>(), "promql_expr_test": [
            { "expr": expression, "eval_time": "2m", "exp_samples": samples.into_iter().collect::<Vec<_>>() } ] })
    })
    .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.yaml");
    fs::write(&path, json!({ "tests": tests }).to_string()).unwrap();
    run("promtool", ["test", "rules", &path.display().to_string()]);
}

#[test]
fn a_real_prometheus_reads_a_real_controller() {
    let mut cluster = Cluster::new("monitoring");
    cluster.render("one");
    cluster.start();
    let log = cluster.log();
    let listening = log.split("listening on ").nth(1).unwrap();
    let end = listening.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':').unwrap();
    let address = listening[..end].to_owned();
    let folder = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::start(folder.path(), &rules(), &address);
    wait("a leader", SOON, || (!prometheus.query("mosb_leader == 1").is_empty()).then_some(()));
    cluster.opt_in(None);
    let first = cluster.image_after("");
    cluster.render("two");
    cluster.image_after(&first);

    // The text itself: every name and every label as in `everything`.
    let text = ask(&address, "GET /metrics HTTP/1.0").unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    let (real, _) = read(body);
    let (all, _) = read(&everything().text());
    for (metric, labels) in &real {
        let known = all.get(metric).unwrap_or_else(|| panic!("{metric}"));
        assert!(labels.keys().eq(known.keys()), "{metric}: {labels:?}");
    }
    let missing: Vec<_> = all.keys().filter(|name| !real.contains_key(*name)).collect();
    // Nothing went wrong, and this controller neither rolls out nor keeps boot images.
    let may_lack = |name: &str| {
        [
            "ocl_build_retries_total",
            "mosb_errors_total",
            "mosb_user_data_refused",
            "mosb_image_held",
            // The base of these tests does not say when it was made, and is not followed.
            "mosb_base_age_seconds",
            "mosb_base_newer",
            "mosb_os_overridden",
        ]
        .contains(&name)
            || name.starts_with("mosb_rollout_")
            || name.starts_with("mosb_boot_image_")
    };
    assert!(missing.iter().all(|name| may_lack(name)), "{missing:?}");

    wait("both builds", SOON, || {
        let seen = format!("ocl_build_total{{pool=\"{}\",state=\"succeeded\"}} == 2", cluster.pool);
        (!prometheus.query(&seen).is_empty()).then_some(())
    });
    for (title, expression, _) in panels() {
        // Nothing went wrong, a Job that succeeded is gone, and neither machines nor their sets are
        // counted.
        let quiet = [
            "retries",
            "errors",
            "job_state",
            "push_state",
            "total_nodes{pool=~\".*\"}) > 0",
            "mosb_rollout_",
            "mosb_boot_image_",
        ];
        let quiet = quiet.iter().any(|part| expression.contains(part));
        if !quiet {
            // A rate needs two scrapes.
            wait(&format!("{title}: {expression}"), SOON, || {
                (!prometheus.query(&expression).is_empty()).then_some(())
            });
        }
    }
    // A scrape that a busy machine missed is forgotten by the next one.
    wait("no alert", SOON, || {
        let alerts = &prometheus.ask("alerts")["alerts"];
        let is_quiet = *alerts == json!([]);
        if !is_quiet {
            println!("{alerts}");
        }
        is_quiet.then_some(())
    });
    let rules = prometheus.ask("rules");
    for rule in rules["groups"][0]["rules"].as_array().unwrap() {
        assert_eq!(rule["health"], "ok", "{rule}");
    }

    cluster.stop();
    wait("the alert MosbNoLeader", SOON, || {
        let alerts = prometheus.ask("alerts");
        let mut alerts = alerts["alerts"].as_array()?.iter();
        alerts.find(|alert| alert["labels"]["alertname"] == "MosbNoLeader").map(drop)
    });
}
