//! The examples in `docs/examples`, run with the commands of their pages.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::child::run;
use crate::layout::Layout;
use crate::mosb::Mosb;
use crate::registry::{Access, Registry, Server, Transport};
use crate::repository::repository;
use crate::schema::valid;

/// An example as a person has it who copied it, with a registry in place of those that it names.
#[derive(Debug)]
pub struct Example {
    pub mosb: Mosb,
    pub registry: Registry,
    page: String,
}

impl Example {
    /// `layout` has the base of all examples under a tag.
    #[track_caller]
    pub fn new(name: &str, layout: &Layout, tag: &str) -> Self {
        let (mosb, folder) = (Mosb::new(), repository().join("docs/examples").join(name));
        let work = mosb.home().join("work");
        run("cp", ["-rT".as_ref(), folder.as_os_str(), work.as_os_str()]).ok();
        let registry = Registry::start(Server::Debian, Access::Anyone, Transport::Http);
        registry.push(layout, tag, "quay.io/fedora/fedora-coreos:stable");
        let page = fs::read_to_string(work.join("README.md")).unwrap();
        let example = Self { mosb, registry, page };
        // The mirror of the site, or of the test.
        let path = example.at("registries.conf");
        let mirror = match fs::read_to_string(&path) {
            Ok(text) => text.replace("mirror.edge.example.com", example.registry.address()),
            Err(_) => format!(
                "[[registry]]\nprefix = \"quay.io\"\nlocation = \"{}/quay.io\"\n",
                example.registry.address()
            ),
        };
        fs::write(path, mirror).unwrap();
        example
    }

    /// A file of it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.mosb.home().join("work").join(name)
    }

    /// The commands of mosb on the page that begin so, with the registry of the test.
    fn commands(&self, start: &str) -> Vec<String> {
        let start = format!("$ mosb {start} ");
        let lines = self.page.lines().filter_map(|line| line.strip_prefix(&start));
        let work = self.mosb.home().join("work");
        let line = |line: &str| {
            let line = line.split('#').next().unwrap();
            let line = &line.replace("$PWD", work.to_str().unwrap());
            ["registry.example.com", "mirror.edge.example.com"]
                .iter()
                .fold(line.to_owned(), |line, host| line.replace(host, self.registry.address()))
        };
        lines.map(line).collect()
    }

    /// Renders as the page does: the content of the file that the next command reads.
    #[track_caller]
    pub fn render(&self) {
        let [line] = &self.commands("render")[..] else { panic!("{}", self.page) };
        let (arguments, file) = line.split_once(" > ").unwrap();
        let rendered = self.mosb.run(Self::words("render", arguments)).ok().text();
        fs::write(self.at(file.trim()), rendered).unwrap();
    }

    /// The result of the first command of this name.
    #[track_caller]
    pub fn run(&self, command: &str, more: &[&str]) -> Value {
        let line = self.commands(command).swap_remove(0);
        let arguments = [Self::words(command, &line), vec!["-o", "json"], more.to_vec()].concat();
        let object = self.mosb.run(arguments).ok().json();
        valid(&object);
        object
    }

    /// A command of the page, with what only the test needs.
    fn words<'a>(command: &'a str, line: &'a str) -> Vec<&'a str> {
        let mut words: Vec<&str> = [command].into_iter().chain(line.split_whitespace()).collect();
        if !line.contains("--registries-conf") {
            words.extend(["--registries-conf", "registries.conf"]);
        }
        words.push("--tls-verify=false");
        words
    }
}
