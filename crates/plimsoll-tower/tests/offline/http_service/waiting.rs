//! Requests that wait, and requests that are given up.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use plimsoll::{Concurrency, Gate, Keyed, ManualClock, Queue, Reason, TokenBucket};
use plimsoll_tower::keys::{HeaderKey, PathKey};
use plimsoll_tower::{
    HttpLimit, HttpLimitLayer, PriorityHeader, Refused, RequestLimit, ResponseFuture,
};
use tower_layer::Layer;
use tower_service::Service;

use super::{OK, answer, get};
use crate::desk::{Broken, Desk};
use crate::hand::{now, poll};
use crate::http_desk::HttpDesk;

type Behind<L> = HttpLimit<HttpDesk, L>;
type Slots = RequestLimit<Gate<Concurrency>>;
type Call<L> = Pin<Box<ResponseFuture<HttpDesk, (), L>>>;

fn slots(limit: u64, queue: u64, desk: &Desk) -> (Gate<Concurrency>, Behind<Slots>) {
    let gate = Gate::builder(Concurrency::new(limit))
        .queue(Queue::fifo(queue))
        .build();
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    (gate, layer.layer(HttpDesk(desk.clone())))
}

fn ready<S: Service<Request<()>>>(service: &mut S) -> Poll<Result<(), S::Error>> {
    service.poll_ready(&mut Context::from_waker(Waker::noop()))
}

fn call<L: plimsoll_tower::Limits>(service: &mut Behind<L>, request: u32) -> Call<L> {
    assert!(matches!(ready(service), Poll::Ready(Ok(()))));
    Box::pin(service.call(get(&format!("/{request}"))))
}

fn reason<B>(response: &Response<B>) -> Reason {
    response.extensions().get::<Refused>().unwrap().0.reason()
}

#[test]
fn readiness_is_that_of_the_service() {
    let desk = Desk::new(1);
    let (gate, mut service) = slots(1, 0, &desk);
    assert_eq!(ready(&mut service), Poll::Ready(Ok(())));
    assert_eq!(ready(&mut service), Poll::Ready(Ok(())));
    assert_eq!((gate.snapshot().in_use(), desk.free()), (0, 0));
    let mut clone = service.clone();
    assert_eq!(
        ready(&mut clone),
        Poll::Pending,
        "a clone carries no readiness"
    );
    drop(service);
    assert_eq!(ready(&mut clone), Poll::Ready(Ok(())));
    desk.break_down();
    assert_eq!(ready(&mut clone), Poll::Ready(Err(Broken)));
}

/// It once deadlocked: the service kept its readiness, and the request waited for it.
#[test]
fn a_request_that_waits_leaves_nothing_reserved() {
    let desk = Desk::new(1);
    let (gate, mut service) = slots(1, 1, &desk);
    let busy = gate.try_acquire(1).unwrap();
    let mut waiting = call(&mut service, 1);
    assert_eq!(desk.free(), 1);
    drop(busy);
    assert!(poll(waiting.as_mut()).is_pending());
    assert_eq!(desk.called(), [1]);
    desk.answer(1, Ok(200));
    assert_eq!(now(waiting).unwrap().status(), 200);
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn requests_wait_in_the_order_they_came() {
    let desk = Desk::new(9);
    let (gate, mut service) = slots(1, 3, &desk);
    let busy = gate.try_acquire(1).unwrap();
    let mut calls: Vec<_> = (1..=3).map(|n| call(&mut service, n)).collect();
    assert_eq!(gate.snapshot().waiters(), 3, "before they are polled");
    drop(busy);
    while !calls.is_empty() {
        for number in 1..=3 {
            desk.answer(number, Ok(200));
        }
        calls.reverse();
        calls.retain_mut(|call| poll(call.as_mut()).is_pending());
        calls.reverse();
    }
    assert_eq!(desk.called(), [1, 2, 3]);
}

#[test]
fn who_sheds_does_not_wait() {
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(5))
        .build();
    let limit = RequestLimit::new(gate.clone()).shed();
    let mut service = HttpLimitLayer::new(limit).layer(OK);
    let _busy = gate.try_acquire(1).unwrap();
    assert_eq!(answer(&mut service, get("/")).status(), 503);
    assert_eq!(gate.snapshot().waiters(), 0);
}

#[test]
fn nobody_waits_longer_than_it_may() {
    let time = ManualClock::new();
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(5))
        .clock(time.clock())
        .build();
    let limit = RequestLimit::new(gate.clone()).queue_timeout(Duration::from_millis(300));
    let mut service = HttpLimitLayer::new(limit).layer(OK);
    let _busy = gate.try_acquire(1).unwrap();
    let mut waiting = Box::pin(service.call(get("/")));
    time.advance(Duration::from_millis(299));
    assert!(poll(waiting.as_mut()).is_pending());
    time.advance(Duration::from_millis(2));
    let response = now(waiting).unwrap();
    assert_eq!(
        (response.status().as_u16(), reason(&response)),
        (503, Reason::TimedOut)
    );
    assert_eq!(gate.snapshot().waiters(), 0);
}

#[test]
fn a_wait_known_to_be_too_long_is_refused_at_once() {
    let time = ManualClock::new();
    let rule = TokenBucket::per_second(1);
    let gate = Gate::builder(rule)
        .queue(Queue::fifo(5))
        .clock(time.clock())
        .build();
    let limit = RequestLimit::new(gate.clone()).queue_timeout(Duration::from_millis(1500));
    let mut service = HttpLimitLayer::new(limit).layer(OK);
    drop(answer(&mut service, get("/")));
    let waiting = service.call(get("/"));
    assert_eq!(gate.snapshot().waiters(), 1);
    let refused = answer(&mut service, get("/"));
    assert_eq!(gate.snapshot().waiters(), 1);
    assert!(refused.headers().contains_key("retry-after"));
    time.advance(Duration::from_secs(1));
    assert_eq!(now(waiting).unwrap().status(), 200);
}

#[test]
fn who_matters_more_goes_first() {
    let desk = Desk::new(9);
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(9))
        .build();
    let layer =
        HttpLimitLayer::new(RequestLimit::new(gate.clone())).priority(PriorityHeader::default());
    let mut service = layer.layer(HttpDesk(desk.clone()));
    let busy = gate.try_acquire(1).unwrap();
    let order = [
        (1, "non-critical"),
        (2, "normal"),
        (3, "critical"),
        (4, "normal"),
        (5, "critical"),
    ];
    let mut calls: Vec<_> = order
        .map(|(number, priority)| {
            desk.answer(number, Ok(200));
            assert!(ready(&mut service).is_ready());
            let request = Request::get(format!("/{number}")).header("x-priority", priority);
            Box::pin(service.call(request.body(()).unwrap()))
        })
        .into();
    drop(busy);
    while !calls.is_empty() {
        calls.retain_mut(|call| poll(call.as_mut()).is_pending());
    }
    assert_eq!(desk.called(), [3, 5, 2, 4, 1]);
}

#[test]
fn who_gives_up_gives_everything_back_wherever_it_is() {
    let desk = Desk::new(1);
    let (gate, mut service) = slots(1, 3, &desk);
    // While it waits.
    let busy = gate.try_acquire(1).unwrap();
    let mut waiting = call(&mut service, 1);
    assert!(poll(waiting.as_mut()).is_pending());
    drop(waiting);
    assert_eq!(gate.snapshot().waiters(), 0);
    // When it has been granted and does not know.
    let mut waiting = call(&mut service, 2);
    assert!(poll(waiting.as_mut()).is_pending());
    drop(busy);
    assert_eq!(gate.snapshot().in_use(), 1);
    drop(waiting);
    assert_eq!(gate.snapshot().in_use(), 0);
    // While the service is not ready.
    let busy = gate.try_acquire(1).unwrap();
    let mut waiting = call(&mut service, 3);
    let mut other = desk.clone();
    assert!(
        Service::<u32>::poll_ready(&mut other, &mut Context::from_waker(Waker::noop())).is_ready()
    );
    drop(busy);
    assert!(poll(waiting.as_mut()).is_pending());
    assert_eq!(gate.snapshot().in_use(), 1);
    drop(waiting);
    assert_eq!(gate.snapshot().in_use(), 0);
    drop(other);
    // While it is worked on.
    let mut working = call(&mut service, 4);
    assert!(poll(working.as_mut()).is_pending());
    drop(working);
    assert_eq!((gate.snapshot().in_use(), desk.called()), (0, vec![4]));
    // While its body is read.
    desk.answer(5, Ok(200));
    let response = now(call(&mut service, 5)).unwrap();
    assert_eq!(gate.snapshot().in_use(), 1);
    drop(response);
    assert_eq!((gate.snapshot().in_use(), desk.free()), (0, 1));
}

#[test]
fn a_service_that_breaks_down_while_a_request_waits_costs_nothing() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1))
        .queue(Queue::fifo(5))
        .clock(time.clock())
        .build();
    let desk = Desk::new(0);
    desk.add_slots(1);
    let mut service =
        HttpLimitLayer::new(RequestLimit::new(gate.clone())).layer(HttpDesk(desk.clone()));
    drop(call(&mut service, 1));
    let waiting = call(&mut service, 2);
    desk.break_down();
    time.advance(Duration::from_secs(1));
    assert_eq!(now(waiting).unwrap_err(), Broken);
    assert_eq!(gate.snapshot().available(), 1);
}

#[test]
fn errors_pass_through_and_give_back() {
    let desk = Desk::new(1);
    let (gate, mut service) = slots(1, 0, &desk);
    let mut failing = call(&mut service, 1);
    desk.answer(1, Err(Broken));
    assert!(matches!(poll(failing.as_mut()), Poll::Ready(Err(Broken))));
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn each_key_has_its_queue() {
    let desk = Desk::new(9);
    let keyed = Keyed::<String, _>::builder(Concurrency::new(1))
        .queue(Queue::fifo(1))
        .build();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(keyed.clone(), PathKey::new()));
    let mut service = layer.layer(HttpDesk(desk.clone()));
    let (first, mut second) = (call(&mut service, 1), call(&mut service, 1));
    let (other, third) = (call(&mut service, 2), call(&mut service, 1));
    assert_eq!(reason(&now(third).unwrap()), Reason::QueueFull);
    assert_eq!(desk.called(), [1, 2]);
    drop(first);
    assert!(poll(second.as_mut()).is_pending());
    assert_eq!(desk.called(), [1, 2, 1]);
    drop((second, other));
    assert_eq!(
        (keyed.snapshot().in_use(), keyed.snapshot().waiters()),
        (0, 0)
    );
}

#[test]
fn clones_and_services_of_one_layer_share_their_limits() {
    let gate = Gate::new(Concurrency::new(2));
    let keyed = Keyed::<String, _>::new(Concurrency::new(9));
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone())).and(
        RequestLimit::by_key(keyed, HeaderKey::named("host").unwrap())
            .without_key(plimsoll_tower::WithoutKey::Skip),
    );
    let (mut one, mut other) = (layer.layer(OK), layer.clone().layer(OK));
    let _two = (
        answer(&mut one, get("/")),
        answer(&mut one.clone(), get("/")),
    );
    assert_eq!(answer(&mut other, get("/")).status(), 503);
}

/// Each limit had its own time from when it was asked, so that a request waited for several of them one after the other.
#[test]
fn within_is_one_deadline_for_all_limits_of_a_request() {
    let time = ManualClock::new();
    let slot = || {
        Gate::builder(Concurrency::new(1))
            .queue(Queue::fifo(5))
            .clock(time.clock())
            .build()
    };
    let (first, second, third) = (slot(), slot(), slot());
    let keyed: Keyed<String, _> = Keyed::builder(Concurrency::new(1))
        .queue(Queue::fifo(5))
        .clock(time.clock())
        .build();
    let second_long = Duration::from_secs(1);
    let patient =
        |gate: &Gate<Concurrency>| RequestLimit::new(gate.clone()).queue_timeout(second_long);
    let inner = HttpLimitLayer::new(patient(&third)).layer(OK);
    let mut service = HttpLimitLayer::new(patient(&first))
        .and(RequestLimit::by_key(keyed.clone(), PathKey::new()).queue_timeout(second_long))
        .and(patient(&second))
        .layer(inner);
    let busy = first.try_acquire(1).unwrap();
    let busy_key = keyed.try_acquire("/a", 1).unwrap();
    let busy_too = second.try_acquire(1).unwrap();
    let busy_inside = third.try_acquire(1).unwrap();
    let mut call = Box::pin(service.call(get("/a")));
    assert!(poll(call.as_mut()).is_pending());
    for permit in [busy, busy_key, busy_too] {
        time.advance(Duration::from_millis(300));
        drop(permit);
        assert!(poll(call.as_mut()).is_pending());
    }
    // 900 ms have passed, and the last one is the innermost layer's.
    assert_eq!(third.snapshot().waiters(), 1);
    time.advance(Duration::from_millis(99));
    assert!(poll(call.as_mut()).is_pending());
    time.advance(Duration::from_millis(2));
    let response = now(call).unwrap();
    assert_eq!(reason(&response), Reason::TimedOut);
    drop(busy_inside);
    for gate in [first, second, third] {
        assert_eq!(
            (gate.snapshot().in_use(), gate.snapshot().waiters()),
            (0, 0)
        );
    }
}
