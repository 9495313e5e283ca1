//! `mosb render`.

use tokio::task::spawn_blocking;

use crate::bootstrap::Manifest;
use crate::cli::args::Format;
use crate::cli::context::CliContext;
use crate::cli::error::Error;
use crate::cli::input::{self, Input};
use crate::cli::manifests::Manifests;
use crate::cli::objects::RenderExplanation;
use crate::cli::output;
use crate::cli::progress::Progress;
use crate::cli::resolve::{Render, Settings};
use crate::cli::{Failure, Result};
use mosb_build::fetch::{self, Fetcher, HostHeaders};
use mosb_build::resolve::{self, RenderFailure};
use mosb_ignition::snapshot::Contents;
use mosb_plan::api::{ControllerConfig, MachineConfigPool, RenderedConfig, yaml};
use mosb_plan::render::{self, Rendered, Request, Update};
use mosb_registry::http::ProxyVariables;
use mosb_types::{Finding, escape_control};

/// Renders, prints the config or its explanation, and returns the exit code.
///
/// # Errors
/// All problems of the inputs; references that could not be fetched.
pub async fn render(wanted: &Render, settings: &Settings, progress: &Progress) -> Result<u8> {
    progress.step("reading the MachineConfigs");
    let (mut request, notices, previous) = read(wanted).await?;
    if wanted.resolve_tags {
        pin(&mut request, settings, progress).await?;
    }
    let fetcher = (!wanted.offline).then(|| fetcher(wanted, settings));
    let rendered =
        resolve::render(request, fetcher, resolve::admit_all, &|step| progress.step(step)).await;
    let rendered = match rendered {
        Ok(rendered) => rendered,
        Err(error) => {
            // What was skipped may be the reason.
            notices.iter().for_each(warn);
            if let RenderFailure::Invalid(invalid) = &error {
                invalid.warnings().iter().for_each(warn);
            }
            return Err(render_error(error));
        }
    };
    let unreconcilable = match &previous {
        Some(previous) => Some(rendered.unreconcilable(previous, Update::Daemon)?),
        None => None,
    };
    let code = u8::from(unreconcilable.as_ref().is_some_and(|it| !it.is_empty()));
    progress.end();
    // An explanation contains them.
    if !wanted.explain {
        let listed = unreconcilable.iter().flatten();
        for finding in notices.iter().chain(&rendered.warnings).chain(listed) {
            warn(finding);
        }
    }
    let mut rendered = rendered;
    rendered.explanation = rendered.explanation.filter(|_| wanted.explain);
    print(rendered, unreconcilable, notices, settings.format)?;
    Ok(code)
}

fn warn(finding: &Finding) {
    tracing::warn!("{} [{}]", escape_control(&finding.to_string()), finding.code);
}

fn print(
    rendered: Rendered,
    unreconcilable: Option<Vec<Finding>>,
    notices: Vec<Finding>,
    format: Format,
) -> Result<(), Error> {
    let name = rendered.config.name().to_string();
    if let Some(explanation) = rendered.explanation {
        let warnings = [notices, rendered.warnings].concat();
        let explanation = RenderExplanation {
            rendered_config: name,
            pool: rendered.config.pool().to_string(),
            explanation,
            unreconcilable,
            warnings,
        };
        return output::print(format, &explanation);
    }
    output::print_text(&match format {
        Format::Name => name + "\n",
        Format::Json => {
            let json = serde_json::to_string_pretty(&rendered.object);
            json.expect("an object of JSON") + "\n"
        }
        Format::Yaml | Format::Text | Format::Containerfile | Format::Configmap => {
            yaml::to_text(&rendered.object)
        }
    })
}

type Inputs = (Request, Vec<Finding>, Option<RenderedConfig>);

/// Reads all files. Reading stdin may never end, so it must not delay a signal.
async fn read(wanted: &Render) -> Result<Inputs> {
    let (inputs, files) =
        (wanted.inputs.clone(), [wanted.pool_file.clone(), wanted.controller_config.clone()]);
    let previous = wanted.previous.clone();
    let (pool, os_image) = (wanted.pool.clone(), wanted.os_image.clone());
    let (extensions_image, explain) =
        (wanted.extensions_image.clone(), wanted.explain || previous.is_some());
    let read = spawn_blocking(move || {
        let mut manifests = Manifests::read(&inputs);
        let [pool_file, controller_file] = files;
        let request = Request {
            pool_object: pool_object(&mut manifests, pool_file, pool.as_str()),
            controller_config: controller_config(&mut manifests, controller_file),
            pool,
            pool_settings: std::mem::take(&mut manifests.objects.pool_settings),
            os_image,
            extensions_image,
            pins: Default::default(),
            configs: std::mem::take(&mut manifests.objects.configs),
            explain,
        };
        if !manifests.problems.is_empty() {
            manifests.notices().iter().for_each(warn);
            let error = all_wrong(&request, manifests.problems);
            error.warnings().iter().for_each(warn);
            return Err(error.into());
        }
        let previous = previous.as_ref().map(input::config).transpose()?;
        Ok::<_, Failure>((request, manifests.notices(), previous))
    });
    read.await.map_err(Error::stopped("reading"))?
}

/// All problems of files and objects.
fn all_wrong(request: &Request, mut problems: Vec<Finding>) -> render::Error {
    let mut warnings = Vec::new();
    if let Err(render::Error::Invalid { problems: more, warnings: of_them, .. }) =
        render::render(request, &Contents::new())
    {
        // A missing object may be in a file that was not read.
        problems.extend(more.into_iter().filter(|it| it.code != "nothing-selected"));
        warnings = of_them;
    }
    let pool = request.pool.to_string();
    render::Error::Invalid { pool, problems, warnings }
}

/// The pool of this name in its own file, else among the inputs.
fn pool_object(
    manifests: &mut Manifests,
    file: Option<Input>,
    name: &str,
) -> Option<MachineConfigPool> {
    let mut found = None;
    let pools = std::mem::take(&mut manifests.objects.pools);
    let named = file.is_some();
    for Manifest { origin, object: pool, .. } in pools {
        if named || pool.metadata.name != name {
            manifests.skip("MachineConfigPool", origin);
        } else if found.is_some() {
            twice(manifests, "MachineConfigPool", origin);
        } else {
            found = Some(pool);
        }
    }
    let Some(file) = file else {
        return found;
    };
    let read = Manifests::read(std::slice::from_ref(&file));
    manifests.problems.extend(read.problems);
    let mut pools = read.objects.pools.into_iter().map(|pool| pool.object);
    let found = pools.find(|pool| pool.metadata.name == name);
    if found.is_none() {
        let message = format!("it holds no MachineConfigPool {name}; give that pool's own object");
        let problem = Finding::new("bad-file", message).object(file.to_string());
        manifests.problems.push(problem);
    }
    found
}

/// The ControllerConfig in its own file, else among the inputs.
fn controller_config(manifests: &mut Manifests, file: Option<Input>) -> Option<ControllerConfig> {
    let mut found = None;
    let configs = std::mem::take(&mut manifests.objects.controller_configs);
    for Manifest { origin, object: config, .. } in configs {
        match (&file, &found) {
            (Some(_), _) => manifests.skip("ControllerConfig", origin),
            (None, None) => found = Some(config),
            (None, Some(_)) => twice(manifests, "ControllerConfig", origin),
        }
    }
    let Some(file) = file else {
        return found;
    };
    let mut read = Manifests::read(std::slice::from_ref(&file));
    manifests.problems.append(&mut read.problems);
    let found = read.objects.controller_configs.pop().map(|config| config.object);
    if found.is_none() {
        let message = "it holds no ControllerConfig; give the object machine-config-controller";
        let problem = Finding::new("bad-file", message).object(file.to_string());
        manifests.problems.push(problem);
    }
    found
}

fn twice(manifests: &mut Manifests, kind: &str, origin: String) {
    let message = format!("there is another {kind} like this; keep one of them");
    let problem = Finding::new("duplicate-name", message).object(origin);
    manifests.problems.push(problem);
}

/// Resolves tags to digests.
async fn pin(request: &mut Request, settings: &Settings, progress: &Progress) -> Result<()> {
    let images = render::unpinned(request);
    // Without a tag, no credentials are read.
    if images.is_empty() {
        return Ok(());
    }
    let context = CliContext::new(settings, progress.clone())?;
    for unpinned in images {
        progress.step(&format!("resolving {}", unpinned.image));
        let digest = context.pull.digest_of(&unpinned.reference).await?;
        let digest = digest.ok_or_else(|| Error::NoTag {
            place: unpinned.place.clone(),
            image: unpinned.image.clone(),
        })?;
        request.pin(unpinned, digest);
    }
    Ok(())
}

/// The error of a failed rendering.
pub(super) fn render_error(error: RenderFailure<Failure>) -> Failure {
    match error {
        RenderFailure::Invalid(error) => error.into(),
        RenderFailure::Fetch(error) => error,
        RenderFailure::Stopped(error) => Error::stopped("merging")(error).into(),
    }
}

/// The fetcher with the given options.
async fn fetcher(wanted: &Render, settings: &Settings) -> Result<Fetcher> {
    let (headers, ca) = (wanted.http_headers_file.clone(), wanted.ca.clone());
    let read = spawn_blocking(move || {
        let headers = headers.as_deref().map(input::headers).transpose()?;
        let ca = ca.as_deref().map(input::trust_bundle).transpose()?;
        Ok::<_, Error>((headers, ca))
    });
    let (headers, ca) = read.await.map_err(Error::stopped("reading"))??;
    let environment = &settings.environment;
    let headers = headers.as_ref().map(HostHeaders::read).transpose()?;
    Ok(Fetcher::new(fetch::Options {
        headers: headers.unwrap_or_default(),
        authorities: ca.map(Into::into),
        timeout: wanted.timeout,
        proxy: ProxyVariables {
            http: environment.http_proxy.clone(),
            https: environment.https_proxy.clone(),
            no_proxy: environment.no_proxy.clone(),
        },
        ..fetch::Options::default()
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_types::ErrorClass;

    #[tokio::test]
    async fn a_panic_while_merging_is_an_internal_error() {
        let panicked = spawn_blocking(|| panic!("a bug")).await.unwrap_err();
        let failure = render_error(RenderFailure::Stopped(panicked));
        assert_eq!((failure.class(), failure.code()), (ErrorClass::Internal, "internal"));
        assert_eq!(failure.exit_code(false), 3);
        assert!(failure.text().starts_with("merging stopped: "), "{}", failure.text());
    }
}
