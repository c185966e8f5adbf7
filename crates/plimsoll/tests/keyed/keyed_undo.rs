//! What was granted to a key is undone in the state that granted it, and in no other.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::{
    Carry, Concurrency, FixedWindow, Keyed, KeyedBuilder, ManualClock, Permit, Queue, Quota,
    Reason, Rule, SlidingCounter, SlidingLog, SlidingWindow, TokenBucket, WhenFull,
};
use proptest::prelude::*;

const TEN: Quota = Quota::per_hour(10);

type Make<R> = fn(KeyedBuilder<String, R>) -> KeyedBuilder<String, R>;

fn keyed<R: Rule + Clone>(rule: R, time: &ManualClock, make: Make<R>) -> Keyed<String, R> {
    make(Keyed::builder(rule).clock(time.clock())).build()
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The state of a key that was forgotten was gone, and undoing what it had granted freed what others held who came after.
#[test]
fn undoing_what_a_forgotten_key_was_granted_frees_nothing_of_those_who_came_after() {
    fn check<R: Rule + Clone>(rule: &R) {
        let makes: [Make<R>; 2] = [|it| it, |it| it.queue(Queue::fifo(10))];
        for make in makes {
            for (before, after) in [(0, 0), (0, 5), (5, 0), (5, 5)] {
                let time = ManualClock::new();
                let keyed = keyed(rule.clone(), &time, make);
                time.advance(Duration::from_secs(1));
                let old = keyed.try_acquire("a", 6).unwrap();
                let other = keyed.try_acquire("b", 6).unwrap();
                time.advance(Duration::from_nanos(before));
                assert!(keyed.forget("a"));
                time.advance(Duration::from_nanos(after));
                let new = keyed.try_acquire("a", 4).unwrap();
                keyed.try_acquire("a", 6).unwrap().forget();
                keyed.undo("a", old);
                assert!(keyed.try_acquire("a", 1).is_err(), "{before} {after}");
                // What the new state has granted is undone, in the same instant too, and so is what others were granted.
                keyed.undo("a", new);
                assert!(keyed.try_acquire("a", 4).is_ok(), "{before} {after}");
                keyed.undo("b", other);
                assert!(keyed.try_acquire("b", 9).is_ok(), "{before} {after}");
            }
        }
    }
    check(&TokenBucket::greedy(TEN));
    check(&TokenBucket::interval(TEN));
    check(&FixedWindow::new(TEN));
    check(&SlidingLog::new(TEN));
    check(&SlidingWindow::new(TEN, 6));
    check(&SlidingCounter::new(TEN));
}

#[test]
fn undoing_what_an_evicted_key_was_granted_frees_nothing_of_those_who_came_after() {
    for nanos in [0, 7] {
        let time = ManualClock::new();
        let keyed = keyed(FixedWindow::new(TEN), &time, |it| {
            it.max_keys(1).when_full(WhenFull::EvictLeastRecent)
        });
        let old = keyed.try_acquire("a", 6).unwrap();
        time.advance(Duration::from_nanos(nanos));
        keyed.try_acquire("b", 1).unwrap().forget();
        time.advance(Duration::from_nanos(nanos));
        let new = keyed.try_acquire("a", 10).unwrap();
        keyed.undo("a", old);
        assert!(keyed.try_acquire("a", 1).is_err(), "{nanos}");
        keyed.undo("a", new);
        assert!(keyed.try_acquire("a", 10).is_ok(), "{nanos}");
    }
}

/// One who waited for a key is served although the key is forgotten meanwhile, but no longer by the state of the key.
#[test]
fn undoing_what_was_waited_for_at_a_forgotten_key_frees_nothing_of_those_who_came_after() {
    let time = ManualClock::new();
    let keyed = keyed(SlidingLog::new(TEN), &time, |it| it.queue(Queue::fifo(10)));
    keyed.try_acquire("a", 10).unwrap().forget();
    let mut waiting = keyed.acquire("a", 6);
    assert!(poll(&mut waiting).is_pending());
    time.advance(Duration::from_secs(3000));
    keyed.forget("a");
    time.advance(Duration::from_secs(600));
    let Poll::Ready(Ok(old)) = poll(&mut waiting) else {
        panic!("it is served");
    };
    keyed.try_acquire("a", 10).unwrap().forget();
    keyed.undo("a", old);
    assert!(keyed.try_acquire("a", 1).is_err());
}

/// Moments alone did not tell what was granted before a change of the limit from what was granted after it.
#[test]
fn what_is_granted_in_the_instant_of_a_change_is_undone_if_it_was_after_it() {
    let makes: [Make<TokenBucket>; 2] = [|it| it, |it| it.queue(Queue::fifo(10))];
    for make in makes {
        for with_gate in [false, true] {
            let time = ManualClock::new();
            let keyed = keyed(TokenBucket::greedy(TEN), &time, make);
            let _gate = with_gate.then(|| keyed.gate("a").unwrap());
            let before = keyed.try_acquire("a", 3).unwrap();
            keyed.replace(TokenBucket::greedy(Quota::per_hour(20)), Carry::Used);
            let after = keyed.try_acquire("a", 5).unwrap();
            let new = keyed.try_acquire("b", 20).unwrap();
            keyed.undo("a", before);
            assert!(keyed.try_acquire("a", 13).is_err());
            keyed.undo("a", after);
            keyed.undo("b", new);
            assert!(keyed.try_acquire("b", 20).is_ok());
            keyed.try_acquire("a", 17).unwrap().forget();
        }
    }
}

/// The table and the gate of a key numbered the changes of an instant apart, so that what the gate granted after several of
/// them was taken for granted before the last.
#[test]
fn what_a_gate_grants_after_several_changes_in_one_instant_is_undone() {
    for (before, during) in [(0, 1), (0, 3), (1, 1), (2, 1), (3, 2)] {
        let time = ManualClock::new();
        let keyed = keyed(TokenBucket::greedy(TEN), &time, |it| it);
        let change = |times| {
            for _ in 0..times {
                keyed.replace(TokenBucket::greedy(TEN), Carry::Used);
            }
        };
        change(before);
        let first = keyed.try_acquire("a", 1).unwrap();
        let gate = keyed.gate("a").unwrap();
        let second = keyed.try_acquire("a", 1).unwrap();
        let third = gate.try_acquire(1).unwrap();
        keyed.undo("a", first);
        keyed.undo("a", second);
        third.undo();
        assert_eq!(gate.snapshot().available(), 10, "{before} {during}");

        let old = keyed.try_acquire("a", 2).unwrap();
        change(during);
        let new = keyed.try_acquire("a", 3).unwrap();
        let own = gate.try_acquire(4).unwrap();
        keyed.undo("a", old);
        assert_eq!(gate.snapshot().available(), 1, "{before} {during}");
        keyed.undo("a", new);
        assert_eq!(gate.snapshot().available(), 4, "{before} {during}");
        own.undo();
        assert_eq!(gate.snapshot().available(), 8, "{before} {during}");

        let old = keyed.try_acquire("a", 2).unwrap();
        gate.reset();
        let new = keyed.try_acquire("a", 3).unwrap();
        keyed.undo("a", old);
        keyed.undo("a", new);
        assert_eq!(gate.snapshot().available(), 10, "{before} {during}");
    }
}

/// A key that was not known was given a limiter that knew nothing of the table being closed.
#[test]
fn a_closed_table_grants_nothing_to_new_keys() {
    let keyed: Keyed<String, _> = Keyed::new(Concurrency::new(5));
    keyed.close();
    assert_eq!(keyed.take_up_to("new", 3).cost(), 0);
    let gate = keyed.gate("other").unwrap();
    assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::Closed);
}

/// Whoever waited for a key that was forgotten went on waiting when all keys were closed.
#[test]
fn closing_refuses_those_who_wait_for_forgotten_keys_too() {
    let time = ManualClock::new();
    let keyed = keyed(Concurrency::new(1), &time, |it| it.queue(Queue::fifo(10)));
    let busy = keyed.try_acquire("a", 1).unwrap();
    let mut waiting = keyed.acquire("a", 1);
    assert!(poll(&mut waiting).is_pending());
    keyed.forget("a");
    keyed.close();
    drop(busy);
    let Poll::Ready(Err(denied)) = poll(&mut waiting) else {
        panic!("it is refused");
    };
    assert_eq!(denied.reason(), Reason::Closed);
}

#[derive(Clone, Debug)]
enum Op {
    Take(usize, u64),
    Undo(usize),
    Forget(usize),
    KeepGate(usize),
    Replace,
    Advance,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..3_usize;
    let op = prop_oneof![
        6 => (key(), 1..6_u64).prop_map(|(key, cost)| Op::Take(key, cost)),
        5 => (0..100_usize).prop_map(Op::Undo),
        2 => key().prop_map(Op::Forget),
        1 => key().prop_map(Op::KeepGate),
        1 => Just(Op::Replace),
        2 => Just(Op::Advance),
    ];
    prop::collection::vec(op, 1..60)
}

const KEYS: [&str; 3] = ["a", "b", "c"];

/// Each key has a number that says how often it began, and what it has used since.
fn follows_the_model<R: Rule + Clone>(rule: &R, ops: &[Op], make: Make<R>, may_replace: bool) {
    let time = ManualClock::new();
    let keyed = keyed(rule.clone(), &time, make);
    let mut used: HashMap<usize, (u64, u64)> = HashMap::new();
    let mut permits: Vec<(usize, u64, Permit<'_>)> = Vec::new();
    let mut gates = Vec::new();
    for op in ops {
        match *op {
            Op::Take(key, cost) => {
                let (life, used) = used.entry(key).or_default();
                let answer = keyed.try_acquire(KEYS[key], cost);
                assert_eq!(answer.is_ok(), *used + cost <= 10, "{op:?}: {used}");
                if let Ok(permit) = answer {
                    *used += cost;
                    permits.push((key, *life, permit));
                }
            }
            Op::Undo(which) if !permits.is_empty() => {
                let (key, life, permit) = permits.swap_remove(which % permits.len());
                let now = used.entry(key).or_default();
                if now.0 == life {
                    now.1 -= permit.cost();
                }
                keyed.undo(KEYS[key], permit);
            }
            Op::Forget(key) => {
                if keyed.forget(KEYS[key]) {
                    let now = used.entry(key).or_default();
                    *now = (now.0 + 1, 0);
                }
                gates.retain(|(of, _)| *of != key);
            }
            Op::KeepGate(key) => gates.push((key, keyed.gate(KEYS[key]).expect("there is room"))),
            Op::Replace if may_replace => {
                keyed.replace(rule.clone(), Carry::Used);
                used.values_mut().for_each(|now| now.0 += 1);
            }
            Op::Advance => time.advance(Duration::from_nanos(1)),
            Op::Undo(_) | Op::Replace => {}
        }
    }
}

proptest! {
    #[test]
    fn random_grants_are_undone_where_they_were_made(ops in ops()) {
        let makes: [Make<FixedWindow>; 2] = [|it| it, |it| it.queue(Queue::fifo(10))];
        for make in makes {
            follows_the_model(&FixedWindow::new(TEN), &ops, make, true);
        }
        let makes: [Make<SlidingLog>; 2] = [|it| it, |it| it.queue(Queue::fifo(10))];
        for make in makes {
            follows_the_model(&SlidingLog::new(TEN), &ops, make, false);
        }
    }
}
