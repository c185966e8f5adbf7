use std::path::Path;

use plimsoll_spec::{FileError, text_of};

use crate::{Fleet, Simulation};

/// The content of a simulation file: a server behind limits, or a fleet that shares one.
///
/// A file with a `fleet` describes a fleet, any other a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Described {
    /// A server, traffic, and limits between them.
    Server(Box<Simulation>),
    /// Processes that share a limit.
    Fleet(Box<Fleet>),
}

impl Described {
    /// Reads a file in YAML or JSON.
    ///
    /// # Errors
    ///
    /// Returns an error with the line and the reason if the file cannot be read, or describes neither.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let text = text_of(path)?;
        if Fleet::is_in(&text) {
            return Fleet::from_text(path, &text).map(|fleet| Self::Fleet(Box::new(fleet)));
        }
        Simulation::from_text(path, &text).map(|simulation| Self::Server(Box::new(simulation)))
    }
}
