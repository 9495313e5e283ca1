//! `mosb diff`, and `plan --previous`.

use tokio::task::spawn_blocking;

use super::image::info;
use crate::cli::context::CliContext;
use crate::cli::error::Error;
use crate::cli::objects::{BaseInfo, Diff, ImageInfo, PlannedChange, Side};
use crate::cli::resolve::{self, Operand};
use crate::cli::{Result, input, layers};
use mosb_build::resolve::given_base_name;
use mosb_image::Platform;
use mosb_plan::api::{RenderedConfig, yaml};
use mosb_plan::plan::{BuildPlan, diff};

/// Compares two configs or images.
///
/// # Errors
/// A side or a base can't be read.
pub async fn diff(context: Option<&CliContext>, wanted: &resolve::Diff) -> Result<Diff> {
    let platform = wanted.platform.as_ref();
    let from = read(context, &wanted.from, platform).await?;
    let to = read(context, &wanted.to, platform).await?;
    let base = match context.zip(wanted.base.as_ref()) {
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
    let changes = diff::Diff::between(&from.side(base)?, &to.side(base)?)?;
    Ok(Diff { from: from.shown(), to: to.shown(), same: changes.is_same(), changes })
}

/// What a plan costs machines that have another config or image. The base is the plan's if `is_given`,
/// or else a config's own.
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
    Ok(PlannedChange { from: from.shown(), cost })
}

struct Read {
    operand: String,
    config: RenderedConfig,
    /// The image that contains the config.
    image: Option<ImageInfo>,
}

impl Read {
    fn shown(&self) -> Side {
        let rendered_config = self.config.name().to_string();
        Side { operand: self.operand.clone(), rendered_config }
    }

    /// Plans the config on the base of its image, on the given base, or on the config's own.
    fn side(&self, given: Option<&BaseInfo>) -> Result<diff::Side<'_>, mosb_plan::plan::Error> {
        let base = match (&self.image, given) {
            (Some(image), _) => image.base.as_ref(),
            (None, Some(given)) => Some(given),
            (None, None) => return diff::Side::of_config(&self.config),
        };
        let digest = base.and_then(|base| base.digest.as_ref()?.parse().ok());
        diff::Side::on_base(&self.config, base.map(|base| base.name.as_str()), digest)
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
            Ok(Read { operand, config, image: None })
        }
        (Operand::Image(source), Some(context)) => {
            let resolved = context.resolve("image", source, platform).await?;
            let info = info(&resolved)?;
            let operand = info.image.clone();
            if !info.built_by_mosb {
                return Err(Error::NotBuilt { image: operand }.into());
            }
            context.progress.step("reading the config of the image");
            let bytes = layers::current_config(&resolved).await?;
            let value = yaml::parse_one(&bytes)
                .map_err(|source| Error::Yaml { file: operand.clone(), source })?;
            let config = RenderedConfig::from_value(value)
                .map_err(|source| Error::Config { file: operand.clone(), source })?;
            Ok(Read { operand, config, image: Some(info) })
        }
        (Operand::Image(_), None) => unreachable!("a context is made where an image is compared"),
    }
}
