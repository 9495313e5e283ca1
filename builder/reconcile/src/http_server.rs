//! The HTTP server for `/healthz`, `/readyz` and `/metrics`, which the kubelet and Prometheus
//! request.

use std::collections::VecDeque;
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
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::Error;

/// Connections at once at an address; a further one ends the oldest.
const MAX_CONNECTIONS: usize = 64;
/// Time limit for a request's header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of a connection; clients reconnect.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Where the answers come from.
pub trait HealthSource: Send + Sync + 'static {
    /// Why the controller is not ready, one line each.
    fn not_ready(&self) -> Vec<String>;
    /// Why the controller must be restarted, one line each.
    fn not_live(&self) -> Vec<String>;
    /// Metrics as OpenMetrics text.
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

    /// The addresses, with the ports that the system chose for port 0.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.listeners.iter().filter_map(|l| l.local_addr().ok());
        addresses.collect()
    }

    /// Serves until it is dropped.
    pub async fn run(self, source: Arc<dyn HealthSource>) {
        let mut accepting = JoinSet::new();
        for listener in self.listeners {
            accepting.spawn(accept(listener, Arc::clone(&source)));
        }
        while accepting.join_next().await.is_some() {}
    }
}

async fn accept(listener: TcpListener, source: Arc<dyn HealthSource>) {
    // Dropped with this future, and the connections with it.
    let mut connections = JoinSet::new();
    let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while connections.try_join_next().is_some() {}
                oldest.retain(|connection| !connection.is_finished());
                // Idle peers must not keep the kubelet out, which would restart the controller.
                if oldest.len() >= MAX_CONNECTIONS
                    && let Some(first) = oldest.pop_front()
                {
                    first.abort();
                }
                let source = Arc::clone(&source);
                oldest.push_back(connections.spawn(async move {
                    let served =
                        timeout(CONNECTION_TIMEOUT, serve_connection(stream, source)).await;
                    if let Ok(Err(error)) = served {
                        tracing::debug!("a connection ended: {error}");
                    }
                }));
            }
            Err(error) => {
                // Most likely too many open files; other connections will close theirs.
                tracing::warn!("no connection accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, source: Arc<dyn HealthSource>) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(request.method(), request.uri().path(), source.as_ref());
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn respond(method: &Method, path: &str, source: &dyn HealthSource) -> Response<Full<Bytes>> {
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    let (status, kind, body) = match path {
        _ if method != Method::GET && method != Method::HEAD => {
            let mut refused = Response::new(Full::default());
            *refused.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allowed = HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(ALLOW, allowed);
            return refused;
        }
        "/healthz" => state(text, &source.not_live()),
        "/readyz" => state(text, &source.not_ready()),
        "/metrics" => (
            StatusCode::OK,
            HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
            source.metrics(),
        ),
        _ => (StatusCode::NOT_FOUND, text, "there are /healthz, /readyz and /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// 200 if nothing is wrong, else 503 with the reasons.
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
        not_ready: Vec<String>,
        not_live: Vec<String>,
    }

    impl HealthSource for Fixed {
        fn not_ready(&self) -> Vec<String> {
            self.not_ready.clone()
        }
        fn not_live(&self) -> Vec<String> {
            self.not_live.clone()
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
        for (not_ready, not_live, is_healthy, is_ready) in [
            (vec![], vec![], "200 ok", "200 ok"),
            (vec![not_listed], vec![], "200 ok", "503 pools: not listed yet"),
            (vec![], vec![hangs], "503 pool a: under way for 900 s", "200 ok"),
        ] {
            let server = Server::listen(&["127.0.0.1:0".parse().unwrap()]).await.unwrap();
            let address = server.addresses()[0];
            let running = tokio::spawn(server.run(Arc::new(Fixed { not_ready, not_live })));
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
    async fn idle_connections_keep_nobody_out() {
        let server = Server::listen(&["127.0.0.1:0".parse().unwrap()]).await.unwrap();
        let address = server.addresses()[0];
        let healthy = Fixed { not_ready: Vec::new(), not_live: Vec::new() };
        let running = tokio::spawn(server.run(Arc::new(healthy)));
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS * 2 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = timeout(HEADER_TIMEOUT / 2, ask(address, "GET /healthz")).await;
        assert_eq!(answer.expect("the kubelet gives up"), "200 ok");
        running.abort();
    }

    #[tokio::test]
    async fn an_address_in_use_is_reported() {
        let first = Server::listen(&["127.0.0.1:0".parse().unwrap()]).await.unwrap();
        let second = Server::listen(&first.addresses()).await;
        assert!(matches!(second, Err(Error::Listen { .. })));
    }
}
