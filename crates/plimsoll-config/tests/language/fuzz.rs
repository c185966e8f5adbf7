//! Whatever is read: no panic, no hang, and every mistake has a place.

use std::path::Path;

use plimsoll_config::{Config, Format};
use proptest::prelude::*;

const FORMATS: [Format; 3] = [Format::Yaml, Format::Toml, Format::Json];

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/config")
        .join(name);
    std::fs::read_to_string(path).expect("an example")
}

fn examples() -> [(Format, String); 4] {
    [
        (Format::Yaml, example("server.yaml")),
        (Format::Toml, example("adaptive.toml")),
        (Format::Json, example("batches.json")),
        (Format::Yaml, example("fleet.yaml")),
    ]
}

/// Reads, and checks what is said if it is refused; what is accepted prints as something that is accepted.
fn read(text: &str, format: Format) {
    match Config::from_str("limits", text, format) {
        Ok(config) => {
            let printed = config.to_string();
            let again = Config::from_str("printed", &printed, Format::Yaml);
            let again = again.unwrap_or_else(|error| panic!("{error}\n{printed}"));
            assert_eq!(again.to_string(), printed);
        }
        Err(error) => {
            // YAML has lines that end with a carriage return.
            let lines = text.matches(['\n', '\r']).count() + 1;
            let (line, column) = (error.line(), error.column());
            // The end of a file may be told as the line after its last.
            assert!(
                line.is_some_and(|line| (1..=lines + 1).contains(&line)),
                "{error}"
            );
            assert!(column.is_some_and(|column| column >= 1), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}

/// One change of a text.
#[derive(Debug, Clone)]
enum Edit {
    Delete(prop::sample::Index, usize),
    Insert(prop::sample::Index, String),
    Repeat(prop::sample::Index, usize),
    /// Puts a word of the text somewhere else.
    Move(prop::sample::Index, prop::sample::Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<prop::sample::Index>;
    let pieces = prop_oneof![
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("[".to_owned()),
        Just(": ".to_owned()),
        Just("\n".to_owned()),
        Just("\t".to_owned()),
        Just("&a *a".to_owned()),
        Just("0".to_owned()),
        Just("-1".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("null".to_owned()),
        Just("kind: all, of: [api, uploads]".to_owned()),
        "[a-z_]{1,8}",
        "\\PC{1,4}",
    ];
    prop_oneof![
        (at(), 1usize..30).prop_map(|(at, length)| Edit::Delete(at, length)),
        (at(), pieces).prop_map(|(at, text)| Edit::Insert(at, text)),
        (at(), 1usize..60).prop_map(|(at, length)| Edit::Repeat(at, length)),
        (at(), at()).prop_map(|(from, to)| Edit::Move(from, to)),
    ]
}

fn apply(text: &str, edit: &Edit) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    if chars.is_empty() {
        return String::new();
    }
    match edit {
        Edit::Delete(at, length) => {
            let at = at.index(chars.len());
            chars.drain(at..(at + length).min(chars.len()));
        }
        Edit::Insert(at, piece) => {
            let at = at.index(chars.len());
            chars.splice(at..at, piece.chars());
        }
        Edit::Repeat(at, length) => {
            let at = at.index(chars.len());
            let piece = chars[at..(at + length).min(chars.len())].to_vec();
            chars.splice(at..at, piece);
        }
        Edit::Move(from, to) => {
            let words: Vec<&str> = text.split_whitespace().collect();
            let word = words
                .get(from.index(words.len().max(1)))
                .copied()
                .unwrap_or_default();
            let to = to.index(chars.len());
            chars.splice(to..to, word.chars());
        }
    }
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        for format in FORMATS {
            read(&text, format);
        }
    }

    #[test]
    fn any_bytes_that_are_text(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        for format in FORMATS {
            read(&text, format);
        }
    }

    #[test]
    fn words_of_the_format_in_any_order(words in prop::collection::vec(prop_oneof![
        Just("limiters:"), Just("routes:"), Just("kind:"), Just("all"), Just("of:"), Just("["), Just("]"), Just("{"), Just("}"),
        Just(","), Just("\n"), Just("  "), Just("adaptive"), Just("algorithm:"), Just("windowed"), Just("delegate:"), Just("- "),
        Just("a:"), Just("a"), Just("queue:"), Just("1s"), Just("5"), Just("name:"), Just("stores:"), Just("store:"), Just("url:"), Just("redis://a"), Just("outage:"), Just("borrow:"), Just("match:"), Just("/"), Just("&x"), Just("*x"),
    ], 0..60)) {
        read(&words.concat(), Format::Yaml);
        read(&words.join(" "), Format::Yaml);
    }

    #[test]
    fn examples_with_mistakes(edits in prop::collection::vec(edit(), 1..4)) {
        for (format, text) in examples() {
            let text = edits.iter().fold(text, |text, edit| apply(&text, edit));
            read(&text, format);
        }
    }
}

#[test]
fn large_files_take_no_time_that_grows_with_their_square() {
    let limiters: String = (0..20_000)
        .map(|at| format!("  l{at}: {{ kind: concurrency, limit: 1, name: n{at} }}\n"))
        .collect();
    let lists: String = (0..20_000)
        .map(|at| format!("  m{at}: [l{at}]\n"))
        .collect();
    let routes: String = (0..20_000)
        .map(|at| format!("  - {{ match: /p{at}, middleware: m{at} }}\n"))
        .collect();
    let text = format!("limiters:\n{limiters}middleware:\n{lists}routes:\n{routes}");
    let config = Config::from_str("limits.yaml", &text, Format::Yaml).expect("right");
    assert_eq!(config.routes(), 20_000);
}
