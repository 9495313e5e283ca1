//! What has been merged so far, as a tree.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::mem;

use serde_json::{Map, Value};

use super::list::List;
use crate::schema::{Items, Kind, Merging, Object};

/// The config that is being added.
#[derive(Debug, Clone, Copy)]
pub(super) struct By {
    pub origin: usize,
    /// Whether it is remembered who value_origin what.
    pub explaining: bool,
}

/// Who value_origin something.
#[derive(Debug)]
pub(super) struct ValueOrigin {
    /// Whose word counts.
    pub from: usize,
    /// Whose did before.
    pub over: Vec<usize>,
}

impl ValueOrigin {
    pub fn new(from: usize) -> Self {
        let over = Vec::new();
        Self { from, over }
    }

    /// Now it is another's word that counts.
    pub fn override_by(&mut self, by: By) {
        if by.explaining {
            self.over.push(self.from);
        }
        self.from = by.origin;
    }

    pub fn all(&self, origins: &mut Vec<usize>) {
        origins.push(self.from);
        origins.extend(&self.over);
    }
}

/// The fields of an object.
pub(super) type Fields = BTreeMap<String, Node>;

/// What has been merged so far at one place.
#[derive(Debug)]
pub(super) enum Node {
    /// A scalar or contents; or anything that only one config has value_origin yet.
    Whole(Value, ValueOrigin),
    Fields(Fields),
    List(List),
}

impl Node {
    pub fn empty() -> Self {
        Self::Fields(Fields::new())
    }

    pub fn whole(value: Value, from: usize) -> Self {
        Self::Whole(value, ValueOrigin::new(from))
    }

    /// Merges a later config's `value` over this one. Both have the shape that `kind` tells.
    pub fn add(&mut self, kind: Kind, value: Value, by: By) {
        match (kind, value) {
            (Kind::Object(of), Value::Object(members)) => match of.whole_with {
                None => self.add_fields(of, members, by),
                Some(field) if members.contains_key(field) => self.replace(members.into(), by),
                Some(_) => self.add_beside(members, by),
            },
            (Kind::List(items, merging), Value::Array(values)) => {
                self.list(items, merging).add(items, merging, values, by);
            }
            (_, value) => self.replace(value, by),
        }
    }

    fn replace(&mut self, value: Value, by: By) {
        match self {
            Self::Whole(old, value_origin) => {
                *old = value;
                value_origin.override_by(by);
            }
            Self::Fields(_) | Self::List(_) => *self = Self::whole(value, by.origin),
        }
    }

    /// Contents without a source of their own change only what they say of the earlier one.
    fn add_beside(&mut self, members: Map<String, Value>, by: By) {
        if let Self::Whole(old, value_origin) = self {
            for (field, value) in members {
                old[field] = value;
            }
            value_origin.override_by(by);
        }
    }

    fn add_fields(&mut self, of: &'static Object, members: Map<String, Value>, by: By) {
        let fields = self.fields();
        for (name, value) in members {
            let Some(kind) = of.field(&name).map(|field| field.kind) else {
                continue;
            };
            let mut taken = Vec::new();
            if let (Kind::List(items, Merging::KeyedAcross(lists)), Some(values)) =
                (kind, value.as_array())
            {
                for other in lists.iter().filter(|list| **list != name) {
                    let Some(Kind::List(others, merging)) = of.field(other).map(|f| f.kind) else {
                        continue;
                    };
                    if let Some(node) = fields.get_mut(*other) {
                        let list = node.list(others, merging);
                        taken.extend(list.take_away(items, values, by));
                    }
                }
            }
            let node = match fields.entry(name) {
                Entry::Vacant(place) => place.insert(Self::whole(value, by.origin)),
                Entry::Occupied(place) => {
                    let node = place.into_mut();
                    node.add(kind, value, by);
                    node
                }
            };
            if let (Kind::List(items, merging), false) = (kind, taken.is_empty()) {
                node.list(items, merging).took_away(taken);
            }
        }
    }

    /// Takes the object apart.
    fn fields(&mut self) -> &mut Fields {
        if let Self::Whole(Value::Object(members), value_origin) = self {
            let apart = mem::take(members).into_iter();
            *self = Self::Fields(
                apart.map(|(name, value)| (name, Self::whole(value, value_origin.from))).collect(),
            );
        }
        match self {
            Self::Fields(fields) => fields,
            Self::Whole(..) | Self::List(_) => {
                unreachable!("a document has objects where the schema has them")
            }
        }
    }

    /// Takes the list apart.
    fn list(&mut self, items: Items, merging: Merging) -> &mut List {
        if let Self::Whole(Value::Array(values), value_origin) = self {
            *self = Self::List(List::new(items, merging, mem::take(values), value_origin.from));
        }
        match self {
            Self::List(list) => list,
            Self::Whole(..) | Self::Fields(_) => {
                unreachable!("a document has lists where the schema has them")
            }
        }
    }

    /// The scalar in a field of this object; a scalar is its own.
    pub fn scalar(&self, field: &str) -> Option<&Value> {
        match self {
            Self::Whole(Value::Object(members), _) => members.get(field),
            Self::Whole(value, _) => Some(value),
            Self::Fields(fields) => fields.get(field)?.scalar(field),
            Self::List(_) => None,
        }
    }

    /// Everyone who value_origin any of it.
    pub fn origins(&self, origins: &mut Vec<usize>) {
        match self {
            Self::Whole(_, value_origin) => value_origin.all(origins),
            Self::Fields(fields) => fields.values().for_each(|node| node.origins(origins)),
            Self::List(list) => list.origins(origins),
        }
    }

    /// The value, if there is any.
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
                let values = list.into_values();
                (!values.is_empty()).then_some(values.into())
            }
        }
    }
}
