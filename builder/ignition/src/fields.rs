//! Reading the fields of JSON objects, with their place in the config, as Go's decoder does for Ignition:
//! `null` is as good as nothing, and a key is found in whatever case it is written.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::error::shown;
use super::remote_sources::RemoteSources;
use super::sink::{At, Sink};
use super::version::{Spec, SpecVersion};
use mosb_types::Finding;

/// An object of the config, field by field. [`Object::finish`] warns of the fields that nobody asked for.
#[derive(Debug)]
pub(super) struct Object<'v, 'p> {
    sink: &'p Sink,
    at: At<'p>,
    members: Option<&'v Map<String, Value>>,
    known: Vec<&'static str>,
    newer: Vec<(&'static str, Spec)>,
    unread_before: usize,
    image_path: Option<&'v str>,
}

impl<'v, 'p> Object<'v, 'p> {
    pub fn new(
        sink: &'p Sink,
        at: At<'p>,
        members: Option<&'v Map<String, Value>>,
        image_path: Option<&'v str>,
    ) -> Self {
        let (known, newer, unread_before) = (Vec::new(), Vec::new(), sink.unread_so_far());
        Self { sink, at, members, known, newer, unread_before, image_path }
    }

    /// The version whose rules count.
    pub fn spec(&self) -> Spec {
        self.sink.spec
    }

    /// The version whose rules count, where it is one of spec 3.
    pub fn version(&self) -> SpecVersion {
        match self.sink.spec {
            Spec::V3(version) => version,
            Spec::V2(_) => unreachable!("spec 2 has readers of its own"),
        }
    }

    /// What to say of a source that would have to be fetched, where the config decides.
    pub fn remote(&self) -> RemoteSources {
        self.sink.remote
    }

    /// Findings from here on are about this path in the image.
    pub fn about(&mut self, image_path: &'v str) {
        self.image_path = Some(image_path);
    }

    /// Whether all that was read of this object so far had the right types, so that a rule may be applied to it.
    pub fn sound(&self) -> bool {
        self.sink.unread_so_far() == self.unread_before
    }

    /// Whether this version has the field; if not, it is warned of as any unknown field.
    pub fn has(&mut self, key: &'static str, since: impl Into<Spec>) -> bool {
        let since = since.into();
        let has = self.spec() >= since;
        if !has {
            self.newer.push((key, since));
        }
        has
    }

    pub fn text(&mut self, key: &'static str) -> Option<&'v str> {
        let value = self.take(key)?;
        self.typed(key, value, value.as_str(), "a string")
    }

    pub fn truth(&mut self, key: &'static str) -> Option<bool> {
        let value = self.take(key)?;
        self.typed(key, value, value.as_bool(), "true or false")
    }

    pub fn number(&mut self, key: &'static str) -> Option<i64> {
        let value = self.take(key)?;
        self.typed(key, value, value.as_i64(), "a whole number")
    }

    /// The object under `key`; without any fields if there is none.
    pub fn object(&mut self, key: &'static str) -> Object<'v, '_> {
        let value = self.take(key);
        let members = value.and_then(|v| self.typed(key, v, v.as_object(), "an object"));
        Object::new(self.sink, self.at.key(key), members, self.image_path)
    }

    /// Whether there is anything under `key`.
    pub fn given(&self, key: &str) -> bool {
        self.members.is_some_and(|m| m.iter().any(|(k, v)| same_field(k, key) && !v.is_null()))
    }

    /// Reads each object of the list under `key`.
    pub fn each<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut Object<'v, '_>) -> T,
    ) -> Vec<T> {
        let Some(items) = self.list(key) else {
            return Vec::new();
        };
        let list = self.at.key(key);
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let at = list.index(index);
            let members = item.as_object();
            if members.is_none() && !item.is_null() {
                self.wrong_type(at, "an object", item);
                continue;
            }
            let mut object = Object::new(self.sink, at, members, self.image_path);
            out.push(read(&mut object));
            object.finish();
        }
        out
    }

    /// The strings of the list under `key`.
    pub fn texts(&mut self, key: &'static str) -> Vec<&'v str> {
        let Some(items) = self.list(key) else {
            return Vec::new();
        };
        let list = self.at.key(key);
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match item {
                Value::Null => out.push(""),
                Value::String(text) => out.push(text.as_str()),
                other => self.wrong_type(list.index(index), "a string", other),
            }
        }
        out
    }

    /// Complains of each entry of the list under `key` whose name was there before.
    pub fn no_duplicates<'n>(&self, key: &'n str, names: impl IntoIterator<Item = &'n str>) {
        self.no_duplicates_among([(key, names)]);
    }

    /// The same over several lists that share their names.
    pub fn no_duplicates_among<'n, N: IntoIterator<Item = &'n str>>(
        &self,
        lists: impl IntoIterator<Item = (&'n str, N)>,
    ) {
        let mut seen = HashSet::new();
        for (key, names) in lists {
            let list = self.at.key(key);
            for (index, name) in names.into_iter().enumerate() {
                if !seen.insert(name) {
                    // Whatever is neither a path nor the name of a unit may be a secret.
                    let is_name = matches!(key, "units" | "dropins");
                    let what = match is_name || name.starts_with('/') {
                        true => shown(name),
                        false => "the same entry".to_owned(),
                    };
                    let message = format!("{what} stands here twice; remove one");
                    self.sink.problem(self.finding(list.index(index), "duplicate", message));
                }
            }
        }
    }

    /// Something is wrong with the field `key`.
    pub fn problem(&self, key: &str, code: &'static str, message: impl Into<String>) {
        self.sink.problem(self.finding(self.at.key(key), code, message));
    }

    /// Something is wrong with an entry of the list under `key`.
    pub fn problem_in(
        &self,
        key: &str,
        index: usize,
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.sink.problem(self.finding(self.at.key(key).index(index), code, message));
    }

    /// Something is wrong with the whole object.
    pub fn problem_here(&self, code: &'static str, message: impl Into<String>) {
        self.sink.problem(self.finding(self.at, code, message));
    }

    /// Something is odd with the field `key`.
    pub fn warn(&self, key: &str, code: &'static str, message: impl Into<String>) {
        self.sink.warn(self.finding(self.at.key(key), code, message));
    }

    /// Something is odd with the field `key` of an entry of `list`.
    pub fn warn_in(
        &self,
        list: &str,
        index: usize,
        key: &str,
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.sink.warn(self.finding(self.at.key(list).index(index).key(key), code, message));
    }

    /// Warns of the fields that mean nothing here.
    pub fn finish(&mut self) {
        let version = self.spec();
        for key in self.members.into_iter().flat_map(Map::keys) {
            if self.known.iter().any(|known| same_field(key, known)) {
                continue;
            }
            match self.newer.iter().find(|(newer, _)| same_field(key, newer)) {
                Some((_, since)) => {
                    let message = format!(
                        "came with spec {since}, and this config says {version}: it is ignored"
                    );
                    self.warn(key, "newer-field", message);
                }
                None => self.warn(
                    key,
                    "unknown-field",
                    format!("no field of spec {version}: it is ignored"),
                ),
            }
        }
    }

    fn list(&mut self, key: &'static str) -> Option<&'v [Value]> {
        let value = self.take(key)?;
        self.typed(key, value, value.as_array(), "a list").map(Vec::as_slice)
    }

    fn take(&mut self, key: &'static str) -> Option<&'v Value> {
        self.known.push(key);
        let mut found = self.members?.iter().filter(|(k, _)| same_field(k, key));
        let (spelt, value) = found.next()?;
        if found.next().is_some() {
            let message =
                "is given in several spellings, and which one counts is not known; keep this one";
            self.sink.unread(self.finding(self.at.key(key), "ambiguous-field", message));
            return None;
        }
        if spelt != key {
            self.warn(spelt, "misspelt-field", format!("is read as {key:?}; write it so"));
        }
        Some(value).filter(|v| !v.is_null())
    }

    fn typed<T>(&self, key: &str, value: &Value, read: Option<T>, wanted: &str) -> Option<T> {
        if read.is_none() {
            self.wrong_type(self.at.key(key), wanted, value);
        }
        read
    }

    fn wrong_type(&self, at: At<'_>, wanted: &str, found: &Value) {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(n) if n.is_f64() => "a number with a fraction",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.sink.unread(self.finding(
            at,
            "wrong-type",
            format!("must be {wanted}, but is {found}"),
        ));
    }

    fn finding(&self, at: At<'_>, code: &'static str, message: impl Into<String>) -> Finding {
        let finding = Finding::new(code, message).object(at.to_string());
        match self.image_path {
            Some(path) => finding.path(path),
            None => finding,
        }
    }
}

/// Go's decoder takes a key for a field if they differ in case only, and these two letters fold into ASCII.
pub(super) fn same_field(key: &str, field: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    key.eq_ignore_ascii_case(field)
        || (!key.is_ascii()
            && key.chars().map(fold).eq(field.chars().map(|c| c.to_ascii_lowercase())))
}
