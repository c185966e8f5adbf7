//! Random operations on the real limiters and on the naive ones of `reference`: the same answers, the
//! same hints to the nanosecond, the same counts, after every single step.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::kinds::{Shape, alteration, altered, build, carry, real_carry, spec, wide};
use crate::reference;
use crate::reference::{Answer, Bucket, Carry, Nanos, Spec};
use plimsoll::{
    Acquire, Demand, Denied, LimiterExt, ManualClock, Moment, Permit, Priority, Reservation,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

#[derive(Clone, Debug)]
enum Op {
    Try {
        class: usize,
        cost: u64,
    },
    Acquire {
        class: usize,
        cost: u64,
        patience: Option<u64>,
    },
    Cancel(usize),
    Release(usize),
    /// By so many quarters of a period, and so many nanoseconds.
    Advance {
        quarters: u64,
        nanos: u64,
    },
    /// Long enough for a word to be out of date.
    Leap(Nanos),
    StepBack(u64),
    Resize(u64),
    Bound(u64),
    Close,
    /// Of what was granted at once or after waiting.
    Undo(usize),
    Charge(u64),
    Add(u64),
    Reset,
    Replace(Bucket, Carry),
    /// Takes ahead of time, if the rule can and nobody waits.
    Book(u64),
    CancelBooking(usize),
}

fn queue() -> impl Strategy<Value = Option<reference::Queue>> {
    let full = prop_oneof![
        Just(reference::Full::Incoming),
        Just(reference::Full::Oldest),
        Just(reference::Full::Newest)
    ];
    let timeout = proptest::option::weighted(0.2, 0u64..2000);
    let bound = prop_oneof![9 => 0u64..10, 1 => wide()];
    let queue = (bound, any::<bool>(), full, any::<bool>(), timeout).prop_map(
        |(bound, lifo, full, excess, timeout)| reference::Queue {
            bound,
            lifo,
            full,
            excess,
            timeout,
        },
    );
    proptest::option::weighted(0.9, queue)
}

impl Op {
    /// The prices of `Smooth` are floating-point numbers, which hold whole ones up to 2^53.
    fn in_reach_of(mut self, spec: &Spec) -> Self {
        if let Spec::Bursty { .. } = spec {
            match &mut self {
                Self::Try { cost, .. }
                | Self::Acquire { cost, .. }
                | Self::Charge(cost)
                | Self::Add(cost)
                | Self::Book(cost) => *cost %= 1 << 40,
                _ => {}
            }
        }
        self
    }
}

fn op() -> impl Strategy<Value = Op> {
    let class = prop_oneof![Just(1usize), 0..3usize];
    let cost = || prop_oneof![6 => 1u64..4, 2 => 0u64..9, 1 => wide()];
    prop_oneof![
        4 => (class.clone(), cost()).prop_map(|(class, cost)| Op::Try { class, cost }),
        8 => (class, cost(), proptest::option::weighted(0.3, 0u64..3000))
            .prop_map(|(class, cost, patience)| Op::Acquire { class, cost, patience }),
        2 => any::<usize>().prop_map(Op::Cancel),
        4 => any::<usize>().prop_map(Op::Release),
        4 => (0u64..6, 0u64..3).prop_map(|(quarters, nanos)| Op::Advance { quarters, nanos }),
        1 => prop_oneof![Just(60_000_000_000), Just(86_400_000_000_000), 0..1u64 << 58].prop_map(Op::Leap),
        1 => (0..1_u64 << 32).prop_map(Op::StepBack),
        1 => prop_oneof![3 => 1u64..9, 1 => wide()].prop_map(Op::Resize),
        1 => prop_oneof![3 => 0u64..10, 1 => wide()].prop_map(Op::Bound),
        1 => Just(Op::Close),
        2 => any::<usize>().prop_map(Op::Undo),
        1 => cost().prop_map(Op::Charge),
        1 => prop_oneof![3 => 0u64..9, 1 => wide()].prop_map(Op::Add),
        1 => Just(Op::Reset),
        1 => (alteration(), carry()).prop_map(|(other, carry)| Op::Replace(other, carry)),
        2 => prop_oneof![7 => 1u64..9, 1 => wide()].prop_map(Op::Book),
        1 => any::<usize>().prop_map(Op::CancelBooking),
    ]
}

/// One acquire on the real side.
enum Real {
    Waiting(Pin<Box<Acquire<'static>>>),
    Granted(Permit<'static>),
    Denied(Denied),
    Gone,
}

impl Real {
    fn poll(&mut self) {
        if let Self::Waiting(future) = self {
            let mut cx = Context::from_waker(Waker::noop());
            match future.as_mut().poll(&mut cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(permit)) => *self = Self::Granted(permit),
                Poll::Ready(Err(denied)) => *self = Self::Denied(denied),
            }
        }
    }
}

fn demand(class: usize, cost: u64) -> Demand {
    Demand::of(cost).priority([Priority::NonCritical, Priority::Normal, Priority::Critical][class])
}

fn run(shape: Shape, spec: &Spec, queue: Option<reference::Queue>, start: Nanos, ops: &[Op]) {
    let time = ManualClock::starting_at(Moment::from_nanos(start));
    let real = build(spec, queue, &time, shape);
    let rule = reference::Rule::new(spec.clone(), start);
    let mut naive = reference::Limiter::new(rule, queue, start);
    let mut bookings: Vec<(usize, Option<Reservation<'static>>)> = Vec::new();
    let mut acquires: Vec<Real> = Vec::new();
    let mut tries: Vec<Permit<'static>> = Vec::new();
    let hint =
        |naive: &reference::Limiter, class, cost| naive.hint(class, cost).map(Duration::from_nanos);
    for (step, op) in ops.iter().enumerate() {
        let op = &op.clone().in_reach_of(spec);
        match *op {
            Op::Try { class, cost } => {
                let expected_hint = hint(&naive, class, cost);
                let estimate = real.estimate(demand(class, cost));
                let expected = naive.try_acquire(class, cost);
                match real.try_acquire(demand(class, cost)) {
                    Ok(permit) => {
                        assert_eq!(expected, Answer::Granted, "step {step}: {op:?}");
                        assert!(estimate.is_ok(), "step {step}: {op:?}");
                        tries.push(permit);
                    }
                    Err(denied) => {
                        let reason = denied.reason().as_str();
                        assert_eq!(expected, Answer::Denied(reason), "step {step}: {op:?}");
                        assert_eq!(denied.retry_after(), expected_hint, "step {step}: {op:?}");
                        assert_eq!(estimate, Err(denied), "step {step}: {op:?}");
                    }
                }
            }
            Op::Acquire {
                class,
                cost,
                patience,
            } => {
                let demand = demand(class, cost);
                let demand = match patience {
                    Some(nanos) => demand.within(Duration::from_nanos(nanos)),
                    None => demand,
                };
                let expected_hint = hint(&naive, class, cost);
                naive.acquire(class, cost, patience);
                acquires.push(Real::Waiting(Box::pin(real.acquire(demand))));
                if let Some(new) = acquires.last_mut() {
                    new.poll();
                    if let Real::Denied(denied) = &*new
                        && denied.reason().as_str() == "queue_full"
                    {
                        assert_eq!(denied.retry_after(), expected_hint, "step {step}: {op:?}");
                    }
                }
            }
            Op::Cancel(which) => {
                let pending: Vec<usize> = (0..acquires.len())
                    .filter(|&id| naive.answers[id] == Answer::Pending)
                    .filter(|&id| matches!(acquires[id], Real::Waiting(_)))
                    .collect();
                if let Some(&id) = pending.get(which % pending.len().max(1)) {
                    acquires[id] = Real::Gone;
                    naive.cancel(id);
                }
            }
            Op::Release(which) | Op::Undo(which) => {
                let undone = matches!(op, Op::Undo(_));
                let held: Vec<usize> = (0..acquires.len())
                    .filter(|&id| matches!(acquires[id], Real::Granted(_)))
                    .collect();
                let all = held.len() + tries.len();
                if all == 0 {
                    continue;
                }
                let which = which % all;
                let permit = if which < held.len() {
                    std::mem::replace(&mut acquires[held[which]], Real::Gone)
                } else {
                    Real::Granted(tries.swap_remove(which - held.len()))
                };
                let Real::Granted(permit) = permit else {
                    continue;
                };
                let (cost, taken) = (permit.cost(), permit.granted_at().as_nanos());
                if !undone || naive.rule.gives_back() {
                    naive.release(cost);
                    drop(permit);
                } else if cost > 0 && !naive.is_settled_now(taken) {
                    naive.undo(taken, cost);
                    real.undo(permit);
                }
            }
            Op::Advance { quarters, nanos } => {
                let span = spec.period() / 4 * quarters + nanos;
                let to = naive.now.saturating_add(span).min(1 << 62);
                naive.advance(to);
                time.advance_to(Moment::from_nanos(to));
            }
            Op::Leap(span) => {
                let to = naive.now.saturating_add(span).min(1 << 62);
                naive.advance(to);
                time.advance_to(Moment::from_nanos(to));
            }
            Op::StepBack(by) => {
                time.advance_to(Moment::from_nanos(naive.now.saturating_sub(by)));
            }
            Op::Resize(limit) => {
                if real.resize_if_possible(limit) {
                    naive.resize(limit);
                }
            }
            Op::Bound(bound) if real.is_gate() => {
                real.set_bound(bound);
                naive.set_queue_bound(bound);
            }
            Op::Charge(cost) => {
                naive.charge(cost);
                real.charge(cost);
            }
            Op::Add(amount) if real.is_gate() => {
                naive.add(amount);
                real.add(amount);
            }
            Op::Reset if real.is_gate() => {
                naive.reset();
                real.reset();
            }
            Op::Replace(other, carry) => {
                // The proportion of what a smooth limit has stored is rounded.
                let rounded = matches!(spec, Spec::Bursty { .. }) && carry == Carry::Proportional;
                if !naive.rule.gives_back() && !rounded && real.is_known() {
                    let other = altered(&naive.rule.spec, other);
                    real.replace(&other, real_carry(carry));
                    naive.replace(other, carry);
                }
            }
            Op::Book(cost) if real.is_gate() => {
                let can = spec.books() && naive.waiting() == 0 && !naive.is_closed();
                if can && cost <= naive.rule.limit() {
                    let (ready_at, id) = naive.book(cost);
                    let reservation = real.book(cost);
                    let expected = ready_at.map(Moment::from_nanos);
                    assert_eq!(reservation.ready_at(), expected, "step {step}: {op:?}");
                    bookings.push((id, Some(reservation)));
                }
            }
            Op::CancelBooking(which) => {
                let which = which % bookings.len().max(1);
                if let Some((id, booking)) = bookings.get_mut(which)
                    && let Some(reservation) = booking.take()
                {
                    naive.cancel_booking(*id);
                    drop(reservation);
                }
            }
            Op::Bound(_) | Op::Add(_) | Op::Reset | Op::Book(_) => {}
            Op::Close => {
                // Rarely: nothing much happens afterwards.
                if step % 7 == 0 {
                    real.close();
                    naive.close();
                }
            }
        }
        if naive.rule.used(naive.now) > u64::MAX >> 3 {
            // A debt of 2^32 times the largest limit: from here on rules cut it off, each in its own way.
            return;
        }
        for (id, acquire) in acquires.iter_mut().enumerate() {
            acquire.poll();
            let answer = match acquire {
                Real::Waiting(_) => Answer::Pending,
                Real::Granted(_) => Answer::Granted,
                Real::Denied(denied) => Answer::Denied(denied.reason().as_str()),
                Real::Gone => continue,
            };
            assert_eq!(
                answer, naive.answers[id],
                "acquire {id} after step {step}: {op:?}"
            );
        }
        let snapshot = real.snapshot();
        assert_eq!(
            snapshot.available(),
            naive.rule.available(naive.now),
            "step {step}: {op:?}"
        );
        assert_eq!(
            snapshot.in_use(),
            naive.rule.used(naive.now),
            "step {step}: {op:?}"
        );
        assert_eq!(snapshot.queued(), naive.queued(), "step {step}: {op:?}");
        assert_eq!(
            snapshot.waiters(),
            naive.waiting() as u64,
            "step {step}: {op:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        // More with PROPTEST_CASES.
        cases: ProptestConfig::default().cases.max(600),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_real_limiters_answer_as_the_naive_ones(
        spec in spec(),
        queue in queue(),
        start in prop_oneof![Just(0u64), Just(1_700_000_000_000_000_000)],
        ops in proptest::collection::vec(op(), 1..60),
    ) {
        run(Shape::Gate, &spec, queue, start, &ops);
    }

    #[test]
    fn a_key_answers_as_the_naive_limiter_however_often_it_is_forgotten(
        spec in spec(),
        queue in queue(),
        start in prop_oneof![Just(0u64), Just(1_700_000_000_000_000_000)],
        ops in proptest::collection::vec(op(), 1..60),
    ) {
        run(Shape::OneKey, &spec, queue, start, &ops);
    }
}
