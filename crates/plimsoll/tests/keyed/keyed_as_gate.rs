//! What a key answers is what a gate of its own would answer, whatever is asked: waiting, undoing, looking.

use std::collections::HashMap;
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;
use std::{future::Future, pin::pin};

use plimsoll::{
    Concurrency, Demand, Gate, Keyed, ManualClock, PenaltyBucket, PerKey, Queue, Quota, Reason,
    Rule, SlidingLog, TokenBucket,
};

use crate::poll;

fn keyed<R: Rule + Clone>(rule: R, queue: Option<Queue>, time: &ManualClock) -> Keyed<u8, R> {
    let builder = Keyed::builder(rule).clock(time.clock()).max_keys(8);
    match queue {
        Some(queue) => builder.queue(queue).build(),
        None => builder.build(),
    }
}

/// The attempt before the queue was counted as a refusal, so that whoever waited twice was locked out.
#[test]
fn waiting_is_not_a_refusal_of_a_penalty_bucket() {
    let time = ManualClock::new();
    let rule = PenaltyBucket::new(TokenBucket::per_second(1));
    let rule = rule.lockout(2, Duration::from_secs(30));
    let keyed = keyed(rule, Some(Queue::fifo(4)), &time);
    assert!(keyed.try_acquire(&1, 1).is_ok());
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(keyed.acquire(&1, 1))).collect();
    for one in &mut waiting {
        assert!(poll::poll(one).is_pending());
    }
    for one in &mut waiting {
        time.advance(Duration::from_secs(1));
        assert!(poll::poll(one).is_ready());
    }
    let denied = keyed.try_acquire(&1, 1).unwrap_err();
    assert_eq!(denied.reason(), Reason::SoftThrottle);
}

/// A refused `acquire` was counted once by the attempt before the queue and once by the queue.
#[test]
fn a_refusal_that_counts_is_counted_once() {
    let time = ManualClock::new();
    let rule = SlidingLog::new(Quota::per_second(3)).counting_refusals();
    for queue in [None, Some(Queue::fifo(0))] {
        let one = keyed(rule.clone(), queue, &time);
        let builder = Gate::builder(rule.clone()).clock(time.clock());
        let gate = match queue {
            Some(queue) => builder.queue(queue).build(),
            None => builder.build(),
        };
        for cost in [2, 2, 1] {
            let came = poll::poll(&mut pin!(one.acquire(&1, cost)));
            let expected = poll::poll(&mut pin!(gate.acquire(cost)));
            let told = |denied: plimsoll::Denied| (denied.reason(), denied.retry_after());
            assert_eq!(
                came.map(|answer| answer.map(|permit| permit.cost()).map_err(told)),
                expected.map(|answer| answer.map(|permit| permit.cost()).map_err(told)),
            );
            assert_eq!(
                one.snapshot_of(&1).unwrap().in_use(),
                gate.snapshot().in_use()
            );
        }
    }
}

/// Whoever will wait if it is refused is not charged for having looked.
#[test]
fn an_attempt_leaves_no_trace_when_it_is_refused() {
    let time = ManualClock::new();
    let keyed = keyed(
        SlidingLog::new(Quota::per_second(1)).counting_refusals(),
        None,
        &time,
    );
    assert!(keyed.try_acquire(&1, 1).is_ok());
    for _ in 0..3 {
        assert!(PerKey::attempt(&keyed, &1, Demand::ONE).is_err());
    }
    assert_eq!(keyed.snapshot_of(&1).unwrap().in_use(), 1);
    assert_eq!(keyed.snapshot().denied_total(), 0);
}

/// The undo was dropped when the key had become a gate since the permit was granted.
#[test]
fn a_grant_can_be_undone_when_somebody_waits_by_then() {
    let time = ManualClock::new();
    let rule = TokenBucket::greedy(Quota::per_hour(2));
    let keyed = keyed(rule, Some(Queue::fifo(4)), &time);
    let permit = keyed.try_acquire(&1, 2).unwrap();
    let mut waiting = Box::pin(keyed.acquire(&1, 1));
    assert!(poll::poll(&mut waiting).is_pending());
    keyed.undo(&1, permit);
    assert!(poll::poll(&mut waiting).is_ready());
    assert_eq!(keyed.snapshot_of(&1).unwrap().available(), 1);
    assert_eq!(keyed.snapshot().granted_total(), 1);
}

/// Runs `test` and says whether it ended: a deadlock must fail, not hang.
fn ends(test: impl FnOnce() + Send + 'static) -> bool {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    ended.recv_timeout(Duration::from_secs(10)).is_ok()
}

/// Asks the limit about every key when it is woken, in every way that only looks.
struct Asks(Keyed<u8, TokenBucket>);

impl Wake for Asks {
    fn wake(self: std::sync::Arc<Self>) {
        for key in 0..4 {
            let _ = self.0.estimate(&key, 1);
            let _ = self.0.standing(&key);
            let _ = self.0.snapshot_of(&key);
        }
        let _ = self.0.snapshot();
        let _ = self.0.top(3);
        let _ = self.0.try_acquire(&3, 1);
    }
}

/// Two keys fall due at the same moment. The waker of the first asks about the second, whose waiter was then
/// served and woken under the lock of the shard; that waker asked the same shard and waited for ever.
#[test]
fn a_waker_may_ask_the_same_shard() {
    assert!(ends(|| {
        let time = ManualClock::new();
        let keyed = keyed(TokenBucket::per_second(1), Some(Queue::fifo(4)), &time);
        let waker = Waker::from(std::sync::Arc::new(Asks(keyed.clone())));
        let mut cx = Context::from_waker(&waker);
        let mut waiting = Vec::new();
        for key in &[0, 1, 2] {
            assert!(keyed.try_acquire(key, 1).is_ok());
            let mut one = Box::pin(keyed.acquire(key, 1));
            assert!(one.as_mut().poll(&mut cx).is_pending());
            waiting.push(one);
        }
        time.advance(Duration::from_secs(1));
        for one in &mut waiting {
            assert!(one.as_mut().poll(&mut cx).is_ready());
        }
    }));
}

/// A key that waited answers, counts and hints as a gate with the same waiters.
#[test]
fn behind_waiters_a_key_answers_as_a_gate() {
    let time = ManualClock::new();
    let rule = TokenBucket::per_second(2);
    let queue = Queue::fifo(2);
    let one = keyed(rule.clone(), Some(queue), &time);
    let gate = Gate::builder(rule).clock(time.clock()).queue(queue).build();
    let mut waiting = Vec::new();
    let mut expected = Vec::new();
    for cost in [2, 1, 2, 1, 3, 0] {
        let mut came = Box::pin(one.acquire(&1, cost));
        let mut other = Box::pin(gate.acquire(cost));
        let (a, b) = (poll::poll(&mut came), poll::poll(&mut other));
        assert_eq!(
            a.map(|answer| answer.map(|permit| permit.cost())),
            b.map(|answer| answer.map(|permit| permit.cost())),
        );
        waiting.push(came);
        expected.push(other);
        for cost in 0..4 {
            let came = one.try_acquire(&1, cost).map(|permit| permit.cost());
            let other = gate.try_acquire(cost).map(|permit| permit.cost());
            assert_eq!(came, other);
            assert_eq!(one.estimate(&1, cost), gate.estimate(cost));
        }
    }
    let (came, other) = (one.snapshot(), gate.snapshot());
    assert_eq!(
        (came.granted_total(), came.denied_total(), came.waiters()),
        (other.granted_total(), other.denied_total(), other.waiters()),
    );
}

/// Refused waiters were counted only when their futures looked, and those that left were forgotten with their gate.
#[test]
fn totals_of_a_key_are_those_of_a_gate() {
    let time = ManualClock::new();
    let rule = TokenBucket::per_second(1);
    let queue = Queue::fifo(1).full(plimsoll::Full::Oldest);
    let keyed = keyed(rule, Some(queue), &time);
    assert!(keyed.try_acquire(&1, 1).is_ok());
    let mut evicted = Box::pin(keyed.acquire(&1, 1));
    assert!(poll::poll(&mut evicted).is_pending());
    let mut cancelled = Box::pin(keyed.acquire(&1, 1));
    assert!(poll::poll(&mut cancelled).is_pending());
    drop((evicted, cancelled));
    let totals = |keyed: &Keyed<u8, _>| {
        let seen = keyed.snapshot();
        HashMap::from([
            ("granted", seen.granted_total()),
            ("denied", seen.denied_total()),
            ("evicted", seen.evicted_total()),
            ("cancelled", seen.cancelled_total()),
        ])
    };
    let expected = HashMap::from([
        ("granted", 1),
        ("denied", 1),
        ("evicted", 1),
        ("cancelled", 1),
    ]);
    assert_eq!(totals(&keyed), expected);
    assert!(keyed.forget(&1));
    assert_eq!(totals(&keyed), expected);
}

/// A permit that is given back counts as such whichever way it goes.
#[test]
fn slots_of_a_key_come_back_by_drop_and_by_undo() {
    let keyed: Keyed<u8, _> = Keyed::new(Concurrency::new(2));
    let (one, other) = (
        keyed.try_acquire(&1, 1).unwrap(),
        keyed.try_acquire(&1, 1).unwrap(),
    );
    assert_eq!(keyed.snapshot().in_use(), 2);
    keyed.undo(&1, one);
    drop(other);
    assert_eq!(keyed.snapshot().in_use(), 0);
    assert_eq!(keyed.snapshot().granted_total(), 1);
}
