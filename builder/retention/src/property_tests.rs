//! Two processes delete images while machines, pools and people go on, all with views that are behind.
//! Real are the decisions; cluster, registry and the steps between are a model.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use crate::batch::{batch, judged_again};
use crate::judge::KeepReason;
use crate::judge::{BuiltImage, JudgedImage, RetentionFacts, Tags, judge};
use mosb_api::cluster_settings::Retention;
use mosb_image::Digest;
use mosb_registry::TaggedImage;

const IMAGES: usize = 4;
const MACHINES: usize = 2;
/// How many steps a view is behind, and a write comes after its look at the cluster, at most.
const BEHIND: usize = 4;
/// Steps between a record and its deletion: longer than that, as `IMAGE_DELETION_DELAY` is.
const DELAY: usize = BEHIND + 1;
const START: Timestamp = Timestamp::constant(1_000_000_000, 0);

fn digest(image: usize) -> Digest {
    Digest::of(&[image as u8])
}

#[derive(Debug, Clone, Default)]
struct Machine {
    booted: usize,
    staged: Option<usize>,
    rollback: Option<usize>,
}

#[derive(Debug, Clone)]
struct World {
    records: BTreeMap<usize, Timestamp>,
    deleted: BTreeSet<usize>,
    in_service: usize,
    pin: Option<usize>,
    machines: Vec<Machine>,
}

impl World {
    fn facts(&self) -> (RetentionFacts, Tags) {
        let build = |image: usize| BuiltImage {
            build: format!("b{image}"),
            digest: digest(image),
            tags: [format!("b{image}")].into(),
            time: START - SignedDuration::from_hours(24 * (100 + image as i64)),
            is_made_here: true,
            prepared: None,
            names: BTreeSet::new(),
            deleting_since: self.records.get(&image).copied(),
            is_deleted: false,
        };
        let mut facts = RetentionFacts {
            builds: (0..IMAGES).filter(|one| !self.deleted.contains(one)).map(build).collect(),
            // None is new enough for that alone.
            retention: Retention { keep: 0, days: 30 },
            ..RetentionFacts::default()
        };
        for image in self.needed() {
            let why = KeepReason::Named("something".to_owned());
            facts.needed.insert(digest(image), [why].into());
        }
        let tag = |image| {
            (format!("b{image}"), TaggedImage { digest: digest(image), instances: Vec::new() })
        };
        let there = (0..IMAGES).filter(|image| !self.deleted.contains(image));
        (facts, there.map(tag).collect())
    }

    /// What a machine or a pin names, or is in service.
    fn needed(&self) -> BTreeSet<usize> {
        let of_machine = |machine: &Machine| {
            [Some(machine.booted), machine.staged, machine.rollback].into_iter().flatten().collect()
        };
        let machines = self.machines.iter().flat_map(|one| -> Vec<usize> { of_machine(one) });
        machines.chain(self.pin).chain([self.in_service]).collect()
    }

    fn is_free(&self, image: usize) -> bool {
        !self.records.contains_key(&image) && !self.deleted.contains(&image)
    }
}

#[derive(Debug, Clone)]
enum Process {
    Idle,
    Listed { at: Timestamp, batch: Vec<JudgedImage> },
    Recorded { own: Timestamp, at_step: usize, batch: Vec<JudgedImage> },
    Deleting { own: Timestamp, left: Vec<(usize, bool)> },
}

#[derive(Debug, Clone)]
enum Event {
    /// By a person, a pool or a roll-out, from a view that is so many steps old.
    Pin(usize, usize),
    Unpin,
    Serve(usize, usize),
    Stage(usize, usize),
    Reboot(usize),
    Step(usize),
    /// It is killed, and another one takes its place.
    Kill(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let behind = || 0..=BEHIND;
    prop_oneof![
        2 => (0..IMAGES, behind()).prop_map(|(image, behind)| Event::Pin(image, behind)),
        2 => Just(Event::Unpin),
        2 => (0..IMAGES, behind()).prop_map(|(image, behind)| Event::Serve(image, behind)),
        4 => (0..MACHINES, behind()).prop_map(|(machine, behind)| Event::Stage(machine, behind)),
        4 => (0..MACHINES).prop_map(Event::Reboot),
        16 => (0..2usize).prop_map(Event::Step),
        1 => (0..2usize).prop_map(Event::Kill),
    ]
}

fn image_of(digest_: Digest) -> usize {
    (0..IMAGES).find(|image| digest(*image) == digest_).expect("a known image")
}

/// One step of a process; the image that it deletes.
fn step(process: &mut Process, world: &mut World, at_step: usize, delay: usize) -> Option<usize> {
    // A step takes a second.
    let now = START + SignedDuration::from_secs(at_step as i64);
    let next = match std::mem::replace(process, Process::Idle) {
        Process::Idle => {
            let (facts, tags) = world.facts();
            Process::Listed { at: now, batch: batch(&judge(&facts, &tags, now), &facts, now) }
        }
        Process::Listed { at, batch } => {
            for image in &batch {
                // Only a build that was not changed since.
                let image = image_of(image.digest);
                let record = world.records.get(&image).copied();
                if record.is_none_or(|record| record < at && record != at) {
                    world.records.insert(image, at);
                }
            }
            Process::Recorded { own: at, at_step, batch }
        }
        Process::Recorded { own, at_step: since, batch } => {
            if at_step < since + delay {
                Process::Recorded { own, at_step: since, batch }
            } else {
                let (facts, tags) = world.facts();
                let judged = judge(&facts, &tags, now);
                let again = judged_again(&batch, &judged, &facts, own);
                let left = again.iter().map(|it| (image_of(it.image.digest), it.may_be_deleted));
                Process::Deleting { own, left: left.collect() }
            }
        }
        Process::Deleting { own, mut left } => match left.pop() {
            None => Process::Idle,
            Some((image, may_be_deleted)) => {
                *process = Process::Deleting { own, left };
                if may_be_deleted {
                    return Some(image);
                }
                if world.records.get(&image) == Some(&own) {
                    world.records.remove(&image);
                }
                return None;
            }
        },
    };
    *process = next;
    None
}

/// Runs the events; the first needed image that is deleted.
fn run(events: &[Event], delay: usize) -> Option<usize> {
    let mut world = World {
        records: BTreeMap::new(),
        deleted: BTreeSet::new(),
        in_service: 0,
        pin: None,
        machines: vec![Machine::default(); MACHINES],
    };
    let mut processes = [Process::Idle, Process::Idle];
    let mut views = Vec::new();
    for (at_step, event) in events.iter().enumerate() {
        views.push(world.clone());
        let seen = |behind: usize| views[views.len() - 1 - behind.min(views.len() - 1)].clone();
        match *event {
            Event::Pin(image, behind) if seen(behind).is_free(image) => world.pin = Some(image),
            Event::Serve(image, behind) if seen(behind).is_free(image) => {
                world.in_service = image;
            }
            Event::Unpin => world.pin = None,
            Event::Stage(machine, behind) => {
                let seen = seen(behind);
                let target = seen.pin.unwrap_or(seen.in_service);
                // The machine pulls it from the registry.
                if seen.is_free(target) && !world.deleted.contains(&target) {
                    world.machines[machine].staged = Some(target);
                }
            }
            Event::Reboot(machine) => {
                let machine = &mut world.machines[machine];
                if let Some(staged) = machine.staged.take() {
                    machine.rollback = Some(machine.booted);
                    machine.booted = staged;
                }
            }
            Event::Step(process) => {
                let deleted = step(&mut processes[process], &mut world, at_step, delay);
                if let Some(image) = deleted {
                    if world.needed().contains(&image) {
                        return Some(image);
                    }
                    world.deleted.insert(image);
                }
            }
            Event::Kill(process) => processes[process] = Process::Idle,
            Event::Pin(..) | Event::Serve(..) => {}
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_needed_image_is_ever_deleted(events in prop::collection::vec(event(), 10..200)) {
        prop_assert_eq!(run(&events, DELAY), None);
    }
}

/// The model finds what the delay is for.
#[test]
fn without_the_delay_a_pinned_image_goes() {
    use Event::*;
    let events = [
        Step(0),   // lists
        Step(0),   // records image 3, the oldest, with others
        Step(0),   // lists again at once
        Pin(3, 2), // by somebody who looked before the record
        Step(0),
        Step(0),
        Step(0),
        Step(0),
    ];
    assert_eq!(run(&events, 0), Some(3));
    assert_eq!(run(&events, DELAY), None);
}
