//! The API server of unit tests.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::{Request, Response};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

/// Answers each request by a function, and records the requests.
#[derive(Clone)]
pub struct FakeApi {
    pub client: Client,
    requests: Arc<Mutex<Vec<FakeRequest>>>,
}

impl fmt::Debug for FakeApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.requests()).finish()
    }
}

/// A request, as the server got it.
#[derive(Debug, Clone, PartialEq)]
pub struct FakeRequest {
    pub method: String,
    pub path: String,
    /// Empty without one.
    pub query: String,
    pub accept: String,
    /// Empty without a body.
    pub content_type: String,
    /// `null` if it is not JSON.
    pub body: Value,
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum FakeAnswer {
    /// A creation with code 200 is answered with 201.
    Json(u16, Value),
    Text(String),
    Failure(u16),
    Never,
}

impl FakeAnswer {
    /// A refusal, with the message `said`.
    pub fn failure(code: u16) -> Self {
        Self::Failure(code)
    }
}

/// As a real API server refuses a request.
fn status(code: u16, is_creation: bool) -> Value {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 if is_creation => "AlreadyExists",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let mut status = json!(Status::failure("said", reason).with_code(code));
    if code == 429 {
        status["details"] = json!({ "retryAfterSeconds": 1 });
    }
    status
}

/// An object, or what else is there.
impl From<Value> for FakeAnswer {
    fn from(object: Value) -> Self {
        Self::Json(200, object)
    }
}

impl FakeRequest {
    async fn read(request: Request<Body>) -> Result<Self, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let header = |name: &str| {
            let value = parts.headers.get(name).map_or(Ok(""), |value| value.to_str());
            value.map(str::to_owned)
        };
        Ok(Self {
            accept: header("accept")?,
            content_type: header("content-type")?,
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        })
    }

    /// Whether it changes something.
    pub fn is_write(&self) -> bool {
        self.method != "GET"
    }

    /// `PATCH /api/v1/nodes/x`.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

impl FakeApi {
    pub fn new<A: Into<FakeAnswer>>(
        answer: impl Fn(&FakeRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        let requests: Arc<Mutex<Vec<FakeRequest>>> = Arc::default();
        let (record, answer) = (Arc::clone(&requests), Arc::new(answer));
        let server = service_fn(move |request: Request<Body>| {
            let (record, answer) = (Arc::clone(&record), Arc::clone(&answer));
            async move {
                let request = FakeRequest::read(request).await?;
                record.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
                let is_creation = request.method == "POST";
                let (code, body) = match answer(&request).into() {
                    FakeAnswer::Json(200, body) if is_creation => (201, body.to_string()),
                    FakeAnswer::Json(code, body) => (code, body.to_string()),
                    FakeAnswer::Text(text) => (200, text),
                    FakeAnswer::Failure(code) => (code, status(code, is_creation).to_string()),
                    FakeAnswer::Never => pending().await,
                };
                let body = Body::from(body.into_bytes());
                Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        Self { client: Client::new(server, "ns"), requests }
    }

    /// The requests until now.
    pub fn requests(&self) -> Vec<FakeRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those that changed something, or tried to.
    pub fn writes(&self) -> Vec<FakeRequest> {
        let requests = self.requests().into_iter();
        requests.filter(FakeRequest::is_write).collect()
    }
}

/// An executor on this server, which holds its Lease and writes only while it does.
impl From<&FakeApi> for crate::write::Executor {
    fn from(api: &FakeApi) -> Self {
        let times = crate::lease::LeaseTimes::default();
        let lease = crate::lease::Lease::new(api.client.clone(), "ns", "x", "us", times);
        lease.hold_for_test();
        Self {
            client: crate::lease::gated(api.client.clone(), &lease, "ns"),
            lease,
            own_writes: Arc::default(),
            instance: "us".to_owned(),
            namespace: "ns".to_owned(),
        }
    }
}
