//! What is shown: the last tick, rates of the last minutes, and what the person at the terminal chose.

use std::collections::{HashMap, VecDeque};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::tick::{Keys, Limit, Tick};

/// So many seconds are remembered.
pub(crate) const HISTORY: usize = 180;
/// By so many rows a page is turned.
const PAGE: isize = 10;

/// Whether the server is there.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Connection {
    /// Nothing has come yet.
    Connecting,
    /// It speaks.
    Live,
    /// Whoever looks has stopped it.
    Paused,
    /// It does not, for this reason.
    Away(String),
}

/// In which order limits are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Order {
    /// As in the file.
    File,
    /// Those that refuse most come first.
    Refused,
    /// The fullest come first.
    Full,
    /// Those that grant most come first.
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

/// What is looked at.
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

/// A limit, and its last minutes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) limit: Limit,
    pub(crate) history: VecDeque<Point>,
}

impl Row {
    pub(crate) fn last(&self) -> Point {
        self.history.back().copied().unwrap_or_default()
    }

    /// Adds a second. `seconds` have passed since the one before; rates are not known without it.
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

/// What the program does after a key was pressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Stay,
    Leave,
}

/// What is shown.
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
    /// When the server said what was said last, in milliseconds since its start.
    at: Option<u64>,
}

impl App {
    /// Of the server at this address.
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

    /// Takes in what the server said. While it is paused nothing changes.
    pub fn tick(&mut self, mut tick: Tick) {
        if self.connection == Connection::Paused {
            return;
        }
        // By the time of the server: ticks may arrive late. One that began anew has none to go on from.
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
        // The same limit stays selected where the order changes.
        let shown = self.shown();
        let place = shown
            .iter()
            .position(|row| Some(&row.limit.name) == selected.as_ref());
        self.selected = place.unwrap_or(self.selected.min(shown.len().saturating_sub(1)));
    }

    /// Takes in the keys of a limit that come most often.
    pub fn keys(&mut self, limit: String, keys: Keys) {
        self.keys = Some((limit, keys));
    }

    /// The server is away. What it said last stays; rates begin anew when it is back.
    pub fn away(&mut self, why: impl Into<String>) {
        if self.connection != Connection::Paused {
            self.connection = Connection::Away(why.into());
        }
        self.at = None;
    }

    /// Whether the server is there.
    #[must_use]
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The limits that are searched for, in the chosen order.
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

    /// The limit with its details open.
    #[must_use]
    pub fn open(&self) -> Option<&str> {
        let open = self.is_open && self.section == Section::Limits;
        let row = self.selected().filter(|_| open)?;
        Some(&row.limit.name)
    }

    /// What is searched for.
    #[must_use]
    pub fn search(&self) -> &str {
        &self.search
    }

    /// Does what a key asks for; `false` if it asks to leave.
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

    /// How many rows the section has.
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
