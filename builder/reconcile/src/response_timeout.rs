//! Time limits for the API server, so that no worker and no watch waits for ever on a dead
//! connection.

use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _, TryFutureExt as _};
use hyper::{Request, Response, Uri};
use kube::client::Body;
use tower::{Layer, Service};
use tower_http::timeout::TimeoutBody;

/// Time limit for the start of a response including retries, and for each further part of its body:
/// the longest that an admission webhook may take.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the next part of a watch, which has its own timeout, or of a followed log, which
/// may be silent for hours.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Fails response bodies whose next part does not arrive.
#[derive(Debug, Clone, Copy)]
pub struct BodyTimeoutLayer;

/// See [`BodyTimeoutLayer`].
#[derive(Debug, Clone)]
pub struct BodyTimeout<S>(S);

impl<S> Layer<S> for BodyTimeoutLayer {
    type Service = BodyTimeout<S>;

    fn layer(&self, inner: S) -> BodyTimeout<S> {
        BodyTimeout(inner)
    }
}

impl<S, B> Service<Request<Body>> for BodyTimeout<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<TimeoutBody<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let limit = body_timeout(request.uri());
        let limited =
            move |response: Response<B>| response.map(|body| TimeoutBody::new(limit, body));
        self.0.call(request).map_ok(limited).boxed()
    }
}

fn body_timeout(asked: &Uri) -> Duration {
    let mut asked = asked.query().unwrap_or_default().split('&');
    if asked.any(|one| matches!(one, "watch=true" | "follow=true")) {
        FOLLOW_TIMEOUT
    } else {
        RESPONSE_TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures_util::stream;
    use http_body_util::{BodyExt as _, StreamBody};
    use hyper::body::Frame;
    use tokio::time::{Instant, timeout};
    use tower::service_fn;

    use super::*;

    /// A response that stops after its first part.
    async fn stuck(
        _: Request<Body>,
    ) -> Result<Response<impl hyper::body::Body<Error = Infallible>>, Infallible> {
        use futures_util::StreamExt as _;
        let frame: Result<_, Infallible> = Ok(Frame::data(Bytes::from("{\"items\":[")));
        Ok(Response::new(StreamBody::new(stream::iter([frame]).chain(stream::pending()))))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_stops_is_broken_off_but_for_what_is_followed() {
        for (asked, is_broken_off) in [
            ("/api/v1/namespaces/x/secrets/push?resourceVersion=7", true),
            ("/apis/y/v1/pools?limit=500&labelSelector=watch", true),
            ("/apis/y/v1/pools?watch=true&timeoutSeconds=290", false),
            ("/api/v1/namespaces/x/pods/build/log?follow=true", false),
        ] {
            let mut service = BodyTimeoutLayer.layer(service_fn(stuck));
            let request = Request::get(asked).body(Body::empty()).unwrap();
            let answer = service.call(request).await.unwrap();
            let begun = Instant::now();
            let read = timeout(RESPONSE_TIMEOUT * 10, answer.into_body().collect()).await;
            assert_eq!(matches!(read, Ok(Err(_))), is_broken_off, "{asked}");
            assert_eq!(begun.elapsed() <= RESPONSE_TIMEOUT * 2, is_broken_off, "{asked}");
        }
    }
}
