//! A layer by hand that tells callers what is left, in three or five fields.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready as poll_ready};

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{HeaderName, HeaderValue, Request, Response};
use plimsoll::{Gate, Keyed, Standing, TokenBucket};
use plimsoll_tower::keys::Address;
use tower::Service;

static POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
static LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
static REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
static RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

type Answer = Ready<Result<Response<Body>, Infallible>>;

/// What nobody can do without who inserts fields: to take, to look how the limit stands when the response is there, to write
/// two numbers and a text, and to insert them beside values that are always the same.
#[derive(Clone)]
pub(super) struct Fields<S, L> {
    pub(super) service: S,
    pub(super) limit: L,
    /// All five, or the three of `X-RateLimit`.
    pub(super) all: bool,
}

/// What is taken from.
pub(super) trait Limit {
    type Key;

    fn take(&self, request: &Request<Body>) -> Option<Self::Key>;

    fn look(&self, key: &Self::Key) -> Standing;
}

/// By the address of the peer.
impl Limit for Keyed<Address, TokenBucket> {
    type Key = Address;

    fn take(&self, request: &Request<Body>) -> Option<Address> {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map(|ConnectInfo(peer)| Address::from(peer.ip()));
        peer.filter(|peer| self.try_acquire(peer, 1).is_ok())
    }

    fn look(&self, peer: &Address) -> Standing {
        self.standing(peer)
    }
}

/// One bucket.
impl Limit for Gate<TokenBucket> {
    type Key = ();

    fn take(&self, _request: &Request<Body>) -> Option<()> {
        self.try_acquire(1).is_ok().then_some(())
    }

    fn look(&self, (): &()) -> Standing {
        self.standing()
    }
}

impl<S, L> Service<Request<Body>> for Fields<S, L>
where
    S: Service<Request<Body>, Error = Infallible, Future = Answer>,
    L: Limit,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let key = self.limit.take(&request);
        let Ok(mut response) = self.service.call(request).into_inner();
        if let Some(key) = key {
            tell(&self.limit, &key, self.all, &mut response);
        }
        ready(Ok(response))
    }
}

fn tell<L: Limit>(limit: &L, key: &L::Key, all: bool, response: &mut Response<Body>) {
    let standing = limit.look(key);
    let remaining = standing.remaining.unwrap_or(0);
    let reset = standing.reset.map_or(0, |reset| reset.as_secs() + 1);
    let headers = response.headers_mut();
    headers.reserve(5);
    if all {
        headers.insert(&POLICY, HeaderValue::from_static(r#""api";q=100000000"#));
        headers.insert(&RATE_LIMIT, text(br#""api";r="#, remaining));
    }
    headers.insert(&LIMIT, HeaderValue::from_static("100000000"));
    headers.insert(&REMAINING, text(b"", remaining));
    headers.insert(&RESET, text(b"", reset));
}

/// The same, all five fields, before a service that responds later.
#[derive(Clone)]
pub(super) struct Later<S, L: 'static> {
    pub(super) service: S,
    pub(super) limit: &'static L,
}

impl<S, L> Service<Request<Body>> for Later<S, L>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Unpin>,
    L: Limit<Key: Unpin>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Telling<S::Future, L>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Telling {
            key: self.limit.take(&request),
            limit: self.limit,
            response: self.service.call(request),
        }
    }
}

/// A response that will tell what is left.
pub(super) struct Telling<F, L: Limit + 'static> {
    response: F,
    limit: &'static L,
    key: Option<L::Key>,
}

impl<F, L> Future for Telling<F, L>
where
    F: Future<Output = Result<Response<Body>, Infallible>> + Unpin,
    L: Limit<Key: Unpin>,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Ok(mut response) = poll_ready!(Pin::new(&mut self.response).poll(cx));
        if let Some(key) = &self.key {
            tell(self.limit, key, true, &mut response);
        }
        Poll::Ready(Ok(response))
    }
}

/// All five lines with values that are always the same, which nobody has to take, look up or write.
pub(super) fn same_lines() -> [(HeaderName, HeaderValue); 5] {
    let name = HeaderName::clone;
    [
        (
            name(&POLICY),
            HeaderValue::from_static(r#""api";q=100000000;w=100000"#),
        ),
        (
            name(&RATE_LIMIT),
            HeaderValue::from_static(r#""api";r=100000000"#),
        ),
        (name(&LIMIT), HeaderValue::from_static("100000000")),
        (name(&REMAINING), HeaderValue::from_static("100000000")),
        (name(&RESET), HeaderValue::from_static("0")),
    ]
}

/// A number after a text, in as many bytes as it takes.
fn text(begins: &[u8], mut number: u64) -> HeaderValue {
    let mut text = [0; 32];
    let mut at = text.len();
    loop {
        at -= 1;
        let [digit, ..] = (number % 10).to_le_bytes();
        text[at] = b'0' + digit;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let start = at - begins.len();
    text[start..at].copy_from_slice(begins);
    HeaderValue::from_bytes(&text[start..]).expect("printable text")
}
