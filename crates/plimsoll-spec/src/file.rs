//! How files of this project are read: strictly, and so that every mistake has a place.
//!
//! For other kinds of file that share the vocabulary of scenario files. Text becomes a tree of [`Node`]s; a reader
//! opens maps as [`Fields`] and lists with [`each`], and gives a [`Problem`] that learns on its way up which field it
//! is about.
//!
//! ```
//! use plimsoll_scenario::FileError;
//! use plimsoll_scenario::reader::{Fields, document, scalar};
//!
//! let read = |text| {
//!     let root = document(text, "a pool")?;
//!     Fields::of(&root, "a pool", &["size", "timeout"])?.required("size", scalar::positive)
//! };
//! assert_eq!(read("{ size: 3 }"), Ok(3));
//! let error = FileError::problem("pool.yaml".as_ref(), read("{ sise: 3 }").unwrap_err());
//! assert_eq!(error.to_string(), "pool.yaml:1:3: sise: unknown field of a pool, did you mean `size`?");
//! ```

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use plimsoll::adaptive::Limit;

use crate::FileError;

pub use crate::error::{Problem, Read, label, quote};
pub use crate::read::fields::{Fields, each};
pub use crate::read::scalar;
pub use crate::tree::{Entry, Node, Place, Value, parse};

/// No file is this long; what is, is something else that was named by mistake.
const MAX_BYTES: u64 = 16 << 20;

/// The text of a file.
///
/// # Errors
///
/// If it cannot be opened, is far too long, or is not UTF-8.
pub fn text_of(path: &Path) -> Result<String, FileError> {
    let bytes = bytes_of(path).map_err(|error| FileError::io(path, error))?;
    String::from_utf8(bytes).map_err(|error| {
        let text = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()])
            .into_owned();
        FileError::problem(path, Problem::new(end_of(&text), "this is not UTF-8 text"))
    })
}

/// Reads the one document of `text`, which must not be empty. `what` names it in the message if it is.
///
/// # Errors
///
/// The first thing that is wrong with it as YAML.
pub fn document(text: &str, what: &str) -> Read<Node> {
    parse(text)?.ok_or_else(|| {
        let message = format!("expected {what}, found nothing");
        Problem::new(Place { line: 1, column: 1 }, message)
    })
}

/// Reads a limit algorithm: a map with its name under `algorithm`, and its parameters.
///
/// # Errors
///
/// If there is no such algorithm, or a parameter is unknown or not what the algorithm allows.
pub fn limit(node: &Node) -> Read<Box<dyn Limit>> {
    crate::read::algorithm(node, scalar::Bare::Refused)
        .and_then(|algorithm| crate::run::limit(&algorithm))
}

/// Reads the queue of a limiter.
///
/// # Errors
///
/// If it is none.
pub fn queue(node: &Node) -> Read<plimsoll::Queue> {
    crate::read::limiter::queue(node, scalar::Bare::Refused).map(|spec| crate::run::queue(&spec))
}

fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!(
            "larger than {} MiB",
            MAX_BYTES >> 20
        )));
    }
    Ok(bytes)
}

/// Where `text` ends.
fn end_of(text: &str) -> Place {
    let last = text.rsplit('\n').next().unwrap_or_default();
    Place {
        line: text.matches('\n').count() + 1,
        column: last.chars().count() + 1,
    }
}
