//! `mosb diff`, and `mosb plan --previous`: what changes from one config or image to another.

mod markdown;
pub mod os_text;
mod text;

use std::str::FromStr as _;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::spawn_blocking;
use tracing::warn;

use super::arguments::{self, one_stdin, usage};
use super::context::{CliContext, Session};
use super::error::Error;
use super::input::Input;
use super::inspect::{BaseInfo, ImageInfo, info};
use super::output::print_text;
use super::plan::view::PlannedChange;
use super::settings::Format;
use super::{ExitCode, Result, input, layers};
use mosb_api::{RenderedConfig, yaml};
use mosb_build::resolve::given_base_name;
use mosb_image::layer::Layer;
use mosb_image::{DiffId, Digest, ImageRef, Platform};
use mosb_plan::plan::BuildPlan;
use mosb_plan::plan::diff::{self, FileList, OsDiff, OsSide};
use mosb_registry::{Resolved, Source};
pub use text::cost_lines;

/// Shows what changes from one config or image to another
///
/// An operand is a config if it is `-`, ends in .yaml, .yml or .json, or begins with ./, ../ or /; else it is an image.
/// For file contents, only size and digest are shown. For an image that was built with --base, give the same --base: the
/// config is then compared as it would be built on that base.
///
/// Of two images, whoever built them, the OS is compared too: kernel, files, users, groups, units, presets, labels.
/// Only images with a rendered config can be compared with a config; their bases are compared where they differ.
///
/// Exit codes: 0 same, 1 differs, 2 wrong use, 3 all else.
///
/// Examples:
///
///   mosb diff registry.example.com/os/worker:rendered-worker-… worker.yaml
///   mosb diff oci:out:rendered-worker-… worker.yaml --base oci:fcos
///
///   mosb diff quay.io/fedora/fedora-coreos:stable quay.io/fedora/fedora-coreos:next -o markdown
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct DiffCommand {
    /// The old config or image
    #[arg(value_name = "CONFIG|IMAGE", value_parser = operand)]
    pub from: Operand,
    /// The new config or image
    #[arg(value_name = "CONFIG|IMAGE", value_parser = operand)]
    pub to: Operand,
    /// The base of a CONFIG [default: its spec.osImageURL]
    #[arg(long, value_name = "IMAGE", value_parser = arguments::source)]
    pub base: Option<Source>,
    /// The platform to select from an index, such as linux/amd64
    #[arg(long, value_name = "OS/ARCH", value_parser = arguments::platform)]
    pub platform: Option<Platform>,
    /// List each path of the OS that differs
    #[arg(long)]
    pub files: bool,
    /// Of two configs whose bases differ, compare the OS in these, too; both are read if they are not in the cache
    #[arg(long)]
    pub os: bool,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    Config(Input),
    Image(Source),
}

impl Operand {
    /// The file of a config.
    pub fn config(&self) -> Option<&Input> {
        match self {
            Self::Config(input) => Some(input),
            Self::Image(_) => None,
        }
    }
}

/// Decides by the form of the text.
///
/// # Errors
/// An invalid reference.
pub fn operand(text: &str) -> Result<Operand> {
    let path = ["./", "../", "/"].iter().any(|start| text.starts_with(start));
    let name = [".yaml", ".yml", ".json"].iter().any(|end| text.ends_with(end));
    Ok(if text == "-" || path || name {
        Operand::Config(Input::new(text.as_ref()))
    } else {
        Operand::Image(arguments::source(text)?)
    })
}

impl DiffCommand {
    /// Rejects sides that can't be read or compared.
    ///
    /// # Errors
    /// Stdin is given twice, a base for images only, or a list of files for configs.
    pub fn check(&self) -> Result<()> {
        let configs = [&self.from, &self.to].into_iter().filter_map(Operand::config);
        one_stdin(configs, "diff - -: stdin can be read once; give a file for one of them")?;
        match (&self.base, &self.from, &self.to) {
            (Some(base), Operand::Image(_), Operand::Image(_)) => usage(format!(
                "diff --base {base}: is for a config, and both sides are images, which know their bases; leave it out"
            )),
            (_, Operand::Image(_), Operand::Image(_)) => Ok(()),
            (_, Operand::Config(_), Operand::Config(_)) if self.os && self.base.is_some() => usage(
                "diff --os: compares the bases that two configs name, and with --base they have one; leave one of them out",
            ),
            _ if self.files => usage(
                "diff --files: lists what differs between two images; leave it out for a config",
            ),
            _ => Ok(()),
        }
    }

    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        // Comparing two files needs no settings of registries, nor the network.
        let is_image = |side: &Operand| side.config().is_none();
        let needs_images =
            self.os || self.base.is_some() || is_image(&self.from) || is_image(&self.to);
        let context = needs_images.then(|| session.clients()).transpose()?;
        let context = context.as_ref();
        let platform = self.platform.as_ref();
        let from = read(context, &self.from, platform).await?;
        let to = read(context, &self.to, platform).await?;
        let base = match context.zip(self.base.as_ref()) {
            Some((context, source)) => {
                let base = context.resolve("base", source, platform).await?;
                Some(BaseInfo {
                    name: given_base_name(&base).as_str().to_owned(),
                    digest: Some(base.manifest.to_string()),
                })
            }
            None => None,
        };
        let base = base.as_ref();
        let (mut same, mut os) = (true, None);
        let mut changes = match (&from.config, &to.config, from.images(&to)) {
            (None, _, Some(_)) | (_, None, Some(_)) => diff::Diff::default(),
            _ => diff::Diff::between(&from.side(base)?, &to.side(base)?)?,
        };
        if let Some((context, (before, after))) = context.zip(from.images(&to)) {
            let (below, all) = before.differ_from(after)?;
            let has_configs = from.config.is_some() && to.config.is_some();
            if all && (self.files || below || !has_configs) {
                let list = if self.files { FileList::Listed } else { FileList::Counted };
                os = Some(before.os_diff(after, context, list).await?);
                same = false;
            }
            if below || (all && !has_configs) {
                changes = changes.on_other_os();
            }
        }
        let given = self.base.as_ref();
        if let Some((context, bases)) = context.zip(from.bases(&to, given)) {
            os = os_of_bases(context, bases, platform).await;
        }
        same &= changes.is_same();
        let diff = Diff { from: from.shown(), to: to.shown(), same, os, changes };
        match session.settings.format {
            Format::Markdown => {
                session.progress.end();
                print_text(&diff.markdown())?;
            }
            _ => _ = session.print(&diff)?,
        }
        Ok(if same { 0 } else { 1 })
    }
}

/// What changes of the OS from one base to another; none if they are the same image. What can't be read
/// is not compared, and logged: the configs are compared without it.
async fn os_of_bases(
    context: &CliContext,
    (before, after): (Source, Source),
    platform: Option<&Platform>,
) -> Option<OsDiff> {
    let read = async |source: &Source| {
        let resolved = context.resolve("base", source, platform).await?;
        Ok::<_, super::failure::Failure>(Image { info: info(&resolved)?, resolved })
    };
    let compared = async {
        let images = (read(&before).await?, read(&after).await?);
        if images.0.resolved.manifest == images.1.resolved.manifest {
            return Ok::<_, super::failure::Failure>(None);
        }
        Ok(Some(images.0.os_diff(&images.1, context, FileList::Counted).await?))
    };
    compared.await.unwrap_or_else(|failure| {
        warn!("the OS of {before} and of {after} is not compared: {}", failure.message());
        None
    })
}

/// The disruption of a plan for machines that have another config or image, and the changes of their OS. The base is
/// the plan's if `is_given`, or else a config's own.
///
/// # Errors
/// What the machines have can't be read.
pub async fn change(
    context: &CliContext,
    previous: &Operand,
    plan: &BuildPlan,
    is_given: bool,
) -> Result<PlannedChange> {
    let base = &plan.request.base;
    let (name, digest) = (base.name.as_str(), base.manifest_digest);
    let from = read(Some(context), previous, Some(&base.config.platform)).await?;
    let given = BaseInfo { name: name.to_owned(), digest: Some(digest.to_string()) };
    let before = from.side(is_given.then_some(&given))?;
    let after = diff::Side::on_base(&plan.request.config, Some(name), Some(digest))?;
    let cost = diff::Diff::between(&before, &after)?.cost;
    let planned = ImageRef::from_str(name).ok().map(|named| named.repo().pinned(digest));
    // A config has the plan's base then.
    let before = if is_given && from.image.is_none() { None } else { from.base(None) };
    let os = match before.zip(planned) {
        Some((before, planned)) => {
            let bases = (before, Source::Registry(planned.into()));
            os_of_bases(context, bases, Some(&base.config.platform)).await.map(Box::new)
        }
        None => None,
    };
    Ok(PlannedChange { from: from.shown(), cost, os })
}

struct Read {
    operand: String,
    /// `None` for an image that mosb did not build.
    config: Option<RenderedConfig>,
    image: Option<Image>,
}

/// An image that is compared.
#[derive(Debug)]
struct Image {
    info: ImageInfo,
    resolved: Resolved,
}

impl Read {
    fn shown(&self) -> Side {
        let rendered_config = self.config.as_ref().map(|config| config.name().to_string());
        Side { operand: self.operand.clone(), rendered_config }
    }

    /// Plans the config on the base of its image, on the given base, or on the config's own.
    fn side(&self, given: Option<&BaseInfo>) -> Result<diff::Side<'_>> {
        let Some(config) = &self.config else {
            return Err(Error::NotBuilt { image: self.operand.clone() }.into());
        };
        let base = match (&self.image, given) {
            (Some(image), _) => image.info.base.as_ref(),
            (None, Some(given)) => Some(given),
            (None, None) => return Ok(diff::Side::of_config(config)?),
        };
        let digest = base.and_then(|base| base.digest.as_ref()?.parse().ok());
        Ok(diff::Side::on_base(config, base.map(|base| base.name.as_str()), digest)?)
    }

    /// The reference of its base in a registry: that of its image, the given one, or the config's own.
    fn base(&self, given: Option<&Source>) -> Option<Source> {
        let Some(image) = &self.image else {
            let own = self.config.as_ref()?.os_image_url.as_ref();
            return given.cloned().or_else(|| Some(Source::Registry(own?.parse().ok()?)));
        };
        let base = image.info.base.as_ref()?;
        let digest: Digest = base.digest.as_ref()?.parse().ok()?;
        let named: ImageRef = base.name.parse().ok()?;
        Some(Source::Registry(named.repo().pinned(digest).into()))
    }

    /// The bases of this and the other side, if they have other names and a config is compared.
    fn bases(&self, other: &Self, given: Option<&Source>) -> Option<(Source, Source)> {
        if self.images(other).is_some() {
            return None;
        }
        self.base(given).zip(other.base(given)).filter(|(before, after)| before != after)
    }

    /// This and the other image, if both are images.
    fn images<'a>(&'a self, other: &'a Self) -> Option<(&'a Image, &'a Image)> {
        self.image.as_ref().zip(other.image.as_ref())
    }
}

impl Image {
    /// Whether the layers below the topmost ones differ, and whether anything does. A build of mosb that
    /// runs nothing adds one layer, and the configs say what is in it.
    fn differ_from(&self, other: &Self) -> Result<(bool, bool)> {
        let layers = (layers::of_image(&self.resolved)?, layers::of_image(&other.resolved)?);
        let diff_ids = |layers: &[Layer]| layers.iter().map(|it| it.diff_id).collect::<Vec<_>>();
        let (before, after) = (diff_ids(&layers.0), diff_ids(&layers.1));
        let below = |ids: &[DiffId]| ids.split_last().map(|(_, below)| below.to_vec());
        let all = before != after || self.info.labels != other.info.labels;
        Ok((below(&before) != below(&after), all))
    }

    /// What differs between the OS in this image and in another one.
    async fn os_diff(&self, to: &Self, context: &CliContext, list: FileList) -> Result<OsDiff> {
        let (before, after) =
            (context.tree(&self.resolved).await?, context.tree(&to.resolved).await?);
        let labels = (self.info.labels.clone(), to.info.labels.clone());
        let compare = move || {
            let from = OsSide { tree: &before, labels: &labels.0 };
            OsDiff::between(from, OsSide { tree: &after, labels: &labels.1 }, list)
        };
        Ok(spawn_blocking(compare).await.map_err(Error::stopped("comparing"))?)
    }
}

async fn read(
    context: Option<&CliContext>,
    operand: &Operand,
    platform: Option<&Platform>,
) -> Result<Read> {
    match (operand, context) {
        (Operand::Config(input), _) => {
            let (input, operand) = (input.clone(), input.to_string());
            let config = spawn_blocking(move || input::config(&input))
                .await
                .map_err(Error::stopped("reading"))??;
            Ok(Read { operand, config: Some(config), image: None })
        }
        (Operand::Image(source), Some(context)) => {
            let resolved = context.resolve("image", source, platform).await?;
            let info = info(&resolved)?;
            let operand = info.image.clone();
            if !info.built_by_mosb {
                return Ok(Read { operand, config: None, image: Some(Image { info, resolved }) });
            }
            context.progress.step("reading the config of the image");
            let bytes = layers::current_config(&resolved).await?;
            let value = yaml::parse_one(&bytes)
                .map_err(|source| Error::Yaml { file: operand.clone(), source })?;
            let config = RenderedConfig::from_value(value)
                .map_err(|source| Error::Config { file: operand.clone(), source })?;
            Ok(Read { operand, config: Some(config), image: Some(Image { info, resolved }) })
        }
        (Operand::Image(_), None) => unreachable!("a context is made where an image is compared"),
    }
}

/// What changes from one config or image to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// Before.
    pub from: Side,
    /// After.
    pub to: Side,
    /// Whether nothing changes. If only the layers of two images differ, in what their trees don't show, it
    /// is false.
    pub same: bool,
    /// The changes of the OS between two images, or between the bases of a config and of the other side.
    /// Absent if only the configs differ, or if bases can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<OsDiff>,
    /// All changes.
    #[serde(flatten)]
    pub changes: diff::Diff,
}

/// One side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// The operand: a file, `stdin`, or an image with its digest.
    pub operand: String,
    /// Name of its rendered MachineConfig; absent if mosb did not build the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_config: Option<String>,
}
