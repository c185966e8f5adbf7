//! The RESP port: limits for every client of Redis.

mod command;
mod frame;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::state::State;
use command::{Next, Session};
use frame::{Arguments, Replies};

/// Replies are sent when so much has come together, also if more commands are there.
const FLUSH: usize = 64 * 1024;
/// How long a connection may be idle, or write nothing of what is read of it.
const IDLE: Duration = Duration::from_secs(300);

/// Accepts connections until the server stops and what is under way has ended, for which it has some time.
pub(crate) async fn serve(listener: TcpListener, state: Arc<State>) {
    // Nothing is sent: it is closed when the last connection has ended.
    let (open, mut ended) = mpsc::channel::<Infallible>(1);
    while let Some(accepted) = state.drain.unless_begun(listener.accept()).await {
        let Ok((stream, _peer)) = accepted else {
            // Out of descriptors, mostly: others may end meanwhile.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Some(place) = state.connections.enter() else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (state, open) = (Arc::clone(&state), open.clone());
        tokio::spawn(async move {
            let _here = (place, open);
            let _ = connection(stream, &state).await;
        });
    }
    drop((listener, open));
    let _ = tokio::time::timeout(state.last, ended.recv()).await;
}

/// Answers the commands of one connection, as many at once as have come.
async fn connection(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    state: &State,
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
                        let later = command::take_later(state, &words, &mut replies);
                        if state.drain.unless_begun(later).await.is_none() {
                            replies.error("ERR this server stops: ask another");
                            break Next::Close;
                        }
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
        let read = state
            .drain
            .unless_begun(tokio::time::timeout(IDLE, stream.read_buf(&mut buffer)));
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
