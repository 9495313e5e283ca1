//! The users and groups of two trees.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::{Changed, State, changed, differing};
use mosb_image::tree::BaseTree;

/// Where users are; a name in the first of them counts.
const USERS: [&str; 3] = ["etc/passwd", "usr/lib/passwd", "usr/etc/passwd"];
/// The same for groups.
const GROUPS: [&str; 3] = ["etc/group", "usr/lib/group", "usr/etc/group"];

/// A user that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserChange {
    /// Its name.
    pub name: String,
    /// How it changes.
    #[serde(flatten)]
    pub changed: Changed<UserState>,
}

/// The fields of a user in `passwd`, without its password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserState {
    /// Its number.
    pub uid: String,
    /// The number of its group.
    pub gid: String,
    /// Its home directory.
    pub home: String,
    /// Its shell.
    pub shell: String,
}

/// A group that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupChange {
    /// Its name.
    pub name: String,
    /// How it changes.
    #[serde(flatten)]
    pub changed: Changed<GroupState>,
}

/// The fields of a group, without its password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupState {
    /// Its number.
    pub gid: String,
    /// The names of its members, with commas.
    pub members: String,
}

pub(super) fn users(from: &BaseTree, to: &BaseTree) -> Vec<UserChange> {
    let state = |fields: &[String]| UserState {
        uid: field(fields, 2),
        gid: field(fields, 3),
        home: field(fields, 5),
        shell: field(fields, 6),
    };
    let (from, to) = (accounts(from, USERS, state), accounts(to, USERS, state));
    changed(&from, &to, |name, changed| UserChange { name, changed })
}

pub(super) fn groups(from: &BaseTree, to: &BaseTree) -> Vec<GroupChange> {
    let state = |fields: &[String]| GroupState { gid: field(fields, 2), members: field(fields, 3) };
    let (from, to) = (accounts(from, GROUPS, state), accounts(to, GROUPS, state));
    changed(&from, &to, |name, changed| GroupChange { name, changed })
}

impl State for UserState {
    fn differences(&self, other: &Self) -> Vec<&'static str> {
        differing([
            ("uid", self.uid != other.uid),
            ("gid", self.gid != other.gid),
            ("home", self.home != other.home),
            ("shell", self.shell != other.shell),
        ])
    }
}

impl State for GroupState {
    fn differences(&self, other: &Self) -> Vec<&'static str> {
        differing([("gid", self.gid != other.gid), ("members", self.members != other.members)])
    }
}

/// The accounts by name: lines of fields with colons between them.
fn accounts<S>(
    tree: &BaseTree,
    files: [&str; 3],
    state: impl Fn(&[String]) -> S,
) -> BTreeMap<String, S> {
    let mut accounts = BTreeMap::new();
    for text in files.iter().filter_map(|file| tree.content(file)) {
        for line in String::from_utf8_lossy(text).lines() {
            let fields: Vec<String> = line.split(':').map(str::to_owned).collect();
            let is_account = fields.len() > 2 && !line.starts_with(['#', '+', '-']);
            if is_account && !accounts.contains_key(&fields[0]) {
                accounts.insert(fields[0].clone(), state(&fields));
            }
        }
    }
    accounts
}

fn field(fields: &[String], at: usize) -> String {
    fields.get(at).cloned().unwrap_or_default()
}
