//! The RESP port: limits for every client of Redis.

mod command;
mod frame;

use std::convert::Infallible;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::state::State;
use command::{Next, Session};
use frame::{Replies, Words};

/// Replies are sent when so much has come together, also if more commands are there.
const FLUSH: usize = 64 * 1024;
/// How much is read at once, at least.
const READ: usize = 4 * 1024;
/// How much room a connection keeps for what it reads.
const LARGE: usize = 64 * 1024;
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
async fn connection(mut stream: TcpStream, state: &State) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    let mut replies = Replies::default();
    let mut session = Session::new(state);
    // Both are made once: what is waited for between two batches is neither, mostly.
    let mut idle = pin!(tokio::time::sleep(IDLE));
    let mut stops = pin!(state.drain.begun());
    loop {
        buffer.reserve(READ);
        let read = tokio::select! {
            biased;
            read = stream.read_buf(&mut buffer) => read?,
            () = &mut stops => 0,
            () = &mut idle => 0,
        };
        // The client has left, was idle for too long, or the server stops.
        if read == 0 {
            return Ok(());
        }
        let (done, next) = batch(&mut stream, state, &buffer, &mut replies, &mut session).await?;
        send(&mut stream, &mut replies).await?;
        if next == Next::Close {
            return Ok(());
        }
        buffer.drain(..done);
        if buffer.is_empty() {
            // What a large command took is free again.
            buffer.shrink_to(LARGE);
        }
        idle.as_mut().reset(Instant::now() + IDLE);
    }
}

/// Answers the commands that have come whole, and says how long they are together.
async fn batch(
    stream: &mut TcpStream,
    state: &State,
    buffer: &[u8],
    replies: &mut Replies,
    session: &mut Session,
) -> std::io::Result<(usize, Next)> {
    let mut words = Words::new();
    let mut done = 0;
    loop {
        match frame::read(&buffer[done..], &mut words) {
            Ok(None) => return Ok((done, Next::Go)),
            Ok(Some(length)) => {
                done += length;
                match command::answer(state, &words, replies, session) {
                    Ok(Next::Go) => {}
                    Ok(Next::Close) => return Ok((done, Next::Close)),
                    Err(decide) => {
                        send(stream, replies).await?;
                        let later = command::take_later(decide, replies);
                        if state.drain.unless_begun(later).await.is_none() {
                            replies.error("ERR this server stops: ask another");
                            return Ok((done, Next::Close));
                        }
                    }
                }
                if replies.buffer.len() >= FLUSH {
                    send(stream, replies).await?;
                }
            }
            Err(bad) => {
                replies.error(&format!("ERR Protocol error: {bad}"));
                return Ok((done, Next::Close));
            }
        }
    }
}

async fn send(stream: &mut TcpStream, replies: &mut Replies) -> std::io::Result<()> {
    if replies.buffer.is_empty() {
        return Ok(());
    }
    // Mostly there is room for all of it, and no time to be kept.
    let sent = match stream.try_write(&replies.buffer) {
        Ok(sent) => sent,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => return Err(error),
    };
    let rest = &replies.buffer[sent..];
    if !rest.is_empty() {
        let sent = tokio::time::timeout(IDLE, stream.write_all(rest)).await;
        sent.map_err(|_| ErrorKind::TimedOut)??;
    }
    replies.buffer.clear();
    Ok(())
}
