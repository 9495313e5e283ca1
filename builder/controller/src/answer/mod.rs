//! Finds out what a decision asks: what would be built, and whether a registry has an image.
//!
//! What a plan was made with, credentials too, is kept here for the steps that follow, and never enters a snapshot or a log.

mod builders;
mod compared;
mod doors;
mod limits;
mod packages;
mod plan;
mod pool_policy;
mod recognise;
mod secrets;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use super::Error;
use super::observe::result_in;
use super::question::{ImageStatus, PlanQuestion, Planned, Problem, Pull, Question};
use super::snapshot::Snapshot;
use super::stores::Stores;
use crate::workload::result_name;
pub use doors::Doors;
pub use limits::{LookupLimits, Room, Unanswered, busy_pause};
use mosb_build::JobResult;
use mosb_build::registry_client::RegistryClientError;
use mosb_image::{ImageRef, PinnedRef};
use mosb_plan::api::{BuildName, ClusterSettings, ClusterSettingsError, RenderedName};
use mosb_registry::{self as registry, Confirmed};
use mosb_types::ErrorClass;
pub use plan::{Kept, Wish};

/// Whom to ask.
#[derive(Clone)]
pub struct Asking {
    /// The API.
    pub client: Client,
    /// What is seen of it.
    pub stores: Arc<Stores>,
    /// How registries are asked.
    pub doors: Arc<Doors>,
    /// How much is asked at once, and for how long.
    pub limits: Arc<LookupLimits>,
}

impl std::fmt::Debug for Asking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asking").finish_non_exhaustive()
    }
}

impl Asking {
    /// Puts the answers to all questions into the snapshot. What a plan was made with is left in `kept`; if that is still what
    /// is asked for, nobody is asked again. Of the `expected` hosts it is known that a plan asks them.
    ///
    /// # Errors
    /// The hosts for which too much is looked up just now.
    pub async fn answer(
        &self,
        questions: &[Question],
        world: &mut Snapshot,
        kept: &mut Option<Arc<Kept>>,
        expected: &BTreeSet<String>,
    ) -> Result<(), BTreeSet<String>> {
        let is_again = world.earlier_problem.is_some();
        let answers = questions.iter().map(|question| async {
            match question {
                Question::Plan(question) => {
                    let plan = self.plan(question, kept.as_ref(), is_again, expected).await;
                    let plan = plan.map(|plan| (plan.planned_for(question), plan));
                    answered(plan).map(Answer::Plan)
                }
                Question::Exists { image, secret, pull } => {
                    let asked = self.confirm(image, secret, pull);
                    let found = self.limits.within(|| image.to_string(), asked).await;
                    answered(found).map(|found| Answer::Exists(image.clone(), status_of(found)))
                }
                Question::OsImage { rendered } => {
                    let asked = async { Ok(plan::rendered(self, rendered.as_str()).await?) };
                    let what = || format!("machineconfig {rendered}");
                    let named = self.limits.within(what, asked).await;
                    let named = named.map(|config| config.os_image_url.unwrap_or_default());
                    answered(named).map(|named| Answer::OsImage(rendered.clone(), named))
                }
                Question::Result { build } => {
                    let asked = async { Ok(self.result(build).await?) };
                    let what = || format!("configmap of machineosbuild {build}");
                    let found = self.limits.within(what, asked).await;
                    answered(found).map(|found| Answer::Result(build.clone(), found))
                }
            }
        });
        for answer in join_all(answers).await {
            match answer? {
                Answer::Plan(Ok((planned, plan))) => {
                    world.answers.plan = Some(Ok(planned));
                    *kept = Some(plan);
                }
                Answer::Plan(Err(problem)) => {
                    tracing::debug!(reason = problem.reason, "no plan: {}", problem.message);
                    world.answers.plan = Some(Err(problem));
                }
                Answer::Exists(image, status) => {
                    world.answers.exists.insert(image, status);
                }
                Answer::OsImage(rendered, named) => {
                    world.answers.os_image.insert(rendered, named);
                }
                Answer::Result(build, result) => {
                    world.answers.results.insert(build, result);
                }
            }
        }
        Ok(())
    }

    async fn plan(
        &self,
        question: &PlanQuestion,
        kept: Option<&Arc<Kept>>,
        is_again: bool,
        expected: &BTreeSet<String>,
    ) -> Result<Arc<Kept>, Unanswered> {
        if let Some(kept) = kept
            && kept.still_answers(question, &self.stores)
        {
            return Ok(Arc::clone(kept));
        }
        let room = self.limits.plan(is_again).await?;
        let room = self.limits.hosts(room, expected.clone()).await?;
        let step = Mutex::new("reading what it is made of".to_owned());
        let what = || {
            let step = step.lock().unwrap_or_else(PoisonError::into_inner);
            format!("machineconfig {}: {step}", question.rendered)
        };
        let planned = plan::plan(self, question, room, &step);
        self.limits.within(what, planned).await.map(Arc::new)
    }

    async fn confirm(
        &self,
        image: &PinnedRef,
        secret: &str,
        pull: &Pull,
    ) -> Result<Option<Confirmed<PinnedRef>>, Unanswered> {
        let host = image.repo().host().to_owned();
        let _room = self.limits.hosts(Room::default(), [host].into()).await?;
        let settings = self.settings()?;
        let proxy = self.proxy(&settings).await?;
        let own = match pull {
            Pull::Not => None,
            Pull::Global => Some(None),
            Pull::Own(own) => Some(Some(own.as_str())),
        };
        let mut secret = self.secret(secret).await?;
        if let Some(own) = own {
            let pull = self.pull_secret(own, &settings).await?;
            secret.credentials = secret.credentials.over(&pull.credentials);
        }
        let door = self.doors.open(&secret, &settings, proxy.as_ref())?;
        Ok(door.client().confirm(image).await?)
    }

    /// What the ConfigMap of a build's result says now.
    async fn result(&self, build: &BuildName) -> Result<Option<JobResult>, Problem> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.stores.namespace);
        let name = result_name(build);
        let object = format!("configmap {}/{name}", self.stores.namespace);
        let map = api.get_opt(&name).await.map_err(Error::api(object, "get"))?;
        Ok(map.as_ref().and_then(result_in))
    }

    /// What a tag is now: `repo@sha256:…`.
    pub(super) async fn pin(&self, image: &ImageRef) -> Result<String, Problem> {
        let settings = self.settings()?;
        let proxy = self.proxy(&settings).await?;
        let pull = self.pull_secret(None, &settings).await?;
        let door = self.doors.open(&pull, &settings, proxy.as_ref())?;
        let digest = door.client().digest_of(image).await?;
        let digest = digest.ok_or_else(|| {
            given("not-found", format!("{image}: the registry has no such tag; check the name"))
        })?;
        Ok(image.repo().pinned(digest).to_string())
    }

    fn settings(&self) -> Result<ClusterSettings, Problem> {
        let (settings, findings) = self.stores.settings()?;
        for finding in findings {
            let object = finding.object.unwrap_or_default();
            tracing::warn!(code = finding.code, "{object}: {}", finding.message);
        }
        Ok(settings)
    }
}

enum Answer {
    Plan(Result<(Planned, Arc<Kept>), Problem>),
    Exists(PinnedRef, ImageStatus),
    OsImage(RenderedName, Result<String, Problem>),
    Result(BuildName, Result<Option<JobResult>, Problem>),
}

/// What was found or went wrong, unless too much is looked up just now.
fn answered<T>(found: Result<T, Unanswered>) -> Result<Result<T, Problem>, BTreeSet<String>> {
    match found {
        Ok(found) => Ok(Ok(found)),
        Err(Unanswered::Problem(problem)) => Ok(Err(problem)),
        Err(Unanswered::Busy(hosts)) => Err(hosts),
    }
}

fn status_of(found: Result<Option<Confirmed<PinnedRef>>, Problem>) -> ImageStatus {
    match found {
        Ok(Some(confirmed)) => ImageStatus::Present(confirmed),
        Ok(None) => ImageStatus::Missing,
        Err(problem) => ImageStatus::Unknown(unknown(problem)),
    }
}

/// Why it is unknown whether an image is there, and what follows until it is known.
fn unknown(problem: Problem) -> Problem {
    if problem.class == ErrorClass::Transient {
        return problem;
    }
    Problem {
        message: format!(
            "{}; until the registry answers it is not known whether the image is there, and nothing is deleted or built again for it",
            problem.message
        ),
        ..problem
    }
}

/// A problem of what the user gave.
fn given(reason: &str, message: String) -> Problem {
    Problem { class: ErrorClass::InvalidInput, reason: reason.to_owned(), message }
}

/// The sentence of an error with its causes, each once.
fn sentence(error: &(dyn std::error::Error + 'static)) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let text = mosb_types::error_text(deeper);
        if !told.contains(&text) {
            told = format!("{told}: {text}");
        }
        cause = deeper.source();
    }
    told
}

macro_rules! problem_of {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                Self {
                    class: error.class(),
                    reason: error.reason().to_owned(),
                    message: sentence(&error),
                }
            }
        }
    )+};
}
problem_of!(
    Error,
    ClusterSettingsError,
    registry::Error,
    RegistryClientError,
    mosb_build::Error,
    mosb_build::resolve::Error,
    mosb_build::SecretError,
    mosb_plan::containerfile::Error,
    mosb_plan::payload::Error,
    mosb_build::fetch::Error,
);
