//! The text of a configuration: one file and those that it includes, with variables of the environment substituted.

use std::path::{Path, PathBuf};

use plimsoll_spec::scalar::expected;
use plimsoll_spec::{
    Entry, Node, Place, Problem, Secret, Units, Value, Written, label, quote, read_one,
    substitute_variables, text_of,
};

use crate::Format;

/// The name of a kind of file, for the message if it is empty.
const WHAT: &str = "a configuration file: a map with `limits` or `limiters`";
/// The field that names other files.
const INCLUDE: &str = "include";
/// Sections that several files may have, whose entries are put together.
const SHARED: [&str; 8] = [
    "weights",
    "stores",
    "limiters",
    "limits",
    "providers",
    "middleware",
    "routes",
    "proxies",
];
/// A larger number of files is an error.
const MOST_FILES: usize = 64;
/// The maximum size of one file.
const MOST_BYTES: usize = 16 << 20;

/// A configuration as it is written.
pub(crate) struct Source {
    /// The file that was read first, and those that it includes.
    pub(crate) files: Vec<PathBuf>,
    /// All of them merged; `None` if the first cannot be parsed.
    pub(crate) root: Option<Node>,
    pub(crate) problems: Vec<Problem>,
}

impl Source {
    /// Reads `text`, and the files that it includes.
    pub(crate) fn read(path: &Path, text: &str, format: Format) -> Self {
        let mut source = Self {
            files: vec![path.to_owned()],
            root: None,
            problems: Vec::new(),
        };
        let mut reader = Reader {
            open: vec![0],
            known: vec![(identity(path), Place::START)],
            bytes: text.len(),
            source: &mut source,
        };
        let root = reader.tree(text, format, 0);
        source.root = root;
        source
    }
}

struct Reader<'a> {
    source: &'a mut Source,
    /// The files that are being read, each included by the one before.
    open: Vec<usize>,
    /// The identity of each file, under any path, and the place where it is included.
    known: Vec<(PathBuf, Place)>,
    bytes: usize,
}

/// The identity of a file, regardless of its path.
fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

impl Reader<'_> {
    /// The tree of a file with those that it includes.
    fn tree(&mut self, text: &str, format: Format, file: usize) -> Option<Node> {
        let mut root = match format.tree(text, WHAT) {
            Ok(root) => root,
            Err(problem) => {
                self.source.problems.push(problem.in_file(file));
                return None;
            }
        };
        root.set_file(file);
        if let Value::Map(sections) = &mut root.value {
            // Sections for anchors.
            sections.retain(|section| !section.key.starts_with("x-"));
        }
        let unset = substitute_variables(&mut root, &variable);
        self.source.problems.extend(unset);
        self.secrets(&mut root);
        for (text, place) in included(&root) {
            if let Some(other) = self.include(&text, place, file) {
                self.merge(&mut root, other);
            }
        }
        Some(root)
    }

    fn note(&mut self, place: Place, message: String) {
        let problem = Problem::new(place, message);
        self.source.problems.push(problem.under_key(INCLUDE));
    }

    /// A file that another one includes.
    fn include(&mut self, text: &str, place: Place, from: usize) -> Option<Node> {
        let path = match self.source.files[from].parent() {
            Some(directory) => directory.join(text),
            None => PathBuf::from(text),
        };
        let this = identity(&path);
        if let Some(index) = self.known.iter().position(|(known, _)| *known == this) {
            let round = self.open.iter().position(|open| *open == index);
            let message = match round {
                Some(round) => {
                    let names = self.open[round..].iter().chain([&index]);
                    let names = names.map(|open| self.source.files[*open].display().to_string());
                    format!("a cycle: {}", names.collect::<Vec<_>>().join(" -> "))
                }
                None => {
                    let first = self.known[index].1;
                    let first = line_of(first, place, &self.source.files);
                    format!("{} is included twice: first in {first}", quote(text))
                }
            };
            self.note(place, message);
            return None;
        }
        if self.known.len() >= MOST_FILES {
            self.note(
                place,
                format!("more than {MOST_FILES} files in one configuration"),
            );
            return None;
        }
        let file = self.source.files.len();
        self.source.files.push(path.clone());
        self.known.push((this, place));
        let content = match text_of(&path).map_err(plimsoll_spec::FileError::into_problem) {
            Ok(content) => content,
            Err(Ok(problem)) => {
                self.source.problems.push(problem.in_file(file));
                return None;
            }
            Err(Err(error)) => {
                self.note(place, format!("{} cannot be read: {error}", path.display()));
                return None;
            }
        };
        self.bytes += content.len();
        if self.bytes > MOST_BYTES {
            let most = MOST_BYTES >> 20;
            self.note(
                place,
                format!("the files are larger than {most} MiB together"),
            );
            return None;
        }
        self.open.push(file);
        let root = self.tree(&content, Format::of(&path), file);
        self.open.pop();
        root
    }

    /// Appends the sections of `other` to those of `root`.
    fn merge(&mut self, root: &mut Node, other: Node) {
        let Value::Map(more) = other.value else {
            let problem = expected(WHAT, &other);
            return self.source.problems.push(problem);
        };
        let Value::Map(sections) = &mut root.value else {
            return;
        };
        for section in more {
            if section.key == INCLUDE {
                continue;
            }
            let Some(known) = sections.iter_mut().find(|known| known.key == section.key) else {
                sections.push(section);
                continue;
            };
            let shared = SHARED.contains(&section.key.as_str());
            match (&mut known.value.value, section.value.value) {
                (Value::List(items), Value::List(more)) if shared => items.extend(more),
                (Value::Map(entries), Value::Map(more)) if shared => {
                    let files = &self.source.files;
                    let problems = add(entries, more, files).into_iter();
                    let problems = problems.map(|problem| problem.under_key(&label(&section.key)));
                    self.source.problems.extend(problems);
                }
                _ => {
                    let first = line_of(known.place, section.place, &self.source.files);
                    let message = format!("this is said twice: first in {first}");
                    let problem = Problem::new(section.place, message);
                    let problem = problem.under_key(&label(&section.key));
                    self.source.problems.push(problem);
                }
            }
        }
    }

    /// Substitutes the addresses of stores that are read from the environment or from files.
    fn secrets(&mut self, root: &mut Node) {
        let stores = field(root, "stores").map(|stores| &mut stores.value);
        let Some(Value::Map(stores)) = stores else {
            return;
        };
        for store in stores {
            let mut note = |name: &str, problems: Vec<Problem>| {
                let under = |problem: Problem| {
                    let problem = problem.under_key(name);
                    problem.under_key(&label(&store.key)).under_key("stores")
                };
                self.source.problems.extend(problems.into_iter().map(under));
            };
            if let Some(url) = field(&mut store.value, "url") {
                note("url", secret(url).into_iter().collect());
            }
            if let Some(Value::List(nodes)) =
                field(&mut store.value, "cluster").map(|it| &mut it.value)
            {
                let nodes = nodes.iter_mut().enumerate();
                let problems = nodes.filter_map(|(at, url)| Some(secret(url)?.under_index(at)));
                note("cluster", problems.collect());
            }
        }
    }
}

/// A line, and its file if it is another.
pub(crate) fn line_of(place: Place, from: Place, files: &[PathBuf]) -> String {
    match files.get(place.file) {
        Some(file) if place.file != from.file => {
            format!("line {} of {}", place.line, file.display())
        }
        _ => format!("line {}", place.line),
    }
}

/// Appends named entries.
fn add(entries: &mut Vec<Entry>, more: Vec<Entry>, files: &[PathBuf]) -> Vec<Problem> {
    let known = entries.iter().map(|entry| (entry.key.clone(), entry.place));
    let mut known: std::collections::HashMap<String, Place> = known.collect();
    let mut problems = Vec::new();
    for entry in more {
        if let Some(first) = known.insert(entry.key.clone(), entry.place) {
            let first = line_of(first, entry.place, files);
            let name = label(&entry.key);
            let message = format!("the name `{name}` is here twice: first in {first}");
            problems.push(Problem::new(entry.place, message).under_key(&name));
        } else {
            entries.push(entry);
        }
    }
    problems
}

/// The files that a file includes. A value that is not a list of texts is reported later, by the types.
fn included(root: &Node) -> Vec<(String, Place)> {
    let Value::Map(sections) = &root.value else {
        return Vec::new();
    };
    let include = sections.iter().find(|section| section.key == INCLUDE);
    let items = match include.map(|include| &include.value) {
        None => &[][..],
        Some(node) => match &node.value {
            Value::List(items) => items,
            _ => std::slice::from_ref(node),
        },
    };
    let text = |item: &Node| match &item.value {
        Value::Scalar { text, .. } if !item.is_null() => Some((text.clone(), item.place)),
        _ => None,
    };
    items.iter().filter_map(text).collect()
}

fn field<'n>(node: &'n mut Node, name: &str) -> Option<&'n mut Node> {
    let Value::Map(entries) = &mut node.value else {
        return None;
    };
    let entry = entries.iter_mut().find(|entry| entry.key == name)?;
    Some(&mut entry.value)
}

/// Substitutes `{ env: NAME }` or `{ file: PATH }` by its text. A mistake is substituted by an unused address.
fn secret(node: &mut Node) -> Option<Problem> {
    let Value::Map(_) = &node.value else {
        return None;
    };
    let place = node.place;
    let found = read_one::<Secret>(node, Units::Required).and_then(|secret| {
        let written = match (&secret.env, &secret.file) {
            (Some(name), None) => Written::Env(name.clone()),
            (None, Some(path)) => Written::File(path.clone()),
            _ => {
                let message = "expected where the address is: either `env` or `file`";
                return Err(Problem::new(place, message));
            }
        };
        let text = secret
            .read()
            .map_err(|message| Problem::new(place, message))?;
        let not_text = |_| Problem::new(place, format!("what {written} says is not UTF-8 text"));
        Ok((String::from_utf8(text).map_err(not_text)?, written))
    });
    let (text, written, problem) = match found {
        Ok((text, written)) => (text, Some(Box::new(written)), None),
        Err(problem) => ("redis://127.0.0.1".to_owned(), None, Some(problem)),
    };
    node.value = Value::Scalar { text, quoted: true };
    node.written = written;
    problem
}

/// A variable of the environment.
fn variable(name: &str) -> Result<Option<String>, String> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(format!("the environment variable {name} is not UTF-8 text"))
        }
    }
}
