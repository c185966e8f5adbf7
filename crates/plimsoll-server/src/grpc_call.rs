//! Calls over gRPC: messages in, messages out.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::{Buf, BufMut, Bytes};
use futures_core::Stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request};
use hyper::body::Frame;
use prost::Message;
use tonic::server::Grpc;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::body::{self, Failed};

/// How long a message may be.
pub(crate) const LONGEST_MESSAGE: usize = 256 * 1024;

/// How long one of many messages may be: a proxy reports all of its buckets in one.
const LONGEST_REPORT: usize = 4 * 1024 * 1024;

fn grpc<Q, A>() -> Grpc<ProstCodec<A, Q>>
where
    Q: Message + Default + 'static,
    A: Message + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(LONGEST_MESSAGE)
}

fn response(answer: http::Response<tonic::body::Body>) -> Response {
    answer.map(Body::new).into_response()
}

/// One message for one message. There is nothing of a stream in it: the request is read whole, and answered by one frame and the
/// status.
pub(crate) async fn unary<B, Q, A, F>(request: Request<B>, answer: impl FnOnce(Q) -> F) -> Response
where
    B: hyper::body::Body<Data = Bytes, Error: fmt::Display> + Unpin,
    Q: Message + Default,
    A: Message,
    F: Future<Output = Result<A, Status>>,
{
    let question = match body::whole(request.into_body(), LONGEST_MESSAGE + PREFIX).await {
        Ok(whole) => question(whole),
        Err(Failed::TooLong) => Err(too_long(None)),
        Err(Failed::Broken(why)) => Err(Status::unknown(why)),
    };
    let answered = match question {
        Ok(question) => answer(question).await,
        Err(status) => Err(status),
    };
    match answered.and_then(|answer| frame(&answer)) {
        Ok(frame) => {
            let mut response = Response::new(Body::new(Answer(Some(frame))));
            let kind = HeaderValue::from_static("application/grpc");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        Err(status) => status.into_http::<Body>(),
    }
}

/// How long what stands before a message is: whether it is compressed, and how long it is.
const PREFIX: usize = 5;

/// The one message of a request.
fn question<Q: Message + Default>(mut whole: Bytes) -> Result<Q, Status> {
    if whole.is_empty() {
        return Err(Status::internal("expected a message, found none"));
    }
    if whole.len() < PREFIX {
        return Err(Status::internal(
            "expected a message, found a part of its prefix",
        ));
    }
    let (compressed, length) = (whole.get_u8(), whole.get_u32() as usize);
    if compressed != 0 {
        let why = "expected a message that is not compressed: this server has said so by naming no encoding";
        return Err(Status::unimplemented(why));
    }
    if length > LONGEST_MESSAGE {
        return Err(too_long(Some(length)));
    }
    if length != whole.len() {
        let found = whole.len();
        return Err(Status::internal(format!(
            "expected one message of {length} bytes, found {found}"
        )));
    }
    Q::decode(whole).map_err(|error| Status::internal(error.to_string()))
}

#[cold]
fn too_long(length: Option<usize>) -> Status {
    let found = length.map_or_else(|| "more".to_owned(), |length| length.to_string());
    Status::out_of_range(format!(
        "expected a message of at most {LONGEST_MESSAGE} bytes, found {found}"
    ))
}

/// A message with its prefix.
fn frame(answer: &impl Message) -> Result<Bytes, Status> {
    let length = answer.encoded_len();
    // A list of bytes takes the many small parts of a message with fewer steps than `BytesMut` does.
    let mut frame = Vec::with_capacity(PREFIX + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).map_err(|_| Status::internal("the answer is too long"))?);
    let encoded = answer.encode(&mut frame);
    encoded.map_err(|error| Status::internal(error.to_string()))?;
    Ok(frame.into())
}

/// The body of an answer: one frame, and that all went well.
struct Answer(Option<Bytes>);

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(match self.0.take() {
            None => None,
            Some(frame) if frame.is_empty() => {
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
                Some(Ok(Frame::trailers(trailers)))
            }
            Some(frame) => {
                self.0 = Some(Bytes::new());
                Some(Ok(Frame::data(frame)))
            }
        })
    }
}

/// Many messages for one.
pub(crate) async fn server_streaming<Q, A, S>(
    request: Request<Body>,
    answer: impl Fn(Q) -> Result<S, Status>,
) -> Response
where
    Q: Message + Default + 'static,
    A: Message + 'static,
    S: Stream<Item = Result<A, Status>> + Send + 'static,
{
    let service = service_fn(|request: tonic::Request<Q>| {
        let answer = answer(request.into_inner());
        async { answer.map(tonic::Response::new) }
    });
    response(grpc().server_streaming(service, request).await)
}

/// Many messages for many.
pub(crate) async fn streaming<Q, A, S>(
    request: Request<Body>,
    answer: impl Fn(Streaming<Q>) -> Result<S, Status> + Sync,
) -> Response
where
    Q: Message + Default + 'static,
    A: Message + 'static,
    S: Stream<Item = Result<A, Status>> + Send + 'static,
{
    let service = service_fn(|request: tonic::Request<Streaming<Q>>| {
        let answer = answer(request.into_inner());
        async { answer.map(tonic::Response::new) }
    });
    let mut grpc = grpc().max_decoding_message_size(LONGEST_REPORT);
    response(grpc.streaming(service, request).await)
}
