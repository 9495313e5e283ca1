//! The metric of the user data of new machines.

use super::Metrics;
use super::pool_reasons::PoolReason;

impl Metrics {
    /// Sets why the Secret that this MachineOSConfig names stays as it is; nothing if it is as it
    /// should be.
    pub fn set_user_data(&self, config: &str, pool: &str, refused: Option<&'static str>) {
        let reason = refused.map(|reason| PoolReason { pool: pool.to_owned(), reason });
        self.user_data.set(config, reason);
    }

    /// Removes the series of a MachineOSConfig without user data.
    pub fn forget_user_data(&self, config: &str) {
        self.user_data.set(config, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_one_series_until_it_ends() {
        let metrics = Metrics::default();
        let series = || -> Vec<String> {
            let text = metrics.text();
            let lines = text.lines().filter(|line| line.starts_with("mosb_user_data_refused{"));
            lines.map(str::to_owned).collect()
        };
        let line = |reason: &str| {
            format!("mosb_user_data_refused{{pool=\"worker\",reason=\"{reason}\"}} 1")
        };
        for (reason, want) in [
            (Some("NoSecret"), vec![line("NoSecret")]),
            (Some("NoSecret"), vec![line("NoSecret")]),
            (Some("NotLabelled"), vec![line("NotLabelled")]),
            (None, Vec::new()),
        ] {
            metrics.set_user_data("config", "worker", reason);
            assert_eq!(series(), want, "{reason:?}");
        }
        metrics.set_user_data("config", "worker", Some("TooLarge"));
        metrics.forget_user_data("config");
        assert_eq!(series(), [""; 0]);
    }
}
