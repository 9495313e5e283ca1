//! `/healthz`, `/readyz` and `/metrics`, for the kubelet and for Prometheus.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Error;

/// Connections at once; who comes later waits.
const CONNECTIONS: usize = 64;
/// A request's header takes no longer.
const HEADER: Duration = Duration::from_secs(10);
/// A connection takes no longer; who asks again connects again.
const CONNECTION: Duration = Duration::from_secs(60);

/// What is asked for.
pub trait Answers: Send + Sync + 'static {
    /// What is missing before we are of use; empty if nothing.
    fn missing(&self) -> Vec<String>;
    /// What hangs, so that only a new start helps; empty if nothing.
    fn hanging(&self) -> Vec<String>;
    /// The metrics in OpenMetrics text.
    fn metrics(&self) -> String;
}

/// A server that listens already.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
}

impl Server {
    /// Listens on these addresses.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub async fn listen(addresses: &[SocketAddr]) -> Result<Self, Error> {
        let mut listeners = Vec::new();
        for address in addresses {
            let listener = TcpListener::bind(address).await;
            listeners.push(listener.map_err(|source| Error::Listen { address: *address, source })?);
        }
        Ok(Self { listeners })
    }

    /// Where it listens, with the ports that the system chose for port 0.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.listeners.iter().filter_map(|l| l.local_addr().ok());
        addresses.collect()
    }

    /// Answers until it is dropped.
    pub async fn run(self, answers: Arc<dyn Answers>) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let mut accepting = JoinSet::new();
        for listener in self.listeners {
            accepting.spawn(accept(listener, Arc::clone(&room), Arc::clone(&answers)));
        }
        while accepting.join_next().await.is_some() {}
    }
}

async fn accept(listener: TcpListener, room: Arc<Semaphore>, answers: Arc<dyn Answers>) {
    // Dropped with us, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let answers = Arc::clone(&answers);
                connections.spawn(async move {
                    let served = timeout(CONNECTION, speak(stream, answers)).await;
                    if let Ok(Err(error)) = served {
                        tracing::debug!("a connection ended: {error}");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                // Too many files open, most likely; others close theirs.
                tracing::warn!("no connection accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn speak(stream: TcpStream, answers: Arc<dyn Answers>) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), answers.as_ref());
        async move { Ok::<_, Infallible>(answer) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(method: &Method, path: &str, answers: &dyn Answers) -> Response<Full<Bytes>> {
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    let (status, kind, body) = match path {
        _ if method != Method::GET && method != Method::HEAD => {
            let mut refused = Response::new(Full::default());
            *refused.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allowed = HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(ALLOW, allowed);
            return refused;
        }
        "/healthz" => state(text, &answers.hanging()),
        "/readyz" => state(text, &answers.missing()),
        "/metrics" => (
            StatusCode::OK,
            HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
            answers.metrics(),
        ),
        _ => (StatusCode::NOT_FOUND, text, "there are /healthz, /readyz and /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Fine if nothing is wrong, else what is.
fn state(text: HeaderValue, wrong: &[String]) -> (StatusCode, HeaderValue, String) {
    match wrong {
        [] => (StatusCode::OK, text, "ok\n".to_owned()),
        wrong => (StatusCode::SERVICE_UNAVAILABLE, text, wrong.join("\n") + "\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    struct Fixed {
        missing: Vec<String>,
        hanging: Vec<String>,
    }

    impl Answers for Fixed {
        fn missing(&self) -> Vec<String> {
            self.missing.clone()
        }
        fn hanging(&self) -> Vec<String> {
            self.hanging.clone()
        }
        fn metrics(&self) -> String {
            "# EOF\n".to_owned()
        }
    }

    async fn ask(address: SocketAddr, line: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        format!("{} {}", &head["HTTP/1.1 ".len()..][..3], body.trim_end())
    }

    #[tokio::test]
    async fn it_answers_what_the_kubelet_and_prometheus_ask() {
        let not_listed = "pools: not listed yet".to_owned();
        let hangs = "pool a: under way for 900 s".to_owned();
        for (missing, hanging, is_healthy, is_ready) in [
            (vec![], vec![], "200 ok", "200 ok"),
            (vec![not_listed], vec![], "200 ok", "503 pools: not listed yet"),
            (vec![], vec![hangs], "503 pool a: under way for 900 s", "200 ok"),
        ] {
            let server = Server::listen(&["127.0.0.1:0".parse().unwrap()]).await.unwrap();
            let address = server.addresses()[0];
            let running = tokio::spawn(server.run(Arc::new(Fixed { missing, hanging })));
            for (line, want) in [
                ("GET /healthz", is_healthy),
                ("GET /readyz", is_ready),
                ("GET /metrics", "200 # EOF"),
                ("GET /", "404 there are /healthz, /readyz and /metrics"),
                ("POST /metrics", "405 "),
            ] {
                assert_eq!(ask(address, line).await, want, "{line}");
            }
            running.abort();
        }
    }

    #[tokio::test]
    async fn an_address_in_use_is_told() {
        let first = Server::listen(&["127.0.0.1:0".parse().unwrap()]).await.unwrap();
        let second = Server::listen(&first.addresses()).await;
        assert!(matches!(second, Err(Error::Listen { .. })));
    }
}
