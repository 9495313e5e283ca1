//! Why the user data of a pool's new machines is as it is.

use std::fmt;

/// The state of the user data, for the log and the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserDataReason {
    /// The annotation was removed.
    Off,
    LookingUp,
    /// The Secret has the config, or gets it now.
    Current {
        joining: Joining,
        message: String,
    },
    /// The Secret stays as it is.
    Refused(Refusal),
}

/// Whether the machines that get the config join the cluster, as far as mosb can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joining {
    Joins,
    /// Nothing joins them.
    DoesNotJoin,
    /// With a token that has ended.
    TokenExpired,
}

impl Joining {
    pub const ALL: [Self; 3] = [Self::Joins, Self::DoesNotJoin, Self::TokenExpired];

    /// The reason of the condition.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Joins => "Current",
            Self::DoesNotJoin => "DoesNotJoin",
            Self::TokenExpired => "JoinTokenExpired",
        }
    }
}

/// Why a Secret stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One word for programs.
    pub reason: &'static str,
    /// Object, cause and remedy.
    pub message: String,
}

impl Refusal {
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl fmt::Display for UserDataReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("there is no user data"),
            Self::LookingUp => f.write_str("reading the Secret and what its config is made of"),
            Self::Current { message, .. } => f.write_str(message),
            Self::Refused(refusal) => f.write_str(&refusal.message),
        }
    }
}
