//! Several limits on one request: in order, all or none.

use std::task::Poll;
use std::time::Duration;

use plimsoll::{
    Acquire, Concurrency, Gate, GateBuilder, Keyed, KeyedBuilder, Limiter, ManualClock, PerKey,
    Queue, Reason, TokenBucket,
};
use plimsoll_tower::keys::{Address, Peer};
use plimsoll_tower::{HttpLimitLayer, Refused, RequestLimit};
use tower_layer::Layer;
use tower_service::Service;

use super::{OK, answer, from, get};
use crate::hand::{now, poll};

const PEER: [u8; 4] = [192, 0, 2, 1];

struct Limits {
    time: ManualClock,
    rate: Gate<TokenBucket>,
    keyed: Keyed<Address, TokenBucket>,
    slots: Gate<Concurrency>,
}

impl Limits {
    fn new(queue: u64) -> Self {
        let time = ManualClock::new();
        let rule = TokenBucket::per_second(5);
        let slots = Gate::builder(Concurrency::new(1)).name("slots");
        Self {
            rate: Gate::builder(rule).clock(time.clock()).name("rate").build(),
            keyed: Keyed::builder(TokenBucket::per_second(3))
                .clock(time.clock())
                .name("keyed")
                .build(),
            slots: if queue > 0 {
                slots.queue(Queue::fifo(queue))
            } else {
                slots
            }
            .build(),
            time,
        }
    }

    /// What is left of each: for everybody, for the peer, and slots.
    fn left(&self) -> (u64, u64, u64) {
        let key = Peer::new().address(PEER.into());
        (
            self.rate.snapshot().available(),
            self.keyed.standing(&key).remaining.unwrap(),
            self.slots.snapshot().available(),
        )
    }
}

fn refused_by<B>(response: &http::Response<B>) -> &str {
    match response.extensions().get::<Refused>() {
        Some(refused) => refused.0.limiter().unwrap(),
        None => "nobody",
    }
}

#[test]
fn the_first_that_refuses_says_so() {
    let limits = Limits::new(0);
    let mut service = HttpLimitLayer::new(RequestLimit::new(limits.rate.clone()))
        .and(RequestLimit::by_key(limits.keyed.clone(), Peer::new()))
        .and(RequestLimit::new(limits.slots.clone()))
        .layer(OK);
    let busy = limits.slots.try_acquire(1).unwrap();
    assert_eq!(refused_by(&answer(&mut service, from(PEER))), "slots");
    limits.keyed.charge(&Peer::new().address(PEER.into()), 3);
    assert_eq!(refused_by(&answer(&mut service, from(PEER))), "keyed");
    limits.rate.charge(5);
    assert_eq!(refused_by(&answer(&mut service, from(PEER))), "rate");
    drop(busy);
    limits.time.advance(Duration::from_secs(1));
    assert_eq!(refused_by(&answer(&mut service, from(PEER))), "nobody");
}

#[test]
fn a_refusal_gives_back_exactly_what_was_taken_before() {
    let limits = Limits::new(0);
    let mut service = HttpLimitLayer::new(RequestLimit::new(limits.rate.clone()).cost(|_| 2))
        .and(RequestLimit::by_key(limits.keyed.clone(), Peer::new()).cost(|_| 3))
        .and(RequestLimit::new(limits.slots.clone()))
        .layer(OK);
    let busy = limits.slots.try_acquire(1).unwrap();
    for _ in 0..100 {
        assert_eq!(refused_by(&answer(&mut service, from(PEER))), "slots");
        assert_eq!(limits.left(), (5, 3, 0));
    }
    drop(busy);
    let response = answer(&mut service, from(PEER));
    assert_eq!(limits.left(), (3, 0, 0));
    drop(response);
    assert_eq!(limits.left(), (3, 0, 1), "rates are not given back");
}

#[test]
fn who_waits_for_one_holds_nothing_of_the_others() {
    let limits = Limits::new(2);
    let mut service = HttpLimitLayer::new(RequestLimit::new(limits.rate.clone()))
        .and(RequestLimit::by_key(limits.keyed.clone(), Peer::new()))
        .and(RequestLimit::new(limits.slots.clone()))
        .layer(OK);
    let busy = limits.slots.try_acquire(1).unwrap();
    let (waiting, given_up) = (service.call(from(PEER)), service.call(from(PEER)));
    assert_eq!(limits.left(), (5, 3, 0));
    drop(given_up);
    drop(busy);
    let response = now(waiting).unwrap();
    assert_eq!(refused_by(&response), "nobody");
    assert_eq!(limits.left(), (4, 2, 0));
}

#[test]
fn a_limit_used_up_while_another_was_waited_for_refuses() {
    let limits = Limits::new(2);
    let mut service = HttpLimitLayer::new(RequestLimit::new(limits.rate.clone()))
        .and(RequestLimit::by_key(limits.keyed.clone(), Peer::new()))
        .and(RequestLimit::new(limits.slots.clone()))
        .layer(OK);
    let busy = limits.slots.try_acquire(1).unwrap();
    let waiting = service.call(from(PEER));
    limits.keyed.charge(&Peer::new().address(PEER.into()), 3);
    drop(busy);
    let response = now(waiting).unwrap();
    assert_eq!(refused_by(&response), "keyed");
    assert_eq!(
        limits.left(),
        (5, 0, 1),
        "nor is the slot kept that was waited for"
    );
}

#[test]
fn one_is_waited_for_after_the_other() {
    let time = ManualClock::new();
    let rate = Gate::builder(TokenBucket::per_second(1))
        .queue(Queue::fifo(5))
        .clock(time.clock())
        .build();
    let slots = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(5))
        .build();
    let mut service = HttpLimitLayer::new(RequestLimit::new(slots.clone()))
        .and(RequestLimit::new(rate.clone()))
        .layer(OK);
    let busy = slots.try_acquire(1).unwrap();
    rate.charge(1);
    let mut waiting = Box::pin(service.call(from(PEER)));
    assert!(poll(waiting.as_mut()).is_pending());
    drop(busy);
    assert!(poll(waiting.as_mut()).is_pending());
    assert_eq!(
        slots.snapshot().in_use(),
        0,
        "it is not held while the rate is waited for"
    );
    assert_eq!(rate.snapshot().waiters(), 1);
    // The slot is reserved for it: a later request does not pass.
    assert!(slots.try_acquire(1).is_err());
    time.advance(Duration::from_secs(1));
    assert_eq!(now(waiting).unwrap().status(), 200);
    assert_eq!(rate.snapshot().available(), 0);
}

#[test]
fn pairs_may_be_pairs_again() {
    let gates: Vec<_> = (0..4).map(|_| Gate::new(Concurrency::new(1))).collect();
    let limit = |at: usize| RequestLimit::new(gates[at].clone());
    let layer = HttpLimitLayer::new((limit(0), limit(1))).and((limit(2), limit(3)));
    let mut service = layer.layer(OK);
    let in_use = || {
        gates
            .iter()
            .map(|gate| Limiter::snapshot(gate).in_use())
            .collect::<Vec<_>>()
    };
    let response = answer(&mut service, from(PEER));
    assert_eq!(in_use(), [1, 1, 1, 1]);
    drop(response);
    assert_eq!(in_use(), [0, 0, 0, 0]);
    let _busy = gates[3].try_acquire(1).unwrap();
    assert_eq!(answer(&mut service, from(PEER)).status(), 503);
    assert_eq!(in_use(), [0, 0, 0, 1]);
}

/// Two limits on one limiter took turns in granting, one for the other, and the thread that polled the request never came
/// back from it.
#[test]
fn limits_that_share_a_limiter_too_small_for_both_refuse() {
    for queue in [None, Some(Queue::fifo(5))] {
        let builder = Gate::builder(Concurrency::new(1)).name("shared");
        let gate = queue.into_iter().fold(builder, GateBuilder::queue).build();
        refuse_what_is_too_small_for_both(&gate);
    }
}

fn refuse_what_is_too_small_for_both(gate: &Gate<Concurrency>) {
    let limit = || RequestLimit::new(gate.clone());
    let mut service = HttpLimitLayer::new(limit()).and(limit()).layer(OK);
    let refused = now(service.call(get("/"))).unwrap();
    assert_eq!(refused.status(), 413);
    let denied = &refused.extensions().get::<Refused>().unwrap().0;
    assert_eq!(denied.limiter(), Some("shared"));
    assert_eq!(
        denied.reason(),
        Reason::TooLarge,
        "it is not a matter of time"
    );
    let seen = gate.snapshot();
    assert_eq!((seen.in_use(), seen.waiters()), (0, 0));
    // While another uses it, too.
    let busy = gate.try_acquire(1).unwrap();
    assert_eq!(now(service.call(get("/"))).unwrap().status(), 413);
    drop(busy);
    // There is enough for both.
    gate.resize(2).unwrap();
    assert_eq!(now(service.call(get("/"))).unwrap().status(), 200);
}

#[test]
fn limits_that_share_a_key_too_small_for_both_refuse() {
    for queue in [None, Some(Queue::fifo(5))] {
        let builder = Keyed::builder(Concurrency::new(1)).name("shared");
        let builder = queue.into_iter().fold(builder, KeyedBuilder::queue);
        let keyed: Keyed<Address, _> = builder.build();
        let limit = || RequestLimit::by_key(keyed.clone(), Peer::new());
        let mut service = HttpLimitLayer::new(limit()).and(limit()).layer(OK);
        let refused = now(service.call(from(PEER))).unwrap();
        let denied = &refused.extensions().get::<Refused>().unwrap().0;
        assert_eq!(denied.limiter(), Some("shared"));
        assert_eq!(denied.reason(), Reason::TooLarge);
        assert_eq!(keyed.snapshot().in_use(), 0);
        // One that is alone is refused for a time.
        let mut service = HttpLimitLayer::new(limit())
            .and(RequestLimit::new(Gate::new(Concurrency::new(5))))
            .layer(OK);
        let held = now(service.call(from(PEER))).unwrap();
        if queue.is_none() {
            let refused = now(service.call(from(PEER))).unwrap();
            let denied = &refused.extensions().get::<Refused>().unwrap().0;
            assert_eq!(denied.reason(), Reason::Exhausted);
        }
        drop(held);
    }
}

/// Each limit has a queue that never empties. A request that waits for both had to find both free by chance, while others
/// were served who came later.
#[test]
fn a_request_that_waits_for_two_limits_is_not_passed_for_ever() {
    let queue = Queue::fifo(1000);
    let slots = Gate::builder(Concurrency::new(1)).queue(queue).build();
    let keyed: Keyed<Address, _> = Keyed::builder(Concurrency::new(1)).queue(queue).build();
    let key = Peer::new().address(PEER.into());
    let later = |at: usize| -> Acquire<'static> {
        match at {
            0 => slots.acquire_owned(1),
            _ => PerKey::acquire_owned(&keyed, &key, 1.into()),
        }
    };
    let mut service = HttpLimitLayer::new(RequestLimit::new(slots.clone()))
        .and(RequestLimit::by_key(keyed.clone(), Peer::new()))
        .layer(OK);
    let mut running = [0, 1].map(|at| now(later(at)).ok());
    let mut waiting = Box::pin(service.call(from(PEER)));
    assert!(poll(waiting.as_mut()).is_pending());
    let mut queued = [Vec::new(), Vec::new()];
    let mut served = 0;
    for round in 0..200 {
        let at = round % 2;
        let mut next = Box::pin(later(at));
        assert!(poll(next.as_mut()).is_pending(), "there is a queue");
        queued[at].push(next);
        running[at] = None;
        if poll(waiting.as_mut()).is_ready() {
            assert!(served <= 2, "{served} were served before");
            return;
        }
        if let Poll::Ready(permit) = poll(queued[at][0].as_mut()) {
            running[at] = permit.ok();
            drop(queued[at].remove(0));
            served += 1;
        }
    }
    panic!("it was passed {served} times");
}

/// A request that is dropped, or refused, while it waits for several leaves nothing behind in any of them.
#[test]
fn a_request_that_gives_up_leaves_all_queues() {
    let queue = Queue::fifo(10);
    let slots = Gate::builder(Concurrency::new(1)).queue(queue).build();
    let keyed: Keyed<Address, _> = Keyed::builder(Concurrency::new(1)).queue(queue).build();
    let key = Peer::new().address(PEER.into());
    let mut service = HttpLimitLayer::new(RequestLimit::new(slots.clone()))
        .and(RequestLimit::by_key(keyed.clone(), Peer::new()))
        .layer(OK);
    let busy = (
        slots.try_acquire(1).unwrap(),
        keyed.try_acquire(&key, 1).unwrap(),
    );
    let mut waiting = Box::pin(service.call(from(PEER)));
    assert!(poll(waiting.as_mut()).is_pending());
    drop(busy.0);
    assert!(poll(waiting.as_mut()).is_pending());
    assert_eq!(
        (slots.snapshot().waiters(), keyed.snapshot().waiters()),
        (1, 1)
    );
    drop(waiting);
    assert_eq!(
        (slots.snapshot().waiters(), keyed.snapshot().waiters()),
        (0, 0)
    );
    drop(busy.1);
    assert_eq!(answer(&mut service, from(PEER)).status(), 200);
}
