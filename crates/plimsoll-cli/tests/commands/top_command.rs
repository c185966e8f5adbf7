//! `plimsoll top`, of a real server: printed once, drawn, and in a terminal.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::time::Duration;

use plimsoll_top::ratatui::Terminal;
use plimsoll_top::ratatui::backend::TestBackend;
use plimsoll_top::ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use plimsoll_top::{App, Endpoint, Feed, FeedError, FeedEvent, render};

use super::dir::Dir;
use super::serve_command::{ANY, PLIMSOLL, Served};

const FILE: &str = "limits:
  api: { kind: token_bucket, burst: 3, refill: 1, every: 1h, keyed: true }
  tomorrow: { kind: fixed_window, limit: 1, window: 1h, keyed: true, mode: shadow }
  slots: { concurrency: adaptive, queue: { bound: 10, timeout: 1s } }
";

fn top(arguments: &[&str]) -> Output {
    let command = Command::new(PLIMSOLL)
        .arg("top")
        .args(arguments)
        .env_remove("PLIMSOLL_ADMIN")
        .env_remove("PLIMSOLL_ADMIN_TOKEN")
        .output();
    command.expect("it runs")
}

fn pause() {
    let (_kept, never) = channel::<()>();
    let _ = never.recv_timeout(Duration::from_millis(50));
}

/// Five that ask a limit of three, and three that ask one of one in shadow mode.
fn traffic(server: &Served) {
    let answers = server.say(&"PLIMSOLL.TAKE api anna\r\n".repeat(5));
    assert_eq!(answers.matches('*').count(), 5, "{answers}");
    server.say(&"PLIMSOLL.TAKE tomorrow anna\r\n".repeat(3));
}

fn file(dir: &Dir) -> String {
    let file = dir.path("limits.yaml");
    std::fs::write(&file, FILE).expect("it is written");
    file
}

#[test]
fn once_it_prints_what_scripts_can_read() {
    let dir = Dir::with(&[]);
    let server = Served::serve(&[&file(&dir), "--admin-token", "sesame"]);
    traffic(&server);
    let admin = server.address("admin http://");
    let said = top(&[admin, "--once", "--admin-token", "sesame"]);
    let table = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success(), "{said:?}");
    let row = |name: &str| -> Vec<&str> {
        let row = table.lines().find(|line| line.starts_with(name));
        row.expect("a row").split_whitespace().collect()
    };
    let heads = row("limit");
    let cell = |name: &str, head: &str| {
        let place = heads.iter().position(|it| *it == head).expect("a column");
        row(name)[place].to_owned()
    };
    assert_eq!(cell("api", "granted"), "3");
    assert_eq!(cell("api", "refused"), "2");
    assert_eq!(cell("api", "reasons"), "exhausted=2");
    assert_eq!(cell("tomorrow", "shadow"), "2");
    assert_eq!(cell("slots", "kind"), "adaptive");
    assert_eq!(cell("slots", "queue"), "10");

    let refused = top(&[admin, "--once"]);
    assert_eq!(refused.status.code(), Some(1));
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("PLIMSOLL_ADMIN_TOKEN"), "{why}");
    let admin = admin.to_owned();
    assert!(server.end().status.success());
    let away = top(&[&admin, "--once"]);
    assert_eq!(away.status.code(), Some(1));
    let why = String::from_utf8_lossy(&away.stderr).into_owned();
    assert!(why.contains("nothing listens there"), "{why}");
}

#[test]
fn what_it_cannot_do_it_says() {
    for (arguments, words) in [
        (&["127.0.0.1:1"][..], "not a terminal"),
        (&["https://example.com", "--once"], "does not speak TLS"),
        (&["a b", "--once"], "expected HOST:PORT"),
        (&["127.0.0.1:99999", "--once"], "expected HOST:PORT"),
    ] {
        let output = top(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    // A server that is none of ours.
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("its number").to_string();
    let answers = std::thread::spawn(move || {
        use std::io::Write;
        let (mut client, _) = other.accept().expect("a client");
        client.write_all(b"220 mail\r\n").expect("it is sent");
    });
    let output = top(&[&address, "--once"]);
    answers.join().expect("it works");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("does not speak HTTP"), "{said}");
}

/// What a real server says each second, drawn at three sizes.
#[test]
fn a_real_server_is_drawn_and_missed_when_it_ends() {
    let dir = Dir::with(&[]);
    let server = Served::serve(&[&file(&dir)]);
    let admin = server.address("admin http://").to_owned();
    let endpoint: Endpoint = admin.parse().expect("an address");
    let feed = Feed::start(endpoint.clone()).expect("a thread");
    let next = || feed.next(Duration::from_secs(60)).expect("news");
    let mut app = App::new(admin);
    let take = |app: &mut App| match next() {
        FeedEvent::Tick(tick) => app.tick(*tick),
        other => panic!("{other:?}"),
    };
    take(&mut app);
    traffic(&server);
    // The details of the first, and its numbers, which are those of /metrics: in one of the next ticks.
    app.press(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
    assert_eq!(app.open(), Some("api"));
    let number = |app: &App, word: &str| {
        let details = drawn(app, 80, 24);
        let line = details.lines().find(|line| line.starts_with(word))?;
        line.split_whitespace().last().map(str::to_owned)
    };
    while number(&app, "refused, exhausted").as_deref() != Some("2") {
        take(&mut app);
    }
    assert_eq!(number(&app, "granted").as_deref(), Some("3"));
    app.press(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
    for (width, height, words) in [
        (50, 12, &["api", "tomorrow", "slots", "● live"][..]),
        (80, 24, &["api", "tomorrow", "slots", "20"]),
        (150, 40, &["rate", "shadow", "adaptive", "0 of 10"]),
    ] {
        let drawn = drawn(&app, width, height);
        for word in words {
            assert!(drawn.contains(word), "{word}: {drawn}");
        }
    }
    assert!(endpoint.keys("nobody").is_err());
    assert!(server.end().status.success());
    let why = loop {
        if let FeedEvent::Disconnected(why) = next() {
            break why;
        }
    };
    assert!(matches!(why, FeedError::Stopping), "{why}");
}

fn drawn(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let draw = terminal.draw(|frame| render(app, false, frame));
    draw.expect("it is drawn");
    let buffer = terminal.backend().buffer();
    let row = |y| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    (0..height).map(|y| row(y) + "\n").collect()
}

/// A terminal, by tmux.
struct Pane(String);

impl Pane {
    fn tmux(&self, arguments: &[&str]) -> String {
        let run = Command::new("tmux")
            .args(["-L", &self.0, "-f", "/dev/null"])
            .args(arguments)
            .output();
        String::from_utf8_lossy(&run.expect("tmux runs").stdout).into_owned()
    }

    fn shown(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Waits until it shows this; at most a minute.
    fn until(&self, words: &str) -> String {
        for _ in 0..1200 {
            let shown = self.shown();
            if shown.contains(words) {
                return shown;
            }
            pause();
        }
        panic!("never shown: {words}\n{}", self.shown());
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn in_a_terminal_it_follows_keys_sizes_and_a_server_that_comes_back() {
    let has = Command::new("tmux").arg("-V").output();
    if !has.is_ok_and(|it| it.status.success()) {
        assert!(
            std::env::var_os("PLIMSOLL_REQUIRE_TMUX").is_none(),
            "no tmux, which PLIMSOLL_REQUIRE_TMUX asks for"
        );
        let _ = writeln!(std::io::stderr(), "SKIPPED: no tmux (Debian: tmux)");
        return;
    }
    let dir = Dir::with(&[]);
    let file = file(&dir);
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let admin = free.local_addr().expect("its number").to_string();
    drop(free);
    let start = || {
        let mut command = Command::new(PLIMSOLL);
        command.arg("serve").args(&ANY[..6]);
        Served::start(command.args(["--admin", &admin, &file]))
    };
    let pane = Pane(format!("plimsoll-{}", std::process::id()));
    // The server is not there yet.
    let program = format!("NO_COLOR=1 {PLIMSOLL} top {admin}; echo left: $?; cat");
    pane.tmux(&["new-session", "-d", "-x", "100", "-y", "30", &program]);
    pane.until("away: nothing listens there; trying again");
    let server = start();
    pane.until("● live");
    traffic(&server);
    pane.until("!api");
    let codes = pane.tmux(&["capture-pane", "-p", "-e"]);
    // 39 is the colour of the terminal itself.
    let colours = (31..38).filter(|code| codes.contains(&format!("\x1b[{code}m")));
    assert_eq!(colours.count(), 0, "NO_COLOR: {codes:?}");
    pane.keys(&["Enter"]);
    pane.until("refused, exhausted");
    pane.keys(&["Escape", "/", "s", "l", "o", "Enter"]);
    let found = pane.until("only \"slo\"");
    assert!(!found.contains("tomorrow"), "{found}");
    pane.keys(&["Escape", "?"]);
    pane.until("┌ keys");
    pane.keys(&["q", "p"]);
    pane.until("■ paused");
    pane.keys(&["p"]);
    pane.until("● live");
    pane.tmux(&["resize-window", "-x", "44", "-y", "9"]);
    let small = pane.until("● live");
    assert!(small.lines().all(|it| it.chars().count() <= 44), "{small}");
    server.kill();
    pane.until("away: ");
    let server = start();
    pane.until("● live");
    pane.keys(&["q"]);
    pane.until("left: 0");
    assert!(server.end().status.success());
}
