//! Requests → answers.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, Response, StatusCode};
use jiff::Timestamp;

use super::served::{Answer, Refusal, Served};

const SCHEME: &str = "Bearer ";

/// The answer to a machine, and the reason if it is not a config.
pub(crate) fn to_machine(
    (method, path, headers): (&Method, &str, &HeaderMap),
    served: &Served,
    now: Timestamp,
) -> (Response<Full<Bytes>>, Option<Refusal>) {
    let token = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix(SCHEME));
    // Other methods get the answer to a path that there is not.
    let (path, token) = if method == Method::GET { (path, token) } else { ("", None) };
    match served.answer(path, token, now) {
        Answer::Config(config) => {
            let mut response = Response::new(Full::new(config));
            let kind = HeaderValue::from_static("application/gzip");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            (response, None)
        }
        Answer::NotYet(refusal) => (not_yet(), Some(refusal)),
        Answer::NotFound(refusal) => (not_found(), Some(refusal)),
    }
}

/// The answer to the kubelet.
pub(crate) fn to_kubelet(
    path: &str,
    served: &Served,
    now: Timestamp,
) -> (Response<Full<Bytes>>, Option<Refusal>) {
    let response = match path {
        "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => match served.not_ready(now) {
            None => text(StatusCode::OK, "ok\n".to_owned()),
            Some(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
        },
        _ => not_found(),
    };
    (response, None)
}

/// The same for every pool and every token that is not known: it tells nobody which pools there are.
/// Ignition asks again after any 5xx, and never after a 404.
fn not_yet() -> Response<Full<Bytes>> {
    text(StatusCode::SERVICE_UNAVAILABLE, "not served yet\n".to_owned())
}

/// The same for everything that is not served.
fn not_found() -> Response<Full<Bytes>> {
    text(StatusCode::NOT_FOUND, "not found\n".to_owned())
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
