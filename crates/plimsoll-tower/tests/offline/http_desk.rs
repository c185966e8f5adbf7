//! The desk, for requests of HTTP.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tower_service::Service;

use crate::desk::{Broken, Desk, Work};

/// A [`Desk`] whose requests are paths: `/7` is request 7. It answers with the status it is told to answer.
#[derive(Clone, Debug)]
pub(crate) struct HttpDesk(pub(crate) Desk);

impl Service<Request<()>> for HttpDesk {
    type Response = Response<Full<Bytes>>;
    type Error = Broken;
    type Future = HttpWork;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<()>) -> HttpWork {
        let number = request.uri().path().trim_start_matches('/').parse();
        HttpWork(self.0.call(number.unwrap()))
    }
}

/// Work that has begun.
#[derive(Debug)]
pub(crate) struct HttpWork(Work);

impl Future for HttpWork {
    type Output = Result<Response<Full<Bytes>>, Broken>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_ok(|status| {
            let mut response = Response::new(Full::from("done"));
            *response.status_mut() = StatusCode::from_u16(u16::try_from(status).unwrap()).unwrap();
            response
        })
    }
}
