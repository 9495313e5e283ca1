//! `mosb render`.

mod explanation;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::task::spawn_blocking;

use super::arguments::{self, one_stdin, usage};
use super::context::Session;
use super::error::Error;
use super::input::{self, Input};
use super::manifests::Manifests;
use super::settings::{Format, Settings};
use super::{ExitCode, Failure, Result, output};
pub use explanation::RenderExplanation;
use mosb_api::{ControllerConfig, MachineConfigPool, PoolName, RenderedConfig};
use mosb_bootstrap::Manifest;
use mosb_build::fetch::{self, Fetcher, HostHeaders};
use mosb_build::resolve::{self, RenderFailure};
use mosb_ignition::snapshot::Contents;
use mosb_merge::{self as render, Rendered, Request, Update};
use mosb_types::{Finding, escape_control};

/// Merges the MachineConfigs of a pool into one rendered MachineConfig, named by its content
///
/// MachineConfigs of role worker are merged first, then the pool's own, each by name; the later one wins. Ignition specs
/// 2.0 to 3.6 are read, and remote contents are fetched and embedded. Printed as YAML, as JSON, or (-o name) as its name.
///
/// Exit codes: 0 done; 1 done, and --previous found a change that nodes can't apply; 2 invalid input; 3 unreachable.
///
/// Examples:
///
///   mosb render --pool worker machineconfigs/ | mosb build - --base oci:fcos --output oci:out
///   oc get mcp,mc,controllerconfig -o yaml | mosb render --pool infra --explain -
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Render {
    /// MachineConfigs: files, directories (their *.yaml, *.yml and *.json), or - for stdin
    #[arg(value_name = "FILE|DIR|-", required = true, value_parser = arguments::input())]
    pub inputs: Vec<Input>,
    /// The pool's name
    #[arg(long, value_name = "NAME", value_parser = arguments::value::<PoolName>("--pool"))]
    pub pool: PoolName,
    /// The MachineConfigPool, for its selector [default: one among the inputs; without one, the role label decides]
    #[arg(long, value_name = "FILE", value_parser = arguments::input())]
    pub pool_file: Option<Input>,
    /// The ControllerConfig, for the release's images [default: one among the inputs]
    #[arg(long, value_name = "FILE", value_parser = arguments::input())]
    pub controller_config: Option<Input>,
    /// The base OS image, instead of the ControllerConfig's
    #[arg(long, value_name = "IMAGE@DIGEST")]
    pub os_image: Option<String>,
    /// The extensions image, instead of the ControllerConfig's
    #[arg(long, value_name = "IMAGE@DIGEST")]
    pub extensions_image: Option<String>,
    /// Resolve image tags to their current digests
    #[arg(long, conflicts_with = "offline")]
    pub resolve_tags: bool,
    /// Fetch nothing: a reference to remote contents is an error
    #[arg(long)]
    pub offline: bool,
    /// HTTP headers for fetching contents, by host
    #[arg(long, value_name = "FILE")]
    pub http_headers_file: Option<PathBuf>,
    /// CAs (PEM) to trust when fetching contents, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The time limit of one reference, such as 30s or 2m
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    /// An earlier rendered config of the pool: list the changes that nodes can't apply without a reinstallation
    #[arg(long, value_name = "FILE", value_parser = arguments::input())]
    pub previous: Option<Input>,
    /// Instead of the config, show which MachineConfig each file, unit and setting comes from, and what it overrides
    #[arg(long)]
    pub explain: bool,
}

/// Parses a duration, such as `500ms`, `30s`, `2m` or `1h`.
fn duration(text: &str) -> Result<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    let number: u64 = number.parse().unwrap_or_default();
    match number.checked_mul(millis) {
        Some(total) if total > 0 => Ok(Duration::from_millis(total)),
        _ => usage(format!(
            "--timeout {text:?}: want a number and its unit, as 500ms, 30s, 2m or 1h"
        )),
    }
}

impl Render {
    /// Rejects a format without an explanation, and a second `-`.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check(&self, format: Format) -> Result<()> {
        if self.explain && format == Format::Name {
            return usage("--explain has no -o name; want -o text, json or yaml");
        }
        let others = [&self.pool_file, &self.controller_config, &self.previous];
        let all = self.inputs.iter().chain(others.into_iter().flatten());
        one_stdin(all, "stdin can be read once; give a file for all but one -")
    }

    /// Renders, prints the config or its explanation, and returns the exit code.
    ///
    /// # Errors
    /// All problems of the inputs; references that could not be fetched.
    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        let Session { settings, progress } = session;
        progress.step("reading the MachineConfigs");
        let (mut request, notices, previous) = read(self).await?;
        if self.resolve_tags {
            pin(&mut request, session).await?;
        }
        let fetcher = (!self.offline).then(|| fetcher(self, settings));
        let rendered =
            resolve::render(request, fetcher, resolve::admit_all, &|step| progress.step(step))
                .await;
        let mut rendered = match rendered {
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
        if !self.explain {
            let listed = unreconcilable.iter().flatten();
            for finding in notices.iter().chain(&rendered.warnings).chain(listed) {
                warn(finding);
            }
        }
        rendered.explanation = rendered.explanation.filter(|_| self.explain);
        print(rendered, unreconcilable, notices, settings.format)?;
        Ok(code)
    }
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
    if format == Format::Name {
        output::print_text(&(name + "\n"))
    } else {
        output::print_cluster_object(format, &rendered.object)
    }
}

/// An empty value, as of a variable in a script, counts as none.
fn given(image: &Option<String>) -> Option<String> {
    image.clone().filter(|image| !image.is_empty())
}

type Inputs = (Request, Vec<Finding>, Option<RenderedConfig>);

/// Reads all files. Reading stdin may never end, so it must not delay a signal.
async fn read(wanted: &Render) -> Result<Inputs> {
    let (inputs, files) =
        (wanted.inputs.clone(), [wanted.pool_file.clone(), wanted.controller_config.clone()]);
    let previous = wanted.previous.clone();
    let (pool, os_image) = (wanted.pool.clone(), given(&wanted.os_image));
    let (extensions_image, explain) =
        (given(&wanted.extensions_image), wanted.explain || previous.is_some());
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
async fn pin(request: &mut Request, session: &Session) -> Result<()> {
    let images = render::unpinned(request);
    // Without a tag, no credentials are read.
    if images.is_empty() {
        return Ok(());
    }
    let context = session.clients()?;
    for unpinned in images {
        context.progress.step(&format!("resolving {}", unpinned.image));
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
pub fn render_error(error: RenderFailure<Failure>) -> Failure {
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
    let headers = headers.as_ref().map(HostHeaders::read).transpose()?;
    Ok(Fetcher::new(fetch::Options {
        headers: headers.unwrap_or_default(),
        authorities: ca.map(Into::into),
        timeout: wanted.timeout,
        proxy: settings.environment.proxy.clone(),
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

    #[test]
    fn a_duration_has_a_unit() {
        for (text, want) in [
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("30", None),
            ("0s", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("99999999999999999h", None),
            ("1d", None),
        ] {
            let got = duration(text).ok().map(|it| it.as_millis());
            assert_eq!(got, want, "{text}");
        }
    }
}
