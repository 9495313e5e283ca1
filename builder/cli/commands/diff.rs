//! `mosb diff`.

use anyhow::{Context as _, Result};
use tokio::task::spawn_blocking;

use super::image::info;
use crate::api::{RenderedConfig, yaml};
use crate::cli::error::Error;
use crate::cli::objects::{BaseInfo, Diff, Side};
use crate::cli::resolve::Operand;
use crate::cli::world::World;
use crate::cli::{input, layers};
use crate::image::Platform;
use crate::plan::diff;

/// Compares two sides.
///
/// # Errors
/// A side that can't be read.
pub async fn diff(
    world: Option<&World>,
    from: &Operand,
    to: &Operand,
    platform: Option<&Platform>,
) -> Result<Diff> {
    let from = read(world, from, platform).await?;
    let to = read(world, to, platform).await?;
    let changes = diff::Diff::between(&from.side()?, &to.side()?)?;
    let side = |read: &Read| Side {
        operand: read.operand.clone(),
        rendered_config: read.config.name().to_string(),
    };
    Ok(Diff {
        from: side(&from),
        to: side(&to),
        same: changes.is_same(),
        changes,
    })
}

struct Read {
    operand: String,
    config: RenderedConfig,
    /// The base in the labels of an image.
    base: Option<BaseInfo>,
    image: bool,
}

impl Read {
    fn side(&self) -> Result<diff::Side<'_>, crate::plan::Error> {
        if !self.image {
            return diff::Side::of_config(&self.config);
        }
        let base = self.base.as_ref();
        let digest = base.and_then(|base| base.digest.as_ref()?.parse().ok());
        diff::Side::of_image(&self.config, base.map(|base| base.name.as_str()), digest)
    }
}

async fn read(
    world: Option<&World>,
    operand: &Operand,
    platform: Option<&Platform>,
) -> Result<Read> {
    match (operand, world) {
        (Operand::Config(input), _) => {
            let (input, operand) = (input.clone(), input.to_string());
            let config = spawn_blocking(move || input::config(&input))
                .await
                .context("reading stopped")??;
            Ok(Read {
                operand,
                config,
                base: None,
                image: false,
            })
        }
        (Operand::Image(source), Some(world)) => {
            let resolved = world.resolve("image", source, platform).await?;
            let info = info(&resolved)?;
            let operand = info.image.clone();
            if !info.built_by_mosb {
                return Err(Error::NotBuilt { image: operand }.into());
            }
            world.progress.step("reading the config of the image");
            let bytes = layers::current_config(&resolved).await?;
            let value = yaml::parse_one(&bytes).map_err(|source| Error::Yaml {
                file: operand.clone(),
                source,
            })?;
            let config = RenderedConfig::from_value(value).map_err(|source| Error::Config {
                file: operand.clone(),
                source,
            })?;
            Ok(Read {
                operand,
                config,
                base: info.base,
                image: true,
            })
        }
        (Operand::Image(_), None) => unreachable!("a world is made where an image is compared"),
    }
}
