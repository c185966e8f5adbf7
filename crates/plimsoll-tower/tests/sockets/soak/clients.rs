//! Clients that hang up when they feel like it.

use std::net::SocketAddr;
use std::ops::AddAssign;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::chance::Chance;
use super::raw::{Connection, Reading};
use super::server::TENANTS;

/// What became of requests, as clients saw it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    /// Answered by the handler, and read to the end.
    pub(crate) answered: u64,
    /// Refused by a limit.
    pub(crate) refused: u64,
    /// Given up before there was an answer.
    pub(crate) given_up: u64,
    /// Answered by the handler, and given up before the end of the body.
    pub(crate) cut_short: u64,
    /// Failed.
    pub(crate) broken: u64,
}

impl Tally {
    pub(crate) fn sent(&self) -> u64 {
        self.answered + self.refused + self.given_up + self.cut_short + self.broken
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.answered += other.answered;
        self.refused += other.refused;
        self.given_up += other.given_up;
        self.cut_short += other.cut_short;
        self.broken += other.broken;
    }
}

/// How long a client stays.
enum Patience {
    Endless,
    /// Until others have run so many times.
    Turns(usize),
    /// Until so many parts of the body are there.
    Parts(usize),
}

#[derive(Clone)]
pub(crate) enum Client {
    /// hyper's pool of connections.
    Http1(Box<legacy::Client<HttpConnector, Full<Bytes>>>),
    /// hyper, one connection for many.
    Http2(SendRequest<Full<Bytes>>),
    /// By hand, a connection for each worker.
    Raw(Connection),
}

/// A response that is being read. Dropping it hangs up.
enum Answer {
    Hyper(Response<Incoming>),
    Raw(Reading),
}

impl Answer {
    /// Whether the handler answered, and not a limit.
    fn is_handled(&self) -> bool {
        match self {
            Self::Hyper(response) => response.headers().contains_key("x-handled"),
            Self::Raw(response) => response.field("x-handled").is_some(),
        }
    }

    /// The next part of the body is there: true, or false at its end. `None` if the connection broke.
    async fn part(&mut self) -> Option<bool> {
        match self {
            Self::Hyper(response) => match response.body_mut().frame().await {
                None => Some(false),
                Some(frame) => frame.is_ok().then_some(true),
            },
            Self::Raw(response) => response.part().await,
        }
    }
}

impl Client {
    pub(crate) fn http1() -> Self {
        let pool = legacy::Client::builder(TokioExecutor::new()).build_http();
        Self::Http1(Box::new(pool))
    }

    pub(crate) fn raw() -> Self {
        Self::Raw(Connection::default())
    }

    pub(crate) async fn http2(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self::Http2(sender)
    }

    /// Sends so many requests, one after the other.
    pub(crate) async fn work(
        mut self,
        address: SocketAddr,
        mut chance: Chance,
        requests: u64,
    ) -> Tally {
        let mut tally = Tally::default();
        for _ in 0..requests {
            let request = request(address, &mut chance);
            let patience = match chance.below(100) {
                0..5 => Patience::Turns(chance.below(20)),
                5..10 => Patience::Parts(chance.below(3)),
                _ => Patience::Endless,
            };
            self.one(address, request, patience, &mut tally).await;
        }
        tally
    }

    async fn one(
        &mut self,
        address: SocketAddr,
        request: Request<Bytes>,
        patience: Patience,
        tally: &mut Tally,
    ) {
        let (turns, parts) = match patience {
            Patience::Endless => (usize::MAX, usize::MAX),
            Patience::Turns(turns) => (turns, usize::MAX),
            Patience::Parts(parts) => (usize::MAX, parts),
        };
        let answer = tokio::select! {
            biased;
            answer = self.send(address, request) => answer,
            () = others_run(turns) => {
                tally.given_up += 1;
                return;
            }
        };
        let Some(mut answer) = answer else {
            tally.broken += 1;
            return;
        };
        let (mut read, mut more) = (0, true);
        while more && read < parts {
            match answer.part().await {
                Some(part) => more = part,
                None => {
                    tally.broken += 1;
                    return;
                }
            }
            read += 1;
        }
        match (answer.is_handled(), more) {
            (false, _) => tally.refused += 1,
            (true, true) => tally.cut_short += 1,
            (true, false) => tally.answered += 1,
        }
        if let (Self::Raw(connection), Answer::Raw(response), false) = (self, answer, more) {
            connection.keep(response);
        }
    }

    async fn send(&mut self, address: SocketAddr, request: Request<Bytes>) -> Option<Answer> {
        match self {
            Self::Http1(client) => {
                let response = client.request(request.map(Full::new)).await;
                response.ok().map(Answer::Hyper)
            }
            Self::Http2(sender) => {
                sender.ready().await.ok()?;
                let response = sender.send_request(request.map(Full::new)).await;
                response.ok().map(Answer::Hyper)
            }
            Self::Raw(connection) => connection.send(address, request).await.map(Answer::Raw),
        }
    }
}

/// Lets others run so many times.
async fn others_run(turns: usize) {
    if turns == usize::MAX {
        return std::future::pending().await;
    }
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

static CONTENT: [u8; 4096] = [b'x'; 4096];

/// For a body of some size, and work that takes some time.
fn request(address: SocketAddr, chance: &mut Chance) -> Request<Bytes> {
    let size = match chance.below(50) {
        0 => chance.below(50_000),
        1..10 => 0,
        _ => chance.below(600),
    };
    let turns = match chance.percent(10) {
        true => chance.below(20),
        false => 0,
    };
    let upload = match chance.percent(20) {
        true => chance.below(CONTENT.len()),
        false => 0,
    };
    let priority = chance.pick(&["critical", "normal", "normal", "non-critical"]);
    let tenant = format!("tenant-{}", chance.below(TENANTS));
    Request::post(format!("http://{address}/{size}/{turns}"))
        .header("x-priority", priority)
        .header("x-tenant", tenant)
        .body(Bytes::from_static(&CONTENT[..upload]))
        .unwrap()
}
