//! A block after `<!-- file: crates/… -->` is that file of the repository, so that what a page says to copy is what the
//! tests compile and run. `PLIMSOLL_REWRITE=1` writes the files into the pages.

use std::fs;

use super::page::{book, root};

#[test]
fn blocks_are_the_files_that_they_name() {
    let rewrite = std::env::var_os("PLIMSOLL_REWRITE").is_some();
    let mut mistakes = Vec::new();
    for page in book() {
        let mut text = page.text.clone();
        for block in page.blocks.iter().rev() {
            let Some((note, name)) = &block.note else {
                continue;
            };
            // Others are written by the page itself, for its own commands.
            if note != "file" || !name.contains('/') {
                continue;
            }
            let Ok(file) = fs::read_to_string(root().join(name)) else {
                mistakes.push(format!("{}:{}: there is no {name}", page.name, block.line));
                continue;
            };
            if rewrite {
                text.replace_range(block.range.clone(), &file);
            } else if file != block.text {
                let (page, line) = (&page.name, block.line);
                mistakes.push(format!("{page}:{line}: this is not {name} any more"));
            }
        }
        if text != page.text {
            fs::write(&page.path, text).expect("the page can be written");
        }
    }
    let remedy = "PLIMSOLL_REWRITE=1 writes the files into the pages";
    assert!(mistakes.is_empty(), "{}\n{remedy}", mistakes.join("\n"));
}

#[test]
fn every_block_says_what_it_is() {
    let known = [
        "console",
        "json",
        "lua",
        "nginx",
        "promql",
        "python",
        "rust",
        "rust,ignore",
        "rust,no_run",
        "sh",
        "text",
        "toml",
        "yaml",
        "java",
        "csharp",
        "http",
        "mermaid",
    ];
    for page in book() {
        for block in &page.blocks {
            let (language, line) = (block.language.as_str(), block.line);
            assert!(
                known.contains(&language),
                "{}:{line}: a block of what? {language:?}",
                page.name
            );
            if language == "rust,ignore" {
                let file = block.note.as_ref().is_some_and(|(name, _)| name == "file");
                assert!(file, "{}:{line}: nothing compiles this", page.name);
            }
        }
    }
}

/// What a page shows of a configuration can be read, also where no command uses it.
#[test]
fn configurations_can_be_read() {
    for page in book() {
        for block in &page.blocks {
            let is_whole = block.text.lines().any(|line| line.starts_with("limits:"));
            let is_wrong_on_purpose = block.note.as_ref().is_some_and(|(name, file)| {
                name == "file" && page.text.contains(&format!("check {file}"))
            });
            if block.language != "yaml" || !is_whole || is_wrong_on_purpose {
                continue;
            }
            let at = format!("{}:{}", page.name, block.line);
            let read =
                plimsoll_config::Config::from_str(&at, &block.text, plimsoll_config::Format::Yaml);
            if let Err(error) = read {
                panic!("{at}: {error}");
            }
        }
    }
}
