//! Connections that are kept, for tests with many of them.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A connection on which one thing is asked after the other.
pub(crate) struct Kept(BufReader<TcpStream>);

impl Kept {
    pub(crate) async fn new(to: SocketAddr) -> Self {
        Self(BufReader::new(
            TcpStream::connect(to).await.expect("it listens"),
        ))
    }

    /// The status of an HTTP request, and the body.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> std::io::Result<(u16, String)> {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.0.write_all(request.as_bytes()).await?;
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if line == "\r\n" {
                break;
            }
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                status = rest[..3].parse().expect("a status");
            }
            if let Some(rest) = line.strip_prefix("content-length: ") {
                length = rest.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// The five numbers that answer a typed command; the error if there is one.
    pub(crate) async fn five(
        &mut self,
        command: &str,
    ) -> std::io::Result<Result<[i64; 5], String>> {
        let mut fives = self.fives([command]).await?;
        fives
            .pop()
            .ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    }

    /// The answers to several such commands, which are sent at once.
    pub(crate) async fn fives(
        &mut self,
        commands: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> std::io::Result<Vec<Result<[i64; 5], String>>> {
        let (mut asked, mut count) = (String::new(), 0);
        for command in commands {
            asked.push_str(command.as_ref());
            asked.push_str("\r\n");
            count += 1;
        }
        self.0.write_all(asked.as_bytes()).await?;
        let mut answers = Vec::with_capacity(count);
        for _ in 0..count {
            answers.push(self.answer().await?);
        }
        Ok(answers)
    }

    async fn answer(&mut self) -> std::io::Result<Result<[i64; 5], String>> {
        let mut line = String::new();
        if self.0.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line != "*5\r\n" {
            return Ok(Err(line));
        }
        let mut numbers = [0; 5];
        for number in &mut numbers {
            let mut line = String::new();
            self.0.read_line(&mut line).await?;
            *number = line
                .trim()
                .trim_start_matches(':')
                .parse()
                .expect("a number");
        }
        Ok(Ok(numbers))
    }
}
