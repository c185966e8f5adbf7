//! The fast path of HTTP/1.1: small requests that lie in one read buffer, answered without what large ones need.
//!
//! For each request a general server makes a body that can be waited for, a map of header fields and messages between tasks, which
//! costs more than a decision. Here a connection is read into one buffer, requests that lie in it from head to body are answered from
//! it, and their responses are one write. A request that is not as simple as that is passed to the general server, with
//! everything that follows it on its connection.

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

/// How much is read at once.
const READ: usize = 8 * 1024;
/// A request with more fields is passed to the general server.
const FIELDS: usize = 32;

/// Answers the requests of a connection for as long as they arrive whole and `handler` takes them. Returns the bytes that were read
/// and are for the general server; `None` if the connection has ended, because the client closed it, was idle for
/// `idle`, or `ends` became ready. A response while `is_last` holds is the last one.
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

/// The request with which `bytes` begin, and its length; `None` unless all of it is there and its end is beyond doubt.
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

/// Writes a response as the general server does.
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

/// Writes the field `date` and the end of the head. The text is made once a second.
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
            // It cannot fail: it is written to a string.
            let _ = write!(text, "date: {}\r\n\r\n", httpdate::HttpDate::from(now));
            *of = second;
        }
        to.extend_from_slice(text.as_bytes());
    });
}

/// Writes all of it, mostly at once: there is room for it, and no time to be kept.
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
