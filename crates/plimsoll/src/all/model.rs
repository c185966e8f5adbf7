//! Every interleaving of demands that wait for several limiters, up to a number of preemptions: no two of them block
//! each other and no wake-up is lost (the model would never end), and no permit is leaked or minted (the final count
//! would be off).

use std::sync::Arc;

use loom::future::block_on;
use loom::thread;

use crate::{All, Concurrency, Gate, Limiter, ManualClock, Permit, Queue};

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

fn slots() -> Gate<Concurrency> {
    slots_on(&ManualClock::new())
}

fn slots_on(time: &ManualClock) -> Gate<Concurrency> {
    Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(8))
        .clock(time.clock())
        .totals(false)
        .build()
}

/// Two gates, of which the first is locked first. Gates are locked in the order of their addresses, and a model needs the same order in
/// each run, wherever the allocator puts them.
fn two(make: impl Fn() -> Gate<Concurrency>) -> (Gate<Concurrency>, Gate<Concurrency>) {
    let (a, b) = (make(), make());
    let [of_a, of_b] = [&a, &b].map(|gate| std::ptr::from_ref(gate.source()).cast::<()>().addr());
    if of_a < of_b { (a, b) } else { (b, a) }
}

fn hold(gate: &Gate<Concurrency>) -> Permit<'static> {
    gate.try_acquire(1).unwrap().into_owned()
}

/// Waits for all of them on a thread of its own.
fn waiter(gates: [&Gate<Concurrency>; 2]) -> thread::JoinHandle<bool> {
    let members = gates.map(|gate| Arc::new(gate.clone()) as Arc<dyn Limiter>);
    thread::spawn(move || block_on(All::new(members).acquire(1)).is_ok())
}

#[track_caller]
fn assert_idle(gate: &Gate<Concurrency>) {
    let seen = gate.snapshot();
    assert_eq!(
        (seen.available(), seen.in_use(), seen.waiters()),
        (1, 0, 0),
        "{seen:?}"
    );
}

#[test]
fn two_who_wait_for_the_same_two_in_opposite_orders_are_both_served() {
    // With two preemptions it takes as long as all other models (`LOOM_MAX_PREEMPTIONS=2`).
    check(1, || {
        let (a, b) = two(slots);
        let held = hold(&a);
        let waiters = [waiter([&a, &b]), waiter([&b, &a])];
        drop(held);
        for waiter in waiters {
            assert!(waiter.join().unwrap());
        }
        assert_idle(&a);
        assert_idle(&b);
    });
}

#[test]
fn what_comes_back_to_each_is_not_missed_by_one_who_waits_for_both() {
    check(2, || {
        let (a, b) = two(slots);
        let (held_a, held_b) = (hold(&a), hold(&b));
        let waiter = waiter([&a, &b]);
        let releaser = thread::spawn(move || drop(held_b));
        drop(held_a);
        assert!(waiter.join().unwrap());
        releaser.join().unwrap();
        assert_idle(&a);
        assert_idle(&b);
    });
}

#[test]
fn one_who_waits_for_one_of_them_is_served_beside_one_who_waits_for_both() {
    check(2, || {
        let (a, b) = two(slots);
        let held = hold(&b);
        let both = waiter([&a, &b]);
        let one = thread::spawn({
            let b = b.clone();
            move || block_on(b.acquire(1)).is_ok()
        });
        drop(held);
        assert!(both.join().unwrap());
        assert!(one.join().unwrap());
        assert_idle(&a);
        assert_idle(&b);
    });
}

#[test]
fn closing_one_answers_one_who_waits_for_both() {
    check(2, || {
        let (a, b) = two(slots);
        let (held_a, held_b) = (hold(&a), hold(&b));
        let waiter = waiter([&a, &b]);
        let closer = thread::spawn({
            let b = b.clone();
            move || b.close()
        });
        drop(held_a);
        // It was refused, or had taken its permits before.
        drop(held_b);
        waiter.join().unwrap();
        closer.join().unwrap();
        assert_idle(&a);
        assert_idle(&b);
    });
}

/// Gates on one clock are taken from by their words alone, until one refuses.
#[test]
fn what_is_taken_by_words_is_undone_when_another_refuses() {
    check(3, || {
        let time = ManualClock::new();
        let (a, b) = two(|| slots_on(&time));
        let members = [&b, &a].map(|gate| Arc::new(gate.clone()) as Arc<dyn Limiter>);
        let other = thread::spawn(move || drop(All::new(members).try_acquire(1)));
        let members = [&a, &b].map(|gate| Arc::new(gate.clone()) as Arc<dyn Limiter>);
        let all = All::new(members);
        if let Ok(permit) = all.try_acquire(1) {
            assert!(a.try_acquire(1).is_err() && b.try_acquire(1).is_err());
            drop(permit);
        }
        other.join().unwrap();
        assert_idle(&a);
        assert_idle(&b);
    });
}

/// The same while a demand waits for both, which parks the words.
#[test]
fn whoever_waits_for_gates_on_one_clock_is_served() {
    check(2, || {
        let time = ManualClock::new();
        let (a, b) = two(|| slots_on(&time));
        let held = hold(&b);
        let waiting = waiter([&a, &b]);
        drop(held);
        let members = [&a, &b].map(|gate| Arc::new(gate.clone()) as Arc<dyn Limiter>);
        drop(All::new(members).try_acquire(1));
        assert!(waiting.join().unwrap());
        assert_idle(&a);
        assert_idle(&b);
    });
}
