//! The origin of each value of a merged config.

use serde_json::Value;

use super::node::Node;
use crate::schema::{Items, Key, Kind, SPEC3};

/// The origin of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// A field, as `storage.files[/etc/chrony.conf].mode`; contents are one field. Entries of lists
    /// are named by their key, or, if that is long or may be secret, by their number. An entry that
    /// is an object, as `storage.files[/etc/chrony.conf]`, is listed before its fields.
    pub place: String,
    /// The config that set the value last; of an entry that is an object, the one that first had
    /// it.
    pub from: usize,
    /// The other configs that set it, ascending. Of an entry, those whose file, directory, link or
    /// argument in another list it removed.
    pub overrides: Vec<usize>,
}

/// The origins of all values, in the order of the config.
pub(super) fn of(config: &Node) -> Vec<Provenance> {
    let mut collector = ProvenanceCollector::default();
    collector.node(Kind::Object(&SPEC3), config);
    collector.found
}

/// Walks through the config.
#[derive(Default)]
struct ProvenanceCollector {
    place: String,
    found: Vec<Provenance>,
}

impl ProvenanceCollector {
    fn node(&mut self, kind: Kind, node: &Node) {
        match (kind, node) {
            (kind, Node::Whole(value, value_origin)) => self.value(kind, value, value_origin),
            (Kind::Object(of), Node::Fields(fields)) => {
                for (name, node) in fields {
                    if let Some(field) = of.field(name) {
                        self.within_field(name, |collector| collector.node(field.kind, node));
                    }
                }
            }
            (Kind::List(items, _), Node::List(list)) => {
                for (number, entry) in list.entries().enumerate() {
                    let scalar = |field: &str| entry.node.scalar(field);
                    self.within_entry(&name(items, number, scalar), |collector| {
                        collector.entry(items, &entry.value_origin);
                        collector.node(items.kind(), &entry.node);
                    });
                }
            }
            (_, Node::Fields(_) | Node::List(_)) => {}
        }
    }

    /// A value that only one config set.
    fn value(&mut self, kind: Kind, value: &Value, value_origin: &ValueOrigin) {
        match (kind, value) {
            (Kind::Object(of), Value::Object(members)) if of.replaced_with.is_none() => {
                for (name, value) in members {
                    if let Some(field) = of.field(name) {
                        self.within_field(name, |collector| {
                            collector.value(field.kind, value, value_origin)
                        });
                    }
                }
            }
            (Kind::List(items, _), Value::Array(values)) => {
                for (number, value) in values.iter().enumerate() {
                    let scalar = |field: &str| match items {
                        Items::Objects(_) => value.get(field),
                        Items::Names | Items::Texts => Some(value),
                    };
                    self.within_entry(&name(items, number, scalar), |collector| {
                        collector.entry(items, value_origin);
                        collector.value(items.kind(), value, value_origin);
                    });
                }
            }
            _ => self.record(value_origin),
        }
    }

    /// An entry of a list, if it is more than one value.
    fn entry(&mut self, items: Items, value_origin: &ValueOrigin) {
        if matches!(items, Items::Objects(of) if of.replaced_with.is_none()) {
            self.record(value_origin);
        }
    }

    fn record(&mut self, value_origin: &ValueOrigin) {
        let mut overrides = value_origin.overridden.clone();
        overrides.sort_unstable();
        overrides.dedup();
        overrides.retain(|origin| *origin != value_origin.from);
        self.found.push(Provenance {
            place: self.place.clone(),
            from: value_origin.from,
            overrides,
        });
    }

    fn within_field(&mut self, name: &str, record: impl FnOnce(&mut Self)) {
        let outside = self.place.len();
        if outside > 0 {
            self.place.push('.');
        }
        self.place.push_str(name);
        record(self);
        self.place.truncate(outside);
    }

    fn within_entry(&mut self, name: &str, record: impl FnOnce(&mut Self)) {
        let outside = self.place.len();
        self.place.push('[');
        // One line each, whatever a path holds.
        for c in name.chars() {
            if c.is_control() {
                self.place.extend(c.escape_debug());
            } else {
                self.place.push(c);
            }
        }
        self.place.push(']');
        record(self);
        self.place.truncate(outside);
    }
}

/// The name of an entry in a place.
fn name<'v>(items: Items, number: usize, scalar: impl Fn(&str) -> Option<&'v Value>) -> String {
    let shown = match items {
        Items::Names => scalar(""),
        Items::Texts => None,
        Items::Objects(of) => match of.key {
            Key::Name(field) => scalar(field),
            Key::Partition => scalar("number").or_else(|| scalar("label")),
            Key::None | Key::Private(_) => None,
        },
    };
    match shown {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => number.to_string(),
    }
}

/// The config that is being merged.
#[derive(Debug, Clone, Copy)]
pub(super) struct AddedConfig {
    pub origin: usize,
    /// Whether the origins that it overrides are recorded.
    pub explaining: bool,
}

/// The configs that set a value.
#[derive(Debug)]
pub(super) struct ValueOrigin {
    /// The last one, whose value it is.
    pub from: usize,
    pub overridden: Vec<usize>,
}

impl ValueOrigin {
    pub fn new(from: usize) -> Self {
        Self { from, overridden: Vec::new() }
    }

    pub fn override_with(&mut self, added: AddedConfig) {
        if added.explaining {
            self.overridden.push(self.from);
        }
        self.from = added.origin;
    }

    pub fn collect(&self, origins: &mut Vec<usize>) {
        origins.push(self.from);
        origins.extend(&self.overridden);
    }
}
