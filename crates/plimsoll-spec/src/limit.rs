//! Builds adaptive algorithms by name, or from a part of a file.

use std::path::Path;

use plimsoll::adaptive::Limit;

use crate::algorithm::Algorithm;
use crate::de::read_one;
use crate::fields::Fields;
use crate::file::FileError;
use crate::path::Places;
use crate::place::Place;
use crate::problem::Read;
use crate::scalar::Units;
use crate::tree::{Entry, Node, Value, parse};

/// Reads an adaptive algorithm from a map with its name in `algorithm` and its parameters, and builds it.
///
/// # Errors
///
/// Returns an error if the algorithm or a parameter is unknown, or the algorithm rejects a value.
pub fn limit_at(node: &Node, units: Units) -> Read<Box<dyn Limit>> {
    let algorithm: Algorithm = read_one(node, units)?;
    algorithm
        .build()
        .map_err(|invalid| invalid.problem(&[], &Places::of(node)))
}

/// Builds the adaptive algorithm `name`, for programs that let their users choose one.
///
/// `parameters` is a map in YAML or JSON, in the format of files. Parameters that it leaves out have their defaults; it may be
/// empty.
///
/// ```
/// use plimsoll::adaptive::Limit;
///
/// let limit = plimsoll_spec::limit("windowed", "{ delegate: { algorithm: vegas, initial: 40 } }")?;
/// assert_eq!(limit.limit(), 40);
///
/// let error = plimsoll_spec::limit("vegas", "{ intial: 40 }").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "limit:1:3: intial: unknown field of the algorithm `vegas`, did you mean `initial`?"
/// );
/// # Ok::<(), plimsoll_spec::FileError>(())
/// ```
///
/// # Errors
///
/// Returns an error if the algorithm or a parameter is unknown, or the algorithm rejects a value. The place in the message refers to
/// `parameters`.
pub fn limit(name: &str, parameters: &str) -> Result<Box<dyn Limit>, FileError> {
    let limit = node(name, parameters).and_then(|node| limit_at(&node, Units::Required));
    limit.map_err(|problem| FileError::problem(Path::new("limit"), problem))
}

/// The description of the algorithm `name` with these parameters, as a file would have it.
fn node(name: &str, parameters: &str) -> Read<Node> {
    const WHAT: &str = "a map of parameters such as { initial: 20 }";
    let mut node =
        parse(parameters)?.unwrap_or_else(|| Node::new(Place::START, Value::Map(Vec::new())));
    let fields = Fields::any(&node, WHAT)?;
    if fields.get("algorithm").is_some() {
        return Err(fields.problem("algorithm", "this is not a parameter but the name"));
    }
    if let Value::Map(entries) = &mut node.value {
        entries.push(Entry::word("algorithm", name, Place::START));
    }
    Ok(node)
}
