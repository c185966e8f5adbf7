//! HTTP/1.1 by hand: a client that costs next to nothing, so that most of the time goes to the server.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection that is kept while responses are read to the end. A clone connects anew.
#[derive(Debug, Default)]
pub(crate) struct Connection(Option<TcpStream>);

impl Clone for Connection {
    fn clone(&self) -> Self {
        Self(None)
    }
}

/// A response that is being read. Dropping it hangs up.
#[derive(Debug)]
pub(crate) struct Reading {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Where the body begins.
    head: usize,
    /// How long it is; in chunks if that is not known.
    length: Option<usize>,
}

impl Connection {
    pub(crate) fn keep(&mut self, response: Reading) {
        self.0 = Some(response.stream);
    }

    /// Sends a request and reads the head of its response.
    pub(crate) async fn send(
        &mut self,
        address: SocketAddr,
        request: Request<Bytes>,
    ) -> Option<Reading> {
        let mut stream = match self.0.take() {
            Some(stream) => stream,
            None => TcpStream::connect(address).await.ok()?,
        };
        stream.set_nodelay(true).ok()?;
        let (head, body) = request.into_parts();
        let mut text = format!(
            "{} {} HTTP/1.1\r\nhost: {address}\r\n",
            head.method,
            head.uri.path()
        );
        for (name, value) in &head.headers {
            text += &format!("{name}: {}\r\n", value.to_str().ok()?);
        }
        text += &format!("content-length: {}\r\n\r\n", body.len());
        let mut message = text.into_bytes();
        message.extend_from_slice(&body);
        stream.write_all(&message).await.ok()?;
        let mut response = Reading {
            stream,
            buffer: Vec::with_capacity(4096),
            head: 0,
            length: None,
        };
        while response.head == 0 {
            response.read().await.then_some(())?;
            response.look_for_head();
        }
        Some(response)
    }
}

impl Reading {
    /// Reads what is there; false if that is nothing.
    async fn read(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.buffer).await;
        read.is_ok_and(|read| read > 0)
    }

    fn look_for_head(&mut self) {
        if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            self.head = end + 4;
            self.length = self
                .field("content-length")
                .and_then(|length| length.parse().ok());
        }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let head = std::str::from_utf8(&self.buffer[..self.head]).ok()?;
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value)
    }

    /// The next part of the body is there: true, or false at its end. `None` if the connection broke.
    pub(crate) async fn part(&mut self) -> Option<bool> {
        if self.is_complete() {
            return Some(false);
        }
        self.read().await.then_some(true)
    }

    /// No body that is served here contains what ends a body of chunks.
    fn is_complete(&self) -> bool {
        let body = &self.buffer[self.head..];
        match self.length {
            Some(length) => body.len() >= length,
            None => body == b"0\r\n\r\n" || body.ends_with(b"\r\n0\r\n\r\n"),
        }
    }
}
