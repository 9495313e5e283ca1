//! What lookups find: the plan, results and images.

use super::*;
use crate::decide::tests::fake_seed::STOCK;
use mosb_api::RecordedBase;
use mosb_plan::plan::BaseName;

impl FakeCluster {
    /// Decides, and resolves lookups until none are left.
    pub fn decide(&mut self) -> Decision {
        let mut seen = self.snapshot.clone();
        for _ in 0..5 {
            let decision = decide(&seen, self.now);
            assert_eq!(decision, decide(&seen, self.now), "same snapshot, same actions");
            if decision.lookups.is_empty() {
                return decision;
            }
            assert_eq!(decision.actions, []);
            for lookup in decision.lookups {
                self.asked.push(lookup.clone());
                match lookup {
                    Lookup::OsImage { rendered } => {
                        let image = self.os_images.get(rendered.as_str()).cloned();
                        let image =
                            image.ok_or_else(|| problem(ErrorClass::Transient, "not there yet"));
                        let twice = seen.lookup_results.os_image.insert(rendered, image);
                        assert!(twice.is_none(), "asked twice");
                    }
                    Lookup::Result { build } => {
                        let unseen =
                            self.unseen.as_ref().map(|result| &result.build) == Some(&build);
                        let result = match &self.api_problem {
                            Some(problem) => Err(problem.clone()),
                            None if unseen => Ok(self.unseen.clone()),
                            None => Ok(seen.results.get(build.as_str()).cloned()),
                        };
                        let twice = seen.lookup_results.results.insert(build, result);
                        assert!(twice.is_none(), "asked twice");
                    }
                    Lookup::Plan(lookup) => {
                        let answer = self.planned(&lookup);
                        assert!(seen.lookup_results.plan.replace(answer).is_none(), "asked twice");
                    }
                    Lookup::Existing(lookup) => {
                        assert_eq!(
                            lookup.plan.containerfile, None,
                            "only direct builds are compared"
                        );
                        assert!(lookup.plan.base.is_some(), "of the base that the build pinned");
                        let image =
                            lookup.plan.push.pinned(Digest::of(lookup.build.as_str().as_bytes()));
                        let found = self.existing.clone().map(|is_same| {
                            let is_found = is_same && self.images.contains(&image);
                            is_found.then(|| Confirmed::in_a_test(image.clone()))
                        });
                        if let Ok(Some(_)) = &found {
                            self.confirmed.insert(image);
                        }
                        let twice = seen.lookup_results.existing.insert(lookup.build, found);
                        assert!(twice.is_none(), "asked twice");
                    }
                    Lookup::Checks(lookup) => {
                        assert!(
                            self.confirmed.contains(&lookup.image),
                            "checked and not confirmed"
                        );
                        let passed = || Verdict::Passed("as it must be".to_owned());
                        let verdict = |check| {
                            (check, self.verdicts.get(&check).cloned().unwrap_or_else(passed))
                        };
                        let found = match &self.registry_problem {
                            Some(problem) => Err(problem.clone()),
                            None => Ok(lookup.checks.iter().copied().map(verdict).collect()),
                        };
                        let twice = seen.lookup_results.checks.insert(lookup.image, found);
                        assert!(twice.is_none(), "asked twice");
                    }
                    Lookup::Sign(lookup) => {
                        let seen_by_registry = match lookup.kind {
                            ImageKind::PreparedBase { .. } => &self.images,
                            ImageKind::Direct { .. }
                            | ImageKind::OnPrepared { .. }
                            | ImageKind::Containerfile { .. } => &self.confirmed,
                        };
                        assert!(seen_by_registry.contains(&lookup.image), "{lookup:?}");
                        assert!(lookup.plan.base.is_some(), "of the base that the build pinned");
                        assert_eq!(*lookup.image.repo(), lookup.plan.push);
                        let problem =
                            self.signing_problem.as_ref().or(self.registry_problem.as_ref());
                        let is_same = self
                            .planned(&lookup.plan)
                            .is_ok_and(|planned| planned.build.as_str() == lookup.build);
                        let signed = match problem {
                            Some(problem) => Err(problem.clone()),
                            None if !is_same => Ok(Signed::InputsChanged),
                            None => {
                                self.signed.insert(lookup.image.clone());
                                Ok(Signed::By(Digest::of(lookup.secret.as_bytes())))
                            }
                        };
                        let twice = seen.lookup_results.signed.insert(lookup.image, signed);
                        assert!(twice.is_none(), "asked twice");
                    }
                    Lookup::Exists { image, secret, pull, policy: _ } => {
                        assert_eq!(secret, "push");
                        let push = &self.snapshot.config.as_ref().unwrap().spec;
                        let push: ImageRef = push.rendered_image_push_spec.parse().unwrap();
                        let is_elsewhere = image.repo() != push.repo();
                        assert!(pull != Pull::Not || !is_elsewhere);
                        let answer = match &self.registry_problem {
                            Some(problem) => ImageStatus::Unknown(problem.clone()),
                            None if self.images.contains(&image) => {
                                self.confirmed.insert(image.clone());
                                ImageStatus::Present(Confirmed::in_a_test(image.clone()))
                            }
                            None => ImageStatus::Missing,
                        };
                        assert!(
                            seen.lookup_results.exists.insert(image, answer).is_none(),
                            "asked twice"
                        );
                    }
                }
            }
        }
        panic!("it asks and asks");
    }

    fn planned(&self, lookup: &PlanLookup) -> Result<Planned, Problem> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let repo: RepoRef = "quay.io/release/base".parse().unwrap();
        let fresh = repo.pinned(Digest::of(&self.base.to_be_bytes()));
        let recorded = lookup.recorded.as_ref().map(RecordedBase::pinned);
        let base = lookup.base.clone().or(recorded).unwrap_or(fresh);
        let (rendered, containerfile) = (&lookup.rendered, &lookup.containerfile);
        let parts = json!([self.format, rendered, containerfile, lookup.push, base]);
        let inputs = Digest::of(&canonical_json(&parts)).hex();
        assert!(!self.is_waiting_for_its_seed(), "planned before it is seeded");
        let os_image = self.os_images.get(lookup.rendered.as_str());
        if let Some(instead) = &lookup.instead
            && os_image.is_some_and(|os_image| instead.of.contains(os_image))
        {
            assert_eq!(instead.stock.as_deref(), Some(STOCK));
        } else {
            let is_stock = os_image.is_none_or(|os_image| os_image == STOCK);
            assert!(is_stock, "built on the pre-built image");
        }
        let runs = lookup.containerfile.is_some() || lookup.method.is_some();
        let bad = self.bad_containerfile && lookup.containerfile.is_some();
        Ok(Planned {
            build: BuildName::new(&lookup.pool, &inputs).unwrap(),
            inputs,
            base: base.clone(),
            base_name: BaseName::from_registry(base.repo(), base.digest()),
            base_release: Default::default(),
            method: if runs { JobMethod::Containerfile } else { JobMethod::Direct },
            reasons: Vec::new(),
            platform: lookup.platform.clone().unwrap_or("linux/amd64".parse().unwrap()),
            warnings: self.warnings.clone(),
            containerfile_problem: bad
                .then(|| problem(ErrorClass::InvalidInput, "line 1: FRO is not an instruction")),
            os_changed: self.os_changes || lookup.compare.is_none(),
            is_login_change: self.login_changes && lookup.compare.is_some(),
            is_live_change: self.live_changes && lookup.compare.is_some(),
            machine_part: self.machine_part,
            unreconcilable: match &lookup.compare {
                Some(before) if *before != *lookup.rendered.as_str() => self.unreconcilable.clone(),
                _ => Vec::new(),
            },
            is_recognised: self.recognises && lookup.recognise.is_some(),
            prepared: self.prepared.filter(|_| runs),
            has_last_part: self.has_last_part && self.prepared.is_some() && runs,
        })
    }
}
