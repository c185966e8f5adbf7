//! The body of a response on its way to a client.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::connection::{Connection, Idle};
use crate::idle_timeout::IdleTimeout;
use crate::pool::Lease;
use crate::tokens::Tokens;

/// The body of a response of a server, or of the gateway itself.
#[derive(Debug)]
pub(crate) struct ResponseBody(ResponseKind);

enum ResponseKind {
    Own(Option<Bytes>),
    Server(Box<ServerBody>),
}

/// The body of a server's response, with its connection and its lease.
pub(crate) struct ServerBody {
    pub(crate) body: Incoming,
    pub(crate) connection: Connection,
    pub(crate) lease: Lease,
    pub(crate) idle: Arc<Idle>,
    pub(crate) tokens: Option<Tokens>,
    timeout: IdleTimeout,
}

impl ServerBody {
    pub(crate) fn new(
        body: Incoming,
        connection: Connection,
        lease: Lease,
        idle: Arc<Idle>,
        tokens: Option<Tokens>,
    ) -> Self {
        let timeout = IdleTimeout::new(lease.pool.idle);
        Self {
            body,
            connection,
            lease,
            idle,
            tokens,
            timeout,
        }
    }

    /// Ends the response after all of it was read: the connection can be used again.
    fn end(self) {
        if let Some(tokens) = self.tokens {
            tokens.end();
        }
        self.idle.put(self.connection, &self.lease);
    }
}

impl ResponseBody {
    pub(crate) fn server(body: ServerBody) -> Self {
        if body.body.is_end_stream() {
            body.end();
            return Self(ResponseKind::Own(None));
        }
        Self(ResponseKind::Server(Box::new(body)))
    }

    pub(crate) fn own(body: Bytes) -> Self {
        Self(ResponseKind::Own((!body.is_empty()).then_some(body)))
    }

    fn end(&mut self) {
        if let ResponseKind::Server(body) = std::mem::replace(&mut self.0, ResponseKind::Own(None))
        {
            body.end();
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        let this = self.get_mut();
        let body = match &mut this.0 {
            ResponseKind::Own(bytes) => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))));
            }
            ResponseKind::Server(body) => body,
        };
        let frame = match Pin::new(&mut body.body).poll_frame(cx) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                ready!(body.timeout.poll_elapsed(cx));
                body.lease.aborted(&AnswerError::Slow);
                this.0 = ResponseKind::Own(None);
                return Poll::Ready(Some(Err(AnswerError::Slow)));
            }
        };
        body.timeout.reset();
        match frame {
            None => {
                this.end();
                Poll::Ready(None)
            }
            Some(Err(error)) => {
                body.lease.aborted(&error);
                this.0 = ResponseKind::Own(None);
                Poll::Ready(Some(Err(AnswerError::Broken(error))))
            }
            Some(Ok(frame)) => {
                if let (Some(tokens), Some(data)) = (&mut body.tokens, frame.data_ref()) {
                    tokens.see(data);
                }
                // The sender may not poll again.
                if body.body.is_end_stream() {
                    this.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            ResponseKind::Own(bytes) => bytes.is_none(),
            ResponseKind::Server(body) => body.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            ResponseKind::Own(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |it| it.len() as u64))
            }
            ResponseKind::Server(body) => body.body.size_hint(),
        }
    }
}

/// The error of a response that broke off.
#[derive(Debug)]
pub(crate) enum AnswerError {
    Slow,
    Broken(hyper::Error),
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow => f.write_str("the next part of the answer did not come in time"),
            Self::Broken(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AnswerError {}

impl fmt::Debug for ResponseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own(_) => "Own",
            Self::Server(_) => "Server",
        })
    }
}
