//! A secret of the user: in a file, on stdin, or in an environment variable; never an argument, which
//! each user of the machine can see.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::str::FromStr;

use super::arguments::usage;
use super::input::Input;
use super::{Failure, Result};
use mosb_trust::KEY_LIMIT;
use mosb_types::Secret;

/// `FILE`, `-`, or `env:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretInput {
    Input(Input),
    Variable(String),
}

impl FromStr for SecretInput {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        match text.strip_prefix("env:") {
            Some("") => usage("env: names no variable; write env:NAME"),
            Some(name) => Ok(Self::Variable(name.to_owned())),
            None => Ok(Self::Input(Input::new(Path::new(text)))),
        }
    }
}

impl fmt::Display for SecretInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(input) => input.fmt(f),
            Self::Variable(name) => write!(f, "env:{name}"),
        }
    }
}

impl SecretInput {
    /// All bytes of it.
    ///
    /// # Errors
    /// The file can't be read or is too large, or the variable is not set.
    pub fn read(&self, what: &'static str) -> Result<Secret<Vec<u8>>> {
        match self {
            Self::Input(input) => Ok(Secret::new(input.bytes(what, KEY_LIMIT)?)),
            Self::Variable(name) => match std::env::var_os(name).map(OsString::into_vec) {
                Some(value) if !value.is_empty() => Ok(Secret::new(value)),
                _ => usage(format!("env:{name}: the variable is not set; set it to the {what}")),
            },
        }
    }

    /// A password, without the line end that editors write.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_password(&self) -> Result<Secret<Vec<u8>>> {
        let mut password = self.read("password")?;
        let bytes = password.expose_mut();
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        Ok(password)
    }
}
