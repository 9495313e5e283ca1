//! Images are signed before their builds end, and prepared bases before anything is built on them.

use super::fake_cluster::*;
use super::prepared::settle_killed;
use super::rows::is_idle;
use crate::*;
use mosb_api::cluster_settings::SigningSettings;
use mosb_api::*;
use mosb_cluster::status::{EventReason, IMAGE_SIGNED};
use mosb_image::Digest;
use mosb_types::ErrorClass;
use mosb_workload::BuildNodes;

use BuildCondition::{Building, Succeeded};

const SECRET: &str = "os-key";

/// A pool whose images are signed with this key.
fn signing(mut fake: FakeCluster) -> FakeCluster {
    fake.set_signing(Some(SECRET), true);
    fake
}

fn fingerprint(secret: &str) -> String {
    Digest::of(secret.as_bytes()).to_string()
}

/// A pool whose Containerfile needs nothing of the config.
fn customised() -> FakeCluster {
    let mut fake = signing(FakeCluster::opted_in());
    fake.containerfile("FROM base\nRUN true");
    fake.prepared = Some(Digest::of(b"what is run"));
    fake
}

impl FakeCluster {
    fn set_signing(&mut self, secret: Option<&str>, required: bool) {
        let secret = secret.map(str::to_owned);
        self.snapshot.cluster.signing = Some(SigningSettings { secret, required });
    }

    /// Status and reason of the condition.
    fn signed_condition(&self) -> Option<(String, String)> {
        let conditions = &self.snapshot.config.as_ref().unwrap().status.conditions;
        let found = condition(conditions, IMAGE_SIGNED)?;
        Some((found.status.clone(), found.reason.clone()))
    }

    fn noted(&self, key: &str) -> Option<&str> {
        self.current().metadata.annotation(key)
    }

    /// What was signed, in order.
    fn asked_to_sign(&self) -> Vec<(String, ImageKind)> {
        let signed = self.asked.iter().filter_map(|lookup| match lookup {
            Lookup::Sign(lookup) => Some((lookup.image.to_string(), lookup.kind)),
            _ => None,
        });
        signed.collect()
    }
}

fn words(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

#[test]
fn an_image_is_signed_before_its_build_ends() {
    for builder in ImageBuilderType::ALL {
        let mut fake = signing(FakeCluster::built_by(builder));
        fake.build();
        assert_eq!(fake.state(), Some(Succeeded), "{builder}");
        let image = fake.image().to_owned();
        assert!(fake.signed.contains(&image.parse().unwrap()), "{builder}");
        assert_eq!(fake.noted(labels::SIGNED), Some(&*fingerprint(SECRET)), "{builder}");
        assert_eq!(fake.signed_condition(), words("True", "Signed"), "{builder}");
        let kind = match builder {
            ImageBuilderType::OpenShiftImage => ImageKind::Containerfile { tree: None },
            ImageBuilderType::Job | ImageBuilderType::CustomPod => {
                ImageKind::Direct { tree: Some(Digest::of(b"tree")) }
            }
        };
        assert_eq!(fake.asked_to_sign(), [(image, kind)], "{builder}");
        is_idle(&mut fake);
    }
}

#[test]
fn without_a_key_nothing_is_signed() {
    let mut fake = FakeCluster::built();
    assert_eq!((fake.asked_to_sign(), fake.signed_condition()), (vec![], None));

    // Images that are in service already stay as they are.
    fake.set_signing(Some(SECRET), true);
    is_idle(&mut fake);
    fake.render(2);
    fake.build();
    assert_eq!(fake.signed_condition(), words("True", "Signed"));
    fake.render(1);
    fake.build();
    assert_eq!(fake.signed_condition(), words("Unknown", "NotSignedHere"));
}

#[test]
fn the_key_of_the_pool_wins() {
    let mut fake = FakeCluster::opted_in();
    fake.annotate(labels::SIGNING_SECRET, "own");
    fake.build();
    assert_eq!(fake.noted(labels::SIGNED), Some(&*fingerprint("own")));
    // Another key signs what is built from then on.
    fake.set_signing(Some(SECRET), true);
    fake.config().metadata.annotations.remove(labels::SIGNING_SECRET);
    is_idle(&mut fake);
    fake.render(2);
    fake.build();
    assert_eq!(fake.noted(labels::SIGNED), Some(&*fingerprint(SECRET)));
}

#[test]
fn a_build_waits_until_its_image_is_signed() {
    for (class, is_blocked) in [(ErrorClass::InvalidInput, true), (ErrorClass::Transient, false)] {
        let mut fake = signing(FakeCluster::opted_in());
        fake.settle();
        fake.run();
        fake.settle();
        fake.signing_problem = Some(problem(class, "secret ns/os-key: there is none; create it"));
        fake.succeed();
        let decision = fake.settle();
        assert_eq!((fake.state(), fake.image()), (Some(Building), ""));
        let PoolReason::Problem(found) = decision.reason else { panic!("{:?}", decision.reason) };
        assert!(found.message.ends_with("not signed: secret ns/os-key: there is none; create it"));
        assert_eq!(fake.blocked().is_some(), is_blocked);
        assert_eq!(fake.noted(labels::NOT_SIGNED).is_some(), is_blocked);
        assert_eq!(fake.noted(labels::SIGNED), None);
        assert!(fake.decide().actions.is_empty(), "the same problem is written once");

        fake.signing_problem = None;
        fake.build();
        assert_eq!((fake.state(), fake.made.len()), (Some(Succeeded), 1), "nothing is built again");
        assert_eq!(fake.noted(labels::NOT_SIGNED), None);
        assert_eq!(fake.signed_condition(), words("True", "Signed"));
        assert!(fake.blocked().is_none_or(|(status, _)| status == "False"));
        is_idle(&mut fake);
    }
}

#[test]
fn an_unsigned_image_is_in_service_if_that_is_set() {
    let mut fake = FakeCluster::opted_in();
    fake.set_signing(Some(SECRET), false);
    fake.signing_problem = Some(problem(ErrorClass::InvalidInput, "secret ns/os-key: none"));
    fake.build();
    assert_eq!(fake.state(), Some(Succeeded));
    assert!(!fake.image().is_empty());
    assert_eq!(fake.signed_condition(), words("False", "NotSigned"));
    assert!(fake.noted(labels::NOT_SIGNED).unwrap().contains("secret ns/os-key: none"));
    assert_eq!(fake.event_count(EventReason::ImageNotSigned), 1);
    is_idle(&mut fake);
    fake.signing_problem = None;
    fake.render(2);
    fake.build();
    assert_eq!(fake.signed_condition(), words("True", "Signed"));
}

#[test]
fn nothing_ends_while_the_settings_are_unreadable() {
    let mut fake = signing(FakeCluster::opted_in());
    fake.settle();
    fake.run();
    fake.settle();
    let settings = fake.snapshot.cluster.signing.take();
    fake.succeed();
    assert_eq!(fake.settle().reason.code(), "problem");
    assert_eq!(fake.state(), Some(Building));
    fake.snapshot.cluster.signing = settings;
    fake.build();
    assert_eq!(fake.state(), Some(Succeeded));
}

#[test]
fn an_image_that_was_found_is_signed() {
    let mut fake = FakeCluster::built();
    let mut ci = fake.clone();
    ci.render(2);
    ci.build();
    let image = ci.image().to_owned();
    fake.images.insert(image.parse().unwrap());
    fake.existing = Ok(true);
    fake.render(2);
    let mut fake = signing(fake);
    fake.signing_problem = Some(problem(ErrorClass::InvalidInput, "no key"));
    fake.settle();
    assert_ne!(fake.image(), image);
    fake.signing_problem = None;
    fake.build();
    assert_eq!((fake.image(), fake.made.len()), (&*image, 1));
    assert!(fake.signed.contains(&image.parse().unwrap()));
    is_idle(&mut fake);
}

#[test]
fn a_prepared_base_is_signed_before_it_is_built_on() {
    let mut fake = customised();
    fake.build();
    let made = PreparedBaseKey::new(
        &"quay.io/acme/os".parse().unwrap(),
        None,
        &BuildNodes::Any,
        &Digest::of(b"what is run"),
    );
    let prepared = fake.snapshot.cluster.prepared_bases.get(&made).unwrap().image;
    let name = format!("quay.io/acme/os@{prepared}");
    let kind = |tree| ImageKind::PreparedBase { tree, base_tree: None };
    let on = |fake: &FakeCluster, tree| {
        (fake.image().to_owned(), ImageKind::OnPrepared { base: prepared, tree })
    };
    // Its pod recorded no tree.
    assert_eq!(fake.asked_to_sign(), [(name.clone(), kind(None)), on(&fake, None)]);
    let tree = Digest::of(b"tree of prepared");
    let key = BaseTreeKey::new(&prepared, &"quay.io/acme/os".parse().unwrap(), &BuildNodes::Any);
    fake.snapshot.cluster.base_trees.insert(key, tree);

    fake.render(2);
    fake.signing_problem = Some(problem(ErrorClass::InvalidInput, "no key"));
    fake.settle();
    assert_eq!(fake.made.len(), 1, "nothing is built on it");
    fake.signing_problem = None;
    fake.asked.clear();
    fake.build();
    assert_eq!(fake.prepared_uses.last(), Some(&PreparedUse::On(prepared)));
    assert_eq!(fake.asked_to_sign().last(), Some(&on(&fake, Some(tree))));
    assert_eq!(fake.asked_to_sign()[0], (name, kind(Some(tree))));
    assert_eq!(fake.state(), Some(Succeeded));
    is_idle(&mut fake);
}

#[test]
fn trees_that_a_pod_reported_describe_what_it_made() {
    let mut fake = customised();
    fake.has_last_part = true;
    let base = Digest::of(&0_u32.to_be_bytes());
    let of_base = Digest::of(b"tree");
    let key = BaseTreeKey::new(&base, &"quay.io/acme/os".parse().unwrap(), &BuildNodes::Any);
    fake.snapshot.cluster.base_trees.insert(key, of_base);
    fake.build();
    let tree = Some(Digest::of(b"tree of prepared"));
    let PreparedUse::On(prepared) = *fake.prepared_uses.last().unwrap() else {
        panic!("{:?}", fake.prepared_uses);
    };
    let kinds: Vec<_> = fake.asked_to_sign().into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds[0], ImageKind::PreparedBase { tree, base_tree: Some(of_base) });
    assert_eq!(kinds.last(), Some(&ImageKind::OnPrepared { base: prepared, tree }));
    is_idle(&mut fake);
}

#[test]
fn a_pod_that_needs_a_signature_is_followed_by_another() {
    let mut fake = customised();
    fake.prepared_needs_signature = true;
    fake.build();
    let [PreparedUse::Make, PreparedUse::On(prepared)] = fake.prepared_uses[..] else {
        panic!("{:?}", fake.prepared_uses);
    };
    assert_eq!(fake.made[1].2, mosb_build::JobMethod::Direct);
    let of_base = |(image, _): &(String, ImageKind)| image.ends_with(&prepared.to_string());
    assert!(fake.asked_to_sign().iter().any(of_base));
    assert_eq!(fake.state(), Some(Succeeded));
    is_idle(&mut fake);
}

#[test]
fn other_inputs_while_signing_are_another_build() {
    let mut fake = signing(FakeCluster::opted_in());
    fake.settle();
    let before = fake.current().metadata.name.clone();
    fake.run();
    fake.settle();
    fake.succeed();
    fake.format = 2;
    fake.build();
    assert_ne!(fake.current().metadata.name, before);
    assert_eq!((fake.state(), fake.made.len()), (Some(Succeeded), 2));
    assert_eq!(fake.signed_condition(), words("True", "Signed"));
    is_idle(&mut fake);
}

#[test]
fn killed_after_any_write_it_is_signed() {
    let pools: [fn() -> FakeCluster; 2] = [|| signing(FakeCluster::opted_in()), customised];
    let steps: [fn(&mut FakeCluster); 3] = [|_| (), FakeCluster::run, FakeCluster::succeed];
    for pool in pools {
        for kills in 0.. {
            let mut fake = pool();
            let mut writes_left = Some(kills);
            for n in [1, 2] {
                fake.render(n);
                for step in steps {
                    step(&mut fake);
                    settle_killed(&mut fake, &mut writes_left);
                }
                assert_eq!(fake.state(), Some(Succeeded), "{n}, killed after {kills}");
                assert_eq!(fake.signed_condition(), words("True", "Signed"), "{n}, {kills}");
                assert_eq!(fake.noted(labels::SIGNED), Some(&*fingerprint(SECRET)), "{kills}");
            }
            is_idle(&mut fake);
            if writes_left.is_some() {
                assert!(kills > 20, "{kills}");
                break;
            }
        }
    }
}
