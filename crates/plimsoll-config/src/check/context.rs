//! The context of a check: the file, and the problems and warnings found so far.

use std::cell::RefCell;
use std::path::PathBuf;

use plimsoll_spec::{Broken, MAX_PROBLEMS, Places, Problem, Read, Step};

use crate::source::line_of;
use crate::spec::File;

/// A file that is checked, with its problems and warnings so far.
pub(crate) struct Context<'a> {
    pub(super) file: &'a File,
    files: &'a [PathBuf],
    pub(super) places: &'a Places<'a>,
    /// The entries that could not be read. Other entries may refer to them by name.
    pub(super) broken: &'a Broken<'a>,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

impl<'a> Context<'a> {
    pub(crate) const fn new(
        file: &'a File,
        (files, places): (&'a [PathBuf], &'a Places<'a>),
        broken: &'a Broken<'a>,
        problems: Vec<Problem>,
    ) -> Self {
        Self {
            file,
            files,
            places,
            broken,
            problems: RefCell::new(problems),
            warnings: RefCell::new(Vec::new()),
        }
    }

    /// The place of another entry, for a message at `path`: its line, and its file if it is another one.
    pub(super) fn line_of(&self, other: &[Step<'_>], path: &[Step<'_>]) -> String {
        let (other, from) = (self.places.find(other).0, self.places.find(path).0);
        line_of(other, from, self.files)
    }

    /// The problems and the warnings.
    pub(crate) fn into_problems(self) -> (Vec<Problem>, Vec<Problem>) {
        (self.problems.into_inner(), self.warnings.into_inner())
    }

    /// Adds a warning about something that is valid but probably not intended.
    pub(super) fn warn(&self, problem: Problem) {
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() < MAX_PROBLEMS {
            warnings.push(problem);
        }
    }

    pub(super) fn note(&self, problem: Problem) {
        if !self.is_full() {
            self.problems.borrow_mut().push(problem);
        }
    }

    /// Whether no more problems are reported. Finding the nearest name takes time, for each problem.
    pub(super) fn is_full(&self) -> bool {
        self.problems.borrow().len() >= MAX_PROBLEMS
    }

    pub(super) fn check<T>(&self, read: Read<T>) -> Option<T> {
        read.map_err(|problem| self.note(problem)).ok()
    }
}
