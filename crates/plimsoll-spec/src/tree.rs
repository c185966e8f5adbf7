//! The text of a file as a tree in which every node knows its line and column.
//!
//! Many mistakes are found only when the meaning of a value is known: a name that no step defined, a verb that a
//! limiter does not have. A deserialiser that fills Rust types directly no longer knows the place of the value then,
//! unless every field of every type stores it. So the events of the YAML parser become a small tree first, and all
//! types are read from the tree. JSON needs no parser of its own: a JSON document is a YAML document.
//!
//! Input that could exhaust memory or the stack is rejected here: too much depth, too many nodes (an alias counts each
//! time that it is used), duplicate keys, tags, and several documents.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError};

pub use crate::node::{Entry, Node, Value, Written};
use crate::place::Place;
use crate::problem::{Problem, Read, label};

/// Far deeper than any real file, and shallow enough to walk the tree recursively on any thread.
const MAX_DEPTH: usize = 64;
/// More than ten times what the largest file of the project's own suite holds.
const MAX_NODES: usize = 1_000_000;
/// The maximum size of a file, for text copied by aliases: a long text is one value, and an alias of it four
/// characters.
const MAX_ALIASED_BYTES: usize = 16 << 20;

/// Parses the one document of `text`, in YAML or JSON. `None` if `text` is empty.
///
/// # Errors
///
/// Returns the first syntax error, with its place.
pub fn parse(text: &str) -> Read<Option<Node>> {
    let mut builder = Builder::default();
    let options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| syntax(&error))?;
        let place = Place::new(span.start.line(), span.start.col() + 1);
        builder
            .event(event, place)
            .map_err(|problem| builder.locate(problem))?;
    }
    Ok(builder.root.filter(|root| !root.is_null()))
}

/// Parses the one document of `text`, in YAML or JSON, which must not be empty. `what` describes it in messages.
///
/// ```
/// use plimsoll_spec::{Place, Value, document};
///
/// let root = document("limits:\n  api: 100/s\n", "limits")?;
/// let Value::Map(entries) = &root.value else { panic!("a map") };
/// let Value::Map(limits) = &entries[0].value.value else { panic!("a map") };
/// assert_eq!((limits[0].key.as_str(), limits[0].place), ("api", Place::new(2, 3)));
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
///
/// # Errors
///
/// Returns the first syntax error, with its place, or an error that `what` was expected if `text` is empty.
pub fn document(text: &str, what: &str) -> Read<Node> {
    parse(text)?.ok_or_else(|| {
        let message = format!("expected {what}, found nothing");
        Problem::new(Place::START, message)
    })
}

fn syntax(error: &ScanError) -> Problem {
    let mark = error.marker();
    let place = Place::new(mark.line().max(1), mark.col() + 1);
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => Problem::new(place, too_deep()),
        kind => Problem::new(place, format!("not YAML: {kind}")),
    }
}

fn too_deep() -> String {
    format!("nested more than {MAX_DEPTH} deep")
}

/// The nodes that are still open, innermost last, and the completed ones. An explicit stack instead of recursion, so
/// that no input determines the depth of the program's stack.
#[derive(Default)]
struct Builder {
    open: Vec<OpenNode>,
    root: Option<Node>,
    anchored: HashMap<usize, Node>,
    nodes: usize,
    aliased_bytes: usize,
    documents: usize,
}

struct OpenNode {
    place: Place,
    anchor: usize,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    Map(MapInside),
}

#[derive(Default)]
struct MapInside {
    entries: Vec<Entry>,
    seen: HashMap<String, Place>,
    key: Option<(String, Place)>,
    /// Maps with fields to merge into this one, unless it already has them: the values of `<<`.
    merged: Vec<Node>,
}

/// The field whose value is merged into the map around it.
const MERGE: &str = "<<";

impl Builder {
    fn event(&mut self, event: Event<'_>, place: Place) -> Read<()> {
        let tag = match &event {
            Event::Scalar(.., tag)
            | Event::SequenceStart(.., tag)
            | Event::MappingStart(.., tag) => tag.is_some(),
            _ => false,
        };
        if tag {
            return Err(Problem::new(place, "YAML tags (`!…`) have no meaning here"));
        }
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let quoted = style != ScalarStyle::Plain;
                let value = Value::Scalar {
                    text: text.into_owned(),
                    quoted,
                };
                self.add(Node::new(place, value), anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(place, anchor, Inside::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(place, anchor, Inside::Map(MapInside::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(id) => self.alias(id, place),
            Event::DocumentStart(..) if self.documents > 0 => Err(Problem::new(
                place,
                "a file holds one document: a second one begins here",
            )),
            Event::DocumentStart(..) => {
                self.documents += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds to a problem the path of the innermost open node.
    fn locate(&self, problem: Problem) -> Problem {
        self.open
            .iter()
            .rev()
            .fold(problem, |problem, open| match &open.inside {
                Inside::List(items) => problem.under_index(items.len()),
                Inside::Map(MapInside {
                    key: Some((key, _)),
                    ..
                }) => problem.under_key(&label(key)),
                Inside::Map(_) => problem,
            })
    }

    fn open(&mut self, place: Place, anchor: usize, inside: Inside) -> Read<()> {
        self.check_depth(1, place)?;
        self.open.push(OpenNode {
            place,
            anchor,
            inside,
        });
        Ok(())
    }

    fn close(&mut self) -> Read<()> {
        let Some(OpenNode {
            place,
            anchor,
            inside,
        }) = self.open.pop()
        else {
            return Ok(());
        };
        let value = match inside {
            Inside::List(items) => Value::List(items),
            Inside::Map(map) => Value::Map(map.close()),
        };
        self.add(Node::new(place, value), anchor)
    }

    fn alias(&mut self, id: usize, place: Place) -> Read<()> {
        let Some(node) = self.anchored.get(&id) else {
            return Err(Problem::new(
                place,
                "this alias is inside the value it stands for",
            ));
        };
        let (extent, node) = (node.extent(), node.clone());
        self.check_depth(extent.depth, place)?;
        self.count(extent.nodes, place)?;
        self.aliased_bytes += extent.bytes;
        if self.aliased_bytes > MAX_ALIASED_BYTES {
            let most = MAX_ALIASED_BYTES >> 20;
            let message = format!("aliases come to more than {most} MiB of text");
            return Err(Problem::new(place, message));
        }
        self.add(node, 0)
    }

    /// Adds a finished node to the innermost open one, as key or as value.
    fn add(&mut self, node: Node, anchor: usize) -> Read<()> {
        self.count(1, node.place)?;
        if anchor != 0 {
            self.count(node.extent().nodes, node.place)?;
            self.anchored.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.inside) {
            None => self.root = Some(node),
            Some(Inside::List(items)) => items.push(node),
            Some(Inside::Map(map)) => map.add(node)?,
        }
        Ok(())
    }

    fn count(&mut self, nodes: usize, place: Place) -> Read<()> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return Err(Problem::new(
                place,
                format!("more than {MAX_NODES} values in one file"),
            ));
        }
        Ok(())
    }

    fn check_depth(&self, more: usize, place: Place) -> Read<()> {
        if self.open.len() + more > MAX_DEPTH {
            return Err(Problem::new(place, too_deep()));
        }
        Ok(())
    }
}

impl MapInside {
    /// Records one or several maps, to be merged into this one.
    fn merge(&mut self, node: Node) -> Read<()> {
        match node.value {
            Value::Map(_) => self.merged.push(node),
            Value::List(items) if items.iter().all(|it| matches!(it.value, Value::Map(_))) => {
                self.merged.extend(items);
            }
            _ => {
                let message = "expected a map whose fields are merged into this one, such as *name";
                return Err(Problem::new(node.place, message).under_key(MERGE));
            }
        }
        Ok(())
    }

    /// The fields, with those of merged maps. The map's own fields take precedence, then those of the first merged map.
    fn close(mut self) -> Vec<Entry> {
        for node in std::mem::take(&mut self.merged) {
            let Value::Map(entries) = node.value else {
                continue;
            };
            for entry in entries {
                if self.seen.insert(entry.key.clone(), entry.place).is_none() {
                    self.entries.push(entry);
                }
            }
        }
        self.entries
    }

    fn add(&mut self, node: Node) -> Read<()> {
        if let Some((key, place)) = self.key.take() {
            if key == MERGE {
                return self.merge(node);
            }
            self.entries.push(Entry {
                key,
                place,
                value: node,
            });
            return Ok(());
        }
        let Value::Scalar { text, quoted } = node.value else {
            return Err(Problem::new(node.place, "a field's name must be a word"));
        };
        if quoted && text == MERGE {
            let message = "`<<` in quotes is no name: without them it merges a map";
            return Err(Problem::new(node.place, message));
        }
        if let Some(first) = self.seen.insert(text.clone(), node.place) {
            let message = format!("this field is here twice: first in line {}", first.line);
            return Err(Problem::new(node.place, message).under_key(&label(&text)));
        }
        self.key = Some((text, node.place));
        Ok(())
    }
}
