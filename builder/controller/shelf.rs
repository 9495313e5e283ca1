//! The objects of one kind, as the watch last told of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use kube::runtime::watcher::Event;

/// Objects by name. All that has a namespace is of our one namespace.
#[derive(Debug)]
pub struct Shelf<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    objects: BTreeMap<String, Arc<T>>,
    /// What a list that is under way has told so far.
    arriving: BTreeMap<String, Arc<T>>,
}

/// An object before and after an event.
#[derive(Debug, PartialEq, Eq)]
pub struct Change<T> {
    /// None: it is new.
    pub before: Option<Arc<T>>,
    /// None: it is gone.
    pub after: Option<Arc<T>>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                objects: BTreeMap::new(),
                arriving: BTreeMap::new(),
            }),
        }
    }
}

impl<T: PartialEq> Shelf<T> {
    /// The object of this name.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.lock().objects.get(name).cloned()
    }

    /// All, by name.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.lock().objects.values().cloned().collect()
    }

    /// Those that are meant.
    pub fn only(&self, mut meant: impl FnMut(&T) -> bool) -> Vec<Arc<T>> {
        let state = self.lock();
        let meant = state.objects.values().filter(|object| meant(object));
        meant.cloned().collect()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.lock().objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes in what a watch tells; what really changed by it. A list replaces everything when it is complete, so that an
    /// object that went away while nobody watched is told as gone.
    pub fn take(&self, event: Event<(String, T)>) -> Vec<Change<T>> {
        let mut state = self.lock();
        let changes = match event {
            Event::Init => {
                state.arriving.clear();
                Vec::new()
            }
            Event::InitApply((name, object)) => {
                state.arriving.insert(name, Arc::new(object));
                Vec::new()
            }
            Event::InitDone => {
                let after = std::mem::take(&mut state.arriving);
                let mut before = std::mem::replace(&mut state.objects, after);
                let mut changes: Vec<Change<T>> = state
                    .objects
                    .iter()
                    .map(|(name, object)| Change {
                        before: before.remove(name),
                        after: Some(Arc::clone(object)),
                    })
                    .collect();
                changes.extend(before.into_values().map(|gone| Change {
                    before: Some(gone),
                    after: None,
                }));
                changes
            }
            Event::Apply((name, object)) => {
                let after = Arc::new(object);
                let before = state.objects.insert(name, Arc::clone(&after));
                vec![Change {
                    before,
                    after: Some(after),
                }]
            }
            Event::Delete((name, _)) => {
                let before = state.objects.remove(&name);
                vec![Change {
                    before,
                    after: None,
                }]
            }
        };
        let real = |change: &Change<T>| change.before != change.after;
        changes.into_iter().filter(real).collect()
    }

    /// Puts down everything at once, for who looks only once.
    pub fn fill(&self, objects: impl IntoIterator<Item = (String, T)>) {
        let objects = objects.into_iter();
        self.lock().objects = objects.map(|(name, o)| (name, Arc::new(o))).collect();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state
            .lock()
            .expect("nobody panics while holding it: comparing and cloning don't")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(name: &str, value: i32) -> Event<(String, i32)> {
        Event::Apply((name.to_owned(), value))
    }

    fn told(changes: Vec<Change<i32>>) -> Vec<(Option<i32>, Option<i32>)> {
        let value = |object: Option<Arc<i32>>| object.map(|object| *object);
        let pair = |change: Change<i32>| (value(change.before), value(change.after));
        changes.into_iter().map(pair).collect()
    }

    #[test]
    fn a_list_replaces_everything_when_it_is_complete() {
        let shelf = Shelf::default();
        assert_eq!(told(shelf.take(apply("a", 1))), [(None, Some(1))]);
        assert_eq!(told(shelf.take(apply("a", 1))), [], "nothing changed");
        shelf.take(apply("b", 2));
        shelf.take(apply("c", 3));
        assert_eq!(told(shelf.take(Event::Init)), []);
        for (name, value) in [("a", 1), ("b", 5), ("d", 4)] {
            shelf.take(Event::InitApply((name.to_owned(), value)));
        }
        assert_eq!(shelf.get("b"), Some(Arc::new(2)), "the list goes on");
        assert_eq!(
            told(shelf.take(Event::InitDone)),
            [(Some(2), Some(5)), (None, Some(4)), (Some(3), None)]
        );
        assert_eq!(
            told(shelf.take(Event::Delete(("d".to_owned(), 4)))),
            [(Some(4), None)]
        );
        assert_eq!(shelf.all(), [Arc::new(1), Arc::new(5)]);
        assert_eq!(shelf.only(|value| *value > 1), [Arc::new(5)]);
    }
}
