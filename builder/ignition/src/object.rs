//! Reading the fields of a normalized config, with their places.

use serde_json::{Map, Value};

use crate::normalize::{image_path, is_readable};
use crate::schema::{self, Field, Items, Kind};
use crate::sink::{Place, Sink};
use crate::version::{Spec, SpecVersion};

/// An object of a normalized config. Its fields are those of the table, under the names that the
/// table has.
#[derive(Debug)]
pub(super) struct Object<'v, 'p> {
    place: Place<'p>,
    of: &'static schema::Object,
    fields: Option<&'v Map<String, Value>>,
}

impl<'v: 'p, 'p> Object<'v, 'p> {
    pub fn root(sink: &'p Sink, of: &'static schema::Object, config: &'v Value) -> Self {
        Self::new(Place::root(sink), of, config.as_object())
    }

    fn new(
        place: Place<'p>,
        of: &'static schema::Object,
        fields: Option<&'v Map<String, Value>>,
    ) -> Self {
        let place = place.about(fields.and_then(|fields| image_path(of, fields)));
        Self { place, of, fields }
    }

    /// The version whose rules apply.
    pub fn spec(&self) -> Spec {
        self.place.sink.spec
    }

    /// The version whose rules apply, where it is one of spec 3.
    pub fn version(&self) -> SpecVersion {
        match self.spec() {
            Spec::V3(version) => version,
            Spec::V2(_) => unreachable!("spec 2 has readers of its own"),
        }
    }

    /// Whether contents and certificates may be remote.
    pub fn remote(&self) -> RemoteSources {
        self.place.sink.remote
    }

    /// Whether everything in the object could be read, so that its fields can be checked against
    /// each other.
    pub fn is_readable(&self) -> bool {
        self.fields.is_none_or(|fields| fields.values().all(is_readable))
    }

    /// The same of one field; a field that is not set is readable.
    pub fn can_read(&self, key: &str) -> bool {
        self.value(key).is_none_or(is_readable)
    }

    pub fn is_set(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    pub fn text(&self, key: &str) -> Option<&'v str> {
        self.value(key)?.as_str()
    }

    pub fn bool(&self, key: &str) -> Option<bool> {
        self.value(key)?.as_bool()
    }

    pub fn integer(&self, key: &str) -> Option<i64> {
        self.value(key)?.as_i64()
    }

    /// The object under `key`; without fields if there is none.
    pub fn object(&self, key: &'static str) -> Object<'v, '_> {
        let Kind::Object(of) = self.field(key).kind else { unreachable!("{key} is an object") };
        Object::new(self.place.key(key), of, self.value(key).and_then(Value::as_object))
    }

    /// Reads each object of the list under `key` that is readable as one.
    pub fn each<T>(&self, key: &'static str, mut read: impl FnMut(&Object<'v, '_>) -> T) -> Vec<T> {
        let Kind::List(Items::Objects(of), _) = self.field(key).kind else {
            unreachable!("{key} is a list of objects")
        };
        let list = self.place.key(key);
        let entries = self.entries(key).iter().enumerate();
        entries
            .filter_map(|(index, entry)| {
                Some(read(&Object::new(list.index(index), of, Some(entry.as_object()?))))
            })
            .collect()
    }

    /// The strings of the list under `key`.
    pub fn texts(&self, key: &str) -> Vec<&'v str> {
        self.entries(key).iter().filter_map(Value::as_str).collect()
    }

    /// A copy of the fields, but for those in `except`.
    pub fn to_fields(&self, except: &[&str]) -> Map<String, Value> {
        let fields = self.fields.into_iter().flatten();
        let fields = fields.filter(|(key, _)| !except.contains(&key.as_str()));
        fields.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// A problem of the field `key`.
    pub fn problem(&self, key: &str, code: &'static str, message: impl Into<String>) {
        self.place.key(key).problem(code, message);
    }

    /// A problem of an entry of the list under `key`.
    pub fn problem_in(
        &self,
        key: &str,
        index: usize,
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.place.key(key).index(index).problem(code, message);
    }

    /// A problem of the whole object.
    pub fn problem_here(&self, code: &'static str, message: impl Into<String>) {
        self.place.problem(code, message);
    }

    /// A warning about the field `key`.
    pub fn warn(&self, key: &str, code: &'static str, message: impl Into<String>) {
        self.place.key(key).warn(code, message);
    }

    /// A warning about the field `key` of an entry of `list`.
    pub fn warn_in(
        &self,
        list: &str,
        index: usize,
        key: &str,
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.place.key(list).index(index).key(key).warn(code, message);
    }

    fn entries(&self, key: &str) -> &'v [Value] {
        self.value(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn value(&self, key: &str) -> Option<&'v Value> {
        self.fields?.get(self.field(key).name)
    }

    fn field(&self, key: &str) -> &'static Field {
        self.of.field(key).expect("readers read only fields of the table")
    }
}

/// Whether remote sources are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemoteSources {
    /// An image can't be built with them.
    Rejected,
    /// The caller fetches them.
    Allowed,
}
