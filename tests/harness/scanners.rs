//! syft and grype, without the internet.

use std::path::Path;
use std::process::Command;

use super::child::limited;
use super::parts::SCANNERS;

/// A command of syft with this home. Registries have no TLS.
pub fn syft(home: &Path) -> Command {
    let mut command = Command::new(SCANNERS.directory().join("syft"));
    command.env_clear().env("HOME", home).env("SYFT_CHECK_FOR_APP_UPDATE", "false");
    command.env("SYFT_REGISTRY_INSECURE_USE_HTTP", "true");
    command
}

/// A command of grype with this home, where its database is; see [`vulnerability_database`]. Registries
/// have no TLS.
pub fn grype(home: &Path) -> Command {
    let mut command = limited(SCANNERS.directory().join("grype"));
    command.env_clear().env("HOME", home).env("GRYPE_CHECK_FOR_APP_UPDATE", "false");
    command.env("GRYPE_DB_AUTO_UPDATE", "false").env("GRYPE_DB_VALIDATE_AGE", "false");
    command.env("GRYPE_REGISTRY_INSECURE_USE_HTTP", "true");
    command
}

/// A command that writes `vulnerability.db` for grype; its arguments are in the source of the program.
pub fn vulnerability_database() -> Command {
    limited(SCANNERS.directory().join("vulnerability-database"))
}
