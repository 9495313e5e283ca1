//! What goes wrong between us and a cluster.

use std::net::SocketAddr;

use kube::core::Status;

use mosb_types::ErrorClass;

/// Object, cause, remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No cluster was found to speak to.
    #[error("no cluster: {said}; give --kubeconfig FILE, set KUBECONFIG, or run in a pod")]
    NoCluster {
        /// What was looked at.
        said: String,
    },
    /// The API server refused a request, or did not answer it.
    #[error("{object}: {verb}: {}", describe(source))]
    Api {
        /// Kind and name.
        object: String,
        /// `get`, `create`, …
        verb: &'static str,
        /// What it said.
        source: Box<kube::Error>,
    },
    /// An object of the name that we need, made by somebody else.
    #[error("{object}: exists and is not ours; delete it or give it another name")]
    NotOurs {
        /// Kind and name.
        object: String,
    },
    /// An object that can't be read as its kind.
    #[error("{object}: not readable as its kind: {cause}; correct the object")]
    Unreadable {
        /// Kind and name.
        object: String,
        /// Where it goes wrong.
        cause: String,
    },
    /// Another controller took the lease, or it could not be renewed in time.
    #[error(
        "lease {name}: lost, {why}; nothing is written any more, the program ends and is started again"
    )]
    LostLease {
        /// Namespace and name.
        name: String,
        /// How.
        why: String,
    },
    /// The cluster's data is older than what was seen of it before.
    #[error(
        "lease {name}: its resourceVersion went from {before} back to {now}: the cluster's data was restored from a backup; the program ends and is started again, so that everything is read anew"
    )]
    ClusterRestored {
        /// Namespace and name.
        name: String,
        /// The newest that was seen.
        before: u64,
        /// What it is now.
        now: u64,
    },
    /// An address that can't be listened on.
    #[error("{address}: not to be listened on; give another --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    /// An error of the API about this object.
    pub fn api(object: impl Into<String>, verb: &'static str) -> impl FnOnce(kube::Error) -> Self {
        let object = object.into();
        move |source| Self::Api { object, verb, source: Box::new(source) }
    }

    /// The answer's code, if the API server gave one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => code(source),
            _ => None,
        }
    }

    /// What the caller should do.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Api { source, .. } => match code(source) {
                Some(401 | 403) => ErrorClass::Rejected,
                Some(400 | 405 | 413 | 415 | 422) => ErrorClass::Internal,
                // Gone, conflicts, too many requests, the server's own faults, and no answer at all.
                _ => ErrorClass::Transient,
            },
            Self::NoCluster { .. }
            | Self::NotOurs { .. }
            | Self::Unreadable { .. }
            | Self::Listen { .. } => ErrorClass::InvalidInput,
            Self::LostLease { .. } | Self::ClusterRestored { .. } => ErrorClass::Transient,
        }
    }

    /// The word for scripts, metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoCluster { .. } => "no-cluster",
            Self::Api { source, .. } => match code(source) {
                Some(401 | 403) => "api-forbidden",
                Some(404) => "api-not-found",
                Some(409) => "api-conflict",
                Some(400 | 405 | 413 | 415 | 422) => "api-invalid",
                Some(_) => "api-failed",
                None => "api-unreachable",
            },
            Self::NotOurs { .. } => "not-ours",
            Self::Unreadable { .. } => "unreadable-object",
            Self::LostLease { .. } => "lost-lease",
            Self::ClusterRestored { .. } => "cluster-went-back",
            Self::Listen { .. } => "not-listening",
        }
    }
}

/// The HTTP code with which the API server answered.
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Whether an answer says that there is nothing of that name.
pub fn is_not_found(error: &kube::Error) -> bool {
    code(error) == Some(404)
}

/// Whether an answer says that the right is missing.
pub fn is_forbidden(error: &kube::Error) -> bool {
    code(error) == Some(403)
}

/// Whether an answer says that the object is another one by now, or there already.
pub fn is_conflict(error: &kube::Error) -> bool {
    code(error) == Some(409)
}

/// What the API server said, and what to do; the client's own words are for programmers.
pub fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => said_by_server(status),
        other => {
            let mut cause: &dyn std::error::Error = other;
            while let Some(deeper) = cause.source() {
                cause = deeper;
            }
            format!("the API server did not answer: {cause}; check that it is reachable from here")
        }
    }
}

fn said_by_server(status: &Status) -> String {
    let said = match status.message.as_str() {
        "" => &status.reason,
        message => message,
    };
    let remedy = match status.code {
        401 => "; the credentials are not valid (any more)",
        403 if said.contains("cannot ") => "; grant this right to the user or ServiceAccount",
        // A quota, a policy, pod security: each says itself what it forbids.
        403 => "; change what forbids it, or what was asked for",
        _ => "",
    };
    format!("the API server answers {}: {said}{remedy}", status.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_to_be_granted_where_one_is_missing_only() {
        for (said, is_right) in [
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
            let status = Status::failure(said, "Forbidden").with_code(403).boxed();
            let text = describe(&kube::Error::Api(status));
            assert!(text.contains(said), "{text}");
            let remedy = match is_right {
                true => "; grant this right to the user or ServiceAccount",
                false => "; change what forbids it, or what was asked for",
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
            assert_eq!((error.class(), error.reason()), (class, reason), "{code}");
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("job/x: create: the API server answers {code}: said")),
                "{error}"
            );
        }
        let unreachable = Error::api("job/x", "get")(kube::Error::LinesCodecMaxLineLengthExceeded);
        assert_eq!(unreachable.reason(), "api-unreachable");
        assert_eq!(unreachable.class(), ErrorClass::Transient);
    }
}
