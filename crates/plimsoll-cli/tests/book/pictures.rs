//! Every picture of the book is drawn by the command that is named below it, and is still what that command draws.

use std::fs;
use std::process::Command;

use super::page::{book, root};

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

/// The command of a line such as "Drawn by `plimsoll simulate … --plot docs/pictures/x.svg`".
fn drawn_by<'p>(text: &'p str, picture: &str) -> Option<&'p str> {
    let line = text
        .lines()
        .skip_while(|line| !line.contains(picture))
        .nth(2)?;
    let (_, rest) = line.split_once("Drawn by `")?;
    rest.split('`').next()
}

#[test]
fn pictures_are_what_their_commands_draw() {
    let rewrite = std::env::var_os("PLIMSOLL_REWRITE").is_some();
    let mut mistakes = Vec::new();
    for page in book() {
        let pictures = page.links.iter().filter(|(link, _)| link.ends_with(".svg"));
        for (link, line) in pictures {
            let at = format!("{}:{line}", page.name);
            let Some(command) = drawn_by(&page.text, link) else {
                mistakes.push(format!("{at}: which command draws {link}?"));
                continue;
            };
            let file = page.path.parent().expect("a directory").join(link);
            let drawn = std::env::temp_dir().join(format!("plimsoll-{}.svg", std::process::id()));
            let words = command.strip_prefix("plimsoll ").unwrap_or_default();
            let words = words
                .split_whitespace()
                .map(|word| match word.ends_with(".svg") {
                    true => drawn.display().to_string(),
                    false => word.to_owned(),
                });
            let done = Command::new(PLIMSOLL)
                .args(words)
                .current_dir(root())
                .output()
                .expect("the program runs");
            if !drawn.exists() {
                mistakes.push(format!("{at}: `{command}` drew nothing: {done:?}"));
                continue;
            }
            let now = fs::read(&drawn).expect("a picture");
            let _ = fs::remove_file(&drawn);
            if rewrite {
                fs::write(&file, now).expect("a picture can be written");
            } else if fs::read(&file).ok().as_ref() != Some(&now) {
                mistakes.push(format!("{at}: `{command}` draws another {link}"));
            }
        }
    }
    let remedy = "PLIMSOLL_REWRITE=1 draws them again";
    assert!(mistakes.is_empty(), "{}\n{remedy}", mistakes.join("\n"));
}
