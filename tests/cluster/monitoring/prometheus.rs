//! A real Prometheus.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use mosb_tests::{Daemon, ask, lasting};

/// A Prometheus that scrapes one address every few seconds.
pub struct Prometheus {
    address: String,
    _daemon: Daemon,
}

impl Prometheus {
    /// With these rules; its files are in the folder.
    pub fn start(folder: &Path, rules: &Value, scraped: &str) -> Self {
        let config = json!({
            // A scrape may take as long as the interval.
            "global": {"scrape_interval": "5s", "evaluation_interval": "1s"},
            "rule_files": [folder.join("rules.yaml")],
            "scrape_configs": [{"job_name": "mosb", "static_configs": [{"targets": [scraped]}]}],
        });
        fs::write(folder.join("rules.yaml"), rules.to_string()).unwrap();
        fs::write(folder.join("config.yaml"), config.to_string()).unwrap();
        // With port 0 it does not log which one it got.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let mut command = lasting("prometheus");
        command
            .arg(format!("--config.file={}", folder.join("config.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"));
        let ready = |line: &str| line.contains("Server is ready").then_some(());
        let (daemon, ()) = Daemon::start(command, ready);
        Self { address, _daemon: daemon }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The data of an answer of its HTTP API.
    #[track_caller]
    pub fn ask(&self, path: &str) -> Value {
        let answer = ask(&self.address, &format!("GET /api/v1/{path} HTTP/1.0")).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(" 200 "), "{path}: {answer}");
        serde_json::from_str::<Value>(body).unwrap()["data"].clone()
    }

    /// The samples of an expression now.
    #[track_caller]
    pub fn query(&self, expression: &str) -> Vec<Value> {
        let escaped: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = self.ask(&format!("query?query={escaped}"));
        answer["result"].as_array().unwrap().clone()
    }
}
