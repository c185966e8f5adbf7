//! What a limit costs: nothing on the heap.

use std::mem::size_of;

use plimsoll::{Concurrency, Gate, Keyed, TokenBucket};
use plimsoll_tower::classify::ByResult;
use plimsoll_tower::{LimitFuture, LimitLayer};
use tower_layer::Layer;
use tower_service::Service;

use super::ready;
use crate::counting::allocations;
use crate::desk::{Broken, Desk, Work};
use crate::hand::now;

/// A service that answers at once and allocates nothing.
#[derive(Clone)]
struct Echo;

impl Service<u32> for Echo {
    type Response = u32;
    type Error = Broken;
    type Future = std::future::Ready<Result<u32, Broken>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Broken>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: u32) -> Self::Future {
        std::future::ready(Ok(request))
    }
}

#[test]
fn a_granted_call_allocates_nothing() {
    let gate = Gate::new(Concurrency::new(10));
    let mut service = LimitLayer::new(gate).layer(Echo);
    // The first may have something to set up.
    assert_eq!(now(service.call(1)), Ok(1));
    let count = allocations(|| {
        for request in 0..100 {
            assert!(ready(&mut service).is_ready());
            assert_eq!(now(service.call(request)), Ok(request));
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn a_granted_call_by_key_allocates_nothing() {
    let keyed: Keyed<u32, _> = Keyed::new(TokenBucket::per_second(1000));
    let mut service = LimitLayer::by_key(keyed, |_: &u32| 7).layer(Echo);
    assert_eq!(now(service.call(1)), Ok(1));
    let count = allocations(|| {
        for request in 0..100 {
            assert_eq!(now(service.call(request)), Ok(request));
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn a_refused_call_allocates_nothing() {
    let gate = Gate::builder(Concurrency::new(1)).name("slots").build();
    let _busy = gate.try_acquire(1).unwrap();
    let mut service = LimitLayer::new(gate.clone()).layer(Echo);
    assert!(now(service.call(1)).is_err());
    let count = allocations(|| {
        for request in 0..100 {
            assert!(now(service.call(request)).is_err());
        }
    });
    assert_eq!(count, 0);
}

/// The future of the service is a part of the future, not behind a pointer: it grows with it.
#[test]
fn the_future_is_not_boxed() {
    type Of<S> = LimitFuture<S, u32, ByResult>;
    #[derive(Clone)]
    struct Large;
    impl Service<u32> for Large {
        type Response = u32;
        type Error = Broken;
        type Future = Wide;

        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), Broken>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: u32) -> Wide {
            Wide([0; 1024])
        }
    }
    struct Wide([u8; 1024]);
    impl std::future::Future for Wide {
        type Output = Result<u32, Broken>;

        fn poll(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Self::Output> {
            std::task::Poll::Ready(Ok(u32::from(self.0[0])))
        }
    }
    assert!(size_of::<Of<Large>>() > 1024);
    assert_eq!(
        now(LimitLayer::new(Gate::new(Concurrency::new(1)))
            .layer(Large)
            .call(1)),
        Ok(0)
    );
    let small = size_of::<Of<Desk>>();
    assert!(small <= size_of::<Work>() + 192, "{small} bytes");
}
