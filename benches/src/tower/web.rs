//! Layers before a service that answers every request with a few bytes.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response};
use plimsoll::{Clock, Concurrency, Gate, Keyed, TokenBucket};
use plimsoll_tower::answer::Fields;
use plimsoll_tower::keys::{Address, Peer as PeerKey};
use plimsoll_tower::{ByKey, HttpLimitLayer, RequestLimit, SendFields};
use rate_net::tower::{RateLimitLayer, RequestInfo};
use tower::layer::layer_fn;
use tower::{Layer, Service};
use tower_governor::GovernorLayer;
use tower_governor::governor::{GovernorConfig, GovernorConfigBuilder};
use tower_governor::key_extractor::{GlobalKeyExtractor, KeyExtractor, PeerIpKeyExtractor};

use super::by_hand;
use super::serving::{Cost, Served, served};
use crate::contender::Contender;
use crate::contender::Role::{self, Floor, Ours, Peer};

pub(super) const BARE: &str = "the service alone";
pub(super) const BARE_PEER: &str = "the service alone, by address";
pub(super) const GLOBAL: &str = "HttpLimitLayer, one bucket";
const GLOBAL_PRECISE: &str = "HttpLimitLayer, one bucket, precise clock";
pub(super) const PEER: &str = "HttpLimitLayer, by address";
const PEER_PRECISE: &str = "HttpLimitLayer, by address, precise clock";
pub(super) const SLOTS: &str = "HttpLimitLayer, Concurrency";
pub(super) const GOVERNOR_GLOBAL: &str = "tower_governor, one key";
pub(super) const GOVERNOR_PEER: &str = "tower_governor, by address";
pub(super) const RATE_NET: &str = "rate-net RateLimitLayer, by address";
pub(super) const ALL_FIELDS: &str = "HttpLimitLayer, by address, all 5 fields";
pub(super) const X_FIELDS: &str = "HttpLimitLayer, by address, the 3 X-RateLimit fields";
pub(super) const GLOBAL_FIELDS: &str = "HttpLimitLayer, one bucket, all 5 fields";
pub(super) const GOVERNOR_GLOBAL_FIELDS: &str = "tower_governor, one key, 2 fields";
pub(super) const GOVERNOR_FIELDS: &str = "tower_governor, by address, 2 fields";
pub(super) const RATE_NET_3: &str = "rate-net RateLimitLayer, by address, 3 fields";
pub(super) const RATE_NET_5: &str = "rate-net RateLimitLayer, by address, 5 fields";
const FIELDS_BY_HAND: &str = "take, look and insert 5 fields, by address";
const X_BY_HAND: &str = "take, look and insert the 3 X-RateLimit fields, by address";
const GLOBAL_BY_HAND: &str = "take, look and insert 5 fields, one bucket";

/// More than comes in a trial, and never full again once the first has come.
const PLENTY: u32 = 100_000_000;
const PER_SECOND: u32 = 1000;
const NAME: &str = "api";

/// Whether its requests say where they come from.
pub(super) fn knows_peer(name: &str) -> bool {
    name.contains("by address")
}

#[derive(Clone)]
struct Hello;

impl Service<Request<Body>> for Hello {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<Body>) -> Self::Future {
        ready(Ok(Response::new(Body::from("hello"))))
    }
}

fn request() -> Request<Body> {
    Request::new(Body::empty())
}

fn request_from_peer() -> Request<Body> {
    let peer = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 40_000);
    let mut request = request();
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}

/// A layer whose responses have so many fields.
fn around<L, B>(
    role: Role,
    name: &'static str,
    fields: usize,
    layer: impl Fn() -> L + 'static,
) -> Contender<Served, Cost>
where
    L: Layer<Hello> + 'static,
    L::Service: Service<Request<Body>, Response = Response<B>>,
    B: 'static,
{
    let request = if knows_peer(name) {
        request_from_peer
    } else {
        request
    };
    let make = move || layer().layer(Hello);
    let fine = move |response: &Response<B>| {
        response.status().is_success() && response.headers().len() == fields
    };
    served(role, name, make, request, fine)
}

fn bare(
    name: &'static str,
    request: impl Fn() -> Request<Body> + 'static,
) -> Contender<Served, Cost> {
    served(
        Floor,
        name,
        || Hello,
        request,
        |response: &Response<Body>| response.status().is_success(),
    )
}

pub(super) fn without_fields() -> Vec<Contender<Served, Cost>> {
    vec![
        bare(BARE, request),
        bare(BARE_PEER, request_from_peer),
        around(Ours, GLOBAL, 0, || {
            HttpLimitLayer::new(RequestLimit::new(gate(Clock::system())))
        }),
        around(Ours, GLOBAL_PRECISE, 0, || {
            HttpLimitLayer::new(RequestLimit::new(gate(Clock::precise())))
        }),
        around(Ours, PEER, 0, || {
            HttpLimitLayer::new(by_peer(Clock::system()))
        }),
        around(Ours, PEER_PRECISE, 0, || {
            HttpLimitLayer::new(by_peer(Clock::precise()))
        }),
        around(Ours, SLOTS, 0, || {
            HttpLimitLayer::new(RequestLimit::new(Gate::new(Concurrency::new(1000))))
        }),
        around(Peer, GOVERNOR_GLOBAL, 0, || {
            let mut config = governor().key_extractor(GlobalKeyExtractor);
            governed(config.finish())
        }),
        around(Peer, GOVERNOR_PEER, 0, || governed(governor().finish())),
        around(Peer, RATE_NET, 0, || {
            RateLimitLayer::new(rate_net(), peer_of).with_headers_on_success(false)
        }),
    ]
}

pub(super) fn with_fields() -> Vec<Contender<Served, Cost>> {
    vec![
        bare(BARE, request),
        bare(BARE_PEER, request_from_peer),
        around(Ours, GLOBAL_FIELDS, 5, || {
            HttpLimitLayer::new(RequestLimit::new(gate(Clock::system())))
                .send_fields(SendFields::Always)
                .fields(Fields::ALL)
        }),
        around(Ours, ALL_FIELDS, 5, || told(Fields::ALL)),
        around(Ours, X_FIELDS, 3, || told(Fields::X)),
        around(Peer, GOVERNOR_GLOBAL_FIELDS, 2, || {
            let mut config = governor().key_extractor(GlobalKeyExtractor);
            governed(config.use_headers().finish())
        }),
        around(Peer, GOVERNOR_FIELDS, 2, || {
            governed(governor().use_headers().finish())
        }),
        around(Peer, RATE_NET_3, 3, || {
            RateLimitLayer::new(rate_net(), peer_of).with_headers_on_success(true)
        }),
        around(Peer, RATE_NET_5, 5, || {
            RateLimitLayer::new(rate_net(), peer_of)
                .with_headers_on_success(true)
                .with_policy(NAME)
        }),
        around(Floor, FIELDS_BY_HAND, 5, || by_hand(keyed(), true)),
        around(Floor, X_BY_HAND, 3, || by_hand(keyed(), false)),
        around(Floor, GLOBAL_BY_HAND, 5, || {
            by_hand(gate(Clock::system()), true)
        }),
    ]
}

pub(super) fn keyed() -> Keyed<Address, TokenBucket> {
    Keyed::builder(bucket()).name(NAME).build()
}

fn by_hand<L>(limit: L, all: bool) -> impl Layer<Hello, Service = by_hand::Fields<Hello, L>>
where
    L: by_hand::Limit + Clone,
{
    layer_fn(move |service| by_hand::Fields {
        service,
        limit: limit.clone(),
        all,
    })
}

fn bucket() -> TokenBucket {
    TokenBucket::per_second(PER_SECOND.into()).burst(PLENTY.into())
}

fn gate(clock: Clock) -> Gate<TokenBucket> {
    Gate::builder(bucket()).clock(clock).name(NAME).build()
}

type ByPeer = RequestLimit<Keyed<Address, TokenBucket>, ByKey<PeerKey>>;

pub(super) fn by_peer(clock: Clock) -> ByPeer {
    let keyed = Keyed::builder(bucket()).clock(clock).name(NAME).build();
    RequestLimit::by_key(keyed, PeerKey::new())
}

pub(super) fn told(fields: Fields) -> HttpLimitLayer<ByPeer> {
    let layer = HttpLimitLayer::new(by_peer(Clock::system()));
    layer.send_fields(SendFields::Always).fields(fields)
}

type Governor = GovernorConfigBuilder<PeerIpKeyExtractor, ::governor::middleware::NoOpMiddleware>;

pub(super) fn governor() -> Governor {
    let mut config = GovernorConfigBuilder::default();
    let period = Duration::from_secs(1) / PER_SECOND;
    config.period(period).burst_size(PLENTY);
    config
}

pub(super) fn governed<K, M>(config: Option<GovernorConfig<K, M>>) -> GovernorLayer<K, M, Body>
where
    K: KeyExtractor,
    M: ::governor::middleware::RateLimitingMiddleware<::governor::clock::QuantaInstant>,
{
    GovernorLayer::new(Arc::new(config.expect("a quota")))
}

fn rate_net() -> rate_net::RateLimiter {
    let quota = rate_net::Quota::rate(PER_SECOND, Duration::from_secs(1)).expect("a rate");
    rate_net::RateLimiter::with_quota(quota.with_burst(PLENTY))
}

/// As its documentation has it for axum.
fn peer_of(request: &RequestInfo<'_>) -> Option<rate_net::Key> {
    let ConnectInfo(peer) = request.extensions().get::<ConnectInfo<SocketAddr>>()?;
    Some(rate_net::Key::ip_prefix(peer.ip(), 32, 64))
}
