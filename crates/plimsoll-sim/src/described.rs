use std::path::Path;

use plimsoll_spec::{FileError, text_of};

use crate::{Fleet, Simulation};

/// What a file describes: a server behind limits, or a fleet that shares one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Described {
    /// A server, traffic, and limits between them.
    Server(Box<Simulation>),
    /// Processes that share a limit: a file with a `fleet`.
    Fleet(Box<Fleet>),
}

impl Described {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is neither; says where and why.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let text = text_of(path)?;
        if Fleet::is_in(&text) {
            return Fleet::from_text(path, &text).map(|fleet| Self::Fleet(Box::new(fleet)));
        }
        Simulation::from_text(path, &text).map(|simulation| Self::Server(Box::new(simulation)))
    }
}
