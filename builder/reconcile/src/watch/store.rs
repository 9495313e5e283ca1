//! An in-memory store of the objects of one kind, as the watch last reported them, with indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kube::runtime::watcher::Event;

/// Objects by name and by index keys of type `I`, so that the few objects of one pool are found without
/// scanning thousands. Namespaced objects are all of one namespace.
#[derive(Debug)]
pub struct IndexedStore<T, I> {
    keys: fn(&T) -> Vec<I>,
    state: Mutex<State<T, I>>,
}

#[derive(Debug)]
struct State<T, I> {
    objects: BTreeMap<String, Cached<T>>,
    /// Names of objects, by index key.
    by_key: BTreeMap<I, BTreeSet<String>>,
    /// Objects of a list that is not complete yet.
    relisted: BTreeMap<String, Arc<T>>,
}

#[derive(Debug)]
struct Cached<T> {
    object: Arc<T>,
    /// When a watch event last changed the object; none if it came from [`IndexedStore::replace`].
    at: Option<Instant>,
}

/// An object before and after an event.
#[derive(Debug, PartialEq, Eq)]
pub struct Change<T> {
    /// None: the object is new.
    pub before: Option<Arc<T>>,
    /// None: the object was deleted.
    pub after: Option<Arc<T>>,
}

impl<T, I> Default for IndexedStore<T, I> {
    fn default() -> Self {
        Self::with_index(|_| Vec::new())
    }
}

impl<T, I> IndexedStore<T, I> {
    /// A store that also indexes its objects by the keys that this function returns.
    pub fn with_index(keys: fn(&T) -> Vec<I>) -> Self {
        Self {
            keys,
            state: Mutex::new(State {
                objects: BTreeMap::new(),
                by_key: BTreeMap::new(),
                relisted: BTreeMap::new(),
            }),
        }
    }
}

impl<T: PartialEq, I: Ord> IndexedStore<T, I> {
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        let state = self.lock();
        state.objects.get(name).map(Cached::object)
    }

    /// For how long no watch event has changed this object, on this process's clock; none if no
    /// watch ever reported it.
    pub fn unchanged_for(&self, name: &str) -> Option<Duration> {
        let state = self.lock();
        let at = state.objects.get(name)?.at?;
        Some(at.elapsed())
    }

    /// All objects, sorted by name.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.lock().objects.values().map(Cached::object).collect()
    }

    /// The objects that have one of these index keys, sorted by name.
    pub fn by_index(&self, keys: impl IntoIterator<Item = I>) -> Vec<Arc<T>> {
        let state = self.lock();
        let names = keys.into_iter().filter_map(|key| state.by_key.get(&key));
        let names: BTreeSet<&String> = names.flatten().collect();
        let objects = names.into_iter().map(|name| state.objects[name].object());
        objects.collect()
    }

    /// All objects that match the predicate, sorted by name.
    pub fn filter_list(&self, mut meant: impl FnMut(&T) -> bool) -> Vec<Arc<T>> {
        let state = self.lock();
        let meant = state.objects.values().filter(|entry| meant(&entry.object));
        meant.map(Cached::object).collect()
    }

    pub fn len(&self) -> usize {
        self.lock().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Applies a watch event and returns what it changed. A list replaces everything once it is
    /// complete, so that an object that was deleted while no watch ran is reported as deleted.
    pub fn apply_event(&self, event: Event<(String, T)>) -> Vec<Change<T>> {
        let mut state = self.lock();
        let changes = match event {
            Event::Init => {
                state.relisted.clear();
                Vec::new()
            }
            Event::InitApply((name, object)) => {
                state.relisted.insert(name, Arc::new(object));
                Vec::new()
            }
            Event::InitDone => {
                let after = std::mem::take(&mut state.relisted);
                let mut before = std::mem::take(&mut state.objects);
                let mut changes = Vec::new();
                for (name, after) in after {
                    let before = before.remove(&name);
                    let entry = Cached::after(before.as_ref(), after);
                    changes.push(Change {
                        before: before.map(|before| before.object),
                        after: Some(entry.object()),
                    });
                    state.objects.insert(name, entry);
                }
                self.rebuild_index(&mut state);
                changes.extend(
                    before
                        .into_values()
                        .map(|gone| Change { before: Some(gone.object), after: None }),
                );
                changes
            }
            Event::Apply((name, object)) => {
                let entry = Cached::after(state.objects.get(&name), Arc::new(object));
                let after = entry.object();
                let before = state.objects.insert(name.clone(), entry);
                let before = before.map(|before| before.object);
                state
                    .remove_from_index(&name, before.iter().flat_map(|before| (self.keys)(before)));
                state.add_to_index(&name, (self.keys)(&after));
                vec![Change { before, after: Some(after) }]
            }
            Event::Delete((name, _)) => {
                drop(state);
                return self.delete(&name);
            }
        };
        let real = |change: &Change<T>| change.before != change.after;
        changes.into_iter().filter(real).collect()
    }

    /// Removes the object of this name, and returns what that changed.
    pub fn delete(&self, name: &str) -> Vec<Change<T>> {
        let mut state = self.lock();
        let Some(before) = state.objects.remove(name) else {
            return Vec::new();
        };
        state.remove_from_index(name, (self.keys)(&before.object));
        vec![Change { before: Some(before.object), after: None }]
    }

    /// Replaces all objects at once, for callers that list and don't watch.
    pub fn replace(&self, objects: impl IntoIterator<Item = (String, T)>) {
        let objects = objects.into_iter();
        let mut state = self.lock();
        let entry = |object| Cached { object: Arc::new(object), at: None };
        state.objects = objects.map(|(name, o)| (name, entry(o))).collect();
        self.rebuild_index(&mut state);
    }

    fn rebuild_index(&self, state: &mut State<T, I>) {
        state.by_key.clear();
        let all: Vec<_> = state
            .objects
            .iter()
            .map(|(name, entry)| (name.clone(), (self.keys)(&entry.object)))
            .collect();
        for (name, keys) in all {
            state.add_to_index(&name, keys);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T, I>> {
        self.state.lock().expect("it is not poisoned: comparing and cloning don't panic")
    }
}

impl<T: PartialEq> Cached<T> {
    /// Keeps the time of the last change if the object is unchanged.
    fn after(before: Option<&Self>, object: Arc<T>) -> Self {
        let same = before.filter(|before| before.object == object);
        let at = same.map_or_else(|| Some(Instant::now()), |same| same.at);
        Self { object, at }
    }
}

impl<T> Cached<T> {
    fn object(&self) -> Arc<T> {
        Arc::clone(&self.object)
    }
}

impl<T, I: Ord> State<T, I> {
    fn add_to_index(&mut self, name: &str, keys: Vec<I>) {
        for key in keys {
            self.by_key.entry(key).or_default().insert(name.to_owned());
        }
    }

    fn remove_from_index(&mut self, name: &str, keys: impl IntoIterator<Item = I>) {
        for key in keys {
            if let Some(names) = self.by_key.get_mut(&key) {
                names.remove(name);
                if names.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(name: &str, value: i32) -> Event<(String, i32)> {
        Event::Apply((name.to_owned(), value))
    }

    fn values(changes: Vec<Change<i32>>) -> Vec<(Option<i32>, Option<i32>)> {
        let value = |object: Option<Arc<i32>>| object.map(|object| *object);
        let pair = |change: Change<i32>| (value(change.before), value(change.after));
        changes.into_iter().map(pair).collect()
    }

    #[test]
    fn a_list_replaces_everything_when_it_is_complete() {
        let store = IndexedStore::<_, ()>::default();
        assert_eq!(values(store.apply_event(applied("a", 1))), [(None, Some(1))]);
        assert_eq!(values(store.apply_event(applied("a", 1))), [], "nothing changed");
        store.apply_event(applied("b", 2));
        store.apply_event(applied("c", 3));
        assert_eq!(values(store.apply_event(Event::Init)), []);
        for (name, value) in [("a", 1), ("b", 5), ("d", 4)] {
            store.apply_event(Event::InitApply((name.to_owned(), value)));
        }
        assert_eq!(store.get("b"), Some(Arc::new(2)), "the list goes on");
        assert_eq!(
            values(store.apply_event(Event::InitDone)),
            [(Some(2), Some(5)), (None, Some(4)), (Some(3), None)]
        );
        assert_eq!(
            values(store.apply_event(Event::Delete(("d".to_owned(), 4)))),
            [(Some(4), None)]
        );
        assert_eq!(store.list(), [Arc::new(1), Arc::new(5)]);
        assert_eq!(store.filter_list(|value| *value > 1), [Arc::new(5)]);
    }

    #[test]
    fn the_time_without_new_data_from_a_watch_is_measured() {
        let store = IndexedStore::<_, ()>::default();
        store.replace([("listed".to_owned(), 1)]);
        store.apply_event(applied("same", 1));
        store.apply_event(applied("other", 1));
        assert_eq!((store.unchanged_for("listed"), store.unchanged_for("none")), (None, None));
        std::thread::sleep(Duration::from_millis(20));
        let quiet = store.unchanged_for("same").unwrap();
        assert!(quiet >= Duration::from_millis(20), "{quiet:?}");
        store.apply_event(applied("same", 1));
        for (name, value) in [("same", 1), ("other", 2)] {
            store.apply_event(Event::InitApply((name.to_owned(), value)));
        }
        store.apply_event(Event::InitDone);
        let (same, other) =
            (store.unchanged_for("same").unwrap(), store.unchanged_for("other").unwrap());
        assert!(same >= quiet && other < same, "{same:?} {other:?}");
    }

    #[test]
    fn objects_are_found_by_their_keys_after_any_watch_events() {
        let store = IndexedStore::with_index(|value: &i32| match value {
            0 => Vec::new(),
            value => vec![value.to_string(), "any".to_owned()],
        });
        let found = |keys: [&str; 2]| {
            let values =
                store.by_index(keys.map(str::to_owned)).into_iter().map(|value: Arc<i32>| *value);
            values.collect::<Vec<_>>()
        };
        store.replace([("a".to_owned(), 1), ("b".to_owned(), 2), ("c".to_owned(), 0)]);
        assert_eq!(found(["1", "any"]), [1, 2], "each once");
        store.apply_event(applied("b", 1));
        store.apply_event(applied("c", 2));
        assert_eq!((found(["1", "1"]), found(["2", "3"])), (vec![1, 1], vec![2]));
        store.apply_event(Event::Delete(("a".to_owned(), 7)));
        assert_eq!(found(["1", "7"]), [1]);
        store.apply_event(Event::Init);
        store.apply_event(Event::InitApply(("d".to_owned(), 4)));
        assert_eq!(found(["2", "4"]), [2], "the list goes on");
        store.apply_event(Event::InitDone);
        assert_eq!(found(["2", "4"]), [4]);
    }
}
