//! What may be a target.

use super::fleet::*;
use super::machine_parts::with_part;
use crate::decide::RolloutDecision;
use crate::desired_target::Desired;
use crate::effect::{Action, RolloutEffect};
use crate::job_request::LoginGrant;
use mosb_api::rollout::RolloutMode;
use mosb_api::{MachineOsBuild, labels};

fn desired(edit: impl FnOnce(&mut Fleet)) -> Desired {
    let mut fleet = Fleet::new(1);
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.serve("worker", 2);
    edit(&mut fleet);
    Desired::of(&fleet.snapshot("worker"))
}

fn words(desired: &Desired) -> String {
    match desired {
        Desired::Nothing => "nothing".to_owned(),
        Desired::LookUp(lookup) => format!("{lookup:?}"),
        Desired::Pending => "pending".to_owned(),
        Desired::Unknown(problem) => problem.message.clone(),
        Desired::Invalid(error) => error.reason.to_owned(),
        Desired::Target(target) => target.build.name.clone(),
    }
}

type Edit = fn(&mut Fleet);

/// Build 2 as one of a pre-built image.
fn make_pre_built(fleet: &mut Fleet) -> &mut MachineOsBuild {
    let build = fleet.builds.iter_mut().find(|one| one.metadata.name == "build-2").unwrap();
    build.metadata.labels.insert(labels::PRE_BUILT_IMAGE.to_owned(), "true".to_owned());
    build
}

fn push_elsewhere(fleet: &mut Fleet) {
    let spec = &mut fleet.configs.get_mut("worker").unwrap().spec;
    spec.rendered_image_push_spec = "reg.example/elsewhere:latest".to_owned();
}

#[test]
fn a_target_is_of_this_pool_or_there_is_none() {
    let cases: &[(&str, Edit, &str)] = &[
        ("in service", |_| {}, "build-2"),
        (
            "not built yet",
            |fleet| {
                let status = &mut fleet.configs.get_mut("worker").unwrap().status;
                status.current_image_pull_spec.clear();
            },
            "nothing",
        ),
        (
            "an image by tag",
            |fleet| {
                let status = &mut fleet.configs.get_mut("worker").unwrap().status;
                status.current_image_pull_spec = "reg.example/os:latest".to_owned();
            },
            "ImageNotOurs",
        ),
        (
            "an image of no build",
            |fleet| {
                let status = &mut fleet.configs.get_mut("worker").unwrap().status;
                status.current_image_pull_spec = image(9).to_string();
            },
            "ImageNotOurs",
        ),
        (
            "a build of another instance of the config",
            |fleet| {
                fleet.configs.get_mut("worker").unwrap().metadata.uid = Some("other".to_owned());
            },
            "ImageNotOurs",
        ),
        ("outside the push repository", push_elsewhere, "ImageNotOurs"),
        (
            "a pre-built image was never pushed by mosb",
            |fleet| {
                push_elsewhere(fleet);
                make_pre_built(fleet);
            },
            "build-2",
        ),
        (
            "a failed build",
            |fleet| {
                fleet.builds.iter_mut().for_each(|build| build.status.conditions.clear());
            },
            "ImageNotOurs",
        ),
        ("pinned", |fleet| fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string()), "build-1"),
        (
            "pinned to no build",
            |fleet| {
                fleet.annotate(labels::ROLLOUT_BUILD, &pin(9).to_string());
            },
            "PinNotFound",
        ),
        (
            "pinned to a build that has another image now",
            |fleet| {
                let digest = image(9).digest();
                fleet.annotate(labels::ROLLOUT_BUILD, &format!("build-1@{digest}"));
            },
            "PinChanged",
        ),
        ("no pin", |fleet| fleet.annotate(labels::ROLLOUT_BUILD, "build-1"), "BadAnnotation"),
        ("no mode", |fleet| fleet.annotate(labels::ROLLOUT, "yes"), "BadAnnotation"),
        (
            "nobody waits for a target",
            |fleet| {
                fleet.annotate(labels::ROLLOUT, "none");
                fleet.annotate(labels::ROLLOUT_BUILD, &pin(9).to_string());
            },
            "nothing",
        ),
        (
            "once",
            |fleet| {
                fleet.annotate(labels::ROLLOUT, "none");
                fleet.annotate(labels::ROLLOUT_ONCE, &pin(1).to_string());
            },
            "build-1",
        ),
        (
            "a pin comes before once",
            |fleet| {
                fleet.annotate(labels::ROLLOUT_BUILD, &pin(2).to_string());
                fleet.annotate(labels::ROLLOUT_ONCE, &pin(1).to_string());
            },
            "build-2",
        ),
        (
            "in the history",
            |fleet| {
                fleet.settle();
                fleet.builds.clear();
            },
            "build-2",
        ),
        (
            "pinned to one of the history, whose build was deleted",
            |fleet| {
                fleet.settle();
                fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
                fleet.builds.clear();
            },
            "build-1",
        ),
        (
            "in the history, after the push repository changed",
            |fleet| {
                fleet.settle();
                push_elsewhere(fleet);
                fleet.builds.clear();
            },
            "ImageNotOurs",
        ),
        (
            "pinned to one of the history outside the push repository, whose build was deleted",
            |fleet| {
                fleet.settle();
                fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
                push_elsewhere(fleet);
                fleet.builds.clear();
            },
            "ImageNotOurs",
        ),
        (
            "pinned to one of the history that names another repository than its build",
            |fleet| {
                fleet.settle();
                fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
                let record = &fleet.configs["worker"].metadata.annotations[labels::HISTORY];
                let record = record.replace("reg.example/os@", "reg.example/elsewhere@");
                fleet.annotate(labels::HISTORY, &record);
            },
            "build-1",
        ),
        (
            "in the history, and adopted from a pre-built image of the pool",
            |fleet| {
                fleet.settle();
                push_elsewhere(fleet);
                make_pre_built(fleet).metadata.name = "seed".to_owned();
            },
            "build-2",
        ),
        (
            "in the history, and the pre-built image of another MachineOSConfig",
            |fleet| {
                fleet.settle();
                push_elsewhere(fleet);
                let seed = make_pre_built(fleet);
                seed.metadata.name = "seed".to_owned();
                seed.metadata.owner_references[0].uid = "other".to_owned();
            },
            "ImageNotOurs",
        ),
        (
            "deleted and never rolled out",
            |fleet| {
                fleet.annotate(labels::ON_DELETE, "stock");
                let now = fleet.now;
                let metadata = &mut fleet.configs.get_mut("worker").unwrap().metadata;
                metadata.deletion_timestamp =
                    Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
            },
            "nothing",
        ),
    ];
    for (what, edit, want) in cases {
        let desired = desired(edit);
        assert_eq!(words(&desired), *want, "{what}");
        let image = desired.target().map(|found| found.target.image.to_string());
        assert!(!image.unwrap_or_default().contains("elsewhere"), "{what}");
    }
}

#[test]
fn a_build_that_another_object_controls_is_no_target() {
    // The cache has all builds whose label names the MachineOSConfig, whoever made them.
    for annotation in [None, Some(labels::ROLLOUT_BUILD), Some(labels::ROLLOUT_ONCE)] {
        let mut fleet = Fleet::new(1);
        fleet.annotate(labels::ROLLOUT, "automatic");
        fleet.serve("worker", 2);
        if let Some(annotation) = annotation {
            fleet.annotate(annotation, &pin(2).to_string());
        }
        let mut snapshot = fleet.snapshot("worker");
        assert_eq!(words(&Desired::of(&snapshot)), "build-2", "{annotation:?}");
        for build in &mut snapshot.builds {
            build.metadata.owner_references[0].uid = "other".to_owned();
        }
        assert_eq!(words(&Desired::of(&snapshot)), "ImageNotOurs", "{annotation:?}");
    }
}

#[test]
fn stock_is_looked_up_and_must_have_the_pinned_digest() {
    let mut fleet = Fleet::new(1);
    fleet.annotate(labels::ROLLOUT, "automatic");
    let mut ask = |number: u32| {
        let digest = image(number).digest();
        fleet.annotate(labels::ROLLOUT_BUILD, &format!("stock@{digest}"));
        let mut snapshot = fleet.snapshot("worker");
        let Desired::LookUp(lookup) = Desired::of(&snapshot) else {
            panic!("{number}");
        };
        fleet.look_up(&lookup, &mut snapshot.lookup_results);
        Desired::of(&snapshot)
    };
    let target = ask(STOCK_IMAGE).target().cloned().unwrap();
    assert_eq!((target.target.image, target.target.config), (image(STOCK_IMAGE), None));
    assert_eq!(words(&ask(9)), "PinChanged");
}

#[test]
fn a_kubelet_names_no_image_for_its_pool() {
    let mut fleet = Fleet::new(2);
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(STOCK_IMAGE).to_string());
    fleet.settle();
    let stock = image(STOCK_IMAGE);
    let recorded = fleet.configs["worker"].metadata.annotation(labels::STOCK_IMAGE);
    assert_eq!(recorded, Some(&*stock.to_string()));
    for node in ["w0", "w1"] {
        let elsewhere = format!("reg.elsewhere/private@{}", stock.digest());
        let annotations = &mut fleet.node(node).machine.metadata.annotations;
        annotations.insert(labels::NODE_CURRENT_IMAGE.to_owned(), elsewhere);
    }
    let desired = Desired::of(&fleet.snapshot("worker"));
    assert_eq!(desired.target().map(|found| &found.target.image), Some(&stock));
    // It goes when the pool is not pinned to it any more.
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    fleet.settle();
    assert_eq!(fleet.configs["worker"].metadata.annotation(labels::STOCK_IMAGE), None);
}

#[test]
fn a_login_is_for_own_images_or_the_rendered_config() {
    for (what, edit, is_own) in [
        ("a build", (|_| {}) as Edit, true),
        (
            "a pre-built image",
            |fleet| {
                push_elsewhere(fleet);
                make_pre_built(fleet);
            },
            true,
        ),
        (
            "the stock image",
            |fleet| fleet.annotate(labels::ROLLOUT_BUILD, &pin(STOCK_IMAGE).to_string()),
            false,
        ),
    ] {
        let mut fleet = Fleet::new(1);
        fleet.annotate(labels::ROLLOUT, "stage");
        fleet.serve("worker", 2);
        edit(&mut fleet);
        let rendered = fleet.pools["worker"].spec.configuration.name.clone();
        let want = if is_own { LoginGrant::OwnImage } else { LoginGrant::Rendered(rendered) };
        let logins = |decision: RolloutDecision| {
            decision.actions.into_iter().find_map(|action| match action {
                Action::Effect(RolloutEffect::CreateLogin(login)) => Some(login.grant),
                _ => None,
            })
        };
        let found = (0..6).find_map(|_| {
            fleet.run_jobs();
            logins(fleet.pass("worker", usize::MAX))
        });
        assert_eq!(found, Some(want), "{what}");
    }
}

#[test]
fn once_is_automatic_for_its_target_only() {
    for (what, mode, once, want) in [
        ("its target", "none", 2, RolloutMode::Automatic),
        ("another pin", "stage", 1, RolloutMode::Stage),
    ] {
        let desired = desired(|fleet| {
            fleet.annotate(labels::ROLLOUT, mode);
            fleet.annotate(labels::ROLLOUT_BUILD, &pin(2).to_string());
            fleet.annotate(labels::ROLLOUT_ONCE, &pin(once).to_string());
        });
        assert_eq!(desired.target().unwrap().mode, want, "{what}");
    }
}

#[test]
fn a_job_that_pulls_nothing_gets_no_login() {
    let mut fleet = with_part(1, "automatic");
    fleet.serve_part("worker", 3, 2, part(1, 2));
    let actions = (0..2).flat_map(|_| fleet.pass("worker", usize::MAX).actions);
    let grants = actions.filter_map(|action| match action {
        Action::Effect(RolloutEffect::CreateLogin(login)) => Some(login.grant),
        _ => None,
    });
    assert_eq!(grants.collect::<Vec<_>>(), [LoginGrant::NothingToPull]);
}
