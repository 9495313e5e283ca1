//! The parts of generated texts, compared with the rules as they are written.

use proptest::prelude::*;

use super::tests::of;
use super::*;

/// A stage of a generated text. The others are named by their index.
#[derive(Debug, Clone)]
struct Generated {
    from: Option<usize>,
    root: &'static str,
    copies: Vec<usize>,
    config: bool,
}

impl Generated {
    fn uses(&self) -> impl Iterator<Item = usize> {
        self.copies.iter().chain(&self.from).copied()
    }
}

fn generated() -> impl Strategy<Value = Vec<Generated>> {
    let root = prop::sample::select(vec!["base", "configs", "q.io/x"]);
    let stage = (any::<u8>(), root, prop::collection::vec(any::<usize>(), 0..3), 0..8u8);
    prop::collection::vec(stage, 1..7).prop_map(|stages| {
        let stages = stages.into_iter().enumerate().map(|(at, (from, root, copies, config))| {
            let earlier = |index: usize| index.checked_rem(at);
            Generated {
                from: Some(from).filter(|from| from % 2 == 0).and_then(|from| earlier(from.into())),
                root,
                copies: copies.into_iter().filter_map(earlier).collect(),
                config: config == 0,
            }
        });
        stages.collect()
    })
}

/// Stages whose parts are like this. Most generated ones can't be built, and a test may skip few.
fn generated_with(is_fit: fn(&[Part]) -> bool) -> impl Strategy<Value = Vec<Generated>> {
    generated().prop_filter("its parts", move |stages| {
        let parts = naive(stages);
        parts.is_some_and(|parts| is_fit(&parts))
    })
}

fn has_prepared(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::Prepared | Part::Both))
}

fn has_last(parts: &[Part]) -> bool {
    parts.last() == Some(&Part::Last)
}

/// The text with the stages in this order, each with its name.
fn text(
    stages: &[Generated],
    order: &[usize],
    name: impl Fn(usize) -> String,
    comment: &str,
) -> String {
    let mut text = comment.to_owned();
    for &at in order {
        let stage = &stages[at];
        let from = stage.from.map_or_else(|| stage.root.to_owned(), &name);
        text += &format!("FROM {from} AS {}\n{comment}RUN step-{at}\n", name(at));
        for &copied in &stage.copies {
            text += &format!("COPY --from={} \\\n{comment} /a /b\n", name(copied));
        }
        if stage.config {
            text += "RUN --mount=type=bind,from=extract,target=/x true\n";
        }
    }
    text
}

fn simple_text(stages: &[Generated]) -> String {
    let order: Vec<usize> = (0..stages.len()).collect();
    text(stages, &order, |at| format!("s{at}"), "")
}

/// The parts by the index of a stage, if there are some: the rules as they are written, without
/// passes in an order.
fn naive(stages: &[Generated]) -> Option<Vec<Part>> {
    let closure = |at: usize| {
        let mut found = BTreeSet::from([at]);
        loop {
            let next: Vec<usize> = found.iter().flat_map(|&at| stages[at].uses()).collect();
            let before = found.len();
            found.extend(next);
            if found.len() == before {
                return found;
            }
        }
    };
    let needs = |at: usize| {
        closure(at)
            .into_iter()
            .map(|at| &stages[at])
            .any(|stage| stage.config || stage.from.is_none() && stage.root == "configs")
    };
    let root = |mut at: usize| {
        while let Some(from) = stages[at].from {
            at = from;
        }
        stages[at].root
    };
    let candidates: Vec<usize> =
        (0..stages.len()).filter(|&at| root(at) == "base" && !needs(at)).collect();
    let is_used =
        |at: usize| candidates.iter().any(|&other| other != at && closure(other).contains(&at));
    let free: Vec<usize> = candidates.iter().copied().filter(|&at| !is_used(at)).collect();
    let end = stages.len() - 1;
    let is_fine = if needs(end) { root(end) == "configs" } else { free == [end] };
    if free.len() > 1 || !is_fine {
        return None;
    }
    let prepared = free.first().map(|&at| closure(at)).unwrap_or_default();
    let last = if needs(end) { closure(end) } else { BTreeSet::new() };
    let part = |at| match (prepared.contains(&at), last.contains(&at)) {
        (true, true) => Part::Both,
        (true, false) => Part::Prepared,
        (false, true) => Part::Last,
        (false, false) => Part::Unused,
    };
    Some((0..stages.len()).map(part).collect())
}

/// Another order in which each stage still comes after those that it refers to, and the last one
/// stays the last.
fn reordered(stages: &[Generated], seed: &[usize]) -> Vec<usize> {
    let mut left: Vec<usize> = (0..stages.len() - 1).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let is_ready = |at: &usize| stages[*at].uses().all(|one| order.contains(&one));
        let ready: Vec<usize> = left.iter().copied().filter(is_ready).collect();
        let next = ready[seed[order.len() % seed.len()] % ready.len()];
        left.retain(|at| *at != next);
        order.push(next);
    }
    order.push(stages.len() - 1);
    order
}

/// The parts by the index of a stage, whatever the order in the text.
fn parts_of(text: &str, order: &[usize]) -> Option<Vec<Part>> {
    let split = of(text).ok()?;
    let mut parts = vec![Part::Unused; order.len()];
    for (one, &at) in split.stages.iter().zip(order) {
        parts[at] = one.part;
    }
    Some(parts)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn parts_equal_those_of_a_naive_closure(
        stages in generated(),
        seed in prop::collection::vec(any::<usize>(), 1..6),
    ) {
        let want = naive(&stages);
        let plain: Vec<usize> = (0..stages.len()).collect();
        let simple = simple_text(&stages);
        prop_assert_eq!(&parts_of(&simple, &plain), &want, "{}", simple);
        let order = reordered(&stages, &seed);
        let other = text(&stages, &order, |at| format!("Stage-{}", 90 - at), "  # FROM configs\n\n");
        prop_assert_eq!(&parts_of(&other, &order), &want, "{}\n{}", simple, other);
    }

    #[test]
    fn lines_of_the_stages_are_the_whole_text(stages in generated(), leading in any::<bool>()) {
        let plain: Vec<usize> = (0..stages.len()).collect();
        let mut whole = text(&stages, &plain, |at| format!("s{at}"), "# c\n\n");
        if leading {
            whole = format!("RUN a\n{whole}");
        }
        let found = read(&whole, &BTreeMap::new(), &"linux/amd64".parse().unwrap(), false).unwrap();
        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
        let again: String = found.stages.iter().map(|stage| joined(&lines, &stage.lines)).collect();
        prop_assert_eq!(again, whole);
    }

    #[test]
    fn last_part_alone_never_changes_the_prepared_part(
        stages in generated_with(has_last),
        what in "[a-z ='>/-]{0,30}",
    ) {
        let before = simple_text(&stages);
        let prepared = of(&before).unwrap().prepared;
        let after = of(&format!("{before}RUN x {what}.\n")).unwrap().prepared;
        prop_assert_eq!(after, prepared);
    }

    /// buildah takes a name that no stage before has for an image of a registry.
    #[test]
    fn each_part_has_all_its_referenced_stages(
        stages in generated_with(|parts| has_prepared(parts) && has_last(parts)),
    ) {
        let split = of(&simple_text(&stages)).unwrap();
        let (prepared, last) = (split.prepared.unwrap(), split.last.unwrap());
        for (text, has_base, has_config) in
            [(&prepared.text, true, false), (&last.text, last.needs_base.is_some(), true)]
        {
            let platform = "linux/amd64".parse().unwrap();
            let alone = read(text, &BTreeMap::new(), &platform, false).unwrap();
            for one in alone.stages.iter().flat_map(Stage::references) {
                let is_there = match &one.to {
                    Origin::Base => has_base,
                    Origin::Configs | Origin::Extract => has_config,
                    Origin::Image(name) => name == "q.io/x",
                    Origin::Stage(_) => true,
                    Origin::Extensions => false,
                };
                prop_assert!(is_there, "{} in:\n{}", one, text);
            }
        }
    }

    #[test]
    fn instructions_but_not_comments_change_canonical_text(
        stages in generated_with(has_prepared),
        at in any::<usize>(),
    ) {
        let plain: Vec<usize> = (0..stages.len()).collect();
        let name = |at| format!("s{at}");
        let canonical = |text: &str| of(text).ok()?.prepared.map(|one| one.canonical);
        let before = canonical(&simple_text(&stages));
        prop_assert!(before.is_some());
        let commented = text(&stages, &plain, name, " # RUN comment\n\n");
        prop_assert_eq!(canonical(&commented), before.clone());
        let parts = parts_of(&simple_text(&stages), &plain).unwrap();
        let at = at % stages.len();
        let step = format!("RUN step-{at}\n");
        let changed = simple_text(&stages).replace(&step, &format!("RUN other-{at}\n"));
        let is_in = matches!(parts[at], Part::Prepared | Part::Both);
        prop_assert_eq!(canonical(&changed) != before, is_in);
    }
}

#[test]
fn last_part_may_need_base_without_the_config() {
    for (what, text, want) in [
        ("nothing", "", OwnLast::Nothing),
        ("the prepared part only", "FROM base\nCOPY --from=base a b", OwnLast::Nothing),
        ("configs", "RUN a", OwnLast::OnConfigs),
        ("both parts", "FROM base\nFROM configs\nCOPY --from=extract a b", OwnLast::OnConfigs),
        ("undecided", "FROM configs\nRUN --mount=from=$X,target=/a b", OwnLast::OnConfigs),
        ("a copy", "FROM configs\nRUN a\nCOPY --from=base a b", OwnLast::NeedsBase { line: 3 }),
        (
            "by a stage of both",
            "FROM base AS os\nFROM configs\nCOPY --from=os a b",
            OwnLast::NeedsPrepared { line: 3 },
        ),
        (
            "by a stage of both that is not the prepared part's last one",
            "FROM base AS t\nFROM base\nCOPY --from=t a b\nFROM configs\nCOPY --from=t a b",
            OwnLast::NeedsBase { line: 1 },
        ),
    ] {
        assert_eq!(of(text).unwrap().own_parts().last, want, "{what}");
    }
}
