//! Who has the same limit, and what each request asks for.

use std::task::Poll;

use std::sync::Arc;

use plimsoll::{
    All, Concurrency, Demand, Gate, Keyed, Limiter, Priority, Queue, Reason, TokenBucket,
};
use plimsoll_tower::{LimitError, LimitLayer};
use tower_layer::Layer;

use super::{call, look, slots};
use crate::desk::Desk;

#[test]
fn clones_share_the_limit() {
    let (gate, mut service) = slots(2, 0, &Desk::new(9));
    let mut clone = service.clone();
    let _both = (call(&mut service, 1), call(&mut clone, 2));
    assert_eq!(gate.snapshot().in_use(), 2);
    assert!(matches!(
        look(&mut call(&mut service, 3)),
        Poll::Ready(Err(_))
    ));
    assert!(matches!(
        look(&mut call(&mut clone, 4)),
        Poll::Ready(Err(_))
    ));
}

#[test]
fn services_of_one_layer_share_the_limit() {
    let gate = Gate::new(Concurrency::new(1));
    let layer = LimitLayer::new(gate.clone());
    let (mut one, mut other) = (layer.layer(Desk::new(9)), layer.clone().layer(Desk::new(9)));
    let busy = call(&mut one, 1);
    assert!(matches!(
        look(&mut call(&mut other, 2)),
        Poll::Ready(Err(_))
    ));
    drop(busy);
    assert!(look(&mut call(&mut other, 3)).is_pending());
}

#[test]
fn several_limiters_are_one() {
    let slots = Gate::new(Concurrency::new(2));
    let rate = Gate::new(TokenBucket::per_second(1));
    let both = All::new([Arc::new(slots.clone()) as Arc<dyn Limiter>, Arc::new(rate)]);
    let mut service = LimitLayer::new(both).layer(Desk::new(9));
    let _busy = call(&mut service, 1);
    assert_eq!(slots.snapshot().in_use(), 1);
    assert!(matches!(
        look(&mut call(&mut service, 2)),
        Poll::Ready(Err(_))
    ));
    assert_eq!(slots.snapshot().in_use(), 1);
}

#[test]
fn each_key_has_its_limit() {
    let desk = Desk::new(9);
    let keyed = Keyed::<u32, _>::builder(Concurrency::new(1))
        .queue(Queue::fifo(1))
        .build();
    let mut service =
        LimitLayer::by_key(keyed.clone(), |number: &u32| number / 10).layer(desk.clone());
    let (first, mut second) = (call(&mut service, 10), call(&mut service, 11));
    let mut third = call(&mut service, 12);
    let mut other = call(&mut service, 20);
    assert_eq!(desk.called(), [10, 20]);
    assert!(look(&mut second).is_pending() && look(&mut other).is_pending());
    let Poll::Ready(Err(LimitError::Denied(denied))) = look(&mut third) else {
        panic!("there is room for one")
    };
    assert_eq!(denied.reason(), Reason::QueueFull);
    drop(first);
    assert!(look(&mut second).is_pending());
    assert_eq!(desk.called(), [10, 20, 11]);
    drop((second, other));
    let seen = keyed.snapshot();
    assert_eq!((seen.in_use(), seen.waiters()), (0, 0));
}

#[test]
fn a_keyed_limit_can_shed() {
    let keyed = Keyed::<u32, _>::builder(Concurrency::new(1))
        .queue(Queue::fifo(5))
        .build();
    let layer = LimitLayer::by_key(keyed.clone(), |_: &u32| 0).shed();
    let mut service = layer.demand(|_: &u32| Demand::ONE).layer(Desk::new(9));
    let _busy = call(&mut service, 1);
    assert!(matches!(
        look(&mut call(&mut service, 2)),
        Poll::Ready(Err(_))
    ));
    assert_eq!(keyed.snapshot().waiters(), 0);
}

#[test]
fn a_request_costs_what_the_closure_says() {
    let desk = Desk::new(9);
    let gate = Gate::new(Concurrency::new(10));
    let mut service = LimitLayer::new(gate.clone())
        .demand(|number: &u32| Demand::of((*number).into()))
        .layer(desk.clone());
    let seven = call(&mut service, 7);
    assert_eq!(gate.snapshot().in_use(), 7);
    assert!(matches!(
        look(&mut call(&mut service, 4)),
        Poll::Ready(Err(_))
    ));
    let _three = call(&mut service, 3);
    let Poll::Ready(Err(LimitError::Denied(denied))) = look(&mut call(&mut service, 11)) else {
        panic!("there are never eleven")
    };
    assert_eq!(denied.reason(), Reason::TooLarge);
    drop(seven);
    assert_eq!(gate.snapshot().in_use(), 3);
}

#[test]
fn who_matters_more_goes_first() {
    let desk = Desk::new(9);
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(9))
        .build();
    let class = |number: &u32| match number % 10 {
        0 => Priority::Critical,
        1 => Priority::Normal,
        _ => Priority::NonCritical,
    };
    let mut service = LimitLayer::new(gate.clone())
        .demand(move |number: &u32| Demand::ONE.priority(class(number)))
        .layer(desk.clone());
    let busy = gate.try_acquire(1).unwrap();
    let order = [12, 11, 10, 22, 20, 21];
    let mut calls: Vec<_> = order.map(|number| call(&mut service, number)).into();
    for number in order {
        desk.answer(number, Ok(number));
    }
    drop(busy);
    while !calls.is_empty() {
        calls.retain_mut(|call| look(call).is_pending());
    }
    assert_eq!(desk.called(), [10, 20, 11, 21, 12, 22]);
}
