//! Every sort of mistake a file can have, with the exact message: one that changes should be seen to change.
//!
//! The tables are in `bad_files/*.txt`: what is wrong, then `=> ` and the message for it.

use plimsoll_scenario::{FileError, run_file, run_str};

const BUCKET: &str = "{ kind: token_bucket, burst: 1, refill: 1, every: 1s }";

fn error(text: &str) -> FileError {
    match run_str("f.yaml", text) {
        Ok(report) => panic!("read without complaint:\n{text}\n{report}"),
        Err(error) => error,
    }
}

/// Checks every row of a table. With `PLIMSOLL_REWRITE=1` it writes the messages that come instead: read the difference.
fn check(name: &str, file: impl Fn(&str) -> String) {
    let path = format!("{}/tests/bad_files/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(&path).expect(&path);
    let rows = table.split_inclusive("\n\n").map(|row| {
        let row = row.trim_end_matches('\n');
        let (part, _) = row.split_once("=> ").expect(row);
        let file = file(part.strip_suffix('\n').unwrap_or(part));
        format!("{part}=> {}\n", error(&file))
    });
    let rows: Vec<String> = rows.collect();
    assert!(rows.len() > 5, "the table could not be read");
    let found = rows.join("\n");
    if std::env::var_os("PLIMSOLL_REWRITE").is_some() {
        std::fs::write(&path, found).expect(&path);
    } else {
        assert_eq!(found, table);
    }
}

#[test]
fn files_that_are_no_list_of_scenarios() {
    check("files", str::to_owned);
}

#[test]
fn text_that_is_no_usable_yaml() {
    check("yaml", str::to_owned);
}

#[test]
fn limiters() {
    check("limiters", |limiter| {
        format!("- name: n\n  limiter: {limiter}\n  steps: [{{ try: 1 }}]\n")
    });
}

fn with_step(step: &str) -> String {
    format!("- name: n\n  limiter: {BUCKET}\n  steps:\n  - {{ try: 1, as: a }}\n  - {step}\n")
}

#[test]
fn steps() {
    check("steps", with_step);
}

#[test]
fn expectations() {
    check("expectations", with_step);
}

#[test]
fn traces() {
    check("traces", |body| format!("- {{ name: n, {body} }}\n"));
}

#[test]
fn the_parts_of_a_message_can_be_asked_for() {
    let error = error(&with_step("{ try: 1, expect: grant }"));
    assert_eq!(error.path().to_str(), Some("f.yaml"));
    assert_eq!((error.line(), error.column()), (Some(5), Some(23)));
    assert_eq!(error.field(), Some("scenarios[0].steps[1].expect"));
}

#[test]
fn a_message_is_one_line_whatever_the_file_says() {
    let text = "- { name: \"a\\nb\", limiter: \"c\\nd\" }\n";
    assert_eq!(
        error(text).to_string(),
        r#"f.yaml:1:28: scenarios[0].limiter: expected a limiter: a map with a `kind`, found the text "c\nd" (in the scenario "a\nb")"#
    );
    let long = "x".repeat(1000);
    assert!(error(&format!("{long}: 1")).to_string().len() < 150);
    assert!(error(&format!("- {long}")).to_string().len() < 150);
}

#[test]
fn text_made_to_exhaust_the_stack_or_memory() {
    for (opening, place) in [("[", "1:65: "), ("{ a: ", "1:321: "), ("- ", "1:129: ")] {
        let message = error(&opening.repeat(100_000)).to_string();
        assert!(message.starts_with(&format!("f.yaml:{place}")), "{message}");
        assert!(message.ends_with("nested more than 64 deep"), "{message}");
    }
    let mut bomb = String::from("- &a0 [x, x, x, x, x, x, x, x]\n");
    for i in 1..40 {
        bomb += &format!("- &a{i} [*a{0}, *a{0}, *a{0}, *a{0}]\n", i - 1);
    }
    assert!(
        error(&bomb)
            .to_string()
            .ends_with("more than 1000000 values in one file")
    );
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let error = run_file("no/such/file.yaml").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no/such/file.yaml: cannot be read: "),
        "{error}"
    );
    assert_eq!((error.line(), error.field()), (None, None));
    assert!(run_file(env!("CARGO_MANIFEST_DIR")).is_err(), "a directory");
}

#[test]
fn a_file_that_is_not_text_says_where() {
    let path = std::env::temp_dir().join(format!("plimsoll-not-text-{}.yaml", std::process::id()));
    std::fs::write(&path, b"- name: n\n  about\xff").unwrap();
    let error = run_file(&path).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert_eq!((error.line(), error.column()), (Some(2), Some(8)));
    assert!(
        error.to_string().ends_with("this is not UTF-8 text"),
        "{error}"
    );
}
