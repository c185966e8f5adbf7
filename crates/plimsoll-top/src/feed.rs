//! Reads server-sent events from the admin port, on a thread of its own.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::endpoint::Endpoint;
use crate::tick::{Keys, Tick};

/// The time-out between two events. The server sends one each second.
const SILENCE: Duration = Duration::from_secs(5);
/// The time between two attempts to connect.
const AGAIN: Duration = Duration::from_secs(2);
/// The largest response that is read.
const MOST: u64 = 64 << 20;
/// The number of limits that are requested.
const LIMITS: usize = 1000;
/// Keys are requested once in this many ticks.
const KEYS_EVERY: u32 = 5;

/// An error of the connection to an admin port.
#[derive(Debug)]
#[non_exhaustive]
pub enum FeedError {
    /// The server cannot be reached, or has stopped sending.
    Io(io::Error),
    /// The token is missing or wrong.
    Token,
    /// The server is stopping.
    Stopping,
    /// The server answered with this status line.
    Answer(String),
    /// The response is malformed.
    Malformed(String),
}

impl fmt::Display for FeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    write!(f, "no word for {} s", SILENCE.as_secs())
                }
                io::ErrorKind::UnexpectedEof => f.write_str("it closed the connection"),
                io::ErrorKind::ConnectionRefused => f.write_str("nothing listens there"),
                _ => error.fmt(f),
            },
            Self::Token => f.write_str(
                "it wants the token of the admin port (--admin-token or PLIMSOLL_ADMIN_TOKEN)",
            ),
            Self::Stopping => f.write_str("the server is stopping"),
            Self::Answer(line) => write!(f, "it answered {line}"),
            Self::Malformed(why) => write!(f, "not the admin port of a server or gateway: {why}"),
        }
    }
}

impl std::error::Error for FeedError {}

impl From<io::Error> for FeedError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Percent-encodes a part of a query.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

impl Endpoint {
    /// Sends a GET, and returns the body of the response. With HTTP/1.0 it is not chunked, and ends with the connection.
    fn get(&self, path: &str) -> Result<impl BufRead + use<>, FeedError> {
        let mut tried = None;
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, SILENCE) {
                Ok(stream) => return self.ask(stream, path),
                Err(error) => tried = Some(error),
            }
        }
        let nowhere = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        Err(tried.unwrap_or_else(nowhere).into())
    }

    fn ask(&self, mut stream: TcpStream, path: &str) -> Result<impl BufRead + use<>, FeedError> {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let token = self.token.as_ref();
        let token = token.map_or(String::new(), |it| {
            format!("authorization: Bearer {it}\r\n")
        });
        let head = format!(
            "GET {path} HTTP/1.0\r\nhost: {}\r\n{token}\r\n",
            self.address
        );
        stream.write_all(head.as_bytes())?;
        let mut reader = BufReader::new(stream);
        let status = line(&mut reader)?;
        if !status.starts_with("HTTP/1.") {
            return Err(FeedError::Malformed("it does not speak HTTP".to_owned()));
        }
        match status.split(' ').nth(1) {
            Some("200") => {}
            Some("401") => return Err(FeedError::Token),
            _ => return Err(FeedError::Answer(status)),
        }
        while !line(&mut reader)?.is_empty() {}
        Ok(reader)
    }

    fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, FeedError> {
        let mut text = String::new();
        self.get(path)?.take(MOST).read_to_string(&mut text)?;
        parse(&text)
    }

    /// Reads one tick.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, the token is wrong, or the response is malformed.
    pub fn once(&self) -> Result<Tick, FeedError> {
        self.read("/limits")
    }

    /// Reads the top keys of a limit, masked.
    ///
    /// # Errors
    ///
    /// As [`once`](Self::once), or if there is no such limit.
    pub fn keys(&self, limit: &str) -> Result<Keys, FeedError> {
        self.read(&format!("/top?limit={}", escaped(limit)))
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, FeedError> {
    serde_json::from_str(text).map_err(|error| FeedError::Malformed(error.to_string()))
}

/// Reads a line, without its line end.
fn line(reader: &mut impl BufRead) -> Result<String, FeedError> {
    let mut text = String::new();
    if reader.take(MOST).read_line(&mut text)? == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// An event of a [`Feed`].
#[derive(Debug)]
#[non_exhaustive]
pub enum FeedEvent {
    /// A tick, each second.
    Tick(Box<Tick>),
    /// The top keys of the open limit.
    Keys(String, Keys),
    /// The connection is lost. The feed tries to connect again.
    Disconnected(FeedError),
}

/// The part of the server's state that is displayed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct View {
    /// Only limits whose names contain this.
    pub(crate) search: String,
    /// The open limit, whose keys are requested.
    pub(crate) open: Option<String>,
    /// Whether the feed is paused.
    pub(crate) paused: bool,
}

/// Reads the events of a server on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Feed {
    events: Receiver<FeedEvent>,
    requests: Sender<View>,
    view: View,
}

impl Feed {
    /// Starts the thread. After an error it connects again every two seconds.
    ///
    /// # Errors
    ///
    /// If the operating system cannot start a thread.
    pub fn start(endpoint: Endpoint) -> io::Result<Self> {
        let (sender, events) = channel();
        let (requests, view_changes) = channel();
        let listener = Listener {
            endpoint,
            events: sender,
            requests: view_changes,
            view: View::default(),
        };
        std::thread::Builder::new()
            .name("plimsoll-top".to_owned())
            .spawn(move || listener.run())?;
        Ok(Self {
            events,
            requests,
            view: View::default(),
        })
    }

    /// The next event. Waits at most `longest`.
    #[must_use]
    pub fn next(&self, longest: Duration) -> Option<FeedEvent> {
        self.events.recv_timeout(longest).ok()
    }

    /// Changes the part that is displayed.
    pub(crate) fn set_view(&mut self, view: View) {
        if self.view != view {
            self.view = view.clone();
            // The thread ends only when this is dropped.
            let _ = self.requests.send(view);
        }
    }
}

/// The [`Feed`] was dropped.
struct Closed;

struct Listener {
    endpoint: Endpoint,
    events: Sender<FeedEvent>,
    requests: Receiver<View>,
    view: View,
}

impl Listener {
    fn run(mut self) {
        loop {
            let ended = match self.view.paused {
                true => self
                    .requests
                    .recv()
                    .map(|it| self.view = it)
                    .map_err(|_| Closed),
                false => self.listen(),
            };
            if ended.is_err() {
                return;
            }
        }
    }

    /// Reads events until the view changes, or the connection is lost; then waits before the next attempt.
    fn listen(&mut self) -> Result<(), Closed> {
        let Err(error) = self.stream() else {
            return self.read_requests().map(drop);
        };
        self.send(FeedEvent::Disconnected(error))?;
        match self.requests.recv_timeout(AGAIN) {
            Ok(view) => self.view = view,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Closed),
        }
        Ok(())
    }

    fn send(&self, event: FeedEvent) -> Result<(), Closed> {
        self.events.send(event).map_err(|_| Closed)
    }

    /// Reads changes of the view. Returns whether they need another stream: another search, or a pause.
    fn read_requests(&mut self) -> Result<bool, Closed> {
        let before = self.view.clone();
        loop {
            match self.requests.try_recv() {
                Ok(view) => self.view = view,
                Err(std::sync::mpsc::TryRecvError::Empty) => break,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Err(Closed),
            }
        }
        Ok(before.search != self.view.search || self.view.paused)
    }

    /// Reads the stream. Ends without an error if the view needs another stream or the feed was dropped.
    fn stream(&mut self) -> Result<(), FeedError> {
        let search = escaped(&self.view.search);
        let mut reader = self
            .endpoint
            .get(&format!("/events?most={LIMITS}&search={search}"))?;
        let mut asked: Option<(String, u32)> = None;
        let mut event = String::new();
        loop {
            let line = line(&mut reader)?;
            if let Some(name) = line.strip_prefix("event:") {
                event = name.trim().to_owned();
            } else if event == "stopping" {
                return Err(FeedError::Stopping);
            } else if let Some(data) = line.strip_prefix("data:") {
                let tick = parse(data)?;
                if self.send(FeedEvent::Tick(tick)).is_err()
                    || !matches!(self.read_requests(), Ok(false))
                {
                    return Ok(());
                }
                self.request_keys(&mut asked);
            } else if line.is_empty() {
                event.clear();
            }
        }
    }

    /// Requests the keys of the open limit: at once, and then every few ticks.
    fn request_keys(&self, asked: &mut Option<(String, u32)>) {
        let Some(open) = &self.view.open else {
            *asked = None;
            return;
        };
        let ticks = match asked {
            Some((limit, ticks)) if limit == open => *ticks + 1,
            _ => 0,
        };
        *asked = Some((open.clone(), ticks));
        if ticks % KEYS_EVERY == 0
            && let Ok(keys) = self.endpoint.keys(open)
        {
            let _ = self.send(FeedEvent::Keys(open.clone(), keys));
        }
    }
}
