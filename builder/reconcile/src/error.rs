//! Errors of the cluster's API.

use std::net::SocketAddr;

use kube::core::Status;

use mosb_types::{Diagnostic, ErrorClass};

/// Each message has the object, the cause and the remedy.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// No kubeconfig, and not in a pod.
    #[error("no cluster: {cause}; give --kubeconfig FILE, set KUBECONFIG, or run in a pod")]
    #[diagnostic(code = "no-cluster", class = InvalidInput)]
    NoCluster { cause: String },
    /// The API server rejected a request, or did not answer.
    #[error("{object}: {verb}: {}", describe(source))]
    #[diagnostic(code = api_code(source), class = api_class(source))]
    Api {
        object: String,
        /// `get`, `create`, …
        verb: &'static str,
        source: Box<kube::Error>,
    },
    /// An object with the name that mosb needs, but another creator.
    #[error("{object}: exists and is not ours; delete it or give it another name")]
    #[diagnostic(code = "not-ours", class = InvalidInput)]
    NotOurs { object: String },
    /// An object that can't be read as its kind.
    #[error("{object}: not readable as its kind: {cause}; correct the object")]
    #[diagnostic(code = "unreadable-object", class = InvalidInput)]
    Unreadable { object: String, cause: String },
    /// Another controller took the lease, or it could not be renewed in time.
    #[error("lease {name}: lost, {why}; mosb stops writing, exits and is restarted")]
    #[diagnostic(code = "lost-lease", class = Transient)]
    LostLease { name: String, why: String },
    /// The cluster's data is older than previously observed data.
    #[error(
        "lease {name}: its resourceVersion went from {before} back to {now}: the cluster's data was restored from a backup; mosb exits and is restarted, so that everything is read again"
    )]
    #[diagnostic(code = "cluster-went-back", class = Transient)]
    ClusterRestored {
        name: String,
        /// The newest version that was seen.
        before: u64,
        now: u64,
    },
    /// An address that can't be listened on.
    #[error("{address}: can't listen on it; give another --listen")]
    #[diagnostic(code = "not-listening", class = InvalidInput)]
    Listen { address: SocketAddr, source: std::io::Error },
}

impl Error {
    /// Wraps an error of the API about this object.
    pub fn api(object: impl Into<String>, verb: &'static str) -> impl FnOnce(kube::Error) -> Self {
        let object = object.into();
        move |source| Self::Api { object, verb, source: Box::new(source) }
    }

    /// The HTTP status code of the answer.
    pub fn status_code(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => code(source),
            _ => None,
        }
    }
}

fn api_class(error: &kube::Error) -> ErrorClass {
    match code(error) {
        Some(401 | 403) => ErrorClass::Rejected,
        Some(400 | 405 | 413 | 415 | 422) => ErrorClass::Internal,
        // Not found, conflict, too many requests, server errors, and no answer.
        _ => ErrorClass::Transient,
    }
}

fn api_code(error: &kube::Error) -> &'static str {
    match code(error) {
        Some(401 | 403) => "api-forbidden",
        Some(404) => "api-not-found",
        Some(409) => "api-conflict",
        Some(400 | 405 | 413 | 415 | 422) => "api-invalid",
        Some(_) => "api-failed",
        None => "api-unreachable",
    }
}

/// The HTTP status code with which the API server answered.
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

pub fn is_not_found(error: &kube::Error) -> bool {
    code(error) == Some(404)
}

/// Whether a permission is missing, or an admission policy rejected the request.
pub fn is_forbidden(error: &kube::Error) -> bool {
    code(error) == Some(403)
}

/// Whether the object was changed meanwhile, or exists already.
pub fn is_conflict(error: &kube::Error) -> bool {
    code(error) == Some(409)
}

/// The message of the API server and a remedy. The client's own wording is for programmers.
pub fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => describe_status(status),
        other => {
            let mut cause: &dyn std::error::Error = other;
            while let Some(deeper) = cause.source() {
                cause = deeper;
            }
            format!("the API server did not answer: {cause}; check that it is reachable from here")
        }
    }
}

fn describe_status(status: &Status) -> String {
    let message = match status.message.as_str() {
        "" => &status.reason,
        message => message,
    };
    let remedy = match status.code {
        401 => "; the credentials are invalid or have expired",
        403 if message.contains("cannot ") => {
            "; grant this permission to the user or ServiceAccount"
        }
        // A quota, an admission policy, pod security: their messages explain the restriction.
        403 => "; change the policy that forbids it, or the request",
        _ => "",
    };
    format!("the API server answers {}: {message}{remedy}", status.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_to_be_granted_where_one_is_missing_only() {
        for (message, is_right) in [
            ("jobs.batch is forbidden: User \"x\" cannot create resource \"jobs\"", true),
            (
                "pods \"x\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on",
                true,
            ),
            (
                "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9",
                false,
            ),
            (
                "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": hostUsers",
                false,
            ),
        ] {
            let status = Status::failure(message, "Forbidden").with_code(403).boxed();
            let text = describe(&kube::Error::Api(status));
            assert!(text.contains(message), "{text}");
            let remedy = if is_right {
                "; grant this permission to the user or ServiceAccount"
            } else {
                "; change the policy that forbids it, or the request"
            };
            assert!(text.ends_with(remedy), "{text}");
        }
    }

    #[test]
    fn the_class_follows_the_answer() {
        for (code, class, reason) in [
            (401, ErrorClass::Rejected, "api-forbidden"),
            (403, ErrorClass::Rejected, "api-forbidden"),
            (404, ErrorClass::Transient, "api-not-found"),
            (409, ErrorClass::Transient, "api-conflict"),
            (422, ErrorClass::Internal, "api-invalid"),
            (429, ErrorClass::Transient, "api-failed"),
            (500, ErrorClass::Transient, "api-failed"),
        ] {
            let status = Status::failure("said", "Reason").with_code(code).boxed();
            let error = Error::api("job/x", "create")(kube::Error::Api(status));
            assert_eq!((error.class(), error.code()), (class, reason), "{code}");
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("job/x: create: the API server answers {code}: said")),
                "{error}"
            );
        }
        let unreachable = Error::api("job/x", "get")(kube::Error::LinesCodecMaxLineLengthExceeded);
        assert_eq!(unreachable.code(), "api-unreachable");
        assert_eq!(unreachable.class(), ErrorClass::Transient);
    }
}
