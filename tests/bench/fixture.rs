//! The shared fixture of all measurements: a registry with the bases, and unused numbers for
//! configs.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mosb_image::{ImageRef, RepoRef};
use mosb_registry::cache::{DEFAULT_LIMIT, TreeCache};
use mosb_registry::{Client, Options, Source, Target};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::base::{self, Shape, TAG};
use crate::build::{self, Image, Job};
use crate::{config, debian_base};
use mosb_tests::{Access, Layout, Registry, Server, Transport};

pub struct Fixture {
    pub runtime: Runtime,
    pub registry: Registry,
    directory: TempDir,
    number: Cell<u64>,
}

/// A base in the registry.
#[derive(Debug, Clone)]
pub struct Base {
    pub shape: Shape,
    /// The digests of the layer blobs.
    pub layers: Vec<String>,
    /// The total size of these blobs in bytes.
    pub stored: u64,
}

/// An empty registry of the kind that all measurements use.
pub fn registry() -> Registry {
    Registry::start(Server::Distribution, Access::Anyone, Transport::Http)
}

impl Fixture {
    pub fn new() -> Self {
        Self {
            runtime: Runtime::new().unwrap(),
            registry: registry(),
            directory: TempDir::new().unwrap(),
            number: Cell::new(0),
        }
    }

    /// Generates a base and pushes it to the registry.
    pub fn base(&self, shape: Shape) -> Base {
        self.push(shape, &base::layout(&shape))
    }

    /// The same with a Debian on top, on which instructions can run.
    pub fn debian_base(&self, name: &'static str, shape: Shape) -> Base {
        self.push(Shape { name, ..shape }, &debian_base::layout(&shape))
    }

    fn push(&self, shape: Shape, layout: &Layout) -> Base {
        eprintln!("pushing base {}", shape.name);
        self.registry.push(layout, TAG, &format!("{}:{TAG}", shape.name));
        let manifest = layout.json(&layout.digest(TAG));
        let layers = manifest["layers"].as_array().unwrap();
        Base {
            shape,
            layers: layers
                .iter()
                .map(|layer| layer["digest"].as_str().unwrap().to_owned())
                .collect(),
            stored: layers.iter().filter_map(|layer| layer["size"].as_u64()).sum(),
        }
    }

    /// Returns an unused number.
    pub fn number(&self) -> u64 {
        self.number.replace(self.number.get() + 1)
    }

    /// A path that does not exist yet.
    pub fn fresh(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}-{}", self.number()))
    }

    /// A path that is the same for each call with this name.
    pub fn shared(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes the config of a number to a file.
    pub fn config_file(&self, number: u64) -> PathBuf {
        let path = self.directory.path().join(format!("config-{number}.json"));
        fs::write(&path, config::object(number).to_string()).unwrap();
        path
    }

    /// A `mosb` command with this directory as its cache.
    pub fn mosb(&self, cache: &Path) -> Command {
        let mut command = Command::new(mosb_tests::program());
        let home = self.shared("home");
        fs::create_dir_all(&home).unwrap();
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .current_dir(self.directory.path())
            .arg("--cache-dir")
            .arg(cache);
        command
    }

    /// A new client without open connections.
    pub fn client(&self) -> Client {
        Client::new(&Options::default()).unwrap()
    }

    /// A build of the next config on a base, into a repository.
    pub fn job(&self, base: &Base, target: &str) -> Job {
        Job {
            cache: TreeCache::new(self.shared("library-trees"), DEFAULT_LIMIT),
            base: base.source(self),
            config: config::rendered(self.number()),
            target: self.target(target),
        }
    }

    /// Assembles the image that a job would push.
    pub fn image(&self, base: &Base, target: &str) -> Image {
        let (client, job) = (self.client(), self.job(base, target));
        self.runtime.block_on(build::make(&client, job))
    }

    /// A repository of the registry.
    pub fn target(&self, repository: &str) -> Target {
        self.registry.repository(repository).parse().unwrap()
    }
}

impl Base {
    pub fn repository(&self) -> &'static str {
        self.shape.name
    }

    /// The image's name as `repository:tag`.
    pub fn image(&self) -> String {
        format!("{}:{TAG}", self.shape.name)
    }

    pub fn source(&self, fixture: &Fixture) -> Source {
        let repo: RepoRef = fixture.registry.repository(self.repository()).parse().unwrap();
        let image: ImageRef = repo.tagged(TAG).unwrap();
        Source::Registry(image)
    }
}
