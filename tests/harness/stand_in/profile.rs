//! Profiles with the differences between registries.

/// The status and the code of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub u16, pub &'static str);

/// The authentication of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// User and password.
    Basic,
    /// A token. Each 401 names the token server.
    Token,
    /// A token. Only the answer to `/v2/` names the token server.
    TokenByPing,
}

/// The `Location` of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// `http://host/v2/…`
    Absolute,
    /// `/v2/…?_state=…`, with another state after each part.
    State,
    /// A path that is not below `/v2/`.
    Elsewhere,
}

/// The behaviour of a registry.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    pub name: &'static str,
    pub login: Login,
    /// Accepts user and password besides tokens, and sends a Basic challenge with a 401 to a
    /// request that had credentials.
    pub basic_too: bool,
    /// A token contains only the last of the requested scopes.
    pub one_scope: bool,
    /// Cancelling an upload needs the action `delete`.
    pub cancel_wants_delete: bool,
    /// The token server accepts only these actions.
    pub actions: &'static [&'static str],
    /// The token server's error for a scope that it does not grant, instead of leaving the scope
    /// out.
    pub token: Option<Refusal>,
    /// The error for a missing repository.
    pub no_repository: Refusal,
    /// The error for a missing manifest.
    pub no_manifest: Refusal,
    /// The error for a repository without read permission.
    pub forbidden: Refusal,
    /// The error for the first upload. Without one, the first upload creates the repository.
    pub first_upload: Option<Refusal>,
    /// Whether a blob can be mounted from another repository. Otherwise an upload starts.
    pub mounts: bool,
    /// The error for a mount from a repository that is missing or not readable.
    pub bad_mount: Option<Refusal>,
    pub location: Location,
    /// Accepts a blob in the request that completes its upload.
    pub takes_whole: bool,
    /// The status of an answer to a part of an upload.
    pub part: u16,
    /// The status of an answer to the cancellation of an upload.
    pub cancel: u16,
    /// Blobs are served by another host, which accepts no credentials.
    pub redirects: bool,
    /// Whether answers have the header `Docker-Content-Digest`.
    pub names_digest: bool,
    /// One of this many requests is rejected because of the rate limit, unless it was rejected
    /// before.
    pub limit: Option<usize>,
}

/// The registry of the distribution project.
pub const PLAIN: Profile = Profile {
    name: "distribution",
    login: Login::Token,
    basic_too: false,
    one_scope: false,
    cancel_wants_delete: true,
    actions: &["pull", "push", "delete"],
    token: None,
    no_repository: Refusal(404, "NAME_UNKNOWN"),
    no_manifest: Refusal(404, "MANIFEST_UNKNOWN"),
    forbidden: Refusal(401, "UNAUTHORIZED"),
    first_upload: None,
    mounts: true,
    bad_mount: None,
    location: Location::State,
    takes_whole: true,
    part: 202,
    cancel: 204,
    redirects: false,
    names_digest: true,
    limit: None,
};
