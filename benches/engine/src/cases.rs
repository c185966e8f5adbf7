//! The cases: typed limits, and the same from a file.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::Empty;
use plimsoll::{Concurrency, Gate, Keyed, PerKey, TokenBucket};
use plimsoll_engine::{Ask, Limits};
use plimsoll_tower::answer::Fields;
use plimsoll_tower::keys::{Address, HeaderKey, Peer, PeerAddr};
use plimsoll_tower::{HttpLimit, HttpLimitLayer, RequestLimit, SendFields};
use tower_layer::Layer;
use tower_service::Service;

use crate::timing::Case;

/// More than comes, and never full again: there is always something to tell.
const BURST: u64 = 100_000_000_000;

pub(crate) const NAMES: [&str; 17] = [
    "Keyed<String>, try_acquire",
    "KeyedLimiter of a file, try_acquire",
    "engine, try_decide, one keyed rate",
    "engine, decide, one keyed rate",
    "engine, try_decide, four limits",
    "engine, decide, four limits",
    "the service alone",
    "typed layer, one keyed rate",
    "engine's layer, one keyed rate",
    "typed layer, four limits",
    "engine's layer, four limits",
    "engine's layer, no route",
    "engine's layer, one keyed rate, refused",
    "engine's layer, one keyed rate, refused, not quickly",
    "the service alone, five fields that are there",
    "typed layer, one keyed rate, five fields",
    "engine's layer, one keyed rate, five fields",
];

type Ratio = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// What is compared, each less what it stands before.
pub(crate) const RATIOS: [Ratio; 7] = [
    (
        "engine's layer ÷ typed layer, one keyed rate, each less the service (at most 1.6)",
        &["engine's layer, one keyed rate", "the service alone"],
        &["typed layer, one keyed rate", "the service alone"],
    ),
    (
        "engine's layer, four limits ÷ one, each less the service (at most 2.5)",
        &["engine's layer, four limits", "the service alone"],
        &["engine's layer, one keyed rate", "the service alone"],
    ),
    (
        "try_decide, four limits ÷ one (at most 2.5)",
        &["engine, try_decide, four limits"],
        &["engine, try_decide, one keyed rate"],
    ),
    (
        "decide, four limits ÷ one (at most 2.5)",
        &["engine, decide, four limits"],
        &["engine, decide, one keyed rate"],
    ),
    (
        "engine's layer ÷ typed layer, four limits, each less the service",
        &["engine's layer, four limits", "the service alone"],
        &["typed layer, four limits", "the service alone"],
    ),
    (
        "five fields of the typed layer ÷ five that are there",
        &[
            "typed layer, one keyed rate, five fields",
            "typed layer, one keyed rate",
        ],
        &[
            "the service alone, five fields that are there",
            "the service alone",
        ],
    ),
    (
        "five fields of the engine's layer ÷ five that are there",
        &[
            "engine's layer, one keyed rate, five fields",
            "engine's layer, one keyed rate",
        ],
        &[
            "the service alone, five fields that are there",
            "the service alone",
        ],
    ),
];

/// One keyed rate, and three limits beside it.
pub(crate) fn file() -> String {
    format!(
        "limits:
  client: {{ kind: token_bucket, burst: {BURST}, refill: 1000, every: 1s, key: client }}
  user: {{ kind: token_bucket, burst: {BURST}, refill: 1000, every: 1s, key: header:x-user }}
  all: {{ kind: token_bucket, burst: {BURST}, refill: 1000, every: 1s }}
  slots: {{ kind: concurrency, limit: 1000 }}
  rare: {{ kind: token_bucket, burst: 1, refill: 1, every: 1000h, key: client }}
routes:
  - {{ match: /one/**, limits: [client] }}
  - {{ match: /four/**, limits: [client, user, all, slots] }}
  - {{ match: /rare/**, limits: [rare] }}
"
    )
}

const CLIENT: &str = "192.0.2.1";
const USER: &str = "user 7 of tenant red";

fn limits() -> Limits {
    Limits::from_yaml(&file()).expect("the file is fine")
}

pub(crate) fn case(name: &str) -> Case {
    match name {
        "Keyed<String>, try_acquire" => {
            let keyed: Keyed<String, _> = Keyed::new(bucket());
            Box::new(move |calls| {
                for _ in 0..calls {
                    black_box(keyed.try_acquire(black_box(CLIENT), 1).is_ok());
                }
            })
        }
        "KeyedLimiter of a file, try_acquire" => {
            let keyed = limits().limiters().keyed("client").expect("it has keys");
            Box::new(move |calls| {
                for _ in 0..calls {
                    let permit = PerKey::try_acquire(&keyed, black_box(CLIENT), 1.into());
                    black_box(permit.is_ok());
                }
            })
        }
        "engine, try_decide, one keyed rate" => {
            decided(|limits, asks| limits.try_decide(&asks[..1]).is_ok())
        }
        "engine, try_decide, four limits" => {
            decided(|limits, asks| limits.try_decide(asks).is_ok())
        }
        "engine, decide, one keyed rate" => {
            decided(|limits, asks| now(limits.decide(&asks[..1], 1)).is_ok())
        }
        "engine, decide, four limits" => {
            decided(|limits, asks| now(limits.decide(asks, 1)).is_ok())
        }
        "the service alone" => served(Hello, "/four/7"),
        "the service alone, five fields that are there" => served(HelloFields, "/four/7"),
        "typed layer, one keyed rate, five fields" => {
            let by_client = RequestLimit::by_key(keyed::<Address>(), Peer::new());
            served(telling(HttpLimitLayer::new(by_client)), "/one/7")
        }
        "engine's layer, one keyed rate, five fields" => {
            served(telling(limits().layer()), "/one/7")
        }
        "typed layer, one keyed rate" => {
            let by_client = RequestLimit::by_key(keyed::<Address>(), Peer::new());
            served(HttpLimitLayer::new(by_client).layer(Hello), "/one/7")
        }
        "typed layer, four limits" => {
            let by_user = HeaderKey::named("x-user").expect("a name");
            let layer = HttpLimitLayer::new(RequestLimit::by_key(keyed::<Address>(), Peer::new()))
                .and(RequestLimit::by_key(keyed::<String>(), by_user))
                .and(RequestLimit::new(
                    Gate::builder(bucket()).name("all").build(),
                ))
                .and(RequestLimit::new(
                    Gate::builder(Concurrency::new(1000)).name("slots").build(),
                ));
            served(layer.layer(Hello), "/four/7")
        }
        "engine's layer, one keyed rate" => served(limits().layer().layer(Hello), "/one/7"),
        "engine's layer, four limits" => served(limits().layer().layer(Hello), "/four/7"),
        "engine's layer, no route" => served(limits().layer().layer(Hello), "/other"),
        // The first one passes.
        "engine's layer, one keyed rate, refused" => {
            answered(limits().layer().layer(Hello), "/rare/7", 429)
        }
        "engine's layer, one keyed rate, refused, not quickly" => {
            let layer = limits().layer().send_fields(SendFields::Always);
            answered(layer.layer(Hello), "/rare/7", 429)
        }
        other => panic!("there is no case `{other}`"),
    }
}

fn bucket() -> TokenBucket {
    TokenBucket::per_second(1000).burst(BURST)
}

fn keyed<K: std::hash::Hash + Eq>() -> Keyed<K, TokenBucket> {
    Keyed::builder(bucket()).name("client").build()
}

fn decided(decide: impl Fn(&Limits, &[Ask<'_>]) -> bool + 'static) -> Case {
    let limits = limits();
    Box::new(move |calls| {
        let asks = [
            Ask::new("client").key(CLIENT),
            Ask::new("user").key(USER),
            Ask::new("all"),
            Ask::new("slots"),
        ];
        for _ in 0..calls {
            assert!(decide(black_box(&limits), black_box(&asks)));
        }
    })
}

fn telling<L: plimsoll_tower::Limits + Clone>(layer: HttpLimitLayer<L>) -> HttpLimit<Hello, L> {
    let layer = layer.fields(Fields::ALL).send_fields(SendFields::Always);
    layer.layer(Hello)
}

/// Fields as a layer writes them, with names and values that need not be made: what the table of headers costs by itself.
static FIELDS: [(HeaderName, HeaderValue); 5] = [
    (
        HeaderName::from_static("ratelimit-policy"),
        HeaderValue::from_static("\"client\";q=100000000000;w=100000000"),
    ),
    (
        HeaderName::from_static("ratelimit"),
        HeaderValue::from_static("\"client\";r=99999999000"),
    ),
    (
        HeaderName::from_static("x-ratelimit-remaining"),
        HeaderValue::from_static("99999999000"),
    ),
    (
        HeaderName::from_static("x-ratelimit-limit"),
        HeaderValue::from_static("100000000000"),
    ),
    (
        HeaderName::from_static("x-ratelimit-reset"),
        HeaderValue::from_static("1"),
    ),
];

#[derive(Clone)]
struct Hello;

/// Answers with [`FIELDS`].
#[derive(Clone)]
struct HelloFields;

impl Service<Request<Empty<Bytes>>> for HelloFields {
    type Response = Response<Empty<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<Empty<Bytes>>) -> Self::Future {
        let mut response = Response::new(Empty::new());
        for (name, value) in &FIELDS {
            response.headers_mut().append(name, value.clone());
        }
        ready(Ok(response))
    }
}

impl Service<Request<Empty<Bytes>>> for Hello {
    type Response = Response<Empty<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<Empty<Bytes>>) -> Self::Future {
        ready(Ok(Response::new(Empty::new())))
    }
}

fn served<S, B>(service: S, path: &'static str) -> Case
where
    S: Service<Request<Empty<Bytes>>, Response = Response<B>> + 'static,
    S::Error: std::fmt::Debug,
{
    answered(service, path, 200)
}

/// Requests say where they come from and who asks: that costs an allocation or more, also before the service alone. All but the
/// first are answered with this status.
fn answered<S, B>(mut service: S, path: &'static str, status: u16) -> Case
where
    S: Service<Request<Empty<Bytes>>, Response = Response<B>> + 'static,
    S::Error: std::fmt::Debug,
{
    let mut is_first = true;
    let peer: SocketAddr = (CLIENT.to_owned() + ":40000").parse().expect("an address");
    Box::new(move |calls| {
        let cx = &mut Context::from_waker(Waker::noop());
        for _ in 0..calls {
            let mut request = Request::new(Empty::new());
            *request.uri_mut() = http::Uri::from_static(path);
            let value = http::HeaderValue::from_static(USER);
            request.headers_mut().insert("x-user", value);
            request.extensions_mut().insert(PeerAddr(peer));
            let Poll::Ready(ready) = service.poll_ready(cx) else {
                panic!("nothing is waited for")
            };
            ready.expect("a service that does not fail");
            let response = now(service.call(black_box(request)));
            let response = response.expect("a service that does not fail");
            assert!(response.status() == status || is_first);
            is_first = false;
            black_box(&response);
        }
    })
}

/// What a future comes to that has nothing to wait for.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing is waited for"),
    }
}
