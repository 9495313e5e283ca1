//! A cache of the cluster's objects, updated by watches, so that repeated polling does not load the
//! API server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::text;
use mosb_tests::{Api, Event, wait};

/// The timeout of the first list, while the API server may be busy or stopped.
const SOON: Duration = Duration::from_secs(120);
/// This is longer than the API server's own limit for a watch.
const WATCH: Duration = Duration::from_secs(3600);
/// The delay before a watch that ended is restarted.
const PAUSE: Duration = Duration::from_millis(100);

/// Objects by name, or `None` before the first list.
type Known = Arc<Mutex<Option<BTreeMap<String, Value>>>>;

#[derive(Debug)]
pub struct Objects {
    api: Arc<Api>,
    collections: Mutex<BTreeMap<String, Known>>,
}

impl Objects {
    pub fn new(api: Api) -> Self {
        Self { api: Arc::new(api), collections: Mutex::default() }
    }

    /// All objects of a collection. The first call starts its watch.
    #[track_caller]
    pub fn all(&self, collection: &str) -> Vec<Value> {
        let known = {
            let mut collections = self.collections.lock().unwrap();
            let known = collections.entry(collection.to_owned());
            Arc::clone(known.or_insert_with(|| watched(&self.api, collection)))
        };
        wait(collection, SOON, || {
            let objects = known.lock().unwrap();
            Some(objects.as_ref()?.values().cloned().collect())
        })
    }
}

fn watched(api: &Arc<Api>, collection: &str) -> Known {
    let (known, target) = (Known::default(), format!("{collection}?"));
    let (api, objects) = (Arc::clone(api), Arc::clone(&known));
    let name = |object: &Value| text(&object["metadata"]["name"]).to_owned();
    thread::spawn(move || {
        loop {
            api.watch(&target, Instant::now() + WATCH, |event| {
                let mut objects = objects.lock().unwrap();
                let known = objects.get_or_insert_default();
                match event {
                    Event::List(all) => {
                        *known = all.into_iter().map(|it| (name(&it), it)).collect()
                    }
                    Event::Is(object) => drop(known.insert(name(&object), object)),
                    Event::Deleted(object) => drop(known.remove(&name(&object))),
                }
                None::<()>
            });
            thread::sleep(PAUSE);
        }
    });
    known
}
