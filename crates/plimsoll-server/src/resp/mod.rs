//! The RESP port: limits for every client of Redis.

mod command;
mod frame;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::drain::Drain;
use crate::state::State;
use command::{Next, Session};
use frame::{Arguments, Replies};

/// Replies are sent when so much has come together, also if more commands are there.
const FLUSH: usize = 64 * 1024;
/// How long a connection may be idle, or write nothing of what is read of it.
const IDLE: Duration = Duration::from_secs(300);

/// Accepts connections until `drain` begins.
pub(crate) async fn serve(listener: TcpListener, state: Arc<State>, drain: Drain) {
    loop {
        let Some(accepted) = drain.unless_begun(listener.accept()).await else {
            return;
        };
        let Ok((stream, _peer)) = accepted else {
            // Out of descriptors, mostly: others may end meanwhile.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Some(place) = state.connections.enter() else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (state, drain) = (Arc::clone(&state), drain.clone());
        tokio::spawn(async move {
            let _place = place;
            let _ = connection(stream, &state, &drain).await;
        });
    }
}

/// Answers the commands of one connection, as many at once as have come.
async fn connection(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    state: &State,
    drain: &Drain,
) -> std::io::Result<()> {
    let mut buffer = BytesMut::with_capacity(8 * 1024);
    let mut replies = Replies::default();
    let mut arguments = Arguments::default();
    let mut session = Session::new(state);
    loop {
        let next = loop {
            match arguments.read(&buffer) {
                Ok(None) => break Next::Go,
                Ok(Some(length)) => {
                    let words: Vec<&[u8]> = arguments.of(&buffer).collect();
                    let next = command::answer(state, &words, &mut replies, &mut session);
                    if next.is_none() {
                        send(&mut stream, &mut replies).await?;
                        command::take_later(state, &words, &mut replies).await;
                    }
                    buffer.advance(length);
                    if next == Some(Next::Close) {
                        break Next::Close;
                    }
                    if replies.buffer.len() >= FLUSH {
                        send(&mut stream, &mut replies).await?;
                    }
                }
                Err(bad) => {
                    replies.error(&format!("ERR Protocol error: {bad}"));
                    break Next::Close;
                }
            }
        };
        send(&mut stream, &mut replies).await?;
        if next == Next::Close {
            return Ok(());
        }
        buffer.reserve(4 * 1024);
        let read = drain.unless_begun(tokio::time::timeout(IDLE, stream.read_buf(&mut buffer)));
        match read.await {
            Some(Ok(Ok(1..))) => {}
            Some(Ok(Err(error))) => return Err(error),
            // The client has left, was idle for too long, or the server stops.
            _ => return Ok(()),
        }
    }
}

async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    replies: &mut Replies,
) -> std::io::Result<()> {
    if replies.buffer.is_empty() {
        return Ok(());
    }
    let sent = tokio::time::timeout(IDLE, stream.write_all(&replies.buffer)).await;
    replies.buffer.clear();
    sent.map_err(|_| std::io::ErrorKind::TimedOut)?
}
