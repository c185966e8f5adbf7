//! Envoy's rate-limit service around the library of limitador: as little around it as there can be. Its own server is no library,
//! and needs RocksDB to be built; it does what this does, and more beside. Of an answer this one says no more than the code.
//!
//!     plimsoll-benches-peers PORT [redis://… | KEYS | floor | http-floor]
//!
//! One limit: 1,000,000,000 a minute for each `user` of the domain `bench`. With a number of keys so many users are counted
//! before it serves. As a floor it decides nothing, and says OK: what any server on tonic costs at least. As a floor for HTTP it
//! reads the body of each request and answers a few bytes of JSON: what any server on hyper costs at least.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use limitador::RateLimiter;
use limitador::limit::{Context as Values, Limit, Namespace};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, prost::Message)]
struct Asked {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Answered {
    /// 1 is OK, 2 is over the limit.
    #[prost(int32, tag = "1")]
    overall_code: i32,
}

enum Limiter {
    Memory(RateLimiter),
    Redis(limitador::AsyncRateLimiter),
    Floor,
}

#[derive(Clone)]
struct Service(Arc<Limiter>);

impl Service {
    async fn decide(&self, asked: Asked) -> Result<Answered, Status> {
        if matches!(&*self.0, Limiter::Floor) {
            return Ok(Answered { overall_code: 1 });
        }
        let namespace = Namespace::from(asked.domain);
        let values = asked.descriptors.into_iter().map(|descriptor| {
            let pairs = descriptor.entries.into_iter();
            pairs.map(|it| (it.key, it.value)).collect()
        });
        let mut context = Values::default();
        let values: Vec<HashMap<String, String>> = values.collect();
        context.list_binding("descriptors".to_owned(), values);
        let hits = u64::from(asked.hits_addend.max(1));
        let checked = match &*self.0 {
            Limiter::Memory(limiter) => {
                limiter.check_rate_limited_and_update(&namespace, &context, hits)
            }
            Limiter::Redis(limiter) => {
                limiter
                    .check_rate_limited_and_update(&namespace, &context, hits)
                    .await
            }
            Limiter::Floor => unreachable!("it is answered above"),
        };
        let checked = checked.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(Answered {
            overall_code: if bool::from(checked) { 2 } else { 1 },
        })
    }
}

impl UnaryService<Asked> for Service {
    type Response = Answered;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answered>, Status>> + Send>>;

    fn call(&mut self, request: Request<Asked>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { service.decide(request.into_inner()).await.map(Response::new) })
    }
}

impl tower_service::Service<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let codec = ProstCodec::<Answered, Asked>::default();
            Ok(Grpc::new(codec).unary(service, request).await)
        })
    }
}

impl NamedService for Service {
    const NAME: &'static str = "envoy.service.ratelimit.v3.RateLimitService";
}

/// Answers every request over HTTP/1.1 alike.
async fn http_floor(address: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async {
            request.into_body().collect().await?;
            let body = Full::new(Bytes::from_static(br#"{"allowed":true}"#));
            Ok::<_, hyper::Error>(http::Response::new(body))
        });
        let stream = hyper_util::rt::TokioIo::new(stream);
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(stream, answer));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().ok_or("expected a port")?.parse()?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let user = "descriptors[0]['user']".try_into()?;
    let limit = Limit::new("bench", 1_000_000_000, 60, Vec::new(), vec![user]);
    let limiter = match arguments.next() {
        Some(what) if what == "http-floor" => return http_floor(address).await,
        Some(what) if what == "floor" => Limiter::Floor,
        Some(url) if url.contains("://") => {
            let storage = limitador::storage::redis::AsyncRedisStorage::new(&url).await?;
            let limiter = limitador::AsyncRateLimiter::new_with_storage(Box::new(storage));
            limiter.add_limit(limit);
            Limiter::Redis(limiter)
        }
        keys => {
            let keys = keys.map_or(Ok(0), |keys| keys.parse::<u64>())?;
            let limiter = RateLimiter::new(keys.max(1_000_000));
            limiter.add_limit(limit);
            let namespace = Namespace::from("bench");
            for user in 0..keys {
                let mut context = Values::default();
                let user = HashMap::from([("user".to_owned(), format!("key:{user:012}"))]);
                context.list_binding("descriptors".to_owned(), vec![user]);
                limiter.check_rate_limited_and_update(&namespace, &context, 1)?;
            }
            Limiter::Memory(limiter)
        }
    };
    let server = tonic::transport::Server::builder().add_service(Service(Arc::new(limiter)));
    Ok(server.serve(address).await?)
}
