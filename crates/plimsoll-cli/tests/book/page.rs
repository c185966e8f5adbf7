//! A page as the tests see it: blocks of code, links and headings.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// A fenced block.
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
    /// Where its first line stands in the page.
    pub(crate) line: usize,
    /// What the comment right before it says: `<!-- file: limits.yaml -->` is `("file", "limits.yaml")`.
    pub(crate) note: Option<(String, String)>,
    /// Where its text stands in the page.
    pub(crate) range: std::ops::Range<usize>,
}

pub(crate) struct Page {
    /// From the root of the repository.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) blocks: Vec<Block>,
    /// Links and pictures, with their lines.
    pub(crate) links: Vec<(String, usize)>,
    pub(crate) anchors: HashSet<String>,
    pub(crate) title: Option<String>,
    /// All notes, also those that stand before no block.
    pub(crate) notes: Vec<(String, String)>,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All pages of the book, in the order of their names, and the README.
pub(crate) fn book() -> Vec<Page> {
    let mut found = Vec::new();
    below(&root().join("docs"), &mut found);
    found.sort();
    // A table for those who work on the project, with a test of its own.
    found.retain(|path| !path.ends_with("docs/seeds.md"));
    found.push(root().join("README.md"));
    assert!(found.len() > 20, "a book has more pages: {found:?}");
    found.into_iter().map(Page::read).collect()
}

fn below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "book") {
                below(&path, found);
            }
        } else if path.extension().is_some_and(|it| it == "md") {
            found.push(path);
        }
    }
}

/// What `mdbook` and forges make of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter_map(|it| match it {
        ' ' => Some('-'),
        it if it.is_alphanumeric() || it == '-' || it == '_' => Some(it),
        _ => None,
    });
    kept.collect()
}

/// `<!-- name: value -->`.
fn note(html: &str) -> Option<(String, String)> {
    let inside = html.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
    let (name, value) = inside.split_once(':')?;
    Some((name.trim().to_owned(), value.trim().to_owned()))
}

impl Page {
    pub(crate) fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).expect("a text");
        let mut page = Self {
            name: path
                .strip_prefix(root())
                .expect("a page of the repository")
                .display()
                .to_string(),
            path,
            blocks: Vec::new(),
            links: Vec::new(),
            anchors: HashSet::new(),
            title: None,
            notes: Vec::new(),
            text: String::new(),
        };
        let mut before = None;
        let mut heading = None::<(HeadingLevel, String)>;
        let mut open = false;
        for (event, range) in Parser::new_ext(&text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = text[..range.start].matches('\n').count() + 1;
            match event {
                Event::Html(html) => {
                    before = note(&html);
                    page.notes.extend(before.clone());
                    continue;
                }
                Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => continue,
                Event::Start(Tag::CodeBlock(kind)) => {
                    let CodeBlockKind::Fenced(info) = kind else {
                        panic!("{}:{line}: code must stand between fences", page.name);
                    };
                    open = true;
                    page.blocks.push(Block {
                        language: info.to_string(),
                        text: String::new(),
                        line: line + 1,
                        note: before.take(),
                        range: range.start..range.start,
                    });
                    continue;
                }
                Event::Text(more) if open => {
                    let block = page.blocks.last_mut().expect("a block is open");
                    if block.text.is_empty() {
                        block.range = range.clone();
                    }
                    block.range.end = range.end;
                    block.text.push_str(&more);
                    continue;
                }
                Event::End(TagEnd::CodeBlock) => open = false,
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((dest_url.to_string(), line));
                }
                Event::Start(Tag::Heading { level, .. }) => heading = Some((level, String::new())),
                Event::Text(more) | Event::Code(more) => {
                    if let Some((_, heading)) = &mut heading {
                        heading.push_str(&more);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let (level, heading) = heading.take().expect("a heading was open");
                    page.anchors.insert(anchor(&heading));
                    if level == HeadingLevel::H1 && page.title.is_none() {
                        page.title = Some(heading);
                    }
                }
                _ => {}
            }
            before = None;
        }
        page.text = text;
        page
    }
}
