//! What the Secrets should have, or why they stay as they are.

use std::fmt;

use crate::effect::SecretWrite;
use crate::snapshot::Lookup;

/// The result of evaluating a snapshot. An error is why the Secrets stay as they are.
pub type Evaluated = Result<Evaluation, Refusal>;

#[derive(Debug)]
pub enum Evaluation {
    LookUp(Lookup),
    /// Nothing changed since the Secrets were read.
    Checked(Reason),
    /// The Secrets were read. The writes are in this order: what one refers to is there before.
    Read {
        writes: Vec<SecretWrite>,
        reason: Reason,
    },
}

/// The state of what new machines boot with, for the log and the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    LookingUp,
    /// The annotation was removed.
    Off,
    /// The Secret has the config, or gets it now.
    Current {
        joining: Joining,
        message: String,
    },
    /// The endpoint is not set.
    NothingServed,
    /// The server's Secrets have what they need for this many pools, or get it now.
    Served(usize),
    /// The Secrets stay as they are.
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

/// Why Secrets stay as they are.
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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LookingUp => f.write_str("reading the Secret and what its config is made of"),
            Self::Off => f.write_str("there is no user data"),
            Self::Current { message, .. } => f.write_str(message),
            Self::NothingServed => {
                f.write_str("userData.endpoint is not set, so nothing is served")
            }
            Self::Served(pools) => write!(f, "its Secrets are current, for {pools} pools"),
            Self::Refused(refusal) => f.write_str(&refusal.message),
        }
    }
}
