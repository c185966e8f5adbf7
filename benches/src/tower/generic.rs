//! Layers before a service that returns the number it is given.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Aimd, Limit, Vegas, Verdict};
use plimsoll::{Clock, Concurrency, Gate, InvalidLimit, Queue, Rule, TokenBucket};
use plimsoll_tower::LimitLayer;
use tower::layer::layer_fn;
use tower::limit::{ConcurrencyLimitLayer, RateLimitLayer};
use tower::load_shed::LoadShedLayer;
use tower::{Layer, Service};
use tower_resilience_adaptive::AdaptiveLimiterLayer;
use tower_resilience_bulkhead::BulkheadLayer;
use tower_resilience_ratelimiter::RateLimiterLayer;

use super::serving::{Cost, Served, served};
use crate::contender::Contender;
use crate::contender::Role::{self, Floor, Ours, Peer};
use crate::floors::swap_in;

pub(super) const BARE: &str = "the service alone";
pub(super) const RATE: &str = "LimitLayer, TokenBucket";
pub(super) const RATE_PRECISE: &str = "LimitLayer, TokenBucket, precise clock";
pub(super) const TOWER_RATE: &str = "tower RateLimit";
pub(super) const RESILIENCE_RATE: &str = "tower-resilience rate limiter";
pub(super) const THROTTLE_NET: &str = "throttle-net ThrottleLayer";
pub(super) const SLOTS: &str = "LimitLayer, Concurrency";
pub(super) const SLOTS_QUEUE: &str = "LimitLayer, Concurrency with a queue";
pub(super) const TOWER_SLOTS: &str = "tower ConcurrencyLimit";
pub(super) const TOWER_SHED: &str = "tower LoadShed(ConcurrencyLimit)";
pub(super) const BULKHEAD: &str = "tower-resilience bulkhead";
const BY_HAND: &str = "exchange in, a share held by the future, subtract out";
pub(super) const VERDICT: &str = "LimitLayer, Adaptive, Verdict";
pub(super) const AIMD: &str = "LimitLayer, Adaptive, Aimd";
pub(super) const VEGAS: &str = "LimitLayer, Adaptive, Vegas";
pub(super) const RESILIENCE_AIMD: &str = "tower-resilience adaptive, Aimd";
pub(super) const RESILIENCE_VEGAS: &str = "tower-resilience adaptive, Vegas";
pub(super) const ACC_AIMD: &str = "tower-acc Aimd";
pub(super) const ACC_VEGAS: &str = "tower-acc Vegas";

/// More than comes in a trial.
const PLENTY: u32 = 100_000_000;
const ROOM: u32 = 1000;

#[derive(Clone)]
struct Same;

impl Service<u32> for Same {
    type Response = u32;
    type Error = Infallible;
    type Future = Ready<Result<u32, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, number: u32) -> Self::Future {
        ready(Ok(number))
    }
}

fn around<L>(
    role: Role,
    name: &'static str,
    layer: impl Fn() -> L + 'static,
) -> Contender<Served, Cost>
where
    L: Layer<Same> + 'static,
    L::Service: Service<u32, Response = u32>,
{
    let make = move || layer().layer(Same);
    served(role, name, make, || 7, |number| *number == 7)
}

fn bare() -> Contender<Served, Cost> {
    served(Floor, BARE, || Same, || 7, |number| *number == 7)
}

pub(super) fn rates() -> Vec<Contender<Served, Cost>> {
    let second = Duration::from_secs(1);
    let bucket = || Gate::builder(TokenBucket::per_second(1000).burst(PLENTY.into()));
    vec![
        bare(),
        around(Ours, RATE, move || LimitLayer::new(bucket().build())),
        around(Ours, RATE_PRECISE, move || {
            LimitLayer::new(bucket().clock(Clock::precise()).build())
        }),
        around(Peer, TOWER_RATE, move || {
            RateLimitLayer::new(PLENTY.into(), second)
        }),
        around(Peer, RESILIENCE_RATE, move || {
            let limit = RateLimiterLayer::builder().limit_for_period(PLENTY as usize);
            let layer = limit.refresh_period(second).build();
            layer.expect("a limit and a period")
        }),
        around(Peer, THROTTLE_NET, || {
            let bucket = throttle_net::Throttle::builder().per_second(1000);
            throttle_net::tower::ThrottleLayer::new(bucket.burst(PLENTY).build())
        }),
    ]
}

pub(super) fn slots() -> Vec<Contender<Served, Cost>> {
    let slots = || Gate::builder(Concurrency::new(ROOM.into()));
    vec![
        bare(),
        around(Ours, SLOTS, move || LimitLayer::new(slots().build())),
        around(Ours, SLOTS_QUEUE, move || {
            LimitLayer::new(slots().queue(Queue::fifo(ROOM.into())).build())
        }),
        around(Peer, TOWER_SLOTS, || {
            ConcurrencyLimitLayer::new(ROOM as usize)
        }),
        around(Peer, TOWER_SHED, || {
            let slots = ConcurrencyLimitLayer::new(ROOM as usize);
            tower::layer::util::Stack::new(slots, LoadShedLayer::new())
        }),
        around(Peer, BULKHEAD, || {
            let slots = BulkheadLayer::builder().max_concurrent_calls(ROOM as usize);
            slots.build().expect("room for some")
        }),
        around(Floor, BY_HAND, || layer_fn(ByHand::new)),
    ]
}

/// What no concurrency limit can do without whose future holds what it took: to take, to share, and to give back.
#[derive(Clone)]
struct ByHand {
    service: Same,
    taken: Arc<AtomicU64>,
}

struct Taken(Arc<AtomicU64>);

impl ByHand {
    fn new(service: Same) -> Self {
        let taken = Arc::default();
        Self { service, taken }
    }
}

impl Service<u32> for ByHand {
    type Response = u32;
    type Error = Infallible;
    type Future = Holding;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, number: u32) -> Holding {
        let taken = swap_in(&self.taken, |old| (old < ROOM.into()).then_some(old + 1));
        Holding {
            taken: taken.then(|| Taken(Arc::clone(&self.taken))),
            inner: self.service.call(number),
        }
    }
}

struct Holding {
    taken: Option<Taken>,
    inner: Ready<Result<u32, Infallible>>,
}

impl Future for Holding {
    type Output = Result<u32, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.inner).poll(cx);
        if polled.is_ready() {
            self.taken = None;
        }
        polled
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

pub(super) fn adaptive() -> Vec<Contender<Served, Cost>> {
    let room = ROOM as usize;
    vec![
        bare(),
        around(Ours, VERDICT, || {
            learning(
                Verdict::builder()
                    .min(ROOM.into())
                    .initial(ROOM.into())
                    .max(ROOM.into())
                    .build(),
            )
        }),
        around(Ours, AIMD, || {
            learning(
                Aimd::builder()
                    .min(ROOM.into())
                    .initial(ROOM.into())
                    .max(ROOM.into())
                    .build(),
            )
        }),
        around(Ours, VEGAS, || {
            learning(
                Vegas::builder()
                    .initial(ROOM.into())
                    .max(ROOM.into())
                    .build(),
            )
        }),
        around(Peer, ACC_AIMD, move || {
            let aimd = tower_acc::Aimd::builder().min_limit(room);
            tower_acc::ConcurrencyLimitLayer::new(aimd.initial_limit(room).max_limit(room).build())
        }),
        around(Peer, ACC_VEGAS, move || {
            let vegas = tower_acc::Vegas::builder().initial_limit(room);
            tower_acc::ConcurrencyLimitLayer::new(vegas.max_limit(room).build())
        }),
        around(Peer, RESILIENCE_AIMD, move || {
            let aimd = tower_resilience_adaptive::Aimd::builder().min_limit(room);
            let aimd = aimd.initial_limit(room).max_limit(room).build();
            AdaptiveLimiterLayer::new(aimd.expect("a range"))
        }),
        around(Peer, RESILIENCE_VEGAS, move || {
            let vegas = tower_resilience_adaptive::Vegas::builder().min_limit(room);
            let vegas = vegas.initial_limit(room).max_limit(room).build();
            AdaptiveLimiterLayer::new(vegas.expect("a range"))
        }),
    ]
}

/// With its own clock, which is the precise one.
fn learning<L: Limit>(
    limit: Result<L, InvalidLimit>,
) -> LimitLayer<plimsoll_tower::admit::Whole<Gate<Adaptive<L>>>>
where
    Adaptive<L>: Rule,
{
    LimitLayer::new(Gate::new(Adaptive::new(limit.expect("a range"))))
}
