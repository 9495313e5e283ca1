//! (being built)
/// e
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct Error;
/// c
pub fn check(_request: &super::Request) -> Result<(), Error> {
    Ok(())
}
