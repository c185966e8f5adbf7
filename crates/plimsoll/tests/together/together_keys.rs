//! Keys among several limiters that are asked at once: a refusal leaves no trace, waiting is fair, and a key that was only
//! waited for is forgotten afterwards.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::together::{Ask, Key, Permits, Refused, Waiting};
use plimsoll::{
    Concurrency, Demand, Gate, Keyed, ManualClock, PenaltyBucket, Permit, Queue, Quota, Reason,
    Rule, SlidingLog, Smooth, TokenBucket,
};

const SECOND: Duration = Duration::from_secs(1);

fn keyed<R: Rule + Clone>(rule: R, time: &ManualClock) -> Keyed<String, R> {
    let builder = Keyed::builder(rule).clock(time.clock());
    builder.queue(Queue::fifo(1000)).build()
}

fn gate<R: Rule>(rule: R, time: &ManualClock) -> Gate<R> {
    let builder = Gate::builder(rule).clock(time.clock());
    builder.queue(Queue::fifo(1000)).build()
}

fn per_second(units: u64) -> TokenBucket {
    TokenBucket::greedy(Quota::per_second(units))
}

type Answer = Poll<Result<Vec<Option<Permit<'static>>>, Refused>>;

fn poll(waiting: &mut Waiting, asks: &[Ask<'_>]) -> Answer {
    waiting.poll(asks, &mut Context::from_waker(Waker::noop()))
}

/// What is left for a key after refusals, beside a twin that was not asked.
fn assert_untouched<R: Rule + Clone>(rule: R) {
    let time = ManualClock::new();
    let (table, twin) = (keyed(rule.clone(), &time), keyed(rule.clone(), &time));
    let other = keyed(rule, &time);
    for table in [&table, &twin, &other] {
        table.try_acquire("red", 1).unwrap().forget();
    }
    let full = gate(Concurrency::new(1), &time);
    let held = full.try_acquire(1).unwrap();
    let (one, two) = (Key::new(&table, "red"), Key::new(&other, "red"));
    time.advance(SECOND * 2);
    for _ in 0..20 {
        time.advance(Duration::from_millis(90));
        let asks = [Ask::key(&one, 1), Ask::key(&two, 1), Ask::limiter(&full, 1)];
        let refused = Ask::try_all(&asks, &mut Permits::new()).unwrap_err();
        assert_eq!(refused.index, 2);
    }
    drop(held);
    for _ in 0..10 {
        time.advance(Duration::from_millis(70));
        let answers = [&table, &twin, &other].map(|table| {
            let answer = table.try_acquire("red", 1);
            answer
                .map(Permit::forget)
                .map_err(|denied| (denied.reason(), denied.retry_after(), denied.remaining()))
        });
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[2], answers[1]);
    }
}

#[test]
fn a_refusal_leaves_no_trace_in_a_key() {
    assert_untouched(per_second(5));
    assert_untouched(SlidingLog::new(Quota::per_second(5)));
    assert_untouched(Smooth::warm_up(5.0, SECOND, 3.0));
    assert_untouched(PenaltyBucket::new(per_second(5)).lockout(3, SECOND * 30));
}

#[test]
fn costs_of_one_key_add_up_and_what_never_fits_is_too_large_at_once() {
    let time = ManualClock::new();
    let waits = keyed(Concurrency::new(3), &time);
    let builder = Keyed::builder(Concurrency::new(3)).clock(time.clock());
    [waits, builder.build()].iter().for_each(costs_add_up);
}

fn costs_add_up(table: &Keyed<String, Concurrency>) {
    let key = Key::new(table, "red");
    let mut held = Permits::new();
    Ask::try_all(&[Ask::key(&key, 1), Ask::key(&key, 2)], &mut held).unwrap();
    assert_eq!(held.len(), 2);
    assert_eq!(table.standing("red").remaining.unwrap(), 0);
    drop(held);
    assert_eq!(table.standing("red").remaining.unwrap(), 3);

    let asks = [Ask::key(&key, 2), Ask::key(&key, 2)];
    let refused = Ask::try_all(&asks, &mut Permits::new()).unwrap_err();
    assert_eq!(refused.denied.reason(), Reason::TooLarge);
    let refused = Waiting::start(&asks).unwrap_err();
    assert_eq!(refused.denied.reason(), Reason::TooLarge);
    let refused = Ask::too_large_together(&asks).unwrap();
    assert_eq!(
        (refused.index, refused.denied.reason()),
        (0, Reason::TooLarge)
    );
    assert!(Ask::too_large_together(&asks[..1]).is_none());
    assert_eq!(table.standing("red").remaining.unwrap(), 3);
}

/// Both are busy, each with a queue that never empties: whoever waits for both is served before all who came later.
#[test]
fn one_that_waits_for_two_keys_is_served_before_those_that_come_later() {
    let time = ManualClock::new();
    let tables = [1, 2].map(|limit| keyed(Concurrency::new(limit), &time));
    let keys = [Key::new(&tables[0], "red"), Key::new(&tables[1], "blue")];
    let asks = [Ask::key(&keys[0], 1), Ask::key(&keys[1], 2)];
    let single = |at: usize| [asks[at]];
    let mut running: Vec<Vec<_>> = (0..2).map(|_| Vec::new()).collect();
    let mut queued: Vec<Vec<Waiting>> = (0..2).map(|_| Vec::new()).collect();
    for (at, running) in running.iter_mut().enumerate() {
        let mut first = Waiting::start(&single(at)).unwrap();
        assert!(!first.is_queued());
        let Poll::Ready(Ok(permits)) = poll(&mut first, &single(at)) else {
            panic!("nobody is there");
        };
        running.push(permits);
    }
    let mut both = Waiting::start(&asks).unwrap();
    assert!(both.is_queued());
    let mut later = 0;
    for round in 0..100 {
        let at = round % 2;
        queued[at].push(Waiting::start(&single(at)).unwrap());
        // One ends, and whoever can run does.
        drop(running[at].pop());
        if poll(&mut both, &asks).is_ready() {
            assert!(later <= 2, "{later} were served before");
            return;
        }
        if let Poll::Ready(answer) = poll(&mut queued[at][0], &single(at)) {
            later += 1;
            queued[at].remove(0);
            running[at].push(answer.unwrap());
        }
    }
    panic!("it was never served");
}

#[test]
fn one_moment_begins_the_wait_at_all_of_them() {
    let time = ManualClock::new();
    let tables = [1, 2].map(|_| keyed(Concurrency::new(1), &time));
    let keys = tables.each_ref().map(|table| Key::new(table, "red"));
    let demand = Demand::of(1).within(SECOND);
    let asks = keys.each_ref().map(|key| Ask::key(key, demand));
    let held = tables[0].try_acquire("red", 1).unwrap();
    let other = tables[1].try_acquire("red", 1).unwrap();
    let mut waiting = Waiting::start(&asks).unwrap();
    assert!(poll(&mut waiting, &asks).is_pending());
    time.advance(SECOND * 6 / 10);
    drop(held);
    assert!(poll(&mut waiting, &asks).is_pending());
    time.advance(SECOND * 6 / 10);
    let Poll::Ready(Err(refused)) = poll(&mut waiting, &asks) else {
        panic!("its second is over");
    };
    assert_eq!(
        (refused.index, refused.denied.reason()),
        (1, Reason::TimedOut)
    );
    drop(other);
}

#[test]
fn a_key_that_was_only_waited_for_makes_room_afterwards() {
    let time = ManualClock::new();
    let table: Keyed<String, _> = Keyed::builder(Concurrency::new(1))
        .queue(Queue::fifo(10))
        .clock(time.clock())
        .max_keys(1)
        .build();
    let full = gate(Concurrency::new(1), &time);
    let held = full.try_acquire(1).unwrap();
    let key = Key::new(&table, "red");
    let asks = [Ask::key(&key, 1), Ask::limiter(&full, 1)];
    let mut waiting = Waiting::start(&asks).unwrap();
    assert!(poll(&mut waiting, &asks).is_pending());
    assert_eq!(
        table.try_acquire("blue", 1).unwrap_err().reason(),
        Reason::KeysFull
    );
    drop(waiting);
    drop(table.try_acquire("blue", 1).unwrap());
    drop(held);
}

/// A permit of a rate does not know its key: what was granted is undone by the list.
#[test]
fn what_was_granted_to_keys_can_be_undone_and_settled() {
    let time = ManualClock::new();
    let (rate, slots) = (
        keyed(per_second(10), &time),
        keyed(Concurrency::new(2), &time),
    );
    let keys = (Key::new(&rate, "red"), Key::new(&slots, "red"));
    let asks = [Ask::key(&keys.0, 4), Ask::key(&keys.1, 1)];
    let left = || {
        (
            rate.standing("red").remaining.unwrap(),
            slots.standing("red").remaining.unwrap(),
        )
    };
    let mut held = Permits::new();
    Ask::try_all(&asks, &mut held).unwrap();
    assert_eq!(left(), (6, 1));
    Ask::undo_all(&asks, held);
    assert_eq!(left(), (10, 2));

    let mut held = Permits::new();
    Ask::try_all(&asks, &mut held).unwrap();
    let mut permits: Vec<_> = held.into_each().collect();
    asks[0].settle(&mut permits[0], 1);
    assert_eq!(left(), (9, 1));
    drop(permits);
    assert_eq!(left(), (9, 2));
}
