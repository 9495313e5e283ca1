//! Images of Azure's marketplace: which plan an image is of, and which generation of the virtual
//! hardware it needs.

use crate::Architecture;
use crate::stream::{AzureGenerations, AzureImage};

/// An image of the marketplace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarketplaceImage<'a> {
    pub publisher: &'a str,
    pub offer: &'a str,
    pub sku: &'a str,
    pub version: &'a str,
}

/// What an image costs and who sells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Published for OpenShift, without a purchase plan.
    NoPurchase,
    /// The name that streams have for the plan.
    Purchase(&'static str),
}

/// Offers of Red Hat, with the plan for `redhat` and for `redhat-limited`.
const OFFERS: [(&str, &str, &str); 3] = [
    ("rh-ocp-worker", "ocp", "ocp-emea"),
    ("rh-opp-worker", "opp", "opp-emea"),
    ("rh-oke-worker", "oke", "oke-emea"),
];

impl Plan {
    /// Of a publisher and an offer; Azure ignores their case.
    pub fn of(publisher: &str, offer: &str) -> Option<Self> {
        if publisher.eq_ignore_ascii_case("azureopenshift") {
            return Some(Self::NoPurchase);
        }
        let offers = OFFERS.iter().find(|(name, _, _)| name.eq_ignore_ascii_case(offer));
        let (_, everywhere, emea) = offers?;
        if publisher.eq_ignore_ascii_case("redhat") {
            Some(Self::Purchase(everywhere))
        } else if publisher.eq_ignore_ascii_case("redhat-limited") {
            Some(Self::Purchase(emea))
        } else {
            None
        }
    }

    /// Its key in a stream.
    pub fn key(self) -> &'static str {
        match self {
            Self::NoPurchase => "no-purchase-plan",
            Self::Purchase(key) => key,
        }
    }

    /// `image.type` of the Machine API.
    pub fn image_type(self) -> &'static str {
        match self {
            Self::NoPurchase => "MarketplaceNoPlan",
            Self::Purchase(_) => "MarketplaceWithPlan",
        }
    }
}

/// The generation of the virtual hardware: an image of one does not start on a size of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    Gen1,
    Gen2,
}

impl Generation {
    fn gen2_if(is_gen2: bool) -> Self {
        if is_gen2 { Self::Gen2 } else { Self::Gen1 }
    }

    /// Of a marketplace image, by the habits of its publishers.
    pub fn of_sku(plan: Plan, sku: &str, architecture: Architecture) -> Self {
        let sku = sku.to_ascii_lowercase();
        Self::gen2_if(match plan {
            // ARM sizes are all of generation 2.
            _ if architecture == Architecture::Aarch64 => true,
            Plan::NoPurchase => sku.contains("v2") || sku.contains("gen2"),
            Plan::Purchase(_) => !sku.contains("gen1"),
        })
    }

    /// Of an uploaded image, by the names that the installer gives.
    pub fn of_resource(id: &str, architecture: Architecture) -> Self {
        let is_gen2 = id.to_ascii_lowercase().contains("gen2");
        Self::gen2_if(is_gen2 || architecture == Architecture::Aarch64)
    }

    pub fn number(self) -> u8 {
        match self {
            Self::Gen1 => 1,
            Self::Gen2 => 2,
        }
    }

    /// The image of this generation.
    pub fn select(self, images: &AzureGenerations) -> Option<MarketplaceImage<'_>> {
        let image: &AzureImage = match self {
            Self::Gen1 => images.gen1.as_ref()?,
            Self::Gen2 => images.gen2.as_ref()?,
        };
        let text =
            |text: &'_ Option<String>| text.as_deref().filter(|text| !text.is_empty()).is_some();
        let complete =
            [&image.publisher, &image.offer, &image.sku, &image.version].into_iter().all(text);
        complete.then_some(MarketplaceImage {
            publisher: image.publisher.as_deref()?,
            offer: image.offer.as_deref()?,
            sku: image.sku.as_deref()?,
            version: image.version.as_deref()?,
        })
    }
}

impl MarketplaceImage<'_> {
    /// `publisher:offer:sku:version`, Azure's URN.
    pub fn urn(&self) -> String {
        let Self { publisher, offer, sku, version } = self;
        format!("{publisher}:{offer}:{sku}:{version}")
    }
}
