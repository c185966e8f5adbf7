//! The three kinds of gRPC calls that the services use: unary, server streaming and bidirectional streaming.

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

use crate::body::{self, BodyError};

/// Maximum length of a message.
pub(crate) const LONGEST_MESSAGE: usize = 256 * 1024;

/// Maximum length of a message in a stream: a proxy reports all of its buckets in one message.
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

/// A unary call. It bypasses tonic's streaming codec: the request body is read into one buffer, and the response is one data frame
/// and the trailers.
pub(crate) async fn unary<B, Q, A, F>(request: Request<B>, answer: impl FnOnce(Q) -> F) -> Response
where
    B: hyper::body::Body<Data = Bytes, Error: fmt::Display> + Unpin,
    Q: Message + Default,
    A: Message,
    F: Future<Output = Result<A, Status>>,
{
    let message = match body::read_to_end(request.into_body(), LONGEST_MESSAGE + PREFIX).await {
        Ok(body) => decode(body),
        Err(BodyError::TooLong) => Err(too_long(None)),
        Err(BodyError::Broken(why)) => Err(Status::unknown(why)),
    };
    let answered = match message {
        Ok(message) => answer(message).await,
        Err(status) => Err(status),
    };
    match answered.and_then(|answer| encode(&answer)) {
        Ok(frame) => {
            let mut response = Response::new(Body::new(UnaryBody(Some(frame))));
            let kind = HeaderValue::from_static("application/grpc");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        Err(status) => status.into_http::<Body>(),
    }
}

/// Length of the gRPC message prefix: the compression flag and the message length.
const PREFIX: usize = 5;

/// Decodes the message of a unary request.
fn decode<Q: Message + Default>(mut body: Bytes) -> Result<Q, Status> {
    if body.is_empty() {
        return Err(Status::internal("expected a message, found none"));
    }
    if body.len() < PREFIX {
        return Err(Status::internal(
            "expected a message, found a part of its prefix",
        ));
    }
    let (compressed, length) = (body.get_u8(), body.get_u32() as usize);
    if compressed != 0 {
        let why = "expected a message that is not compressed: this server has said so by naming no encoding";
        return Err(Status::unimplemented(why));
    }
    if length > LONGEST_MESSAGE {
        return Err(too_long(Some(length)));
    }
    if length != body.len() {
        let found = body.len();
        return Err(Status::internal(format!(
            "expected one message of {length} bytes, found {found}"
        )));
    }
    Q::decode(body).map_err(|error| Status::internal(error.to_string()))
}

#[cold]
fn too_long(length: Option<usize>) -> Status {
    let found = length.map_or_else(|| "more".to_owned(), |length| length.to_string());
    Status::out_of_range(format!(
        "expected a message of at most {LONGEST_MESSAGE} bytes, found {found}"
    ))
}

/// Encodes a message with its prefix.
fn encode(answer: &impl Message) -> Result<Bytes, Status> {
    let length = answer.encoded_len();
    // `Vec` appends the many small fields of a message with fewer instructions than `BytesMut`.
    let mut frame = Vec::with_capacity(PREFIX + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).map_err(|_| Status::internal("the answer is too long"))?);
    let encoded = answer.encode(&mut frame);
    encoded.map_err(|error| Status::internal(error.to_string()))?;
    Ok(frame.into())
}

/// The body of a successful unary response: one data frame, then trailers with status 0.
struct UnaryBody(Option<Bytes>);

impl hyper::body::Body for UnaryBody {
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

/// A server streaming call: one request, many responses.
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

/// A bidirectional streaming call.
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
