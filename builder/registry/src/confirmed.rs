//! Proof that a registry has what is reported: only this crate makes a [`Confirmed`].

/// A value that the registry itself confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmed<T>(T);

impl<T> Confirmed<T> {
    /// The registry has just answered for this value.
    pub(super) fn new(value: T) -> Self {
        Self(value)
    }

    pub fn value(&self) -> &T {
        &self.0
    }

    /// As if a registry had answered, for tests of other modules.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_a_test(value: T) -> Self {
        Self(value)
    }
}
