//! Fills the volumes of a template, or removes them with their mounts.

use k8s_openapi::api::core::v1::{KeyToPath, PodSpec, Volume};

/// The volumes of a pod's template.
#[derive(Debug)]
pub(super) struct Volumes<'a>(&'a mut PodSpec);

impl<'a> Volumes<'a> {
    pub fn of(pod: &'a mut PodSpec) -> Self {
        Self(pod)
    }

    /// A volume of one ConfigMap.
    pub fn config_map(&mut self, volume: &str, source: Option<String>) {
        self.set(volume, source, |volume, name| {
            volume.config_map.get_or_insert_default().name = name;
        });
    }

    /// A volume of one Secret.
    pub fn secret(&mut self, volume: &str, source: Option<String>) {
        self.set(volume, source, |volume, name| {
            volume.secret.get_or_insert_default().secret_name = Some(name);
        });
    }

    /// Which keys of a ConfigMap the volume holds, and where.
    pub fn items(&mut self, volume: &str, items: Vec<KeyToPath>) {
        if let Some(volume) = self.find(volume) {
            volume.config_map.get_or_insert_default().items = Some(items);
        }
    }

    /// A volume of several ConfigMaps, each in its own directory: `0`, `1`, and so on.
    pub fn parts(&mut self, volume: &str, sources: Vec<String>) {
        let projected = self.find(volume).and_then(|volume| volume.projected.as_mut());
        let Some(parts) = projected.and_then(|projected| projected.sources.as_mut()) else {
            return;
        };
        let Some(first) = parts.pop() else { return };
        for (at, name) in sources.into_iter().enumerate() {
            let mut part = first.clone();
            let map = part.config_map.get_or_insert_default();
            map.name = name;
            for item in map.items.iter_mut().flatten() {
                item.path = format!("{at}/{}", item.key);
            }
            parts.push(part);
        }
    }

    fn find(&mut self, name: &str) -> Option<&mut Volume> {
        let mut all = self.0.volumes.iter_mut().flatten();
        all.find(|volume| volume.name == name)
    }

    fn set(&mut self, name: &str, source: Option<String>, fill: impl Fn(&mut Volume, String)) {
        match (source, self.find(name)) {
            (_, None) => {}
            (Some(source), Some(volume)) => fill(volume, source),
            (None, Some(_)) => self.remove(name),
        }
    }

    fn remove(&mut self, name: &str) {
        let Self(pod) = self;
        if let Some(volumes) = &mut pod.volumes {
            volumes.retain(|volume| volume.name != name);
        }
        let all = pod.init_containers.iter_mut().flatten();
        for container in all.chain(&mut pod.containers) {
            if let Some(mounts) = &mut container.volume_mounts {
                mounts.retain(|mount| mount.name != name);
            }
        }
    }
}
