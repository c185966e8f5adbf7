//! A layer by hand that tells callers what is left, in three or five fields.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::task::{Context, Poll};

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
            let standing = self.limit.look(&key);
            let remaining = standing.remaining.unwrap_or(0);
            let reset = standing.reset.map_or(0, |reset| reset.as_secs() + 1);
            let headers = response.headers_mut();
            headers.reserve(5);
            if self.all {
                headers.insert(&POLICY, HeaderValue::from_static(r#""api";q=100000000"#));
                headers.insert(&RATE_LIMIT, text(br#""api";r="#, remaining));
            }
            headers.insert(&LIMIT, HeaderValue::from_static("100000000"));
            headers.insert(&REMAINING, text(b"", remaining));
            headers.insert(&RESET, text(b"", reset));
        }
        ready(Ok(response))
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
