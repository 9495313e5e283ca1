//! A list of the config that is being merged, with an index of its keys.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Value, json};

use super::node::{By, Node, ValueOrigin};
use crate::schema::{Items, Key, Kind, Merging};

/// The entries, without those that were taken away.
#[derive(Debug, Default)]
pub(super) struct List {
    entries: Vec<Option<Entry>>,
    /// Where the entry of a key stands; empty if the list has no keys.
    index: HashMap<String, usize>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub node: Node,
    /// Who had it first, and whose of another list it took away.
    pub value_origin: ValueOrigin,
}

impl List {
    pub fn new(items: Items, merging: Merging, values: Vec<Value>, from: usize) -> Self {
        let mut list = Self::default();
        let (origin, explaining) = (from, false);
        list.add(items, merging, values, By { origin, explaining });
        list
    }

    pub fn add(&mut self, items: Items, merging: Merging, values: Vec<Value>, by: By) {
        self.entries.reserve(values.len());
        for value in values {
            if merging != Merging::Concatenated {
                let key = key(items, &value);
                let at = self.index.get(key.as_ref()).copied();
                if let Some(at) = at
                    && let Some(entry) = &mut self.entries[at]
                {
                    if items.takes_away(&value) {
                        self.index.remove(key.as_ref());
                        self.entries[at] = None;
                    } else {
                        entry.node.add(items.kind(), value, by);
                    }
                    continue;
                }
                self.index.insert(key.into_owned(), self.entries.len());
            }
            self.entries.push(Some(Entry {
                node: Node::whole(value, by.origin),
                value_origin: ValueOrigin::new(by.origin),
            }));
        }
    }

    /// Takes away the entries that have the keys of `values`, which another list holds from now on. Gives, if that is
    /// to be remembered, these keys and who had value_origin any of the entries.
    pub fn take_away(
        &mut self,
        items: Items,
        values: &[Value],
        by: By,
    ) -> Vec<(String, Vec<usize>)> {
        let mut taken = Vec::new();
        for value in values {
            let Some((key, at)) = self.index.remove_entry(key(items, value).as_ref()) else {
                continue;
            };
            let entry = self.entries[at].take();
            if let Some(entry) = entry.filter(|_| by.explaining) {
                let mut origins = Vec::new();
                entry.value_origin.all(&mut origins);
                entry.node.origins(&mut origins);
                taken.push((key, origins));
            }
        }
        taken
    }

    /// The entries of these keys took away what these configs had value_origin.
    pub fn took_away(&mut self, taken: Vec<(String, Vec<usize>)>) {
        for (key, origins) in taken {
            let at = self.index.get(&key).copied();
            if let Some(entry) = at.and_then(|at| self.entries[at].as_mut()) {
                let value_origin = match &mut entry.node {
                    Node::Whole(Value::String(_), value_origin) => value_origin,
                    _ => &mut entry.value_origin,
                };
                value_origin.over.extend(origins);
            }
        }
    }

    pub fn origins(&self, origins: &mut Vec<usize>) {
        for entry in self.entries() {
            entry.value_origin.all(origins);
            entry.node.origins(origins);
        }
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    pub fn into_values(self) -> Vec<Value> {
        let entries = self.entries.into_iter().flatten();
        entries.map(|entry| entry.node.into_value().unwrap_or(json!({}))).collect()
    }
}

impl Items {
    /// What an entry is.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Names | Self::Texts => Kind::Scalar,
            Self::Objects(of) => Kind::Object(of),
        }
    }

    /// Whether this entry takes away the one that has its key.
    fn takes_away(self, value: &Value) -> bool {
        match self {
            Self::Names | Self::Texts => false,
            Self::Objects(of) => of.gone_without.is_some_and(|field| value.get(field).is_none()),
        }
    }
}

/// What an entry is found by.
fn key(items: Items, value: &Value) -> Cow<'_, str> {
    fn text(value: Option<&Value>) -> &str {
        value.and_then(Value::as_str).unwrap_or_default()
    }
    match items {
        Items::Names | Items::Texts => text(Some(value)).into(),
        Items::Objects(of) => match of.key {
            Key::None => "".into(),
            Key::Name(field) | Key::Private(field) => text(value.get(field)).into(),
            Key::Partition => match (value.get("number"), value.get("label")) {
                (Some(number), _) => format!("number {number}").into(),
                (None, Some(label)) => format!("label {}", text(Some(label))).into(),
                (None, None) => "".into(),
            },
        },
    }
}
