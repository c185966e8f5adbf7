//! Keys that have to be looked up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Request;
use plimsoll::{Concurrency, Gate, Keyed, ManualClock, Queue, Reason, TokenBucket};
use plimsoll_tower::{Head, HttpLimitLayer, Refused, RequestLimit, WithoutKey};
use tower_layer::Layer;
use tower_service::Service;

use super::{OK, get};
use crate::hand::poll;

fn with_token(token: &str) -> Request<()> {
    Request::get("/")
        .header("authorization", token)
        .body(())
        .unwrap()
}

/// The account of a token, known after a while.
fn account(head: &Head<'_>) -> impl Future<Output = Option<String>> + Send + use<> {
    let token = head.header("authorization").map(str::to_owned);
    async move {
        pause().await;
        token.map(|token| token.to_uppercase())
    }
}

/// Pending once.
async fn pause() {
    let mut asked = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut asked, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// What a future comes to within so many looks.
fn within<F: Future>(looks: u32, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    (0..looks).find_map(|_| match poll(future.as_mut()) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    })
}

fn per_account(rate: u64, time: &ManualClock) -> Keyed<String, TokenBucket> {
    let rule = TokenBucket::per_second(rate);
    Keyed::builder(rule)
        .clock(time.clock())
        .name("accounts")
        .build()
}

#[test]
fn each_account_has_its_limit() {
    let time = ManualClock::new();
    let keyed = per_account(1, &time);
    let mut service =
        HttpLimitLayer::new(RequestLimit::by_key_later(keyed.clone(), account)).layer(OK);
    let mut status = |token| {
        within(5, service.call(with_token(token)))
            .unwrap()
            .unwrap()
            .status()
            .as_u16()
    };
    assert_eq!(
        [status("red"), status("Red"), status("blue")],
        [200, 429, 200]
    );
    assert_eq!(keyed.standing("RED").remaining.unwrap(), 0);
}

#[test]
fn a_key_that_is_there_at_once_does_not_wait() {
    let time = ManualClock::new();
    let limit = RequestLimit::by_key_later(per_account(1, &time), |_| {
        std::future::ready(Some(String::from("A")))
    });
    let mut service = HttpLimitLayer::new(limit).layer(OK);
    assert_eq!(super::answer(&mut service, get("/")).status(), 200);
    assert_eq!(super::answer(&mut service, get("/")).status(), 429);
}

#[test]
fn without_a_key_a_request_is_refused() {
    let time = ManualClock::new();
    let limit = RequestLimit::by_key_later(per_account(1, &time), account);
    let mut service = HttpLimitLayer::new(limit).layer(OK);
    let response = within(5, service.call(get("/"))).unwrap().unwrap();
    let denied = &response.extensions().get::<Refused>().unwrap().0;
    assert_eq!(
        (denied.reason(), denied.limiter()),
        (Reason::NoKey, Some("accounts"))
    );
}

#[test]
fn without_a_key_a_request_may_be_let_through() {
    let time = ManualClock::new();
    let keyed = per_account(1, &time);
    let limit = RequestLimit::by_key_later(keyed.clone(), account).without_key(WithoutKey::Skip);
    let mut service = HttpLimitLayer::new(limit).layer(OK);
    for _ in 0..5 {
        assert_eq!(
            within(5, service.call(get("/"))).unwrap().unwrap().status(),
            200
        );
    }
    assert!(keyed.is_empty());
}

#[test]
fn without_a_key_requests_may_share_one() {
    let time = ManualClock::new();
    let keyed = per_account(2, &time);
    let shared = WithoutKey::Share(String::from("nobody"));
    let limit = RequestLimit::by_key_later(keyed.clone(), account).without_key(shared);
    let mut service = HttpLimitLayer::new(limit).layer(OK);
    let statuses = [(); 3].map(|()| {
        within(5, service.call(get("/")))
            .unwrap()
            .unwrap()
            .status()
            .as_u16()
    });
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(keyed.standing("nobody").remaining.unwrap(), 0);
}

#[test]
fn while_a_key_is_looked_up_nothing_is_held() {
    let time = ManualClock::new();
    let slots = Gate::new(Concurrency::new(1));
    let keyed = per_account(1, &time);
    let mut service = HttpLimitLayer::new(RequestLimit::new(slots.clone()))
        .and(RequestLimit::by_key_later(keyed.clone(), account))
        .layer(OK);
    let looking = service.call(with_token("red"));
    assert_eq!(slots.snapshot().in_use(), 0);
    drop(looking);
    assert_eq!(keyed.standing("RED").remaining.unwrap(), 1);
    let response = within(5, service.call(with_token("red"))).unwrap().unwrap();
    assert_eq!(
        (response.status().as_u16(), slots.snapshot().in_use()),
        (200, 1)
    );
}

#[test]
fn a_later_limit_that_refuses_gives_back_what_was_found() {
    let time = ManualClock::new();
    let slots = Gate::new(Concurrency::new(1));
    let keyed = per_account(3, &time);
    let mut service = HttpLimitLayer::new(RequestLimit::by_key_later(keyed.clone(), account))
        .and(RequestLimit::new(slots.clone()))
        .layer(OK);
    let busy = slots.try_acquire(1).unwrap();
    for _ in 0..10 {
        let response = within(5, service.call(with_token("red"))).unwrap().unwrap();
        assert_eq!(response.status(), 503);
    }
    assert_eq!(keyed.standing("RED").remaining.unwrap(), 3);
    drop(busy);
    assert_eq!(
        within(5, service.call(with_token("red")))
            .unwrap()
            .unwrap()
            .status(),
        200
    );
    assert_eq!(keyed.standing("RED").remaining.unwrap(), 2);
}

#[test]
fn what_is_found_later_may_be_charged_later() {
    let time = ManualClock::new();
    let keyed = per_account(9, &time);
    let limit = RequestLimit::by_key_later(keyed.clone(), account).charge_bytes(|bytes| bytes);
    let mut service = HttpLimitLayer::new(limit).layer(OK);
    let response = within(5, service.call(with_token("red"))).unwrap().unwrap();
    assert_eq!(super::text(response), "ok");
    assert_eq!(keyed.standing("RED").remaining.unwrap(), 7);
}

/// It once never ended: each look-up made it give back what the other had found, and look that up anew.
#[test]
fn two_keys_are_looked_up_once_each() {
    let time = ManualClock::new();
    let looked_up = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&looked_up);
    let counted = move |head: &Head<'_>| {
        count.fetch_add(1, Ordering::Relaxed);
        account(head)
    };
    let (users, accounts) = (per_account(5, &time), per_account(5, &time));
    let mut service =
        HttpLimitLayer::new(RequestLimit::by_key_later(users.clone(), counted.clone()))
            .and(RequestLimit::by_key_later(accounts.clone(), counted))
            .layer(OK);
    let response = within(20, service.call(with_token("red")))
        .expect("it never ends")
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(looked_up.load(Ordering::Relaxed), 2);
    assert_eq!(
        (
            users.standing("RED").remaining.unwrap(),
            accounts.standing("RED").remaining.unwrap()
        ),
        (4, 4)
    );
}

#[test]
fn who_is_known_waits_in_the_queue_of_its_key() {
    let keyed = Keyed::<String, _>::builder(Concurrency::new(1))
        .queue(Queue::fifo(1))
        .build();
    let mut service =
        HttpLimitLayer::new(RequestLimit::by_key_later(keyed.clone(), account)).layer(OK);
    let first = within(5, service.call(with_token("red"))).unwrap().unwrap();
    let mut second = Box::pin(service.call(with_token("red")));
    let mut third = Box::pin(service.call(with_token("red")));
    for _ in 0..3 {
        assert!(poll(second.as_mut()).is_pending());
    }
    assert_eq!(keyed.snapshot().waiters(), 1);
    let std::task::Poll::Ready(Ok(refused)) = poll(third.as_mut()) else {
        panic!("there is room for one")
    };
    assert_eq!(refused.status(), 429, "it is its own queue");
    drop(first);
    assert_eq!(within(2, second).unwrap().unwrap().status(), 200);
    assert_eq!(
        (keyed.snapshot().in_use(), keyed.snapshot().waiters()),
        (0, 0)
    );
}

/// The time in which the key was looked up did not count.
#[test]
fn within_counts_from_before_the_key_was_looked_up() {
    let time = ManualClock::new();
    let keyed = Keyed::<String, _>::builder(Concurrency::new(1))
        .queue(Queue::fifo(5))
        .clock(time.clock())
        .build();
    let _busy = keyed.try_acquire("red", 1).unwrap();
    let clock = time.clock();
    let slowly = move |_: &plimsoll_tower::Head<'_>| {
        let until = clock.now().plus(Duration::from_millis(600));
        let asleep = clock.sleep_until(until);
        async move {
            asleep.await;
            Some("red".to_owned())
        }
    };
    let limit =
        RequestLimit::by_key_later(keyed.clone(), slowly).queue_timeout(Duration::from_secs(1));
    let mut service = HttpLimitLayer::new(limit).layer(OK);
    let mut call = Box::pin(service.call(with_token("red")));
    assert!(poll(call.as_mut()).is_pending());
    time.advance(Duration::from_millis(600));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(keyed.snapshot().waiters(), 1);
    time.advance(Duration::from_millis(399));
    assert!(poll(call.as_mut()).is_pending());
    time.advance(Duration::from_millis(2));
    let std::task::Poll::Ready(Ok(refused)) = poll(call.as_mut()) else {
        panic!("its time is up")
    };
    assert_eq!(refused.status(), 429);
}
