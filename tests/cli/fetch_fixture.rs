//! The shared fixture for tests of fetching: a config with one file, and its rendered form.

use std::io::Write as _;
use std::time::Duration;

use flate2::write::GzEncoder;
use mosb_build::fetch::{Error, Fetcher, Options};
use mosb_ignition::snapshot::{configs, contents};
use mosb_ignition::{Contents, Document, Resolution, parse, parse_data_url};
use mosb_types::{Diagnostic as _, ErrorClass};
use serde_json::{Value, json};

/// This is longer than any request in these tests.
pub const LONG: Duration = Duration::from_secs(60);

pub fn options(timeout: Duration) -> Options {
    Options { timeout, ..Options::default() }
}

pub fn fetcher(options: Options) -> Fetcher {
    Fetcher::new(options).unwrap()
}

/// The code and message of a failed fetch, and whether the error is transient.
#[derive(Debug)]
pub struct Failed {
    pub code: String,
    pub message: String,
    pub class: ErrorClass,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { code: error.code().to_owned(), message: error.to_string(), class: error.class() }
    }
}

impl From<mosb_ignition::Error> for Failed {
    fn from(error: mosb_ignition::Error) -> Self {
        let mosb_ignition::Error::Invalid { problems } = &error else {
            panic!("{error}");
        };
        Self { code: problems[0].code.clone(), message: error.to_string(), class: error.class() }
    }
}

/// Resolves, fetches and embeds until the config has no remote references.
pub async fn render(config: &Value, fetcher: &Fetcher) -> Result<Value, Failed> {
    let read = Document::read(config).unwrap();
    let mut fetched = Contents::new();
    let document = loop {
        match configs(read.document.clone(), read.spec, &fetched)? {
            Resolution::Done(resolved) => break resolved.document,
            Resolution::Needs(needs) => fetcher.fetch_all(&needs, &mut fetched).await?,
        }
    };
    let rendered = loop {
        match contents(document.clone(), &fetched)? {
            Resolution::Done(document) => break document.into_json(),
            Resolution::Needs(needs) => fetcher.fetch_all(&needs, &mut fetched).await?,
        }
    };
    // The code for builds accepts the result.
    parse(&rendered).unwrap();
    Ok(rendered)
}

/// A config with one file of these contents.
pub fn file(contents: Value) -> Value {
    json!({
        "ignition": { "version": "3.5.0" },
        "storage": { "files": [{ "path": "/etc/x", "contents": contents }] },
    })
}

pub fn embedded(config: &Value) -> Vec<u8> {
    let source = &config["storage"]["files"][0]["contents"]["source"];
    parse_data_url(source.as_str().unwrap()).unwrap()
}

pub async fn get(url: &str, fetcher: &Fetcher) -> Result<Vec<u8>, Failed> {
    let rendered = render(&file(json!({ "source": url })), fetcher).await?;
    Ok(embedded(&rendered))
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
