//! Explains the errors of registries for preflight checks: one sentence, and where to add the
//! missing setting.

use super::Remedies;
use super::report::{ImageCheck, Kind, Outcome};
use mosb_registry::Error;
use mosb_types::Diagnostic as _;

/// Converts an error to a check: `Failed` if it is permanent, `Unknown` if a retry may succeed.
/// `host` is the registry that returned it.
pub(super) fn explain(kind: Kind, error: &Error, host: &str, remedies: Remedies) -> ImageCheck {
    let message = message(&kind, error);
    let remedy = remedy(&kind, error, host, remedies);
    let (message, remedy) = match (message, remedy) {
        (Some(message), Some(remedy)) => (message, remedy),
        (message, remedy) => {
            let own = error.explained();
            let own_remedy = || own.remedy.unwrap_or_else(|| "mend it".to_owned());
            (message.unwrap_or(own.cause), remedy.unwrap_or_else(own_remedy))
        }
    };
    let outcome = if is_permanent(error) { Outcome::Failed } else { Outcome::Unknown };
    ImageCheck::not_passed(kind, outcome, error.code(), message, remedy)
}

/// Whether a retry fails too, unless someone changes something.
pub(super) fn is_permanent(error: &Error) -> bool {
    match error {
        Error::Tls { .. } | Error::PlainHttp { .. } | Error::TlsOnLoopback { .. } => true,
        other => other.class() != mosb_types::ErrorClass::Transient,
    }
}

/// Whether rustls reports an unknown CA, or a CA of the same name with another key.
fn is_unknown_authority(cause: &str) -> bool {
    ["UnknownIssuer", "BadSignature"].iter().any(|word| cause.contains(word))
}

fn message(kind: &Kind, error: &Error) -> Option<String> {
    Some(match error {
        Error::Denied { image, status, with, message } => {
            let what = match kind {
                Kind::Push => "pushing to",
                _ => "pulling",
            };
            format!("the registry refuses {what} {image} ({status}{message}) {with}")
        }
        Error::NotFound { image, message } if *kind != Kind::Push => {
            format!("{image}: the registry has none{message}")
        }
        Error::NotFound { image, message } => {
            format!("{image}: the registry takes no push to it (404{message})")
        }
        Error::PlatformMissing { .. } => error.to_string(),
        Error::Tls { host, cause } if is_unknown_authority(cause) => {
            format!(
                "{host}: its certificate is signed by an authority that is not trusted here ({cause})"
            )
        }
        _ => return None,
    })
}

fn remedy(kind: &Kind, error: &Error, host: &str, remedies: Remedies) -> Option<String> {
    use Remedies::{ByHand, Manifests};
    Some(match (error, remedies) {
        (Error::Denied { .. }, ByHand) if *kind == Kind::Push => format!(
            "let these logins push there, or pass others for {host} with --push-authfile"
        ),
        (Error::Denied { .. }, Manifests) if *kind == Kind::Push => format!(
            "let these logins push there, or put others for {host} into the Secret that spec.renderedImagePushSecret names"
        ),
        (Error::Denied { .. }, ByHand) => {
            format!("let these logins pull it, or pass others for {host} with --authfile")
        }
        (Error::Denied { .. }, Manifests) => {
            format!("let these logins pull it, or put others for {host} into the pull secret")
        }
        (Error::NotFound { .. }, _) if *kind == Kind::Push => {
            "make the repository, or let these logins see it".to_owned()
        }
        (Error::NotFound { .. }, _) => {
            "push it there, or correct its name and digest; a registry may also say so to logins that may not see it".to_owned()
        }
        (Error::Tls { cause, .. }, ByHand) if is_unknown_authority(cause) => format!(
            "put that authority's certificate as ca.crt into a folder and pass it with --cert-dir, or put it into /etc/containers/certs.d/{host}/"
        ),
        (Error::Tls { cause, .. }, Manifests) if is_unknown_authority(cause) => format!(
            "add that authority's certificate (PEM): additionalTrustBundle of the install-config, or imageRegistryBundles of ConfigMap mosb-config under {host:?}"
        ),
        (Error::Tls { .. }, _) => {
            format!("give the registry a certificate that is good for {host} now, and check this machine's clock")
        }
        (Error::PlainHttp { .. }, Manifests) => {
            "give the registry a certificate: machines don't pull in plain HTTP".to_owned()
        }
        (Error::TlsOnLoopback { .. }, Manifests) => format!(
            "add its authority's certificate (PEM): imageRegistryBundles of ConfigMap mosb-config under {host:?}"
        ),
        (
            Error::Unreachable { .. } | Error::TimedOut { .. } | Error::TooSlow { .. },
            Manifests,
        ) => {
            "check the name, the network, the proxy and the mirrors among the manifests".to_owned()
        }
        (Error::TooManyRequests { .. }, Manifests) => {
            format!("wait, or put logins for {host} with a higher limit into the pull secret")
        }
        (Error::PlatformMissing { wanted, .. }, _) => format!("build it for {wanted}"),
        (Error::PlatformAmbiguous { .. }, Manifests) => {
            "say with --platform of mosb preflight what the machines are, or name the digest of one of them".to_owned()
        }
        (
            Error::DigestMismatch { .. }
            | Error::SizeMismatch { .. }
            | Error::ManifestInvalid { .. }
            | Error::TooLarge { .. },
            _,
        ) => format!("push the image to {host} again, and look at what stands between"),
        (Error::Unexpected { .. }, _) if *kind == Kind::Push => {
            format!("push elsewhere, or let {host} take uploads")
        }
        (Error::Blocked { .. }, Manifests) if *kind == Kind::Push => {
            "push elsewhere, or take it out there".to_owned()
        }
        (Error::Blocked { .. }, Manifests) => {
            "add a mirror for it, or take it out there".to_owned()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
