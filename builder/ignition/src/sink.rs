//! Where the findings of one reading are collected, and the places that they are about.

use std::cell::{Cell, RefCell};
use std::fmt;

use super::error::MAX_FINDINGS;
use super::version::Spec;
use crate::object::RemoteSources;
use mosb_types::Finding;

/// Collects problems and warnings while a config is read.
#[derive(Debug)]
pub(super) struct Sink {
    pub spec: Spec,
    pub remote: RemoteSources,
    problems: RefCell<Vec<Finding>>,
    warnings: RefCell<Vec<Finding>>,
    unreadable: Cell<usize>,
}

impl Sink {
    pub fn new(spec: impl Into<Spec>, remote: RemoteSources) -> Self {
        Self {
            spec: spec.into(),
            remote,
            problems: RefCell::default(),
            warnings: RefCell::default(),
            unreadable: Cell::new(0),
        }
    }

    pub fn problem(&self, problem: Finding) {
        push(&self.problems, problem);
    }

    pub fn warn(&self, warning: Finding) {
        push(&self.warnings, warning);
    }

    /// Problems and warnings.
    pub fn into_findings(self) -> (Vec<Finding>, Vec<Finding>) {
        (self.problems.into_inner(), self.warnings.into_inner())
    }

    /// How many values could not be read so far.
    pub fn unreadable(&self) -> usize {
        self.unreadable.get()
    }
}

fn push(findings: &RefCell<Vec<Finding>>, finding: Finding) {
    let mut findings = findings.borrow_mut();
    if findings.len() < MAX_FINDINGS {
        findings.push(finding);
    }
}

/// A place in the config, written as `storage.files[3].path`, and the sink of its findings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'p> {
    pub sink: &'p Sink,
    parent: Option<&'p Place<'p>>,
    step: Step<'p>,
    image_path: Option<&'p str>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl<'p> Place<'p> {
    pub fn root(sink: &'p Sink) -> Self {
        Place { sink, parent: None, step: Step::Root, image_path: None }
    }

    pub fn key(&'p self, key: &'p str) -> Place<'p> {
        Place { parent: Some(self), step: Step::Key(key), ..*self }
    }

    pub fn index(&'p self, index: usize) -> Place<'p> {
        Place { parent: Some(self), step: Step::Index(index), ..*self }
    }

    /// The same place; its findings, and those of the places in it, are about this path in the
    /// image.
    pub fn about(self, image_path: Option<&'p str>) -> Self {
        Self { image_path: image_path.or(self.image_path), ..self }
    }

    pub fn problem(&self, code: &'static str, message: impl Into<String>) {
        self.sink.problem(self.finding(code, message));
    }

    pub fn warn(&self, code: &'static str, message: impl Into<String>) {
        self.sink.warn(self.finding(code, message));
    }

    /// A problem that leaves no value to check.
    pub fn unreadable(&self, code: &'static str, message: impl Into<String>) {
        self.sink.unreadable.set(self.sink.unreadable() + 1);
        self.problem(code, message);
    }

    fn finding(&self, code: &'static str, message: impl Into<String>) -> Finding {
        let finding = Finding::new(code, message).object(self.to_string());
        match self.image_path {
            Some(path) => finding.path(path),
            None => finding,
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.parent.is_some_and(|p| !matches!(p.step, Step::Root));
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Key(key) => write!(f, "{}{}", if inner { "." } else { "" }, key.escape_debug()),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}
