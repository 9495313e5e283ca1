//! The stream metadata that the settings name, fetched once an interval for all pools.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::{Position, Url};

use super::failure::Failure;
use mosb_boot_image::{Architecture, OsImageError, PublishedStream, ReleaseImages};
use mosb_cluster::resolver::{LookupError, LookupPermit, Resolver};
use mosb_ignition::Reference;
use mosb_ignition::snapshot::Request;
use mosb_image::Digest;
use mosb_reconcile::Problem;

/// One stream: the settings name one.
#[derive(Debug, Default)]
pub struct StreamMetadata(Mutex<Option<Documents>>);

#[derive(Debug)]
struct Documents {
    url: Url,
    stream: Option<(Instant, PublishedStream)>,
    /// By URL.
    releases: BTreeMap<Url, ReleaseImages>,
    failures: BTreeMap<Url, Failure>,
}

impl StreamMetadata {
    /// The digest of the OS image that a stream names now. `at_most`: how old its document may be.
    ///
    /// # Errors
    /// A document can't be fetched or read, or names no image for the architecture.
    pub async fn digest<F>(
        &self,
        url: &Url,
        architecture: Architecture,
        at_most: Duration,
        fetch: impl Fn(Url) -> F,
    ) -> Result<Digest, LookupError>
    where
        F: Future<Output = Result<Bytes, LookupError>>,
    {
        let mut held = self.0.lock().await;
        let known = held.take().filter(|known| known.url == *url);
        let documents = held.insert(known.unwrap_or_else(|| Documents::of(url.clone())));
        let stream = documents.stream(at_most, &fetch).await?;
        let release = stream.release(architecture)?;
        if let Some(images) = documents.releases.get(&release.url) {
            return Ok(images.digest(architecture)?);
        }
        let read = |bytes: &[u8]| ReleaseImages::parse(&release, bytes);
        let images = documents.get(&release.url, at_most, &fetch, read).await?;
        Ok(documents.releases.entry(release.url).or_insert(images).digest(architecture)?)
    }
}

impl Documents {
    fn of(url: Url) -> Self {
        Self { url, stream: None, releases: BTreeMap::new(), failures: BTreeMap::new() }
    }

    async fn stream<F>(
        &mut self,
        at_most: Duration,
        fetch: &impl Fn(Url) -> F,
    ) -> Result<PublishedStream, LookupError>
    where
        F: Future<Output = Result<Bytes, LookupError>>,
    {
        if let Some((at, stream)) = &self.stream
            && at.elapsed() < at_most
        {
            return Ok(stream.clone());
        }
        let url = self.url.clone();
        let read = |bytes: &[u8]| PublishedStream::parse(url.clone(), bytes);
        let stream = self.get(&url, at_most, fetch, read).await?;
        if self.stream.as_ref().is_none_or(|(_, before)| *before != stream) {
            // It may name a release for an architecture that the document of the release had not.
            self.releases.clear();
            self.failures.clear();
        }
        self.stream = Some((Instant::now(), stream.clone()));
        Ok(stream)
    }

    /// A document, unless it failed a moment ago.
    async fn get<F, T>(
        &mut self,
        url: &Url,
        at_most: Duration,
        fetch: &impl Fn(Url) -> F,
        read: impl Fn(&[u8]) -> Result<T, OsImageError>,
    ) -> Result<T, LookupError>
    where
        F: Future<Output = Result<Bytes, LookupError>>,
    {
        let before = self.failures.get(url);
        if let Some(failure) = before.filter(|failure| failure.left(at_most).is_some()) {
            return Err(failure.problem.clone().into());
        }
        let answer = fetch(url.clone()).await;
        let answer = answer.and_then(|bytes| Ok(read(&bytes)?));
        match &answer {
            Ok(_) => drop(self.failures.remove(url)),
            Err(LookupError::Problem(problem)) => {
                let failure = Failure::after(self.failures.get(url), problem);
                self.failures.insert(url.clone(), failure);
            }
            // No server was asked.
            Err(LookupError::Busy(_)) => {}
        }
        answer
    }
}

/// Fetches a document, within the limits of lookups.
pub async fn fetch_document(resolver: &Resolver, url: Url) -> Result<Bytes, LookupError> {
    let host = url[Position::BeforeHost..Position::AfterPort].to_owned();
    let _permit = resolver.limits.hosts(LookupPermit::default(), [host].into()).await?;
    let place = format!("ConfigMap {}/mosb-config: baseStream", resolver.cache.namespace);
    let what = || format!("{place}: {url}");
    let reference = Reference::new(Request::json(url.clone()), place.clone());
    let fetching = async { Ok::<_, Problem>(resolver.fetcher().await?.fetch(&reference).await?) };
    Ok(resolver.limits.with_timeout(what, fetching).await?)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use mosb_build::fetch::{Fetcher, Options};
    use mosb_types::ErrorClass;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Answers by path; a path without an answer is 404.
    #[derive(Debug, Default)]
    struct Server {
        answers: std::sync::Mutex<BTreeMap<String, String>>,
        asked: std::sync::Mutex<VecDeque<String>>,
    }

    impl Server {
        /// Its URL.
        async fn start(self: &Arc<Self>) -> Url {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
            let server = Arc::clone(self);
            tokio::spawn(async move {
                loop {
                    let (mut connection, _) = listener.accept().await.unwrap();
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        head.push(connection.read_u8().await.unwrap());
                    }
                    let head = String::from_utf8(head).unwrap();
                    let path = head.split(' ').nth(1).unwrap().to_owned();
                    let body = server.answers.lock().unwrap().get(&path).cloned();
                    server.asked.lock().unwrap().push_back(path);
                    let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
                    let body = body.unwrap_or_default();
                    let length = body.len();
                    let answer = format!(
                        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                    );
                    connection.write_all(answer.as_bytes()).await.unwrap();
                }
            });
            url
        }

        fn publish(&self, path: &str, document: &Value) {
            self.answers.lock().unwrap().insert(path.to_owned(), document.to_string());
        }

        /// The requests since the last call.
        fn asked(&self) -> Vec<String> {
            self.asked.lock().unwrap().drain(..).collect()
        }
    }

    fn stream(server: &Url, version: &str, architectures: &[&str]) -> Value {
        let of = |architecture: &&str| {
            let location = format!("{server}prod/builds/{version}/{architecture}/a.iso");
            let formats = json!({ "iso": { "disk": { "location": location } } });
            let metal = json!({ "release": version, "formats": formats });
            ((*architecture).to_owned(), json!({ "artifacts": { "metal": metal } }))
        };
        let architectures: serde_json::Map<_, _> = architectures.iter().map(of).collect();
        json!({ "stream": "stable", "architectures": architectures })
    }

    fn release(version: &str, architectures: &[&str]) -> Value {
        let of = |architecture: &&str| {
            let digest = digest(version, architecture);
            let image = json!({ "image": "quay.io/os:stable", "digest-ref": format!("quay.io/os@{digest}") });
            ((*architecture).to_owned(), json!({ "oci-image": image }))
        };
        let architectures: serde_json::Map<_, _> = architectures.iter().map(of).collect();
        json!({ "release": version, "stream": "stable", "architectures": architectures })
    }

    fn digest(version: &str, architecture: &str) -> Digest {
        Digest::of(format!("{version} {architecture}").as_bytes())
    }

    const OLD: &str = "44.20260707.3.1";
    const NEW: &str = "44.20260721.3.0";

    #[tokio::test]
    async fn documents_are_fetched_once_for_all_pools() {
        let server = Arc::<Server>::default();
        let at = server.start().await;
        let url = at.join("/streams/stable.json").unwrap();
        let document = |version: &str| format!("/prod/builds/{version}/release.json");
        let fetcher = Fetcher::new(Options::default()).unwrap();
        let fetch = async |url: Url| -> Result<Bytes, LookupError> {
            let reference = Reference::new(Request::json(url), "baseStream".to_owned());
            Ok(fetcher.fetch(&reference).await?)
        };
        let metadata = StreamMetadata::default();
        let ask = |architecture, at_most| metadata.digest(&url, architecture, at_most, &fetch);
        let (x86, arm) = (Architecture::X86_64, Architecture::Aarch64);
        let both = ["x86_64", "aarch64"];

        server.publish("/streams/stable.json", &stream(&at, OLD, &both));
        server.publish(&document(OLD), &release(OLD, &both));
        for _ in 0..1000 {
            for architecture in [x86, arm] {
                let want = digest(OLD, architecture.rpm_name());
                assert_eq!(ask(architecture, HOUR).await, Ok(want));
            }
        }
        assert_eq!(server.asked(), ["/streams/stable.json".to_owned(), document(OLD)]);

        // Nothing moved: the stream alone is fetched.
        assert_eq!(ask(x86, Duration::ZERO).await, Ok(digest(OLD, "x86_64")));
        assert_eq!(server.asked(), ["/streams/stable.json"]);

        // It moved for one of both architectures.
        server.publish("/streams/stable.json", &stream(&at, NEW, &["x86_64"]));
        server.publish(&document(NEW), &release(NEW, &["x86_64"]));
        assert_eq!(ask(x86, Duration::ZERO).await, Ok(digest(NEW, "x86_64")));
        let missing = ask(arm, HOUR).await.unwrap_err().into_problem().unwrap();
        assert_eq!((missing.class, &*missing.reason), (ErrorClass::InvalidInput, "not-in-stream"));
        assert_eq!(ask(x86, HOUR).await, Ok(digest(NEW, "x86_64")), "it costs only the other one");
        assert_eq!(server.asked(), ["/streams/stable.json".to_owned(), document(NEW)]);
        server.publish("/streams/stable.json", &stream(&at, NEW, &both));
        server.publish(&document(NEW), &release(NEW, &both));
        assert_eq!(ask(arm, Duration::ZERO).await, Ok(digest(NEW, "aarch64")));
        assert_eq!(server.asked(), ["/streams/stable.json".to_owned(), document(NEW)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_that_failed_is_not_fetched_at_once() {
        let url: Url = "https://builds.example.com/stable.json".parse().unwrap();
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let fetch = |_| {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            std::future::ready(Ok(Bytes::from_static(b"<html>")))
        };
        let metadata = StreamMetadata::default();
        for want in 1..4 {
            for _ in 0..100 {
                let found = metadata.digest(&url, Architecture::X86_64, HOUR, fetch).await;
                assert_eq!(found.unwrap_err().into_problem().unwrap().reason, "bad-stream");
            }
            assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), want);
            tokio::time::advance(HOUR).await;
        }
    }
}
