//! Limits that have to ask elsewhere, so that every answer takes a while.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use plimsoll::{
    Acquire, Demand, Denied, Grant, Keyed, ManualClock, PerKey, Permit, Reason, Standing,
    TokenBucket,
};
use plimsoll_tower::keys::PathKey;
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tower_layer::Layer;
use tower_service::Service;

use super::{OK, get};
use crate::hand::poll;

/// A store far away that grants everything, after two looks.
#[derive(Clone, Default)]
struct Elsewhere {
    asked: Arc<AtomicU32>,
    undone: Arc<AtomicU32>,
}

impl PerKey<str> for Elsewhere {
    fn try_acquire(&self, _key: &str, _demand: Demand) -> Result<Permit<'_>, Denied> {
        Err(Denied::new(Reason::Exhausted))
    }

    fn acquire_owned(&self, _key: &str, demand: Demand) -> Acquire<'static> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut looks = 0;
        Acquire::from_future(std::future::poll_fn(move |cx| {
            looks += 1;
            if looks <= 2 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(Ok(Permit::spent(Grant::of(demand))))
        }))
    }

    fn undo(&self, _key: &str, _permit: Permit<'_>) {
        self.undone.fetch_add(1, Ordering::Relaxed);
    }

    fn charge(&self, _key: &str, _cost: u64) {}

    fn standing(&self, _key: &str) -> Standing {
        Standing::default()
    }

    fn promise(&self) -> Standing {
        Standing::default()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn name(&self) -> Option<&str> {
        None
    }
}

/// It once never ended: while one was asked nothing was held of the other, which then had to be asked again.
#[test]
fn several_are_asked_once_and_held() {
    let stores = [(); 3].map(|()| Elsewhere::default());
    let limit = |at: usize| RequestLimit::by_key(stores[at].clone(), PathKey::new());
    let layer = HttpLimitLayer::new(limit(0)).and(limit(1)).and(limit(2));
    let mut call: Pin<Box<_>> = Box::pin(layer.layer(OK).call(get("/")));
    let response = (0..100).find_map(|_| match poll(call.as_mut()) {
        Poll::Ready(response) => Some(response.unwrap()),
        Poll::Pending => None,
    });
    assert_eq!(response.expect("it never ends").status(), 200);
    for store in &stores {
        assert_eq!(store.asked.load(Ordering::Relaxed), 1, "asked once");
        assert_eq!(
            store.undone.load(Ordering::Relaxed),
            0,
            "and not given back"
        );
    }
}

#[test]
fn what_is_held_meanwhile_goes_back_if_nobody_wants_it_any_more() {
    let near: Keyed<String, _> = Keyed::builder(TokenBucket::per_second(1))
        .clock(ManualClock::new().clock())
        .build();
    let far = Elsewhere::default();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(near.clone(), PathKey::new()))
        .and(RequestLimit::by_key(far, PathKey::new()));
    let mut call: Pin<Box<_>> = Box::pin(layer.layer(OK).call(get("/")));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(near.standing("/").remaining.unwrap(), 0, "held");
    drop(call);
    assert_eq!(near.standing("/").remaining.unwrap(), 1);
}
