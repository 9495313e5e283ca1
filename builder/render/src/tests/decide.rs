//! What is decided for a pool, and what an object with the wanted name means.

use super::*;
use crate::snapshot::OverridingImage;
use mosb_reconcile::watch::RECOVERED_AFTER;

/// Name of the case, the difference to a settled pool, and the actions.
type Case<'a> = (&'a str, &'a dyn Fn(&mut RenderSnapshot), &'a [&'a str]);

/// The actions, in a few words.
fn words(decision: &RenderDecision) -> Vec<String> {
    if let [question] = decision.lookups[..] {
        return vec![format!("{question:?}")];
    }
    let word = |action: &Action| match action {
        Action::Event(event) => event.reason.to_owned(),
        Action::Create(new) => format!("create {}", &new.name[..16]),
        Action::Patch(_, patch) => {
            format!("move {}", &patch.spec["configuration"]["name"].as_str().unwrap()[..16])
        }
        Action::ReplaceStatus(..) => {
            let conditions = mosb_cluster::object::conditions_in(action).unwrap();
            let ours = conditions.last().unwrap();
            format!("say {}", ours.status)
        }
        Action::Delete(target) => format!("delete {}", target.name),
        other => panic!("{other:?}"),
    };
    decision.actions.iter().map(word).collect()
}

#[test]
fn a_pool_comes_to_the_rendered_config_of_its_machine_configs() {
    let made = |overriding: Option<&str>| {
        Some(Ok(RenderOutput {
            name: NEW.to_owned(),
            object: object(NEW),
            overriding: overriding.map(|image| OverridingImage {
                image: image.to_owned(),
                place: "99-own: spec.osImageURL".to_owned(),
            }),
            pins: Default::default(),
        }))
    };
    let change =
        |snapshot: &mut RenderSnapshot| snapshot.inputs.as_mut().unwrap().members[1].generation = 3;
    let (create, go) = ("create rendered-infra-1", "move rendered-infra-1");
    let cases: &[Case] = &[
        ("nothing changed", &|_| {}, &[]),
        (
            "another controller renders",
            &|snapshot| {
                change(snapshot);
                snapshot.other_renderer = Some("Deployment a/b".to_owned());
            },
            &[],
        ),
        (
            "the pool goes",
            &|snapshot| {
                change(snapshot);
                snapshot.pool.metadata.deletion_timestamp = Some(Time(now()));
            },
            &[],
        ),
        (
            "no selector",
            &|snapshot| {
                change(snapshot);
                snapshot.pool.spec.machine_config_selector = None;
            },
            &[],
        ),
        ("a changed MachineConfig", &change, &["Render"]),
        (
            "a MachineConfig made anew",
            &|snapshot| snapshot.inputs.as_mut().unwrap().members[0].uid = "other".to_owned(),
            &["Render"],
        ),
        (
            "one that is gone",
            &|snapshot| drop(snapshot.inputs.as_mut().unwrap().members.pop()),
            &["Render"],
        ),
        (
            "another role",
            &|snapshot| snapshot.inputs.as_mut().unwrap().members[0].role = "worker".to_owned(),
            &["Render"],
        ),
        (
            "another base image",
            &|snapshot| snapshot.inputs.as_mut().unwrap().settings = json!({}),
            &["Render"],
        ),
        ("the rendered config is gone", &|snapshot| snapshot.rendered.clear(), &["Render"]),
        (
            "the rendered config was edited",
            &|snapshot| snapshot.rendered[0].is_edited = true,
            &["Render"],
        ),
        (
            "somebody let the pool name another one",
            &|snapshot| {
                snapshot.pool.spec.configuration.name = NEW.to_owned();
                snapshot.rendered.push(rendered(NEW, 2));
            },
            &["Render"],
        ),
        (
            "somebody changed the sources",
            &|snapshot| drop(snapshot.pool.spec.configuration.source.pop()),
            &["Render"],
        ),
        (
            "a paused pool",
            &|snapshot| {
                snapshot.pool.spec.paused = true;
                change(snapshot);
            },
            &["Render"],
        ),
        (
            "a new rendered config",
            &|snapshot| {
                change(snapshot);
                snapshot.lookup_results.output = made(None);
            },
            &["RenderedConfigGenerated", create, go],
        ),
        (
            "with an administrator's base",
            &|snapshot| {
                change(snapshot);
                snapshot.lookup_results.output = made(Some("registry.example.com/own@sha256:1"));
            },
            &["RenderedConfigGenerated", "OSImageURLOverridden", create, go],
        ),
        (
            "one that was there before",
            &|snapshot| {
                change(snapshot);
                snapshot.rendered.push(rendered(NEW, 2));
                snapshot.lookup_results.output = made(None);
            },
            &[go],
        ),
        (
            "one that is on its way out",
            &|snapshot| {
                change(snapshot);
                snapshot.rendered.push(rendered(NEW, 2));
                snapshot.rendered[1].deleting = true;
                snapshot.lookup_results.output = made(None);
            },
            &["RenderedConfigGenerated", create, go],
        ),
        (
            "the same content of other inputs",
            &|snapshot| {
                change(snapshot);
                snapshot.lookup_results.output = Some(Ok(RenderOutput {
                    name: OLD.to_owned(),
                    object: object(OLD),
                    overriding: None,
                    pins: [("a:1".to_owned(), "a@sha256:1".to_owned())].into(),
                }));
            },
            &["move rendered-infra-0"],
        ),
        (
            "what can't be rendered",
            &|snapshot| {
                change(snapshot);
                snapshot.lookup_results.output = Some(Err(problem(ErrorClass::InvalidInput)));
            },
            &["say True"],
        ),
        (
            "settings that can't be read",
            &|snapshot| snapshot.inputs = Err(problem(ErrorClass::InvalidInput)),
            &["say True"],
        ),
        (
            "what is mended by taking it back",
            &|snapshot| snapshot.pool.status.conditions[1].status = "True".to_owned(),
            &["say False"],
        ),
        (
            "what is mended by something new",
            &|snapshot| {
                change(snapshot);
                snapshot.pool.status.conditions[1].status = "True".to_owned();
                snapshot.lookup_results.output = made(None);
            },
            &["RenderedConfigGenerated", create, go, "say False"],
        ),
    ];
    for (what, edit, want) in cases {
        let mut snapshot = settled();
        edit(&mut snapshot);
        assert_eq!(words(&decide(&snapshot, now())), *want, "{what}");
    }
}

#[test]
fn a_rendered_config_is_written_completely() {
    let mut snapshot = settled();
    snapshot.inputs.as_mut().unwrap().members[1].generation = 3;
    snapshot.lookup_results.output = Some(Ok(RenderOutput {
        name: NEW.to_owned(),
        object: object(NEW),
        overriding: None,
        pins: [("a:1".to_owned(), "a@sha256:1".to_owned())].into(),
    }));
    let decision = decide(&snapshot, now());
    let Action::Event(event) = &decision.actions[0] else {
        panic!("{decision:?}");
    };
    assert_eq!(event.reason, EventReason::RenderedConfigGenerated.as_str());
    assert_eq!(event.note, format!("{NEW} of 2 MachineConfigs"));
    assert_eq!((event.on.kind, &*event.on.uid), ("MachineConfigPool", POOL));
    let inputs = snapshot.inputs.as_ref().unwrap();
    assert_eq!(decision.actions[1], Action::Create(rendered_object(&object(NEW))));
    let Action::Patch(target, patch) = &decision.actions[2] else {
        panic!("{decision:?}");
    };
    let reference = |name: &str| json!({ "apiVersion": mosb_api::API_VERSION, "kind": "MachineConfig", "name": name });
    let mut configuration = reference(NEW);
    configuration["source"] = json!([reference("00-worker"), reference("50-infra")]);
    for field in ["fieldPath", "namespace", "resourceVersion", "uid"] {
        configuration[field] = Value::Null;
    }
    let want = json!({
        "metadata": { "resourceVersion": "7", "annotations": {
            labels::RENDERED_FROM: inputs.stamp(NEW), labels::PINS: r#"{"a:1":"a@sha256:1"}"#,
        } },
        "spec": { "configuration": configuration },
    });
    assert_eq!((&*target.uid, patch.body(target.version.as_deref())), (POOL, want));
    assert_ne!(inputs.stamp(NEW), inputs.stamp(OLD));
}

#[test]
fn a_problem_is_reported_once_whatever_its_words_are() {
    let mut snapshot = settled();
    snapshot.inputs.as_mut().unwrap().members.clear();
    let wrong = problem(ErrorClass::Transient);
    snapshot.lookup_results.output = Some(Err(wrong.clone()));
    let decision = decide(&snapshot, now());
    assert_eq!(decision.reason, RenderReason::Degraded(wrong.clone()));
    let conditions = mosb_cluster::object::conditions_in(&decision.actions[0]).unwrap();
    let ours = conditions.last().unwrap();
    assert!(ours.matches("True", "InvalidMachineConfigs", &wrong.message));
    snapshot.pool.status.conditions = conditions.clone();

    let again = Problem { message: "50-infra: in other words".to_owned(), ..wrong.clone() };
    let elsewhere = Problem { message: "60-infra: in other words".to_owned(), ..wrong.clone() };
    for (what, earlier, now_wrong, is_written) in [
        ("the same", Some(&wrong), &wrong, false),
        ("in other words", Some(&wrong), &again, false),
        ("after a change of the inputs", None, &again, true),
        ("of another object", Some(&wrong), &elsewhere, true),
    ] {
        snapshot.earlier_problem = earlier
            .map(|earlier| EarlierProblem { cause: earlier.cause(), lasted: Duration::ZERO });
        snapshot.lookup_results.output = Some(Err(now_wrong.clone()));
        let actions = decide(&snapshot, now()).actions;
        assert_eq!(!actions.is_empty(), is_written, "{what}: {actions:?}");
    }
}

#[test]
fn deletions_that_wait_for_a_watch_name_it() {
    let mut snapshot = settled();
    let unused = |n: i64| rendered(&format!("rendered-infra-{n:032}"), 10 + n);
    snapshot.rendered.extend((1..=3).map(unused));
    snapshot.broken_watch = Some("machineosbuilds: away".to_owned());
    let decision = decide(&snapshot, now());
    assert_eq!(decision.reason, RenderReason::Rendered(OLD.to_owned()), "none is unused");
    snapshot.rendered.push(unused(4));
    let decision = decide(&snapshot, now());
    let [action] = &decision.actions[..] else { panic!("{decision:?}") };
    let conditions = mosb_cluster::object::conditions_in(action).unwrap();
    let ours = conditions.last().unwrap();
    assert!(ours.message.contains("machineosbuilds: away"), "{ours:?}");
    assert_eq!(decision.requeue_after, Some(RECOVERED_AFTER), "no event says that it works again");
    snapshot.pool.status.conditions = conditions.clone();
    assert_eq!(decide(&snapshot, now()).actions, [], "said once");
    snapshot.broken_watch = None;
    snapshot.rendered.truncate(1);
    assert_eq!(words(&decide(&snapshot, now())), ["say False"], "it is over");
}

#[test]
fn unreferenced_rendered_configs_are_deleted_except_the_newest() {
    let name = |n: i64| format!("rendered-infra-{n:032}");
    let with = |edit: &dyn Fn(&mut RenderSnapshot)| {
        let mut snapshot = settled();
        snapshot.rendered.extend((1..=5).map(|n| rendered(&name(n), 10 + n)));
        edit(&mut snapshot);
        words(&decide(&snapshot, now()))
    };
    let configs_on_nodes = |names: &[String]| Some(names.iter().cloned().collect());
    let delete = |n: i64| format!("delete {}", name(n));
    let all = configs_on_nodes(&[]);
    for (what, edit, want) in [
        (
            "nodes are asked first",
            &(|_: &mut RenderSnapshot| {}) as &dyn Fn(&mut RenderSnapshot),
            vec!["Nodes".to_owned()],
        ),
        (
            "three stay",
            &|snapshot| snapshot.lookup_results.configs_on_nodes = all.clone(),
            vec![delete(2), delete(1)],
        ),
        (
            "a node has one",
            &|snapshot| snapshot.lookup_results.configs_on_nodes = configs_on_nodes(&[name(1)]),
            vec![delete(2)],
        ),
        (
            "a build or another pool names one",
            &|snapshot| {
                snapshot.named.insert(name(2));
                snapshot.lookup_results.configs_on_nodes = all.clone();
            },
            vec![delete(1)],
        ),
        (
            "a build that names one may be unseen",
            &|snapshot| {
                snapshot.broken_watch = Some("machineosbuilds: away".to_owned());
                snapshot.lookup_results.configs_on_nodes = all.clone();
            },
            vec!["say False".to_owned()],
        ),
        (
            "others' stay",
            &|snapshot| {
                for one in &mut snapshot.rendered[1..3] {
                    one.is_ours = false;
                }
            },
            vec![],
        ),
        (
            "what is being deleted is not a candidate",
            &|snapshot| {
                for one in &mut snapshot.rendered[1..3] {
                    one.deleting = true;
                }
            },
            vec![],
        ),
        (
            "what is to be rendered goes first",
            &|snapshot| snapshot.rendered[0].is_edited = true,
            vec!["Render".to_owned()],
        ),
    ] {
        assert_eq!(with(edit), want, "{what}");
    }
}

#[test]
fn an_existing_rendered_config_is_checked_for_content_and_owner() {
    let object = |spec: &str, uid: Option<&str>| {
        let owner = |uid: &str| json!([{ "apiVersion": mosb_api::API_VERSION, "kind": "MachineConfigPool", "name": "infra", "uid": uid, "controller": true }]);
        json!({ "apiVersion": mosb_api::API_VERSION, "kind": "MachineConfig",
            "metadata": { "name": NEW, "ownerReferences": uid.map(owner) }, "spec": { "osImageURL": spec } })
    };
    let wanted = object("a", Some(POOL));
    let judged =
        |there: Value| match compare_rendered(&serde_json::from_value(there).unwrap(), &wanted) {
            Existing::Same => "fine",
            Existing::Outdated => "leaving",
            Existing::Problem(problem) => {
                assert!(problem.message.contains(NEW), "{problem:?}");
                assert_eq!(problem.class, ErrorClass::InvalidInput);
                "clash"
            }
            Existing::NotOurs => "not ours",
        };
    let mut deleted = wanted.clone();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for (what, there, want) in [
        ("ours", wanted.clone(), "fine"),
        ("somebody applied the same", object("a", None), "fine"),
        ("an earlier pool's", object("a", Some("uid-before")), "leaving"),
        ("deleted", deleted, "leaving"),
        ("another content", object("b", Some(POOL)), "clash"),
    ] {
        assert_eq!(judged(there), want, "{what}");
    }
}
