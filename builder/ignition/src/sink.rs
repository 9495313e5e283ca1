//! Where the findings of one reading are collected, and how the places they are about are written.

use std::cell::{Cell, RefCell};
use std::fmt;

use super::error::MAX_FINDINGS;
use super::remote_sources::RemoteSources;
use super::version::Spec;
use mosb_types::Finding;

/// Collects what is wrong and what is odd, while a config is read.
#[derive(Debug)]
pub(super) struct Sink {
    pub spec: Spec,
    pub remote: RemoteSources,
    problems: RefCell<Vec<Finding>>,
    warnings: RefCell<Vec<Finding>>,
    unread: Cell<usize>,
}

impl Sink {
    pub fn new(spec: impl Into<Spec>, remote: RemoteSources) -> Self {
        Self {
            spec: spec.into(),
            remote,
            problems: RefCell::default(),
            warnings: RefCell::default(),
            unread: Cell::new(0),
        }
    }

    pub fn problem(&self, problem: Finding) {
        push(&self.problems, problem);
    }

    pub fn warn(&self, warning: Finding) {
        push(&self.warnings, warning);
    }

    pub fn into_findings(self) -> (Vec<Finding>, Vec<Finding>) {
        (self.problems.into_inner(), self.warnings.into_inner())
    }

    /// How many values had the wrong type so far.
    pub fn unread_so_far(&self) -> usize {
        self.unread.get()
    }

    /// A value could not be read at all.
    pub fn unread(&self, problem: Finding) {
        self.unread.set(self.unread.get() + 1);
        self.problem(problem);
    }
}

fn push(findings: &RefCell<Vec<Finding>>, finding: Finding) {
    let mut findings = findings.borrow_mut();
    if findings.len() < MAX_FINDINGS {
        findings.push(finding);
    }
}

/// A place in the config, written as `storage.files[3].path`.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'p> {
    parent: Option<&'p At<'p>>,
    step: Step<'p>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl<'p> At<'p> {
    /// The config itself.
    pub fn root() -> Self {
        At { parent: None, step: Step::Root }
    }

    pub fn key(&'p self, key: &'p str) -> At<'p> {
        At { parent: Some(self), step: Step::Key(key) }
    }

    pub fn index(&'p self, index: usize) -> At<'p> {
        At { parent: Some(self), step: Step::Index(index) }
    }
}

impl fmt::Display for At<'_> {
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
