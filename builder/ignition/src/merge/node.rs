//! What has been merged so far, as a tree.

use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, HashMap};
use std::mem;

use serde_json::{Map, Value, json};

use super::provenance::{AddedConfig, ValueOrigin};
use crate::schema::{Items, Kind, Merging, Object};

/// The merged value of a field or of an entry.
#[derive(Debug)]
pub(super) enum Node {
    /// A scalar or contents; or any value that only one config has set so far.
    Whole(Value, ValueOrigin),
    Fields(BTreeMap<String, Node>),
    List(KeyedList<Entry>),
}

/// An entry of a list.
#[derive(Debug)]
pub(super) struct Entry {
    pub node: Node,
    /// The config that first had it; overridden are those whose entry in another list it removed.
    pub value_origin: ValueOrigin,
}

/// An entry that was removed because another list got its key.
struct RemovedEntry {
    key: String,
    origins: Vec<usize>,
}

impl Node {
    pub fn empty() -> Self {
        Self::Fields(BTreeMap::new())
    }

    fn whole(value: Value, from: usize) -> Self {
        Self::Whole(value, ValueOrigin::new(from))
    }

    /// Merges a later config's `value` over this one. Both are of this `kind`.
    pub fn add(&mut self, kind: Kind, value: Value, added: AddedConfig) {
        match (kind, value) {
            (Kind::Object(of), Value::Object(members)) => match of.replaced_with {
                None => self.add_fields(of, members, added),
                Some(field) if members.contains_key(field) => self.replace(members.into(), added),
                Some(_) => self.set_fields(members, added),
            },
            (Kind::List(items, merging), Value::Array(values)) => {
                add_entries(self.list(items, merging), items, merging, values, added);
            }
            (_, value) => self.replace(value, added),
        }
    }

    fn replace(&mut self, value: Value, added: AddedConfig) {
        match self {
            Self::Whole(old, value_origin) => {
                *old = value;
                value_origin.override_with(added);
            }
            Self::Fields(_) | Self::List(_) => *self = Self::whole(value, added.origin),
        }
    }

    /// Contents without a source of their own change only the fields that they set.
    fn set_fields(&mut self, members: Map<String, Value>, added: AddedConfig) {
        if let Self::Whole(old, value_origin) = self {
            for (field, value) in members {
                old[field] = value;
            }
            value_origin.override_with(added);
        }
    }

    fn add_fields(&mut self, of: &'static Object, members: Map<String, Value>, added: AddedConfig) {
        let fields = self.fields();
        for (name, value) in members {
            let Some(kind) = of.field(&name).map(|field| field.kind) else {
                continue;
            };
            let mut removed = Vec::new();
            if let (Kind::List(items, Merging::KeyedAcross(lists)), Some(values)) =
                (kind, value.as_array())
            {
                for other in lists.iter().filter(|list| **list != name) {
                    let Some(Kind::List(others, merging)) = of.field(other).map(|f| f.kind) else {
                        continue;
                    };
                    if let Some(node) = fields.get_mut(*other) {
                        let list = node.list(others, merging);
                        removed.extend(remove_entries(list, items, values, added));
                    }
                }
            }
            let node = match fields.entry(name) {
                MapEntry::Vacant(place) => place.insert(Self::whole(value, added.origin)),
                MapEntry::Occupied(place) => {
                    let node = place.into_mut();
                    node.add(kind, value, added);
                    node
                }
            };
            if let (Kind::List(items, merging), false) = (kind, removed.is_empty()) {
                record_removed(node.list(items, merging), removed);
            }
        }
    }

    /// Splits the object into its fields.
    fn fields(&mut self) -> &mut BTreeMap<String, Self> {
        if let Self::Whole(Value::Object(members), value_origin) = self {
            let members = mem::take(members).into_iter();
            let from = value_origin.from;
            *self = Self::Fields(
                members.map(|(name, value)| (name, Self::whole(value, from))).collect(),
            );
        }
        match self {
            Self::Fields(fields) => fields,
            Self::Whole(..) | Self::List(_) => {
                unreachable!("a document has objects where the schema has them")
            }
        }
    }

    /// Splits the list into its entries.
    fn list(&mut self, items: Items, merging: Merging) -> &mut KeyedList<Entry> {
        if let Self::Whole(Value::Array(values), value_origin) = self {
            let mut list = KeyedList::new();
            let first = AddedConfig { origin: value_origin.from, explaining: false };
            add_entries(&mut list, items, merging, mem::take(values), first);
            *self = Self::List(list);
        }
        match self {
            Self::List(list) => list,
            Self::Whole(..) | Self::Fields(_) => {
                unreachable!("a document has lists where the schema has them")
            }
        }
    }

    /// The scalar in a field of this object; of a scalar, itself.
    pub fn scalar(&self, field: &str) -> Option<&Value> {
        match self {
            Self::Whole(Value::Object(members), _) => members.get(field),
            Self::Whole(value, _) => Some(value),
            Self::Fields(fields) => fields.get(field)?.scalar(field),
            Self::List(_) => None,
        }
    }

    /// Adds all configs that set any part of it.
    fn collect_origins(&self, origins: &mut Vec<usize>) {
        match self {
            Self::Whole(_, value_origin) => value_origin.collect(origins),
            Self::Fields(fields) => fields.values().for_each(|node| node.collect_origins(origins)),
            Self::List(list) => list.entries().for_each(|entry| entry.collect_origins(origins)),
        }
    }

    /// The merged value; nothing for an object or list that is empty.
    pub fn into_value(self) -> Option<Value> {
        match self {
            Self::Whole(value, _) => Some(value),
            Self::Fields(fields) => {
                let members = fields.into_iter();
                let members: Map<_, _> =
                    members.filter_map(|(name, node)| Some((name, node.into_value()?))).collect();
                (!members.is_empty()).then_some(members.into())
            }
            Self::List(list) => {
                let entries = list.into_entries();
                let values: Vec<_> =
                    entries.map(|entry| entry.node.into_value().unwrap_or(json!({}))).collect();
                (!values.is_empty()).then_some(values.into())
            }
        }
    }
}

impl Entry {
    fn collect_origins(&self, origins: &mut Vec<usize>) {
        self.value_origin.collect(origins);
        self.node.collect_origins(origins);
    }
}

fn add_entries(
    list: &mut KeyedList<Entry>,
    items: Items,
    merging: Merging,
    values: Vec<Value>,
    added: AddedConfig,
) {
    for value in values {
        let key = items.key(&value).into_owned();
        let is_keyed = merging != Merging::Concatenated;
        if is_keyed && let Some(entry) = list.get_mut(&key) {
            if items.removes_entry(&value) {
                list.remove(&key);
            } else {
                entry.node.add(items.kind(), value, added);
            }
            continue;
        }
        let (node, value_origin) =
            (Node::whole(value, added.origin), ValueOrigin::new(added.origin));
        let entry = Entry { node, value_origin };
        if is_keyed {
            list.insert(key, entry);
        } else {
            list.push(entry);
        }
    }
}

/// Removes the entries with the keys of `values`, which are entries of another list. Returns the
/// removed ones if origins are recorded.
fn remove_entries(
    list: &mut KeyedList<Entry>,
    items: Items,
    values: &[Value],
    added: AddedConfig,
) -> Vec<RemovedEntry> {
    let mut removed = Vec::new();
    for key in values.iter().map(|value| items.key(value)) {
        if let Some(entry) = list.remove(&key).filter(|_| added.explaining) {
            let mut origins = Vec::new();
            entry.collect_origins(&mut origins);
            removed.push(RemovedEntry { key: key.into_owned(), origins });
        }
    }
    removed
}

/// Records, at the entries with these keys, the configs whose entries they removed.
fn record_removed(list: &mut KeyedList<Entry>, removed: Vec<RemovedEntry>) {
    for RemovedEntry { key, origins } in removed {
        if let Some(entry) = list.get_mut(&key) {
            let value_origin = match &mut entry.node {
                Node::Whole(Value::String(_), value_origin) => value_origin,
                _ => &mut entry.value_origin,
            };
            value_origin.overridden.extend(origins);
        }
    }
}

/// Entries in their order; removed ones leave a gap.
#[derive(Debug)]
pub(super) struct KeyedList<E> {
    entries: Vec<Option<E>>,
    /// The position of each key; empty if the list has no keys.
    index: HashMap<String, usize>,
}

impl<E> KeyedList<E> {
    pub fn new() -> Self {
        Self { entries: Vec::new(), index: HashMap::new() }
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut E> {
        self.entries[*self.index.get(key)?].as_mut()
    }

    /// Appends an entry without a key.
    pub fn push(&mut self, entry: E) {
        self.entries.push(Some(entry));
    }

    /// Appends an entry whose key is not in the list.
    pub fn insert(&mut self, key: String, entry: E) {
        self.index.insert(key, self.entries.len());
        self.push(entry);
    }

    pub fn remove(&mut self, key: &str) -> Option<E> {
        self.entries[self.index.remove(key)?].take()
    }

    pub fn entries(&self) -> impl Iterator<Item = &E> {
        self.entries.iter().flatten()
    }

    pub fn into_entries(self) -> impl Iterator<Item = E> {
        self.entries.into_iter().flatten()
    }
}
