//! (being built)
use crate::image::overlay::Overlay;
use crate::report::Finding;
/// u
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct Undecided;
/// s
#[derive(Debug)]
pub struct EnabledState;
impl EnabledState {
    /// s
    pub fn is_success(&self) -> bool {
        false
    }
}
/// i
pub fn is_enabled(_: &Overlay<'_>, _: &str) -> Result<EnabledState, Undecided> {
    Err(Undecided)
}
/// d
pub fn disable(_: &mut Overlay<'_>, _: &str) -> Result<(), Undecided> {
    Err(Undecided)
}
/// p
pub fn preset(_: &mut Overlay<'_>, _: &[String]) -> Result<Vec<Finding>, Undecided> {
    Err(Undecided)
}
