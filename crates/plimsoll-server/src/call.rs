//! Calls over gRPC: messages in, messages out.

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use prost::Message;
use tonic::server::Grpc;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

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

/// One message for one message.
pub(crate) async fn unary<Q, A, F>(request: Request, answer: impl Fn(Q) -> F) -> Response
where
    Q: Message + Default + 'static,
    A: Message + 'static,
    F: Future<Output = Result<A, Status>>,
{
    let service = service_fn(|request: tonic::Request<Q>| {
        let answer = answer(request.into_inner());
        async { answer.await.map(tonic::Response::new) }
    });
    response(grpc().unary(service, request).await)
}

/// Many messages for one.
pub(crate) async fn server_streaming<Q, A, S>(
    request: Request,
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
    request: Request,
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
