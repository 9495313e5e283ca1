//! What must never be printed.

use std::fmt;

/// A value that can be used and not shown: `Debug` prints `[secret]`, and there is no `Display` and no `Serialize`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Hides a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for the one place that sends it.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(
            format!("{:?} {:#?}", secret, Some(&secret))
                .matches("hunter2")
                .count(),
            0
        );
        assert_eq!(secret.expose(), "hunter2");
    }
}
