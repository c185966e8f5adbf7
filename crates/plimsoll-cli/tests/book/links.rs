//! Links lead to pages, headings and files that exist, and the table of contents has every page.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use super::page::{Page, book, root};

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

fn broken(page: &Page, link: &str, pages: &HashMap<PathBuf, &Page>) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let to = match file {
        "" => plain(&page.path),
        file => plain(&page.path.parent().expect("a directory").join(file)),
    };
    if !to.exists() {
        return Some(format!("there is no {file}"));
    }
    if anchor.is_empty() {
        return None;
    }
    let known = match pages.get(&to) {
        Some(page) => page.anchors.contains(anchor),
        None => Page::read(root().join(to.strip_prefix(plain(&root())).unwrap_or(&to)))
            .anchors
            .contains(anchor),
    };
    (!known).then(|| format!("{file} has no heading #{anchor}"))
}

#[test]
fn every_link_leads_somewhere() {
    let book = book();
    let pages = book.iter().map(|page| (plain(&page.path), page)).collect();
    let mut mistakes = Vec::new();
    for page in &book {
        for (link, line) in &page.links {
            if let Some(why) = broken(page, link, &pages) {
                mistakes.push(format!("{}:{line}: {link}: {why}", page.name));
            }
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn the_table_of_contents_has_every_page_once() {
    let book = book();
    let contents = book.iter().find(|page| page.name == "docs/SUMMARY.md");
    let contents = contents.expect("a book has a table of contents");
    for page in &book {
        assert!(page.title.is_some(), "{} has no title", page.name);
        let Some(name) = page.name.strip_prefix("docs/") else {
            continue;
        };
        let times = contents.links.iter().filter(|(link, _)| link == name);
        let expected = usize::from(name != "SUMMARY.md");
        assert_eq!(times.count(), expected, "{name} in the table of contents");
    }
}

/// The README of a crate is the front page of its documentation.
#[test]
fn every_crate_leads_to_its_chapters() {
    for entry in std::fs::read_dir(root().join("crates")).expect("a directory") {
        let readme = entry.expect("a readable entry").path().join("README.md");
        if !readme.exists() {
            continue;
        }
        let page = Page::read(readme);
        let pages = HashMap::new();
        let mut chapters = 0;
        for (link, line) in &page.links {
            if !link.contains("../docs/") {
                continue;
            }
            chapters += 1;
            let why = broken(&page, link, &pages);
            assert!(why.is_none(), "{}:{line}: {link}: {why:?}", page.name);
        }
        assert!(chapters > 0, "{} leads to no chapter", page.name);
    }
}
