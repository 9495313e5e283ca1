//! What tells one registry from another.

/// Status and code of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub u16, pub &'static str);

/// How one logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// With user and password.
    Basic,
    /// With a token; each 401 says from where.
    Token,
    /// With a token; only the answer to `/v2/` says from where.
    TokenByPing,
}

/// Where an upload goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// `http://host/v2/…`
    Absolute,
    /// `/v2/…?_state=…`, another state after each part.
    State,
    /// A path that is not below `/v2/`.
    Elsewhere,
}

/// What tells one registry from another.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    pub name: &'static str,
    pub login: Login,
    /// Takes user and password beside tokens, and asks for them where it refuses a request that had
    /// either.
    pub basic_too: bool,
    /// A token is for the last scope alone.
    pub one_scope: bool,
    /// To end an upload that is not needed takes the action `delete`.
    pub cancel_wants_delete: bool,
    /// The token server takes no actions but these.
    pub actions: &'static [&'static str],
    /// The token server refuses a scope that it does not grant, instead of leaving it out.
    pub token: Option<Refusal>,
    /// A question for a repository that does not exist.
    pub no_repository: Refusal,
    /// A question for a manifest that a repository does not have.
    pub no_manifest: Refusal,
    /// A question where one may not look.
    pub forbidden: Refusal,
    /// The first upload creates the repository, or is refused so.
    pub first_upload: Option<Refusal>,
    /// Whether a blob can be mounted from another repository; else an upload begins.
    pub mounts: bool,
    /// A mount from a repository that does not exist or that one may not read.
    pub bad_mount: Option<Refusal>,
    pub location: Location,
    /// Takes a blob in the request that ends its upload.
    pub takes_whole: bool,
    /// The answer to a part of an upload.
    pub part: u16,
    /// The answer to the end of an upload that is not needed.
    pub cancel: u16,
    /// Blobs come from another host, which takes no logins.
    pub redirects: bool,
    /// Whether it names the digest of what it answers with.
    pub names_digest: bool,
    /// Each so many requests one is too many, if it was none before.
    pub limit: Option<usize>,
}

/// As the distribution project's registry.
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
