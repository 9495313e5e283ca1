//! Checks the form of paths.

use super::error::shown;

/// Checks that a path is absolute and clean, as every path in a config must be.
pub(super) fn check_path(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("a path is missing".to_owned());
    }
    let Some(inner) = path.strip_prefix('/') else {
        return Err(format!("{} must be absolute: begin with a slash", shown(path)));
    };
    if !inner.is_empty() && inner.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err(format!(
            "{} must be written without `.`, `..`, doubled or trailing slashes",
            shown(path)
        ));
    }
    Ok(())
}
