//! The whole list of checks by hand, where no cluster is asked.

use super::{Cluster, Facts, Verdict, check};
use mosb_api::Metadata;
use mosb_api::image_checks::{
    CheckModes, CheckName, CheckResult, CheckVerdict, ImageCheckSettings,
};

/// Makes the checks that these settings do not turn off. What only a cluster knows is
/// [`CheckVerdict::Unknown`], as is everything if the image is not known: why.
pub fn by_hand(facts: Result<Facts<'_>, &str>, settings: &ImageCheckSettings) -> Vec<CheckResult> {
    let modes = CheckModes::of(&Metadata::default(), settings);
    let modes = modes.expect("only an annotation can be wrong, and there is none");
    let verdict = |name| {
        match facts {
        Ok(facts) if name == CheckName::Release && *facts.cluster == Cluster::default() => {
            Verdict::Unknown(
                "what the cluster's own OS image is, is not known: the settings have no baseOSContainerImage"
                    .to_owned(),
            )
        }
        Ok(facts) => check(name, facts),
        Err(why) => Verdict::Unknown(why.to_owned()),
    }
    };
    let built_in = CheckName::ALL.into_iter().filter_map(|name| {
        let mode = modes.get(name.as_str()).filter(|_| modes.is_on(name.as_str()))?;
        Some(verdict(name).result(name, mode))
    });
    let own = settings.own.keys().filter_map(|name| {
        Some(CheckResult {
            check: name.clone(),
            verdict: CheckVerdict::Unknown,
            code: None,
            message: "its program runs only in a cluster".to_owned(),
            mode: modes.get(name).filter(|_| modes.is_on(name))?,
            overridden: false,
            job: None,
        })
    });
    built_in.chain(own).collect()
}
