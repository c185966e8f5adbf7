//! The fast path of HTTP/1.1: handles small requests from the read buffer, without hyper.
//!
//! For each request hyper creates a streaming body, a header map and messages between tasks, which cost more than a decision. Here a
//! connection is read into one buffer, requests that are complete in it are handled from it, and their responses are one write.
//! Any other request is passed to hyper, with all later bytes of its connection.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::future::Future;
use std::io::{self, ErrorKind, Write as _};
use std::pin::{Pin, pin};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use http::Response;
use httparse::{EMPTY_HEADER, Header, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::handler::{BufferedRequest, Handler};

/// Size of one read.
const READ: usize = 8 * 1024;
/// Requests with more header fields are passed to hyper.
const FIELDS: usize = 32;

/// Handles requests of a connection while they are complete in one buffer and `handler` accepts them. Returns the bytes that were
/// read and have to be passed to hyper; `None` if the connection has ended, because the client closed it or was idle for `idle`, or
/// `ends` became ready. A response while `is_last` returns `true` closes the connection.
pub(crate) async fn serve(
    stream: &mut TcpStream,
    handler: &impl Handler,
    idle: Duration,
    mut ends: Pin<&mut impl Future>,
    is_last: impl Fn() -> bool,
) -> io::Result<Option<Vec<u8>>> {
    let mut read = Vec::new();
    let mut written = Vec::new();
    let mut timer = pin!(tokio::time::sleep(idle));
    loop {
        read.reserve(READ);
        let length = tokio::select! {
            biased;
            length = stream.read_buf(&mut read) => length?,
            _ = &mut ends => 0,
            () = &mut timer => 0,
        };
        if length == 0 {
            return Ok(None);
        }
        let mut done = 0;
        let is_last = is_last();
        while done < read.len() {
            let mut fields = [EMPTY_HEADER; FIELDS];
            let Some((request, length)) = parse(&read[done..], &mut fields) else {
                break;
            };
            let Some(response) = handler.handle_buffered(&request).await else {
                break;
            };
            write(&response, is_last, &mut written)?;
            done += length;
            if is_last {
                break;
            }
        }
        send(stream, &written, idle).await?;
        if done > 0 && is_last {
            return Ok(None);
        }
        written.clear();
        read.drain(..done);
        if !read.is_empty() {
            return Ok(Some(read));
        }
        timer.as_mut().reset(Instant::now() + idle);
    }
}

/// Parses the request at the start of `bytes` and returns its length. `None` if it is incomplete or its length is ambiguous.
fn parse<'a>(
    bytes: &'a [u8],
    fields: &'a mut [Header<'a>],
) -> Option<(BufferedRequest<'a>, usize)> {
    let mut request = httparse::Request::new(fields);
    let Ok(Status::Complete(head)) = request.parse(bytes) else {
        return None;
    };
    if request.version != Some(1) {
        return None;
    }
    let fields: &[Header<'_>] = request.headers;
    let mut length = None;
    for Header { name, value } in fields {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("content-length") {
            let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let value = std::str::from_utf8(value).ok()?.parse().ok()?;
            if !digits || length.replace(value).is_some() {
                return None;
            }
        }
        let is_special = is("transfer-encoding") || is("expect") || is("upgrade");
        if is_special || is("connection") && !value.eq_ignore_ascii_case(b"keep-alive") {
            return None;
        }
    }
    let body = bytes[head..].get(..length.unwrap_or(0))?;
    let request = BufferedRequest {
        method: request.method?,
        target: request.path?,
        fields,
        body,
    };
    Some((request, head + body.len()))
}

/// Writes a response in the format of hyper.
fn write(response: &Response<Bytes>, closes: bool, to: &mut Vec<u8>) -> io::Result<()> {
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or_default();
    for part in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\n"] {
        to.extend_from_slice(part.as_bytes());
    }
    for (name, value) in response.headers() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            to.extend_from_slice(part);
        }
    }
    if closes {
        to.extend_from_slice(b"connection: close\r\n");
    }
    write!(to, "content-length: {}\r\n", response.body().len())?;
    date(to);
    to.extend_from_slice(response.body());
    Ok(())
}

/// Writes the field `date` and the end of the head. The text is formatted once a second.
fn date(to: &mut Vec<u8>) {
    thread_local! {
        static TEXT: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the date of an answer is that of the world, whatever clock limits have"
    )]
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    TEXT.with_borrow_mut(|(of, text)| {
        if *of != second {
            text.clear();
            // Writing to a string never fails.
            let _ = write!(text, "date: {}\r\n\r\n", httpdate::HttpDate::from(now));
            *of = second;
        }
        to.extend_from_slice(text.as_bytes());
    });
}

/// Writes all bytes. Usually the socket buffer has room, and no timer is needed.
async fn send(stream: &mut TcpStream, bytes: &[u8], within: Duration) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let sent = match stream.try_write(bytes) {
        Ok(sent) => sent,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => return Err(error),
    };
    if sent < bytes.len() {
        let sent = tokio::time::timeout(within, stream.write_all(&bytes[sent..])).await;
        sent.map_err(|_| ErrorKind::TimedOut)??;
    }
    Ok(())
}
