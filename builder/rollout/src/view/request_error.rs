//! Why a request about a roll-out is refused.

use mosb_api::AnnotationError;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, mosb_types::Diagnostic)]
#[non_exhaustive]
pub enum RolloutRequestError {
    #[error(
        "{pool}: {who} brings images to the machines, so mosb does not; use its own ways, such as oc"
    )]
    #[diagnostic(code = "other-rollout", class = InvalidInput)]
    OtherController { pool: String, who: String },
    #[error(
        "{pool}: the controller rolls nothing out; apply the overlay deploy/rollout, which adds --rollout and its rights"
    )]
    #[diagnostic(code = "rollout-not-enabled", class = InvalidInput)]
    NotEnabled { pool: String },
    #[error("{pool}: it has no MachineOSConfig; create one to have images built")]
    #[diagnostic(code = "not-opted-in", class = InvalidInput)]
    NotOptedIn { pool: String },
    #[error("{pool}: more than one MachineOSConfig: {names}; delete all but one")]
    #[diagnostic(code = "rivals", class = InvalidInput)]
    Rivals { pool: String, names: String },
    #[error("{pool}: no image of its own builds is in service; mosb status {pool} shows why")]
    #[diagnostic(code = "nothing-in-service", class = InvalidInput)]
    NothingInService { pool: String },
    #[error(
        "{pool}: no other image of its builds was rolled out before; choose one of mosb builds {pool} with --to"
    )]
    #[diagnostic(code = "no-earlier-build", class = InvalidInput)]
    NothingEarlier { pool: String },
    #[error("{pool}: no image of a build {build}; mosb builds {pool} lists them")]
    #[diagnostic(code = "no-such-build", class = InvalidInput)]
    NoSuchBuild { pool: String, build: String },
    #[error("{pool}: build {build} has several images; choose one with --to: {choices}")]
    #[diagnostic(code = "several-images", class = InvalidInput)]
    SeveralImages { pool: String, build: String, choices: String },
    #[error("{pool}: {message}")]
    #[diagnostic(code = "not-in-service", class = InvalidInput)]
    NotInService { pool: String, message: String },
    #[error("{pool}: the stock image is not known: {cause}; {remedy}")]
    #[diagnostic(code = "no-stock-digest", class = InvalidInput)]
    NoStockDigest { pool: String, cause: String, remedy: String },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Annotation(#[from] AnnotationError),
}
