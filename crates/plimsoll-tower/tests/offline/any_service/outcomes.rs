//! What limits that learn are told.

use std::task::Poll;

use plimsoll::{ManualClock, Outcome};
use plimsoll_tower::LimitLayer;
use tower_layer::Layer;

use super::{call, look};
use crate::desk::{Broken, Desk};
use crate::recorder::Recorder;

#[test]
fn a_response_is_a_success_and_an_error_says_nothing() {
    let (desk, told) = (Desk::new(9), Recorder::default());
    let gate = told.gate(ManualClock::new().clock());
    let mut service = LimitLayer::new(gate.clone()).layer(desk.clone());
    let (mut good, mut bad) = (call(&mut service, 1), call(&mut service, 2));
    desk.answer(1, Ok(1));
    desk.answer(2, Err(Broken));
    assert!(look(&mut bad).is_ready());
    assert_eq!(told.told(), []);
    assert!(look(&mut good).is_ready());
    assert_eq!(told.told(), [Outcome::Success]);
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn a_closure_says_what_it_makes_of_a_result() {
    let (desk, told) = (Desk::new(9), Recorder::default());
    let gate = told.gate(ManualClock::new().clock());
    let classify = |result: Result<&u32, &Broken>| match result {
        Ok(503) => Outcome::Overload,
        Ok(500) => Outcome::Ignore,
        Ok(_) => Outcome::Success,
        Err(Broken) => Outcome::Overload,
    };
    let mut service = LimitLayer::new(gate).classify(classify).layer(desk.clone());
    let answers = [Ok(503), Ok(500), Ok(200), Err(Broken)];
    for (request, answer) in (1..).zip(answers) {
        let mut working = call(&mut service, request);
        desk.answer(request, answer);
        assert!(look(&mut working).is_ready());
    }
    let expected = [Outcome::Overload, Outcome::Success, Outcome::Overload];
    assert_eq!(told.told(), expected);
}

#[test]
fn who_gives_up_says_nothing() {
    let (desk, told) = (Desk::new(9), Recorder::default());
    let gate = told.gate(ManualClock::new().clock());
    let mut service = LimitLayer::new(gate.clone()).layer(desk);
    let mut working: Vec<_> = (1..=5).map(|request| call(&mut service, request)).collect();
    assert_eq!(gate.snapshot().waiters(), 1);
    assert!(working.iter_mut().all(|work| look(work) == Poll::Pending));
    drop(working);
    assert_eq!((told.told(), gate.snapshot().in_use()), (vec![], 0));
}
