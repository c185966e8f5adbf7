//! The state of the display: the last tick, rates of the last minutes, and the choices of the user.

use std::collections::{HashMap, VecDeque};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::tick::{Keys, Limit, Tick};

/// The number of seconds in the history of a limit.
pub(crate) const HISTORY: usize = 180;
/// The rows that a page key moves by.
const PAGE: isize = 10;

/// The state of the connection to the server.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Connection {
    /// No data has been received yet.
    Connecting,
    /// Ticks are received.
    Live,
    /// The user has paused the display.
    Paused,
    /// The connection is lost, for this reason.
    Disconnected(String),
}

/// The order of limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Order {
    /// The order of the file.
    File,
    /// By refusals a second, the highest first.
    Refused,
    /// By saturation, the highest first.
    Full,
    /// By grants a second, the highest first.
    Granted,
    /// By name.
    Name,
}

impl Order {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Refused => "refused",
            Self::Full => "fullest",
            Self::Granted => "granted",
            Self::Name => "name",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::File => Self::Refused,
            Self::Refused => Self::Full,
            Self::Full => Self::Granted,
            Self::Granted => Self::Name,
            Self::Name => Self::File,
        }
    }
}

/// A section of the display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Section {
    /// Limits.
    Limits,
    /// Servers behind a gateway.
    Upstreams,
    /// Proxies that share limits.
    Proxies,
    /// The last reload.
    Reload,
}

impl Section {
    pub(crate) const ALL: [Self; 4] = [Self::Limits, Self::Upstreams, Self::Proxies, Self::Reload];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Limits => "limits",
            Self::Upstreams => "upstreams",
            Self::Proxies => "proxies",
            Self::Reload => "reload",
        }
    }
}

/// One second of a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Point {
    pub(crate) granted: f64,
    pub(crate) refused: f64,
    pub(crate) shadow: f64,
    pub(crate) in_use: f64,
    pub(crate) limit: f64,
    pub(crate) latency: Option<f64>,
    pub(crate) baseline: Option<f64>,
}

/// A limit, and its history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) limit: Limit,
    pub(crate) history: VecDeque<Point>,
}

impl Row {
    pub(crate) fn last(&self) -> Point {
        self.history.back().copied().unwrap_or_default()
    }

    /// Adds a tick. `seconds` is the time since the last one; without it there are no rates.
    #[expect(clippy::cast_precision_loss, reason = "to be shown")]
    fn tick(&mut self, limit: Limit, seconds: Option<f64>) {
        let rate = |now: u64, then: u64| match seconds {
            Some(seconds) if seconds > 0.0 => now.saturating_sub(then) as f64 / seconds,
            _ => 0.0,
        };
        let learned = limit.learned.as_ref();
        let point = Point {
            granted: rate(limit.granted_total, self.limit.granted_total),
            refused: rate(limit.refused_total(), self.limit.refused_total()),
            shadow: rate(limit.would_refuse, self.limit.would_refuse),
            in_use: limit.in_use as f64,
            limit: limit.limit as f64,
            latency: learned.and_then(|it| it.latency_ms),
            baseline: learned.and_then(|it| it.baseline_ms),
        };
        self.history.push_back(point);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
        self.limit = limit;
    }
}

/// The effect of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Stay,
    Leave,
}

/// The state of the display. [`render`](crate::render) draws it.
///
/// ```
/// use plimsoll_top::{App, Tick, render};
/// use ratatui::{Terminal, backend::TestBackend};
///
/// let mut app = App::new("127.0.0.1:8422");
/// app.tick(Tick::default());
/// let mut terminal = Terminal::new(TestBackend::new(80, 24))?;
/// terminal.draw(|frame| render(&app, false, frame))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct App {
    pub(crate) server: String,
    pub(crate) connection: Connection,
    pub(crate) tick: Tick,
    pub(crate) rows: Vec<Row>,
    pub(crate) section: Section,
    pub(crate) order: Order,
    pub(crate) search: String,
    pub(crate) is_searching: bool,
    pub(crate) is_open: bool,
    pub(crate) has_help: bool,
    pub(crate) selected: usize,
    pub(crate) keys: Option<(String, Keys)>,
    /// The uptime of the server at the last tick, in milliseconds.
    at: Option<u64>,
}

impl App {
    /// Creates an empty display for the server at this address.
    #[must_use]
    pub fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            connection: Connection::Connecting,
            tick: Tick::default(),
            rows: Vec::new(),
            section: Section::Limits,
            order: Order::File,
            search: String::new(),
            is_searching: false,
            is_open: false,
            has_help: false,
            selected: 0,
            keys: None,
            at: None,
        }
    }

    /// Adds a tick of the server. Does nothing while the display is paused.
    pub fn tick(&mut self, mut tick: Tick) {
        if self.connection == Connection::Paused {
            return;
        }
        // By the clock of the server, because ticks may arrive late. After a restart of the server there is no last tick.
        let passed = |before| tick.uptime_ms?.checked_sub(before);
        let seconds = self.at.and_then(passed);
        #[expect(clippy::cast_precision_loss, reason = "to be shown")]
        let seconds = seconds.map(|ms| ms as f64 / 1e3);
        self.at = tick.uptime_ms;
        let selected = self.selected().map(|it| it.limit.name.clone());
        let before = std::mem::take(&mut self.rows);
        let mut before: HashMap<String, Row> = before
            .into_iter()
            .map(|row| (row.limit.name.clone(), row))
            .collect();
        for limit in std::mem::take(&mut tick.limits) {
            let known = before.remove(&limit.name);
            let seconds = seconds.filter(|_| known.is_some());
            let mut row = known.unwrap_or_default();
            row.tick(limit, seconds);
            self.rows.push(row);
        }
        self.tick = tick;
        self.connection = Connection::Live;
        // The same limit stays selected when the order changes.
        let shown = self.shown();
        let place = shown
            .iter()
            .position(|row| Some(&row.limit.name) == selected.as_ref());
        self.selected = place.unwrap_or(self.selected.min(shown.len().saturating_sub(1)));
    }

    /// Sets the top keys of a limit.
    pub fn keys(&mut self, limit: String, keys: Keys) {
        self.keys = Some((limit, keys));
    }

    /// Marks the connection as lost. The last tick stays; rates start anew after the next one.
    pub fn disconnect(&mut self, why: impl Into<String>) {
        if self.connection != Connection::Paused {
            self.connection = Connection::Disconnected(why.into());
        }
        self.at = None;
    }

    /// The state of the connection.
    #[must_use]
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The limits that match the search, in the chosen order.
    pub(crate) fn shown(&self) -> Vec<&Row> {
        let search = self.search.to_lowercase();
        let mut rows: Vec<&Row> = self
            .rows
            .iter()
            .filter(|row| row.limit.name.to_lowercase().contains(&search))
            .collect();
        match self.order {
            Order::File => {}
            Order::Refused => rows.sort_by_key(|row| u64::MAX - row.limit.refused_total()),
            Order::Full => {
                rows.sort_by(|a, b| b.limit.saturation.total_cmp(&a.limit.saturation));
            }
            Order::Granted => rows.sort_by(|a, b| b.last().granted.total_cmp(&a.last().granted)),
            Order::Name => rows.sort_by(|a, b| a.limit.name.cmp(&b.limit.name)),
        }
        rows
    }

    pub(crate) fn selected(&self) -> Option<&Row> {
        self.shown().get(self.selected).copied()
    }

    /// The limit whose details are open.
    #[must_use]
    pub fn open(&self) -> Option<&str> {
        let open = self.is_open && self.section == Section::Limits;
        let row = self.selected().filter(|_| open)?;
        Some(&row.limit.name)
    }

    /// The text of the search.
    #[must_use]
    pub fn search(&self) -> &str {
        &self.search
    }

    /// Handles a key. Returns `false` if it ends the program.
    pub fn press(&mut self, key: KeyEvent) -> bool {
        self.key(key) == Action::Stay
    }

    fn key(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Stay;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => Action::Leave,
                _ => Action::Stay,
            };
        }
        if self.is_searching {
            self.type_in(key.code);
            return Action::Stay;
        }
        if self.has_help {
            self.has_help = false;
            return Action::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return Action::Leave,
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Char('/') => {
                self.section = Section::Limits;
                self.is_searching = true;
            }
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(Section::ALL.len() - 1),
            KeyCode::Enter => self.is_open = !self.is_open,
            KeyCode::Esc if self.is_open => self.is_open = false,
            KeyCode::Esc => self.search.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-PAGE),
            KeyCode::PageDown => self.go(PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.selected = 0,
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX),
            _ => {}
        }
        Action::Stay
    }

    fn type_in(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(character) => self.search.push(character),
            KeyCode::Backspace => {
                self.search.pop();
            }
            KeyCode::Esc => {
                self.search.clear();
                self.is_searching = false;
            }
            KeyCode::Enter | KeyCode::Down | KeyCode::Tab => self.is_searching = false,
            _ => {}
        }
        self.selected = 0;
    }

    fn pause(&mut self) {
        self.connection = match self.connection {
            Connection::Paused => Connection::Connecting,
            _ => Connection::Paused,
        };
        self.at = None;
    }

    fn turn(&mut self, by: usize) {
        let now = Section::ALL.iter().position(|it| *it == self.section);
        self.section = Section::ALL[(now.unwrap_or(0) + by) % Section::ALL.len()];
        self.selected = 0;
    }

    /// The number of rows of the section.
    pub(crate) fn len(&self) -> usize {
        match self.section {
            Section::Limits => self.shown().len(),
            Section::Upstreams => self.tick.upstreams.len(),
            Section::Proxies => {
                let shown = self.tick.quotas.iter().flat_map(|it| &it.shown);
                shown.map(|it| it.shares.len()).sum()
            }
            Section::Reload => 0,
        }
    }

    fn go(&mut self, by: isize) {
        let last = self.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }
}
