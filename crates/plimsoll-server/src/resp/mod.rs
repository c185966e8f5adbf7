//! The RESP port: serves limits to Redis clients.

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

/// Replies are flushed at this length, even if more commands are buffered.
const FLUSH: usize = 64 * 1024;
/// Minimum free space in the buffer for one read.
const READ: usize = 4 * 1024;
/// Maximum capacity of an empty read buffer.
const LARGE: usize = 64 * 1024;
/// Timeout of a connection that sends nothing or does not read its replies.
const IDLE: Duration = Duration::from_secs(300);

/// Accepts connections until the server stops, then waits for open connections, with a timeout.
pub(crate) async fn serve(listener: TcpListener, state: Arc<State>) {
    // Nothing is sent: the channel closes when the last connection has ended.
    let (open, mut ended) = mpsc::channel::<Infallible>(1);
    while let Some(accepted) = state.drain.unless_begun(listener.accept()).await {
        let Ok((stream, _peer)) = accepted else {
            // Usually out of file descriptors: wait for other connections to end.
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
    let _ = tokio::time::timeout(state.drain_timeout, ended.recv()).await;
}

/// Serves one connection. Answers pipelined commands in batches.
async fn connection(mut stream: TcpStream, state: &State) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    let mut replies = Replies::default();
    let mut session = Session::new(state);
    // Both futures are created once per connection rather than once per batch.
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
        // The client disconnected or was idle for too long, or the server stops.
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
            // Releases the memory of a large command.
            buffer.shrink_to(LARGE);
        }
        idle.as_mut().reset(Instant::now() + IDLE);
    }
}

/// Answers the complete commands in `buffer` and returns their total length.
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
    // Usually the socket buffer has room, and no timer is needed.
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
