//! A server of packets whose handlers say how often they may be used.
//!
//! A packet is a length (2 bytes, big-endian), and so many bytes: an operation code (2 bytes) and a body. An
//! answer is a length, a status byte, and the handler's answer, or for a refusal when to come back
//! (4 bytes, milliseconds) and the credit left (2 bytes).

use std::io;
use std::net::SocketAddr;

use plimsoll::Reason;
use plimsoll_policy::{Decision, Policies, PoliciesBuilder, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const DONE: u8 = 0;
pub(crate) const SOFT_THROTTLE: u8 = 1;
pub(crate) const HARD_LOCKOUT: u8 = 2;
pub(crate) const UNKNOWN: u8 = 3;
pub(crate) const MALFORMED: u8 = 4;

/// The longest packet, without its length.
const LONGEST: usize = 1024;

type Handler = fn(&[u8]) -> Vec<u8>;

/// What the server can do, and how often one address may ask for it.
const HANDLERS: [(u16, Policy, Handler); 4] = [
    (1, Policy::per_second(5.0).burst(2.5), <[u8]>::to_vec),
    (2, Policy::per_second(1.0), |name| {
        [b"hello ", name].concat()
    }),
    (3, Policy::unlimited(), |_| b"pong".to_vec()),
    (4, Policy::per_second(1.0).burst(0.0), |_| Vec::new()),
];

/// The policies of all handlers, for more settings.
pub(crate) fn policies() -> PoliciesBuilder {
    let handlers = HANDLERS.iter();
    handlers.fold(Policies::builder(), |all, (op, policy, _)| {
        all.handler(*op, *policy)
    })
}

/// Serves whoever connects.
pub(crate) async fn serve(listener: TcpListener, policies: Policies) -> io::Result<()> {
    loop {
        let (stream, peer) = listener.accept().await?;
        let policies = policies.clone();
        tokio::spawn(async move {
            // A connection that breaks is nobody's concern but its own.
            let _ = converse(stream, peer, &policies).await;
        });
    }
}

/// Answers one connection until it ends, or sends what is no packet.
async fn converse(stream: TcpStream, peer: SocketAddr, policies: &Policies) -> io::Result<()> {
    let mut stream = BufStream::new(stream);
    let mut packet = [0; LONGEST];
    loop {
        let length = usize::from(stream.read_u16().await?);
        let Some((op, body)) = packet
            .get_mut(..length)
            .and_then(<[u8]>::split_first_chunk_mut)
        else {
            return reply(&mut stream, MALFORMED, &[]).await;
        };
        stream.read_exact(op).await?;
        stream.read_exact(body).await?;
        let op = u16::from_be_bytes(*op);
        let decision = policies.evaluate(op, peer).map_err(io::Error::other)?;
        let (status, answer) = match decision.reason() {
            None => answer(op, body),
            Some(Reason::SoftThrottle) => (SOFT_THROTTLE, come_back(decision)),
            Some(_) => (HARD_LOCKOUT, come_back(decision)),
        };
        reply(&mut stream, status, &answer).await?;
    }
}

fn come_back(decision: Decision) -> Vec<u8> {
    let credit = decision.credit().to_be_bytes();
    [&decision.retry_after_ms().to_be_bytes()[..], &credit].concat()
}

fn answer(op: u16, body: &[u8]) -> (u8, Vec<u8>) {
    let handler = HANDLERS.iter().find(|(known, ..)| *known == op);
    handler.map_or((UNKNOWN, Vec::new()), |(.., run)| (DONE, run(body)))
}

async fn reply(stream: &mut BufStream<TcpStream>, status: u8, body: &[u8]) -> io::Result<()> {
    let length = u16::try_from(1 + body.len()).map_err(io::Error::other)?;
    stream.write_u16(length).await?;
    stream.write_u8(status).await?;
    stream.write_all(body).await?;
    stream.flush().await
}
