//! Where what a merged config says comes from.

use serde_json::Value;

use super::node::Node;
use super::origin::ValueOrigin;
use crate::schema::{Items, Key, Kind, SPEC3};

/// Where one thing that a config says comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// A field, as `storage.files[/etc/chrony.conf].mode`; contents are one field. Entries of lists stand by the key
    /// they are merged by, or, if that is long or may be secret, by their number. An entry that is an object, as
    /// `storage.files[/etc/chrony.conf]`, has a line of its own before its fields.
    pub place: String,
    /// The config whose word counts; of an entry that is an object, the one that first had it.
    pub from: usize,
    /// The other configs that value_origin something else or the same here, ascending. Of an entry, those whose file,
    /// directory, link or argument in another list it took away.
    pub overrides: Vec<usize>,
}

/// Tells of all that stands in the config, in its order.
pub(super) fn of(config: &Node) -> Vec<Provenance> {
    let (place, told) = Default::default();
    let mut teller = ProvenanceCollector { place, told };
    teller.node(Kind::Object(&SPEC3), config);
    teller.told
}

/// Walks through the config.
struct ProvenanceCollector {
    /// Where it is.
    place: String,
    told: Vec<Provenance>,
}

impl ProvenanceCollector {
    fn node(&mut self, kind: Kind, node: &Node) {
        match (kind, node) {
            (kind, Node::Whole(value, value_origin)) => self.value(kind, value, value_origin),
            (Kind::Object(of), Node::Fields(fields)) => {
                for (name, node) in fields {
                    if let Some(field) = of.field(name) {
                        self.within_field(name, |teller| teller.node(field.kind, node));
                    }
                }
            }
            (Kind::List(items, _), Node::List(list)) => {
                for (number, entry) in list.entries().enumerate() {
                    let scalar = |field: &str| entry.node.scalar(field);
                    self.within_entry(&name(items, number, scalar), |teller| {
                        teller.entry(items, &entry.value_origin);
                        teller.node(items.kind(), &entry.node);
                    });
                }
            }
            (_, Node::Fields(_) | Node::List(_)) => {}
        }
    }

    /// What one config alone value_origin.
    fn value(&mut self, kind: Kind, value: &Value, value_origin: &ValueOrigin) {
        match (kind, value) {
            (Kind::Object(of), Value::Object(members)) if of.replaced_with.is_none() => {
                for (name, value) in members {
                    if let Some(field) = of.field(name) {
                        self.within_field(name, |teller| {
                            teller.value(field.kind, value, value_origin)
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
                    self.within_entry(&name(items, number, scalar), |teller| {
                        teller.entry(items, value_origin);
                        teller.value(items.kind(), value, value_origin);
                    });
                }
            }
            _ => self.record(value_origin),
        }
    }

    /// An entry of a list, if that is more than the one value it holds.
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
        self.told.push(Provenance {
            place: self.place.clone(),
            from: value_origin.from,
            overrides,
        });
    }

    fn within_field(&mut self, name: &str, tell: impl FnOnce(&mut Self)) {
        let outside = self.place.len();
        if outside > 0 {
            self.place.push('.');
        }
        self.place.push_str(name);
        tell(self);
        self.place.truncate(outside);
    }

    fn within_entry(&mut self, name: &str, tell: impl FnOnce(&mut Self)) {
        let outside = self.place.len();
        self.place.push('[');
        // One line each, whatever a path holds.
        self.place.extend(name.chars().flat_map(|c| match c.is_control() {
            true => c.escape_debug().collect::<Vec<_>>(),
            false => vec![c],
        }));
        self.place.push(']');
        tell(self);
        self.place.truncate(outside);
    }
}

/// What an entry is called in a place.
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
