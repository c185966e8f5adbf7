//! What was recorded of a server, drawn at three sizes. `PLIMSOLL_REWRITE=1` writes the pictures anew, to be looked at.

use std::path::PathBuf;

use plimsoll_top::ratatui::backend::TestBackend;
use plimsoll_top::ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use plimsoll_top::ratatui::style::Color;
use plimsoll_top::ratatui::{Terminal, buffer::Buffer};
use plimsoll_top::{App, Keys, Tick, plain, render};

const SIZES: [(&str, u16, u16); 3] = [("small", 44, 12), ("usual", 80, 24), ("wide", 170, 40)];

fn recorded() -> Vec<Tick> {
    serde_json::from_str(include_str!("recorded.json")).expect("ticks")
}

/// All ticks, a second apart.
fn app() -> App {
    let mut app = App::new("127.0.0.1:8422");
    recorded().into_iter().for_each(|tick| app.tick(tick));
    app
}

fn press(app: &mut App, keys: &str) -> bool {
    keys.chars().all(|key| {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\x1b' => KeyCode::Esc,
            'v' => KeyCode::Down,
            other => KeyCode::Char(other),
        };
        app.press(KeyEvent::new(code, KeyModifiers::NONE))
    })
}

fn drawn(app: &App, coloured: bool, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| render(app, coloured, frame))
        .expect("it is drawn");
    terminal.backend().buffer().clone()
}

fn text(app: &App, width: u16, height: u16) -> String {
    let buffer = drawn(app, false, width, height);
    let row = |y| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    let lines: Vec<String> = (0..height).map(|y| row(y).trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// The same as what is kept.
fn assert_kept(name: &str, text: &str) {
    let kept = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/top/{name}.txt"));
    if std::env::var_os("PLIMSOLL_REWRITE").is_some() {
        std::fs::write(&kept, text).expect("it is written");
    }
    let before = std::fs::read_to_string(&kept).expect("PLIMSOLL_REWRITE=1 writes it");
    assert!(before == text, "{name} was\n{before}\nand is now\n{text}");
}

#[test]
fn limits_and_details_at_three_sizes() {
    for (size, width, height) in SIZES {
        let mut app = app();
        assert_kept(&format!("limits-{size}"), &text(&app, width, height));
        // The third is the adaptive one.
        assert!(press(&mut app, "vv\n"));
        assert_eq!(app.open(), Some("slots"));
        let keys = r#"{ "used": [{ "key": "chec… (10)", "count": 412, "error": 3 }], "refused": [{ "key": "abus… (8)", "count": 9 }] }"#;
        let keys: Keys = serde_json::from_str(keys).expect("keys");
        app.keys("slots".to_owned(), keys);
        assert_kept(&format!("details-{size}"), &text(&app, width, height));
    }
}

#[test]
fn upstreams_proxies_and_the_reload() {
    let mut app = app();
    let mut all = String::new();
    for _ in 0..3 {
        assert!(press(&mut app, "\t"));
        all += &text(&app, 80, 8);
    }
    assert_kept("sections", &all);
    // Where there is nothing it says so.
    let mut empty = App::new("127.0.0.1:8422");
    empty.tick(Tick::default());
    for words in [
        "no limits",
        "not a gateway",
        "no proxy",
        "not been read again",
    ] {
        assert!(text(&empty, 80, 8).contains(words), "{words}");
        press(&mut empty, "\t");
    }
}

#[test]
fn search_order_pause_help_and_leaving() {
    let mut app = app();
    let first = |app: &App| text(app, 80, 24).lines().nth(3).expect("a row").to_owned();
    assert!(press(&mut app, "/OM"));
    assert!(first(&app).contains("tomorrow"));
    assert!(text(&app, 80, 24).contains("search OM"));
    assert!(press(&mut app, "zz"));
    assert!(text(&app, 80, 24).contains("no limit has a name with \"OMzz\""));
    assert!(press(&mut app, "\x1b"));
    for name in [
        "per_caller",
        "slots",
        "per_caller",
        "anything",
        "per_caller",
    ] {
        press(&mut app, "s");
        assert!(first(&app).contains(name), "{name}: {}", text(&app, 80, 24));
    }
    // Paused: what comes changes nothing.
    press(&mut app, "p");
    let before = text(&app, 80, 24);
    assert!(before.contains("■ paused"));
    app.tick(Tick::default());
    app.disconnect("lost");
    assert_eq!(before, text(&app, 80, 24));
    press(&mut app, "p?");
    assert!(text(&app, 80, 24).contains("┌ keys"));
    assert!(press(&mut app, "q"), "closes the help");
    assert!(!press(&mut app, "q"), "leaves");
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(!app.press(interrupt));
}

#[test]
fn a_server_that_is_away_is_said_to_be_and_what_it_said_stays() {
    let mut app = app();
    app.disconnect("nothing listens there");
    let small = text(&app, 44, 12);
    assert!(
        small.contains("away: nothing listens there; trying again"),
        "{small}"
    );
    assert!(small.contains("per_caller"), "{small}");
    // A server that began anew counts from zero: no rate is below it, and none is computed over the gap.
    let mut tick = recorded().remove(0);
    tick.limits[0].granted_total = 1;
    app.tick(tick);
    let back = text(&app, 120, 24);
    assert!(back.contains("● live   granted ·   refused ·"), "{back}");
}

/// The choice of `NO_COLOR` is that of whoever calls; without colours marks tell the same.
#[test]
fn without_colours_there_are_none() {
    let app = app();
    let colours = |coloured| {
        let buffer = drawn(&app, coloured, 120, 24);
        let cells = buffer.content().iter();
        cells
            .filter(|it| it.fg != Color::Reset || it.bg != Color::Reset)
            .count()
    };
    assert_eq!(colours(false), 0);
    assert!(colours(true) > 0);
    assert!(text(&app, 80, 24).contains("!per_caller"), "refuses");
}

#[test]
fn no_size_is_too_small() {
    for keys in ["", "\n", "?", "/x", "\t", "\t\t", "\t\t\t"] {
        let mut app = app();
        press(&mut app, keys);
        for width in [1, 7, 44, 200] {
            for height in [1, 3, 9, 40] {
                drawn(&app, true, width, height);
            }
        }
    }
}

#[test]
fn a_plain_table_for_scripts() {
    let tick = recorded().pop().expect("a tick");
    assert_kept("plain", &plain(&tick));
}
