//! Renders the MachineConfigs of a pool. Merging is pure and in [`mosb_merge`]; what they
//! refer to is fetched here.

use std::collections::BTreeSet;
use std::future::{Ready, ready};
use std::pin::pin;

use mosb_ignition::Reference;
use mosb_ignition::snapshot::Contents;
use mosb_merge::{self as render, Outcome, Rendered, Request};
use tokio::task::{JoinError, spawn_blocking};

use crate::fetch::{self, Fetcher};

/// Why there is no rendered config. `E` is the caller's error for references that can't be fetched.
#[derive(Debug)]
pub enum RenderFailure<E> {
    Invalid(render::Error),
    Fetch(E),
    /// Merging panicked.
    Stopped(JoinError),
}

/// Pure, so it runs in a thread for blocking work.
type Merge = fn(&Request, &Contents) -> Result<Outcome, render::Error>;

/// Renders, and fetches what that needs, until it is complete. `fetcher` is awaited only if there
/// is a reference; without it, a reference is an error. `admit` is called with the hosts, as
/// `host:port`, before something is fetched there. `on_step` is called before each step with its
/// description for people.
///
/// # Errors
/// Invalid MachineConfigs; a reference that can't be fetched; a panic while merging.
pub async fn render<E: From<fetch::Error>, A: Future<Output = Result<(), E>>>(
    request: Request,
    fetcher: Option<impl Future<Output = Result<Fetcher, E>>>,
    admit: impl FnMut(BTreeSet<String>) -> A,
    on_step: &(dyn Fn(&str) + Sync),
) -> Result<Rendered, RenderFailure<E>> {
    render_with(render::render, request, fetcher, admit, on_step).await
}

async fn render_with<E: From<fetch::Error>, A: Future<Output = Result<(), E>>>(
    merge: Merge,
    request: Request,
    fetcher: Option<impl Future<Output = Result<Fetcher, E>>>,
    mut admit: impl FnMut(BTreeSet<String>) -> A,
    on_step: &(dyn Fn(&str) + Sync),
) -> Result<Rendered, RenderFailure<E>> {
    let (mut contents, mut request) = (Contents::new(), request);
    let (mut pending, mut ready) = (pin!(fetcher), None);
    loop {
        on_step("merging");
        let merging = spawn_blocking(move || {
            let outcome = merge(&request, &contents);
            (outcome, request, contents)
        });
        let outcome;
        (outcome, request, contents) = merging.await.map_err(RenderFailure::Stopped)?;
        let needs = match outcome.map_err(RenderFailure::Invalid)? {
            Outcome::Rendered(rendered) => return Ok(*rendered),
            Outcome::Needs(needs) => needs,
        };
        let Some(new_fetcher) = pending.as_mut().as_pin_mut() else {
            let error = fetch::offline(&needs).expect("references, or it would be complete");
            return Err(RenderFailure::Fetch(error.into()));
        };
        let fetcher = match &mut ready {
            Some(fetcher) => fetcher,
            none => none.insert(new_fetcher.await.map_err(RenderFailure::Fetch)?),
        };
        on_step(&match needs.len() {
            1 => "fetching what 1 reference leads to".to_owned(),
            more => format!("fetching what {more} references lead to"),
        });
        admit(hosts(&needs)).await.map_err(RenderFailure::Fetch)?;
        let fetched = fetcher.fetch_all(&needs, &mut contents).await;
        fetched.map_err(|error| RenderFailure::Fetch(error.into()))?;
    }
}

fn hosts(references: &[Reference]) -> BTreeSet<String> {
    let urls = references.iter().map(|reference| reference.request().url());
    urls.map(|url| url.authority().rsplit('@').next().unwrap_or_default().to_owned()).collect()
}

/// Everything may be fetched.
pub fn admit_all<E>(_: BTreeSet<String>) -> Ready<Result<(), E>> {
    ready(Ok(()))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[tokio::test]
    async fn a_panic_while_merging_is_an_error() {
        let request = Request {
            pool: "worker".parse().unwrap(),
            pool_object: None,
            controller_config: None,
            pool_settings: Vec::new(),
            os_image: None,
            extensions_image: None,
            pins: Default::default(),
            configs: Vec::new(),
            explain: false,
        };
        let offline: Option<Ready<Result<Fetcher, fetch::Error>>> = None;
        let rendered =
            render_with(|_, _| panic!("a bug"), request, offline, admit_all, &|_| {}).await;
        let Err(RenderFailure::Stopped(error)) = rendered else { panic!("{rendered:?}") };
        assert!(error.is_panic());
    }
}
