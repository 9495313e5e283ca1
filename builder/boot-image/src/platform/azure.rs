//! Azure: an image of the marketplace by plan and generation, or an uploaded one by the
//! administrator's map.

use serde_json::{Value, json};

use super::azure_gallery::{self, Wanted};
use super::marketplace::{Generation, MarketplaceImage, Plan};
use super::{Verdict, change, edit, skip};
use crate::field::{flag, image, image_at, object, required_text, text};
use crate::{Architecture, BootImage, Change, Context, ImageError, Skip};

/// What is neither a version nor fixed.
const LATEST: &str = "latest";
/// Where a template names an image of a gallery.
const GALLERIES: [&str; 2] = ["computeGallery", "sharedGallery"];

/// What excludes a set, whatever its image is.
fn refusal(
    spec: &Value,
    security_type: &str,
    context: &Context<'_>,
) -> Result<Option<Skip>, ImageError> {
    let architecture = context.architecture;
    if matches!(architecture, Architecture::Ppc64le | Architecture::S390x) {
        return Ok(Some(Skip::AzureArchitecture { architecture }));
    }
    let security_type = text(spec, security_type)?;
    Ok(security_type
        .map(|one| Skip::SecurityType { security_type: one.chars().take(64).collect() }))
}

/// The marketplace image of the stream, or why there is none.
fn published<'a>(
    plan: Plan,
    generation: Generation,
    context: &Context<'a>,
) -> Result<MarketplaceImage<'a>, Skip> {
    let what = || format!("Azure image of plan {} for {}", plan.key(), context.architecture);
    let images = context.stream.images_of(context.architecture);
    let images = images.and_then(|images| images.extensions.marketplace.azure.get(plan.key()));
    let images = images.ok_or_else(|| Skip::NotInStream { what: what() })?;
    if let Some(image) = generation.select(images) {
        return Ok(image);
    }
    Err(match generation {
        Generation::Gen1 if images.gen1.is_none() => {
            Skip::Generation { generation: generation.number() }
        }
        Generation::Gen1 | Generation::Gen2 => Skip::NotInStream { what: what() },
    })
}

pub fn machine_api_image(spec: &Value) -> Result<Option<BootImage>, ImageError> {
    let uploaded = image_at(spec, "/image/resourceID")?;
    if uploaded.is_some() || object(spec, "/image")?.is_none() {
        return Ok(uploaded);
    }
    image("/image/publisher", &marketplace_image(spec, "/image")?.urn()).map(Some)
}

/// None if it is looked up when a machine is made.
pub fn cluster_api_image(spec: &Value) -> Result<Option<BootImage>, ImageError> {
    let part = |name: &str| format!("/template/spec/image/{name}");
    let published = part("marketplace");
    if object(spec, &published)?.is_some() {
        return image(&published, &marketplace_image(spec, &published)?.urn()).map(Some);
    }
    for gallery in GALLERIES.map(part) {
        if text(spec, &part("id"))?.is_none() && object(spec, &gallery)?.is_some() {
            return image(&gallery, &azure_gallery::id_of(spec, &gallery)?).map(Some);
        }
    }
    image_at(spec, &part("id"))
}

pub fn machine_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    if let Some(refused) = refusal(spec, "/securityProfile/settings/securityType", context)? {
        return skip(refused);
    }
    if object(spec, "/image")?.is_none() {
        return Err(ImageError::Missing { path: "/image".to_owned() });
    }
    let (plan, generation, from) = if let Some(id) = text(spec, "/image/resourceID")? {
        let from = image("/image/resourceID", id)?;
        let has_marketplace = context
            .stream
            .images_of(context.architecture)
            .is_some_and(|images| !images.extensions.marketplace.azure.is_empty());
        if azure_gallery::is_listed(id, context) || !has_marketplace {
            return match azure_gallery::wanted(id, context) {
                Wanted::Current => Ok(Verdict::Current(from)),
                Wanted::Skip(reason) => skip(reason),
                Wanted::Id(wanted) => {
                    let to = image("images of the settings", wanted)?;
                    Ok(change(spec, "/image/resourceID", json!(wanted), from, to))
                }
            };
        }
        if !azure_gallery::is_from_installer(id) && !context.proof.covers(id) {
            return skip(Skip::Unproven { image: id.to_owned() });
        }
        (Plan::NoPurchase, Generation::of_resource(id, context.architecture), from)
    } else {
        let current = marketplace_image(spec, "/image")?;
        let path = "/image/publisher";
        let from = image(path, &current.urn())?;
        let Some(plan) = Plan::of(current.publisher, current.offer) else {
            let (publisher, offer) = (current.publisher.to_owned(), current.offer.to_owned());
            return Err(ImageError::UnknownOffer { path: path.to_owned(), publisher, offer });
        };
        if current.version == LATEST {
            return skip(Skip::Lookup { field: "image.version".to_owned() });
        }
        (plan, Generation::of_sku(plan, current.sku, context.architecture), from)
    };
    let wanted = match published(plan, generation, context) {
        Ok(wanted) => wanted,
        Err(reason) => return skip(reason),
    };
    let to = image("the marketplace image of the stream", &wanted.urn())?;
    let new = json!({
        "publisher": wanted.publisher,
        "offer": wanted.offer,
        "sku": wanted.sku,
        "version": wanted.version,
        "resourceID": "",
        "type": plan.image_type(),
    });
    for field in ["publisher", "offer", "sku", "version", "resourceID", "type"] {
        let current = text(spec, &format!("/image/{field}"))?.unwrap_or_default();
        if new[field] != current {
            return Ok(change(spec, "/image", new, from, to));
        }
    }
    Ok(Verdict::Current(from))
}

fn marketplace_image<'a>(spec: &'a Value, path: &str) -> Result<MarketplaceImage<'a>, ImageError> {
    let field = |name: &str| required_text(spec, &format!("{path}/{name}"));
    Ok(MarketplaceImage {
        publisher: field("publisher")?,
        offer: field("offer")?,
        sku: field("sku")?,
        version: field("version")?,
    })
}

pub fn cluster_api(spec: &Value, context: &Context<'_>) -> Result<Verdict, ImageError> {
    let security_type = "/template/spec/securityProfile/securityType";
    if let Some(refused) = refusal(spec, security_type, context)? {
        return skip(refused);
    }
    let path = "/template/spec/image";
    let part = |name: &str| format!("{path}/{name}");
    if object(spec, &part("marketplace"))?.is_some() {
        return marketplace(spec, &part("marketplace"), context);
    }
    let id = part("id");
    if let Some(current) = text(spec, &id)? {
        return gallery(spec, current, &id, |wanted| wanted, context);
    }
    for name in GALLERIES {
        if object(spec, &part(name))?.is_some() {
            let current = azure_gallery::id_of(spec, &part(name))?;
            let version = format!("{}/version", part(name));
            // Only images of the same definition follow each other, so only the version differs.
            return gallery(spec, &current, &version, azure_gallery::version_or_id, context);
        }
    }
    skip(Skip::Lookup { field: "image".to_owned() })
}

fn gallery(
    spec: &Value,
    current: &str,
    path: &str,
    new: fn(&str) -> &str,
    context: &Context<'_>,
) -> Result<Verdict, ImageError> {
    let from = image(path, current)?;
    if azure_gallery::version(current) == Some(LATEST) {
        return skip(Skip::Lookup { field: "image version".to_owned() });
    }
    match azure_gallery::wanted(current, context) {
        Wanted::Current => Ok(Verdict::Current(from)),
        Wanted::Skip(reason) => skip(reason),
        Wanted::Id(wanted) => {
            let to = image("images of the settings", wanted)?;
            Ok(change(spec, path, json!(new(wanted)), from, to))
        }
    }
}

fn marketplace(spec: &Value, path: &str, context: &Context<'_>) -> Result<Verdict, ImageError> {
    let current = marketplace_image(spec, path)?;
    let from = image(path, &current.urn())?;
    let Some(plan) = Plan::of(current.publisher, current.offer) else {
        // Among them the images per Kubernetes version of the provider, which are of no stream.
        let want = "those of publisher azureopenshift or redhat".to_owned();
        return skip(Skip::Custom { image: from.to_string(), want });
    };
    if current.version == LATEST {
        return skip(Skip::Lookup { field: "image.marketplace.version".to_owned() });
    }
    let generation = Generation::of_sku(plan, current.sku, context.architecture);
    let wanted = match published(plan, generation, context) {
        Ok(wanted) => wanted,
        Err(reason) => return skip(reason),
    };
    let mut edits = Vec::new();
    let fields = [
        ("publisher", wanted.publisher),
        ("offer", wanted.offer),
        ("sku", wanted.sku),
        ("version", wanted.version),
    ];
    for (field, wanted) in fields {
        edits.extend(edit(spec, &format!("{path}/{field}"), json!(wanted)));
    }
    let third_party = format!("{path}/thirdPartyImage");
    let has_plan = matches!(plan, Plan::Purchase(_));
    if flag(spec, &third_party)? != has_plan {
        edits.extend(edit(spec, &third_party, json!(has_plan)));
    }
    if edits.is_empty() {
        return Ok(Verdict::Current(from));
    }
    let to = image("the marketplace image of the stream", &wanted.urn())?;
    Ok(Verdict::Change(Change { edits, from, to, object: None }))
}
