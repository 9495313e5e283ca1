//! The users and groups of two trees: those of passwd and group files, and those that
//! systemd-sysusers makes at boot (sysusers.d(5)).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::{Changed, State, changed, differing};
use mosb_image::tree::BaseTree;
use mosb_image::tree::retained::SYSUSERS_DIRECTORIES;

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
    /// Its number; `-` if the machine chooses it.
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
    /// Its number; `-` if the machine chooses it.
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
    let all = |tree| {
        let mut users = accounts(tree, USERS, state);
        for Sysuser { is_user, name, uid, gid, home, shell, .. } in sysusers(tree) {
            if is_user {
                users.entry(name).or_insert(UserState { uid, gid, home, shell });
            }
        }
        users
    };
    let (from, to) = (all(from), all(to));
    changed(&from, &to, |name, changed| UserChange { name, changed })
}

pub(super) fn groups(from: &BaseTree, to: &BaseTree) -> Vec<GroupChange> {
    let state = |fields: &[String]| GroupState { gid: field(fields, 2), members: field(fields, 3) };
    let all = |tree| {
        let mut groups = accounts(tree, GROUPS, state);
        // Each user has a group of its name, unless another one is named.
        for Sysuser { name, gid, .. } in sysusers(tree).into_iter().filter(|it| !it.other_group) {
            groups.entry(name).or_insert(GroupState { gid, members: String::new() });
        }
        groups
    };
    let (from, to) = (all(from), all(to));
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

/// A line of sysusers.d that makes a user or a group.
#[derive(Debug)]
struct Sysuser {
    is_user: bool,
    name: String,
    uid: String,
    gid: String,
    /// The group of the user is not one of its name.
    other_group: bool,
    home: String,
    shell: String,
}

/// The lines of all files, in the order of their names; one in `/etc` replaces that in `/usr`.
fn sysusers(tree: &BaseTree) -> Vec<Sysuser> {
    let mut files = BTreeMap::new();
    for directory in SYSUSERS_DIRECTORIES {
        for (name, _) in tree.children(directory) {
            let name = String::from_utf8_lossy(name).into_owned();
            files.entry(name).or_insert(directory);
        }
    }
    let texts =
        files.iter().filter_map(|(name, directory)| tree.content(&format!("{directory}/{name}")));
    let lines = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        text.lines().filter_map(|line| Sysuser::of(&words(line))).collect::<Vec<_>>()
    };
    texts.flat_map(lines).collect()
}

impl Sysuser {
    fn of(words: &[String]) -> Option<Self> {
        let (kind, name) = (words.first()?, words.get(1)?);
        let is_user = match kind.trim_end_matches('!') {
            "u" => true,
            "g" => false,
            _ => return None,
        };
        let word = |at: usize| words.get(at).filter(|word| *word != "-").cloned();
        let id = word(2).unwrap_or_else(|| "-".to_owned());
        let ids = id.split_once(':').map(|(uid, gid)| (uid.to_owned(), gid.to_owned()));
        let other_group = ids.is_some();
        let (uid, gid) = ids.unwrap_or_else(|| (id.clone(), id));
        // The defaults of sysusers.d(5).
        let home = word(4).unwrap_or_else(|| "/".to_owned());
        let shell = word(5).unwrap_or_default();
        Some(Self { is_user, name: name.clone(), uid, gid, other_group, home, shell })
    }
}

/// The words of a line, none for a comment; quotes hold blanks together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (None::<String>, None);
    if line.trim_start().starts_with('#') {
        return words;
    }
    for char in line.chars() {
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, char) if char.is_whitespace() => words.extend(word.take()),
            (_, char) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}
