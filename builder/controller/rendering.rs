//! `--render`: the pools' MachineConfigs become rendered ones, on clusters where nobody else does that.
//!
//! A tag is resolved once: what it was found to be is an annotation of the rendered config, and holds as long as a MachineConfig
//! says the same text, so that an image that moved changes nothing by itself.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PropagationPolicy};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::act::{Acting, Round, Stopped, delete_params, patch, post, stopped};
use super::answer::{Asking, problem};
use super::error::{is_conflict, is_not_found};
use super::kinds::Kind;
use super::question::Problem;
use super::queue::Outcome;
use super::{Error, observe};
use crate::api::{Condition, MachineConfigPool, RenderedName, condition, labels};
use crate::fetch::{self, Fetcher};
use crate::ignition::snapshot::Contents;
use crate::image::ImageRef;
use crate::render::{self, Component, Rendered, Request};
use crate::report::Class;

/// Annotation of a rendered config: what the tags in it were found to be, as JSON.
const PINS: &str = "mosb.dev/pins";
/// The pool's condition.
const DEGRADED: &str = "RenderDegraded";

/// Renders pools.
#[derive(Debug)]
pub struct Rendering {
    /// Finds out.
    pub asking: Asking,
    /// Acts.
    pub acting: Acting,
}

impl Rendering {
    /// Renders one pool, and says when to look again.
    pub async fn look(&self, name: &str) -> Outcome {
        let stores = &self.acting.stores;
        if !stores.board.missing().is_empty() {
            return Outcome::After(std::time::Duration::from_secs(1));
        }
        if let Some(who) = stores.other_renderer() {
            tracing::warn!(
                reason = "other-renderer",
                "{name}: {who} renders, so nothing is rendered here"
            );
            return Outcome::Idle;
        }
        let Some(pool) = stores.pools.get(name) else {
            return Outcome::Idle;
        };
        if pool.spec.machine_config_selector.is_none() || pool.metadata.is_going_away() {
            return Outcome::Idle;
        }
        let (outcome, said) = match self.rendered(&pool).await {
            Ok((rendered, pins)) => {
                for warning in &rendered.warnings {
                    let object = warning.object.as_deref().unwrap_or_default();
                    tracing::debug!(code = warning.code, "{name}: {object}: {}", warning.message);
                }
                (self.take(&pool, rendered, &pins).await, None)
            }
            Err(problem) => {
                tracing::warn!(
                    reason = problem.reason,
                    "{name}: not rendered: {}",
                    problem.message
                );
                (Err(Stopped::Problem(problem.clone())), Some(problem))
            }
        };
        let told = self.tell(&pool, said.as_ref()).await;
        match outcome.and(told) {
            Ok(()) => Outcome::Idle,
            Err(stopped) => match stopped.class() {
                None => Outcome::Stale,
                Some(class) => {
                    if said.is_none() {
                        tracing::warn!(reason = stopped.reason(), "{name}: {stopped}");
                    }
                    Outcome::Failed(class)
                }
            },
        }
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::all_with(self.acting.client.clone(), &kind.resource())
    }

    async fn rendered(
        &self,
        pool: &MachineConfigPool,
    ) -> Result<(Rendered, BTreeMap<String, String>), Problem> {
        let settings = self.asking.settings()?;
        let name = &pool.metadata.name;
        let with_role = ListParams::default().labels(labels::ROLE);
        let listed = self.api(Kind::MachineConfig).list(&with_role).await;
        let listed = listed.map_err(Error::api("machineconfigs", "list"))?;
        let mut configs = Vec::new();
        for object in listed.items {
            let name = object.name_any();
            let value = serde_json::to_value(object).and_then(serde_json::from_value);
            configs.push(Component {
                origin: String::new(),
                config: value.map_err(|error| Error::Unreadable {
                    object: format!("machineconfig {name}"),
                    cause: error.to_string(),
                })?,
            });
        }
        let mut request = Request {
            pool: name.parse().map_err(|error| Problem {
                class: Class::UserInput,
                reason: "bad-pool-name".to_owned(),
                message: format!("{name}: {error}"),
            })?,
            pool_object: Some(pool.clone()),
            controller_config: None,
            pool_settings: Vec::new(),
            os_image: settings.base_os_container_image.clone(),
            extensions_image: settings.base_os_extensions_container_image.clone(),
            pins: BTreeMap::new(),
            configs,
            explain: true,
        };
        let tags = render::unpinned(&request);
        request.pins = self.pins(&pool.spec.configuration.name, tags).await?;
        let pins = request.pins.clone();
        let mut contents = Contents::new();
        loop {
            let merging = spawn_blocking(move || {
                let outcome = render::render(&request, &contents);
                (outcome, request, contents)
            });
            let outcome;
            (outcome, request, contents) = merging
                .await
                .expect("merging does not panic and is not cancelled");
            match outcome.map_err(|error| problem(error.class(), error.reason(), &error))? {
                render::Outcome::Rendered(rendered) => return Ok((*rendered, pins)),
                render::Outcome::Needs(needs) => {
                    let proxy = self.asking.proxy(&settings).await?;
                    let fetcher = Fetcher::new(fetch::Options {
                        authorities: settings.additional_trust_bundle.clone().map(Into::into),
                        proxy: proxy
                            .as_ref()
                            .map(super::answer::variables)
                            .unwrap_or_default(),
                        ..fetch::Options::default()
                    });
                    // What a fetch is made of can't be sent to another thread, so all of it stays on one.
                    let fetching = spawn_blocking(move || {
                        let fetching = async { fetcher?.fetch_all(&needs, &mut contents).await };
                        let fetched = Handle::current().block_on(fetching);
                        (fetched, contents)
                    });
                    let fetched;
                    (fetched, contents) = fetching
                        .await
                        .expect("fetching does not panic and is not cancelled");
                    fetched.map_err(|error: fetch::Error| {
                        problem(error.class(), error.reason(), &error)
                    })?;
                }
            }
        }
    }

    /// What the tags are: as they were found for the config before, else as the registry says now.
    async fn pins(
        &self,
        before: &str,
        tags: Vec<String>,
    ) -> Result<BTreeMap<String, String>, Problem> {
        let meta = self.acting.stores.machine_configs.get(before);
        let known = meta
            .as_ref()
            .and_then(|meta| meta.annotations.as_ref()?.get(PINS));
        let known: BTreeMap<String, String> = known
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let mut pins = BTreeMap::new();
        for tag in tags {
            // What is no reference at all is told when it is rendered.
            let Ok(reference) = tag.parse::<ImageRef>() else {
                continue;
            };
            let pin = match known.get(&tag) {
                Some(pin) => pin.clone(),
                None => self.asking.pin(&reference).await?,
            };
            pins.insert(tag, pin);
        }
        Ok(pins)
    }

    /// Creates the rendered config, gives it to the pool, and clears away those that nobody names any more.
    async fn take(
        &self,
        pool: &MachineConfigPool,
        rendered: Rendered,
        pins: &BTreeMap<String, String>,
    ) -> Result<(), Stopped> {
        let name = rendered.config.name().to_string();
        let stores = &self.acting.stores;
        if stores.machine_configs.get(&name).is_none() {
            let mut object = rendered.object;
            if !pins.is_empty() {
                let pins = serde_json::to_string(pins).expect("texts are JSON");
                object["metadata"]["annotations"][PINS] = json!(pins);
            }
            let object: DynamicObject =
                serde_json::from_value(object).expect("an object of the API");
            match self.api(Kind::MachineConfig).create(&post(), &object).await {
                Ok(_) => tracing::info!("{}: rendered {name}", pool.metadata.name),
                // Its name says what is in it.
                Err(error) if is_conflict(&error) => {}
                Err(error) => {
                    return Err(Error::api(format!("machineconfig {name}"), "create")(error).into());
                }
            }
        }
        let explained = rendered.explanation.map(|it| it.machine_configs);
        let mut sources: Vec<String> = explained.into_iter().flatten().map(|it| it.name).collect();
        sources.sort();
        let before: Vec<&String> = pool
            .spec
            .configuration
            .source
            .iter()
            .map(|it| &it.name)
            .collect();
        if pool.spec.configuration.name != name || before != sources.iter().collect::<Vec<_>>() {
            let kind = Kind::MachineConfig.resource();
            let source = |name: &String| json!({ "apiVersion": kind.api_version, "kind": kind.kind, "name": name });
            let change = json!({
                "metadata": { "resourceVersion": pool.metadata.resource_version() },
                "spec": { "configuration": { "name": name, "source": sources.iter().map(source).collect::<Vec<Value>>() } },
            });
            let api = self.api(Kind::MachineConfigPool);
            let written = api
                .patch(&pool.metadata.name, &patch(), &Patch::Merge(&change))
                .await;
            let object = format!("machineconfigpool {}", pool.metadata.name);
            written.map_err(stopped(object, "patch"))?;
            // The watch tells, and then what nobody names any more is cleared away.
            return Ok(());
        }
        self.collect(pool, &name).await
    }

    async fn collect(&self, pool: &MachineConfigPool, kept: &str) -> Result<(), Stopped> {
        let uid = pool.metadata.uid();
        let named = observe::named_configs(&self.acting.stores);
        let ours = self.acting.stores.machine_configs.only(|meta| {
            let name = meta.name.as_deref().unwrap_or_default();
            let owners = meta.owner_references.iter().flatten();
            let mut owners = owners.filter(|owner| owner.controller == Some(true));
            name.parse::<RenderedName>().is_ok()
                && owners.any(|owner| owner.uid == uid)
                && meta.deletion_timestamp.is_none()
                && name != kept
                && !named.contains(name)
        });
        for meta in ours {
            let name = meta.name.as_deref().unwrap_or_default();
            let uid = meta.uid.as_deref().unwrap_or_default();
            let params = delete_params(uid, PropagationPolicy::Background);
            match self.api(Kind::MachineConfig).delete(name, &params).await {
                Ok(_) => tracing::info!(
                    "{}: nobody names {name} any more: deleted",
                    pool.metadata.name
                ),
                Err(error) if is_not_found(&error) || is_conflict(&error) => {}
                Err(error) => {
                    return Err(Error::api(format!("machineconfig {name}"), "delete")(error).into());
                }
            }
        }
        Ok(())
    }

    /// The pool's condition: what is wrong, or that all is well again.
    async fn tell(&self, pool: &MachineConfigPool, said: Option<&Problem>) -> Result<(), Stopped> {
        let before = condition(&pool.status.conditions, DEGRADED);
        let (status, reason, message) = match said {
            // It may pass by itself.
            Some(problem) if problem.class == Class::Retry => return Ok(()),
            Some(problem) => ("True", "RenderFailed", problem.message.as_str()),
            None => ("False", "", ""),
        };
        if before.is_some_and(|before| before.says(status, reason, message))
            || before.is_none() && said.is_none()
        {
            return Ok(());
        }
        // The pool's version may be another one by now.
        let api = self.api(Kind::MachineConfigPool);
        let object = || format!("machineconfigpool {}", pool.metadata.name);
        let live = api
            .get(&pool.metadata.name)
            .await
            .map_err(stopped(object(), "get"))?;
        let live = serde_json::to_value(live).and_then(serde_json::from_value::<MachineConfigPool>);
        let live = live.map_err(|error| Error::Unreadable {
            object: object(),
            cause: error.to_string(),
        })?;
        let flipped = before.is_none_or(|before| before.status != status);
        let since = before.and_then(|before| before.last_transition_time.clone());
        let now =
            Timestamp::from_second(Timestamp::now().as_second()).expect("whole seconds of now");
        let mut conditions: Vec<Condition> = live.status.conditions;
        conditions.retain(|condition| condition.kind != DEGRADED);
        conditions.push(Condition {
            kind: DEGRADED.to_owned(),
            status: status.to_owned(),
            last_transition_time: match flipped {
                true => Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now)),
                false => since,
            },
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: None,
        });
        let mut round = Round::new(&pool.metadata.name, None, Default::default());
        let version = live.metadata.resource_version.unwrap_or_default();
        self.acting
            .write_pool_conditions(&pool.metadata.name, &version, &conditions, &mut round)
            .await
    }
}

/// The pools that a change may give another config.
pub fn pools_concerned(stores: &super::Stores, cause: &super::stores::Cause) -> BTreeSet<String> {
    use super::stores::Cause;
    let all = || {
        let pools = stores.pools.all();
        pools
            .iter()
            .map(|pool| pool.metadata.name.clone())
            .collect()
    };
    match cause {
        Cause::Pool(pool) => [pool.clone()].into(),
        // A rendered one that is new or gone concerns its own pool alone.
        Cause::MachineConfig(name) => match name.parse::<RenderedName>() {
            Ok(rendered) => [rendered.pool().to_string()].into(),
            Err(_) => all(),
        },
        Cause::All => all(),
        // A build that went may have been the last that named a rendered config.
        Cause::Serves(config) => {
            let config = stores.configs.get(config);
            let pool = config.map(|config| config.spec.machine_config_pool.name.clone());
            pool.into_iter().collect()
        }
        Cause::Config(_, pool) => [pool.clone()].into(),
        Cause::Secret(_) | Cause::Nobody => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::stores::{Cause, Stores};
    use super::*;

    #[test]
    fn a_change_is_rendered_into_the_pools_that_it_may_concern() {
        let stores = Stores::empty("mosb");
        let pool = |name: &str| {
            let pool = json!({ "metadata": { "name": name } });
            (name.to_owned(), serde_json::from_value(pool).unwrap())
        };
        stores.pools.fill([pool("infra"), pool("worker")]);
        let rendered = format!("rendered-worker-{}", "0".repeat(32));
        let text = str::to_owned;
        for (what, cause, want) in [
            ("a pool", Cause::Pool(text("infra")), &["infra"][..]),
            (
                "a MachineConfig",
                Cause::MachineConfig(text("99-x")),
                &["infra", "worker"],
            ),
            (
                "a rendered one",
                Cause::MachineConfig(rendered),
                &["worker"],
            ),
            ("settings", Cause::All, &["infra", "worker"]),
            ("a build", Cause::Serves(text("x")), &[]),
            (
                "a MachineOSConfig",
                Cause::Config(text("x"), text("worker")),
                &["worker"],
            ),
            ("a secret", Cause::Secret(text("x")), &[]),
        ] {
            let woken: Vec<String> = pools_concerned(&stores, &cause).into_iter().collect();
            assert_eq!(woken, want, "{what}");
        }
    }
}
