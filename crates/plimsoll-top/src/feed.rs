//! Reads the admin port: server-sent events, for as long as somebody looks.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::endpoint::Endpoint;
use crate::tick::{Keys, Tick};

/// For how long a server may say nothing; it speaks each second.
const SILENCE: Duration = Duration::from_secs(5);
/// When a server that is away is tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// How much of one answer is read at most.
const MOST: u64 = 64 << 20;
/// So many limits are asked for.
const LIMITS: usize = 1000;
/// Keys are asked for once in so many ticks.
const KEYS_EVERY: u32 = 5;

/// Why a server does not say anything.
#[derive(Debug)]
#[non_exhaustive]
pub enum FeedError {
    /// It cannot be reached, or has stopped speaking.
    Io(io::Error),
    /// It wants another token, or one at all.
    Token,
    /// It is stopping.
    Stopping,
    /// It answered with this line instead.
    Answer(String),
    /// It sent something else than was expected.
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

/// A part of an address, with what has a meaning there escaped.
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
    /// The body of the answer to a GET. In HTTP/1.0 it is not chunked, and ends with the connection.
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

    /// What the server says now.
    ///
    /// # Errors
    ///
    /// If it is away, wants another token, or says something else.
    pub fn once(&self) -> Result<Tick, FeedError> {
        self.read("/limits")
    }

    /// The keys of a limit that come most often, masked.
    ///
    /// # Errors
    ///
    /// As with [`once`](Self::once); also if there is no such limit.
    pub fn keys(&self, limit: &str) -> Result<Keys, FeedError> {
        self.read(&format!("/top?limit={}", escaped(limit)))
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, FeedError> {
    serde_json::from_str(text).map_err(|error| FeedError::Malformed(error.to_string()))
}

/// A line without its end.
fn line(reader: &mut impl BufRead) -> Result<String, FeedError> {
    let mut text = String::new();
    if reader.take(MOST).read_line(&mut text)? == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// What comes of a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum News {
    /// What it says each second.
    Tick(Box<Tick>),
    /// The keys of the limit that is looked at.
    Keys(String, Keys),
    /// It is away.
    Away(FeedError),
}

/// What is looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wanted {
    /// Limits with this in their names.
    pub(crate) search: String,
    /// The limit of which the keys are looked at.
    pub(crate) open: Option<String>,
    /// Nothing at all, for now.
    pub(crate) paused: bool,
}

/// A server that is listened to, in a thread of its own, until this is dropped.
#[derive(Debug)]
pub struct Feed {
    news: Receiver<News>,
    wishes: Sender<Wanted>,
    wanted: Wanted,
}

impl Feed {
    /// Listens to a server. When it is away it is tried again every two seconds.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn start(endpoint: Endpoint) -> io::Result<Self> {
        let (tell, news) = channel();
        let (wishes, wished) = channel();
        let listener = Listener {
            endpoint,
            tell,
            wished,
            wanted: Wanted::default(),
        };
        std::thread::Builder::new()
            .name("plimsoll-top".to_owned())
            .spawn(move || listener.run())?;
        Ok(Self {
            news,
            wishes,
            wanted: Wanted::default(),
        })
    }

    /// What has come, waiting at most `longest` for it.
    #[must_use]
    pub fn next(&self, longest: Duration) -> Option<News> {
        self.news.recv_timeout(longest).ok()
    }

    /// Changes what is looked at.
    pub(crate) fn want(&mut self, wanted: Wanted) {
        if self.wanted != wanted {
            self.wanted = wanted.clone();
            // The thread ends only with this.
            let _ = self.wishes.send(wanted);
        }
    }
}

/// Nobody looks any more.
struct Gone;

struct Listener {
    endpoint: Endpoint,
    tell: Sender<News>,
    wished: Receiver<Wanted>,
    wanted: Wanted,
}

impl Listener {
    fn run(mut self) {
        loop {
            let ended = match self.wanted.paused {
                true => self
                    .wished
                    .recv()
                    .map(|it| self.wanted = it)
                    .map_err(|_| Gone),
                false => self.listen(),
            };
            if ended.is_err() {
                return;
            }
        }
    }

    /// Until something else is wanted, or the server is away and was waited for.
    fn listen(&mut self) -> Result<(), Gone> {
        let Err(away) = self.stream() else {
            return self.look().map(drop);
        };
        self.say(News::Away(away))?;
        match self.wished.recv_timeout(AGAIN) {
            Ok(wanted) => self.wanted = wanted,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Gone),
        }
        Ok(())
    }

    fn say(&self, news: News) -> Result<(), Gone> {
        self.tell.send(news).map_err(|_| Gone)
    }

    /// Whether another stream is wanted. Another limit that is looked at is asked for beside it.
    fn look(&mut self) -> Result<bool, Gone> {
        let before = self.wanted.clone();
        loop {
            match self.wished.try_recv() {
                Ok(wanted) => self.wanted = wanted,
                Err(std::sync::mpsc::TryRecvError::Empty) => break,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Err(Gone),
            }
        }
        Ok(before.search != self.wanted.search || self.wanted.paused)
    }

    /// Reads the stream; ends without an error if another one is wanted or nobody looks.
    fn stream(&mut self) -> Result<(), FeedError> {
        let search = escaped(&self.wanted.search);
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
                if self.say(News::Tick(tick)).is_err() || !matches!(self.look(), Ok(false)) {
                    return Ok(());
                }
                self.ask_for_keys(&mut asked);
            } else if line.is_empty() {
                event.clear();
            }
        }
    }

    /// The keys of the limit that is looked at: at once, and then now and then.
    fn ask_for_keys(&self, asked: &mut Option<(String, u32)>) {
        let Some(open) = &self.wanted.open else {
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
            let _ = self.say(News::Keys(open.clone(), keys));
        }
    }
}
