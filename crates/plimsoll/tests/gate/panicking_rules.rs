//! A rule that panics takes nothing along: what was used stays used, what others granted for the same decision goes
//! back, and whoever was served is woken.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use plimsoll::{
    All, Clock, Concurrency, Events, Gate, Limiter, ManualClock, Moment, Packed, Queue, Quota,
    Refusal, Rule, TokenBucket,
};

const NEVER: u8 = 0;
const WHEN_TAKEN: u8 = 1;
const WHEN_LOOKED_AT: u8 = 2;
const WHEN_UNPACKED: u8 = 3;

/// A bucket that panics when it is told to.
#[derive(Debug, Clone)]
struct Fragile {
    bucket: TokenBucket,
    panics: Arc<AtomicU8>,
}

impl Fragile {
    fn new(limit: u64) -> Self {
        Self {
            bucket: TokenBucket::greedy(Quota::per_hour(limit)),
            panics: Arc::default(),
        }
    }

    fn may_panic(&self, when: u8) {
        assert_ne!(
            self.panics.load(Ordering::Relaxed),
            when,
            "a rule that panics"
        );
    }
}

impl Rule for Fragile {
    type State = <TokenBucket as Rule>::State;
    type Fast = Self;

    fn limit(&self) -> u64 {
        self.bucket.limit()
    }

    fn fresh(&self, now: Moment) -> Self::State {
        self.bucket.fresh(now)
    }

    fn take(&self, state: &mut Self::State, now: Moment, cost: u64) -> Result<(), Refusal> {
        self.may_panic(WHEN_TAKEN);
        self.bucket.take(state, now, cost)
    }

    fn peek(&self, state: &Self::State, now: Moment, cost: u64) -> Result<(), Refusal> {
        self.may_panic(WHEN_LOOKED_AT);
        self.bucket.peek(state, now, cost)
    }

    fn available(&self, state: &Self::State, now: Moment) -> u64 {
        self.bucket.available(state, now)
    }

    fn refund(&self, state: &mut Self::State, now: Moment, taken: Moment, cost: u64) {
        self.bucket.refund(state, now, taken, cost);
    }

    fn full_at(&self, state: &Self::State, now: Moment) -> Option<Moment> {
        self.bucket.full_at(state, now)
    }
}

impl Packed<Self> for Fragile {
    fn pack(rule: &Self, state: &<Self as Rule>::State, now: Moment) -> Option<u64> {
        TokenBucket::pack(&rule.bucket, state, now)
    }

    fn unpack(rule: &Self, word: u64, now: Moment) -> <Self as Rule>::State {
        rule.may_panic(WHEN_UNPACKED);
        TokenBucket::unpack(&rule.bucket, word, now)
    }

    fn epoch_bits(rule: &Self) -> u32 {
        TokenBucket::epoch_bits(&rule.bucket)
    }
}

fn gate<R: Rule>(rule: R, time: &ManualClock) -> Arc<Gate<R>> {
    let builder = Gate::builder(rule).queue(Queue::fifo(100));
    Arc::new(builder.clock(time.clock()).build())
}

/// Panics, once, when the rule is used that way.
fn panics<T>(rule: &Fragile, when: u8, work: impl FnOnce() -> T) {
    rule.panics.store(when, Ordering::Relaxed);
    let panicked = catch_unwind(AssertUnwindSafe(work)).is_err();
    rule.panics.store(NEVER, Ordering::Relaxed);
    assert!(panicked, "{when}");
}

/// The state was out of its place while the rule was asked for a hint, and was lost: the limit began anew.
#[test]
fn a_rule_that_panics_while_another_refuses_does_not_forget_what_is_used() {
    let time = ManualClock::new();
    let rule = Fragile::new(10);
    let (full, fragile) = (gate(Concurrency::new(1), &time), gate(rule.clone(), &time));
    let _busy = full.try_acquire(1).unwrap();
    fragile.try_acquire(9).unwrap().forget();
    // While somebody listens, the state is behind the lock.
    let _events = fragile.subscribe(1);
    let all = All::new([full.clone() as Arc<dyn Limiter>, fragile.clone()]);
    panics(&rule, WHEN_LOOKED_AT, || drop(all.try_acquire(1)));
    assert_eq!(fragile.snapshot().available(), 1);
    assert_eq!(fragile.snapshot().limit(), 10);
}

/// The word had been taken out of its place, and was lost when it could not be read.
#[test]
fn a_rule_that_panics_over_its_word_does_not_forget_what_is_used() {
    let time = ManualClock::new();
    let rule = Fragile::new(10);
    let fragile = gate(rule.clone(), &time);
    fragile.try_acquire(9).unwrap().forget();
    panics(&rule, WHEN_UNPACKED, || fragile.charge(1));
    assert_eq!(fragile.snapshot().available(), 1);
    assert!(fragile.try_acquire(2).is_err());
    fragile.try_acquire(1).unwrap().forget();
}

/// What had been taken from the others before the panic was never given back.
#[test]
fn a_rule_that_panics_leaves_nothing_taken_of_others() {
    for round in 0_usize..40 {
        for when in [WHEN_TAKEN, WHEN_LOOKED_AT, WHEN_UNPACKED] {
            let time = ManualClock::new();
            let rule = Fragile::new(10);
            let fragile = gate(rule.clone(), &time);
            let rates: Vec<_> = (0..3)
                .map(|_| gate(TokenBucket::greedy(Quota::per_hour(10)), &time))
                .collect();
            let slots: Vec<_> = (0..3).map(|_| gate(Concurrency::new(10), &time)).collect();
            // Some are decided by their word, some behind their lock, in whatever order their addresses have.
            let mut events: Vec<Events> = Vec::new();
            if round & 1 == 1 || when != WHEN_UNPACKED {
                events.push(rates[round % 3].subscribe(1));
                events.push(slots[round / 3 % 3].subscribe(1));
            }
            if when == WHEN_LOOKED_AT {
                events.push(fragile.subscribe(1));
            }
            let mut members: Vec<Arc<dyn Limiter>> = Vec::new();
            members.extend(
                rates
                    .iter()
                    .map(|gate| Arc::clone(gate) as Arc<dyn Limiter>),
            );
            members.extend(
                slots
                    .iter()
                    .map(|gate| Arc::clone(gate) as Arc<dyn Limiter>),
            );
            members.insert(round % 7, fragile.clone());
            let all = All::new(members);
            panics(&rule, when, || drop(all.try_acquire(2)));
            for (number, gate) in rates.iter().enumerate() {
                let seen = gate.snapshot();
                let seen = (seen.available(), seen.granted_total());
                assert_eq!(seen, (10, 0), "{round} {when}: rate {number}");
            }
            for (number, gate) in slots.iter().enumerate() {
                let seen = gate.snapshot();
                let seen = (seen.in_use(), seen.granted_total());
                assert_eq!(seen, (0, 0), "{round} {when}: slots {number}");
            }
            assert!(all.try_acquire(2).is_ok());
        }
    }
}

#[derive(Default)]
struct Counts(AtomicU64);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Those who were served on the way of a decision over several limiters were not woken if a rule then panicked.
#[test]
fn whoever_was_served_is_woken_although_a_rule_panics_afterwards() {
    for order in [false, true] {
        let rule = Fragile::new(10);
        let fragile = Arc::new(Gate::new(rule.clone()));
        let _events = fragile.subscribe(1);
        // One in 300 ms. So few are served one by one on the machine's clock too.
        let slow = TokenBucket::greedy(Quota::new(10, Duration::from_secs(3))).initial(0);
        let slow = Arc::new(Gate::builder(slow).queue(Queue::fifo(10)).build());
        let mut members = [slow.clone() as Arc<dyn Limiter>, fragile];
        if order {
            members.reverse();
        }
        let all = All::new(members);
        let clock = Clock::precise();
        let due = clock.now().plus(Duration::from_millis(310));
        let (mut waiting, counts) = (slow.acquire(1), Arc::new(Counts::default()));
        let waker = Waker::from(Arc::clone(&counts));
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut waiting).poll(&mut cx).is_pending());
        while clock.now() < due {
            thread::yield_now();
        }
        panics(&rule, WHEN_LOOKED_AT, || drop(all.try_acquire(1)));
        let end = clock.now().plus(Duration::from_secs(5));
        while counts.0.load(Ordering::Acquire) == 0 {
            assert!(clock.now() < end, "nobody woke it");
            thread::yield_now();
        }
        assert!(Pin::new(&mut waiting).poll(&mut cx).is_ready());
    }
}

/// One who waited for several lost what the others had granted when one of their rules panicked.
#[test]
fn a_rule_that_panics_leaves_nothing_taken_by_one_who_waited() {
    for round in 0..10 {
        let time = ManualClock::new();
        let rule = Fragile::new(10);
        let before = gate(Concurrency::new(2), &time);
        let fragile = gate(rule.clone(), &time);
        let after = gate(Concurrency::new(2), &time);
        let all = All::new([before.clone() as Arc<dyn Limiter>, fragile, after.clone()]);
        let busy = before.try_acquire(2).unwrap();
        let mut waiting = all.acquire(1);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut waiting).poll(&mut cx).is_pending());
        drop(busy);
        panics(&rule, WHEN_TAKEN, || {
            let _permit = Pin::new(&mut waiting).poll(&mut cx);
        });
        drop(waiting);
        assert_eq!(before.snapshot().in_use(), 0, "{round}");
        assert_eq!(after.snapshot().in_use(), 0, "{round}");
        assert_eq!(before.snapshot().waiters(), 0, "{round}");
        assert!(all.try_acquire(2).is_ok());
    }
}
