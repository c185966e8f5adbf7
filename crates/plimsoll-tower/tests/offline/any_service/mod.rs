//! A limit before a service of any kind. Nothing here needs a runtime or a socket: services and futures are polled by
//! hand.

mod costs;
mod outcomes;
mod readiness;
mod sharing;
mod waiting;

use std::task::{Context, Poll, Waker};

use crate::desk::{Broken, Desk};
use plimsoll::{Concurrency, Gate, Queue};
use plimsoll_tower::admit::{Admit, Whole};
use plimsoll_tower::classify::Classify;
use plimsoll_tower::{Limit, LimitError, LimitFuture, LimitLayer};
use tower_layer::Layer;
use tower_service::Service;

/// A desk behind a limit of so many at once, and the gate to look at.
fn slots(
    limit: u64,
    queue: u64,
    desk: &Desk,
) -> (Gate<Concurrency>, Limit<Desk, Whole<Gate<Concurrency>>>) {
    let gate = Gate::builder(Concurrency::new(limit))
        .queue(Queue::fifo(queue))
        .build();
    let service = LimitLayer::new(gate.clone()).layer(desk.clone());
    (gate, service)
}

fn ready<S: Service<u32>>(service: &mut S) -> Poll<Result<(), S::Error>> {
    service.poll_ready(&mut Context::from_waker(Waker::noop()))
}

/// A call of a service that is ready, on the heap so that it can be polled from everywhere.
fn call<A, C>(service: &mut Limit<Desk, A, C>, request: u32) -> Call<C>
where
    A: Admit<u32>,
    C: Classify<u32, Broken> + Clone,
{
    assert!(matches!(ready(service), Poll::Ready(Ok(()))));
    Box::pin(service.call(request))
}

type Call<C = plimsoll_tower::classify::ByResult> = std::pin::Pin<Box<LimitFuture<Desk, u32, C>>>;

/// Looks at a call once.
fn look<C: Classify<u32, Broken>>(call: &mut Call<C>) -> Poll<Result<u32, LimitError<Broken>>> {
    crate::hand::poll(call.as_mut())
}
