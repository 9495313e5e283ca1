//! Metrics of boot images: gauges from the last pass. Labels are kinds and words of a fixed set.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::figures::BootImageFigures;
use mosb_api::boot_images::ManagedKind;

/// The results of a set.
const RESULTS: [&str; 5] = ["current", "updating", "waiting", "skipped", "failed"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindAndResult {
    kind: String,
    result: &'static str,
}

#[derive(Debug, Default)]
pub struct BootImageMetrics {
    sets: Family<KindAndResult, Gauge>,
    days_behind: Gauge,
    skewed: Gauge,
    expiring: Gauge,
    restores: Counter,
}

impl BootImageMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "mosb_boot_image_sets",
            "Machine sets whose boot image mosb keeps, by kind and result",
            self.sets.clone(),
        );
        registry.register(
            "mosb_boot_image_days_behind",
            "Days between the oldest boot image in use whose release is known and that of the release",
            self.days_behind.clone(),
        );
        registry.register(
            "mosb_boot_image_skewed",
            "Whether a boot image in use is older than the limit",
            self.skewed.clone(),
        );
        registry.register(
            "mosb_boot_image_user_data_expiring",
            "Secrets with user data whose CA expires within 90 days",
            self.expiring.clone(),
        );
        registry.register(
            "mosb_boot_image_restores",
            "Earlier boot images that were put back and pinned, as the histories recorded them",
            self.restores.clone(),
        );
    }

    /// Counts a restored image.
    pub fn count_restore(&self) {
        self.restores.inc();
    }

    /// Sets the figures of the last pass.
    pub fn set(&self, figures: &BootImageFigures) {
        for kind in ManagedKind::ALL {
            for result in RESULTS {
                let count = figures.sets.get(&(kind, result)).copied();
                let labels = KindAndResult { kind: kind.to_string(), result };
                match count {
                    Some(count) => {
                        self.sets.get_or_create(&labels).set(count);
                    }
                    None => {
                        self.sets.remove(&labels);
                    }
                }
            }
        }
        self.days_behind.set(figures.days_behind.unwrap_or_default());
        let expiring = figures.expiring.as_ref().map_or(0, Vec::len);
        self.expiring.set(i64::try_from(expiring).unwrap_or(i64::MAX));
        let skew = figures.skew.as_ref();
        self.skewed.set(skew.is_some_and(|skew| !skew.too_old.is_empty()).into());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::{ExpiringStub, SkewFigures};

    fn exposition(metrics: &BootImageMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn a_result_without_sets_has_no_series() {
        let metrics = BootImageMetrics::default();
        let kind = ManagedKind::MachineApiMachineSets;
        let mut figures = BootImageFigures::default();
        figures.sets.insert((kind, "failed"), 2);
        figures.skew =
            Some(SkewFigures { too_old: vec!["a".to_owned()], ..SkewFigures::default() });
        let stub = ExpiringStub { secret: "a/b".to_owned(), on: "2027-01-01".to_owned() };
        figures.expiring = Some(vec![stub]);
        metrics.set(&figures);
        let series =
            "mosb_boot_image_sets{kind=\"machinesets.machine.openshift.io\",result=\"failed\"} 2";
        let text = exposition(&metrics);
        assert!(text.contains(series) && text.contains("mosb_boot_image_skewed 1"), "{text}");
        assert!(text.contains("mosb_boot_image_user_data_expiring 1"), "{text}");
        metrics.set(&BootImageFigures::default());
        let text = exposition(&metrics);
        assert!(!text.contains("mosb_boot_image_sets{"), "{text}");
        assert!(text.contains("mosb_boot_image_skewed 0"), "{text}");
    }
}
