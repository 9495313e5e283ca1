//! Asks a Prometheus which alerts fire.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::redirect::Policy;
use serde::Deserialize;

use mosb_api::cluster_settings::AlertBlock;
use mosb_reconcile::Problem;
use mosb_registry::http::root_cause;
use mosb_types::ErrorClass;

/// For an answer: it is asked again while machines wait.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer: about 10,000 alerts.
const MAX_ANSWER: usize = 16 << 20;

/// An answer of `/api/v1/alerts`.
#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    alerts: Vec<Alert>,
}

#[derive(Deserialize)]
struct Alert {
    labels: AlertLabels,
    state: String,
}

#[derive(Deserialize)]
struct AlertLabels {
    #[serde(default)]
    alertname: String,
}

/// Which of these alerts fire.
pub(super) async fn firing(alerts: &AlertBlock) -> Result<BTreeSet<String>, Problem> {
    let url = format!("{}/api/v1/alerts", alerts.prometheus);
    let asked = ask(&url).await.and_then(|answer| read(&answer, alerts));
    asked.map_err(|cause| Problem {
        class: ErrorClass::Transient,
        reason: "alerts-unknown".to_owned(),
        message: format!(
            "{url}: {cause}; check blockOn.alerts of the policy, and that Prometheus answers"
        ),
    })
}

async fn ask(url: &str) -> Result<Vec<u8>, String> {
    let of = |error: reqwest::Error| {
        // The outer error only says that the request failed.
        let mut text = root_cause(&error);
        text.truncate(text.floor_char_boundary(200));
        text
    };
    let client = reqwest::Client::builder().redirect(Policy::none()).timeout(TIMEOUT);
    let response = client.build().map_err(of)?.get(url).send().await.map_err(of)?;
    let mut response = response.error_for_status().map_err(of)?;
    let mut answer = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(of)? {
        answer.extend_from_slice(&chunk);
        if answer.len() > MAX_ANSWER {
            return Err(format!("the answer has more than {} MiB", MAX_ANSWER >> 20));
        }
    }
    Ok(answer)
}

fn read(answer: &[u8], alerts: &AlertBlock) -> Result<BTreeSet<String>, String> {
    let answer: Answer = serde_json::from_slice(answer)
        .map_err(|_| "the answer is not that of a Prometheus".to_owned())?;
    let fires = |one: &Alert| one.state == "firing" && alerts.names.contains(&one.labels.alertname);
    Ok(answer.data.alerts.into_iter().filter(fires).map(|one| one.labels.alertname).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_named_alerts_that_fire_count() {
        let alerts: AlertBlock =
            serde_json::from_value(json!({ "prometheus": "http://p", "names": ["A", "B"] }))
                .unwrap();
        let alert = |name: &str, state: &str| json!({ "labels": { "alertname": name }, "state": state, "value": "1" });
        let all = [alert("A", "firing"), alert("A", "firing"), alert("B", "pending")];
        let all = all.into_iter().chain([alert("C", "firing")]).collect::<Vec<_>>();
        let answer = json!({ "status": "success", "data": { "alerts": all } }).to_string();
        assert_eq!(read(answer.as_bytes(), &alerts), Ok(["A".to_owned()].into()));
        for odd in ["", "{}", r#"{"status":"error","error":"x"}"#] {
            assert!(read(odd.as_bytes(), &alerts).is_err(), "{odd}");
        }
    }
}
