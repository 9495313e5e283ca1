//! Chooses the OS image and the extensions image: the release's, or the last one that an
//! administrator's MachineConfig names.

use super::settings::{Of, Settings};
use super::{Component, Request, select, settings};
use mosb_api::is_component_name;
use mosb_image::ImageRef;
use mosb_types::Finding;

#[derive(Debug)]
pub(super) struct Images {
    pub os: Decided,
    pub extensions: Decided,
}

/// An image, and the MachineConfigs that name it.
#[derive(Debug)]
pub(super) struct Decided {
    /// With a digest; empty if no image is named.
    pub image: String,
    /// The field of the MachineConfigs.
    pub field: &'static str,
    /// The default if no MachineConfig names one: `--os-image`, or the ControllerConfig's.
    pub base: Option<Base>,
    /// The MachineConfigs that name one; the last is used.
    pub named_by: Vec<usize>,
}

/// An image that does not come from a MachineConfig.
#[derive(Debug, Clone)]
pub(super) struct Base {
    pub image: String,
    /// Its source, for messages.
    pub by: &'static str,
}

/// Names the caller's image in messages.
pub const GIVEN: &str = "the image that was given";
/// Names the release's image in messages.
const RELEASE: &str = "ControllerConfig machine-config-controller";

impl Images {
    /// Whether an administrator's MachineConfig names another OS image than the release.
    pub fn os_is_overridden(&self) -> bool {
        let base = self.os.base.as_ref().map(|base| base.image.as_str());
        !self.os.named_by.is_empty() && base.unwrap_or_default() != self.os.image
    }
}

/// Decides on both images.
pub(super) fn decide(
    request: &Request,
    chosen: &[&Component],
    settings: &Settings,
    problems: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) -> Images {
    let (os, extensions) = candidates(request, settings);
    let mut pin = |(field, base, named): (&'static str, Option<Base>, &[Of<String>])| {
        let place = place(chosen, field, base.as_ref(), named);
        let pinned = |image: &str| match request.pins.get(image) {
            Some(pinned) => pinned.clone(),
            None => image.to_owned(),
        };
        let base = base.map(|base| Base { image: pinned(&base.image), ..base });
        let image = match (named.last(), &base) {
            (Some(last), _) => pinned(&last.value),
            (None, Some(base)) => base.image.clone(),
            (None, None) => String::new(),
        };
        if !image.is_empty() && !is_pinned(&image) {
            let message = format!(
                "{image:?} has no digest, so it may be another image tomorrow; write repository@sha256:<64 hex digits>, or have its tag resolved"
            );
            problems.push(Finding::new("image-not-pinned", message).object(place));
        }
        let named_by = named.iter().map(|image| image.from).collect();
        Decided { image, field, base, named_by }
    };
    let images = Images { os: pin(os), extensions: pin(extensions) };
    let stream = request.pool_object.as_ref();
    let stream = stream.and_then(|pool| pool.spec.os_image_stream.as_ref());
    let stream = stream.filter(|stream| !stream.name.is_empty());
    if let Some(stream) = stream {
        let place = format!("MachineConfigPool {}: spec.osImageStream", request.pool);
        let message = match (images.os.named_by.last(), &request.os_image) {
            (Some(last), _) => Some(format!(
                "it says {:?}, and {} names an image in spec.osImageURL; take one of them out",
                stream.name,
                chosen[*last].name()
            )),
            (None, None) => Some(format!(
                "which images the stream {:?} has is not known here; give its OS image and its extensions image",
                stream.name
            )),
            (None, Some(_)) => None,
        };
        problems.extend(message.map(|text| Finding::new("os-image-stream", text).object(place)));
    } else if images.os_is_overridden()
        && let (Some(last), Some(base)) = (images.os.named_by.last(), &images.os.base)
        // The controller decides on a pool's first image, and later ones are built on the release's.
        && !is_component_name(chosen[*last].name())
    {
        let message = format!(
            "decides which OS image: {} instead of {}; updates of the cluster don't change it any more",
            images.os.image, base.image
        );
        let place = chosen[*last].place("spec.osImageURL");
        warnings.push(Finding::new("os-image-overridden", message).object(place));
    }
    images
}

type Candidates<'a> = (&'static str, Option<Base>, &'a [Of<String>]);

fn candidates<'a>(request: &Request, settings: &'a Settings) -> (Candidates<'a>, Candidates<'a>) {
    let release = request.controller_config.as_ref().map(|config| &config.spec);
    let base = |given: &Option<String>, release: Option<&String>| {
        let given = given.clone().map(|image| Base { image, by: GIVEN });
        let release = release.filter(|image| !image.is_empty()).cloned();
        given.or_else(|| release.map(|image| Base { image, by: RELEASE }))
    };
    let os = base(&request.os_image, release.map(|spec| &spec.base_os_image));
    let extensions = release.map(|spec| &spec.extensions_image);
    let extensions = base(&request.extensions_image, extensions);
    (
        ("osImageURL", os, &settings.os_images),
        ("baseOSExtensionsContainerImage", extensions, &settings.extensions_images),
    )
}

/// An image in use without a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpinned {
    /// As it was written.
    pub image: String,
    pub reference: ImageRef,
    /// Its source: a field of a MachineConfig, a ControllerConfig, or [`GIVEN`].
    pub place: String,
}

/// The images in use that have neither a digest nor a pin. An invalid reference is left to
/// rendering, which reports it.
pub(super) fn unpinned(request: &Request) -> Vec<Unpinned> {
    let chosen = select::select(request).chosen;
    // Problems are reported when it is rendered.
    let settings = settings::merge(&chosen, &mut Vec::new(), &mut Vec::new());
    let (os, extensions) = candidates(request, &settings);
    let in_use = |(field, base, named): Candidates<'_>| {
        let image = match named.last() {
            Some(last) => Some(last.value.clone()),
            None => base.as_ref().map(|base| base.image.clone()),
        };
        let place = place(&chosen, field, base.as_ref(), named);
        let image = image.filter(|image| !is_pinned(image) && !request.pins.contains_key(image))?;
        Some(Unpinned { reference: image.parse().ok()?, image, place })
    };
    [in_use(os), in_use(extensions)].into_iter().flatten().collect()
}

/// The origin of the image in use.
fn place(chosen: &[&Component], field: &str, base: Option<&Base>, named: &[Of<String>]) -> String {
    match named.last() {
        Some(last) => chosen[last.from].place(&format!("spec.{field}")),
        None => base.map(|base| base.by).unwrap_or_default().to_owned(),
    }
}

/// `repository@sha256:<64 hex digits>`.
fn is_pinned(image: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    image.split_once("@sha256:").is_some_and(|(repo, digits)| {
        let clean = |b: u8| b.is_ascii_graphic() && b != b'@';
        !repo.is_empty() && repo.bytes().all(clean) && digits.len() == 64 && digits.bytes().all(hex)
    })
}
