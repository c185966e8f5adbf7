//! No page with Rust in it is left out.

use std::fs;
use std::path::Path;

use plimsoll_book::PAGES;

fn pages(directory: &Path, found: &mut Vec<String>, docs: &Path) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            pages(&path, found, docs);
        } else if path.extension().is_some_and(|it| it == "md") {
            let text = fs::read_to_string(&path).expect("a text");
            if text.contains("```rust\n") || text.contains("```rust,no_run\n") {
                let name = path.strip_prefix(docs).expect("a page of the book");
                found.push(name.display().to_string());
            }
        }
    }
}

#[test]
fn every_page_with_rust_is_compiled() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut found = Vec::new();
    pages(&docs, &mut found, &docs);
    found.push("../README.md".to_owned());
    found.sort();
    let mut compiled = PAGES.to_vec();
    compiled.sort_unstable();
    assert_eq!(found, compiled, "list it in src/lib.rs");
}
