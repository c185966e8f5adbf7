//! Random operations on permits and reservations while time goes on, against a ledger kept by hand.
//!
//! The ledger writes down what was taken and when, strikes out what was undone or given back, and knows nothing else.
//! From that it tells what has to be in use. Of a bucket that is filled all the time it tells what there would be if
//! what was undone had never been: no more than that may be available, and exactly that while nothing was undone.

mod ledger;

use std::task::Poll;
use std::time::Duration;

use self::ledger::{Kept, Ledger, Share};
use crate::poll::poll;
use plimsoll::{
    Concurrency, Demand, FixedWindow, Gate, Limiter, LimiterExt, ManualClock, Outcome, Permit,
    Quota, Reservation, SlidingLog, TokenBucket,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const LIMIT: u64 = 20;
/// Of a window. A bucket gets one token in `TOKEN`.
const WINDOW: u64 = 20_000_000;
const TOKEN: u64 = WINDOW / LIMIT;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Slots,
    Log,
    Fixed,
    Bucket,
}

enum Subject {
    Slots(Gate<Concurrency>),
    Log(Gate<SlidingLog>),
    Fixed(Gate<FixedWindow>),
    Bucket(Gate<TokenBucket>),
}

impl Subject {
    fn new(kind: Kind, time: &ManualClock) -> Self {
        let quota = Quota::new(LIMIT, Duration::from_nanos(WINDOW));
        let clock = time.clock();
        match kind {
            Kind::Slots => Self::Slots(Gate::builder(Concurrency::new(LIMIT)).clock(clock).build()),
            Kind::Log => Self::Log(Gate::builder(SlidingLog::new(quota)).clock(clock).build()),
            Kind::Fixed => Self::Fixed(Gate::builder(FixedWindow::new(quota)).clock(clock).build()),
            Kind::Bucket => Self::Bucket(
                Gate::builder(TokenBucket::greedy(quota))
                    .clock(clock)
                    .build(),
            ),
        }
    }

    fn get(&self) -> &dyn Limiter {
        match self {
            Self::Slots(gate) => gate,
            Self::Log(gate) => gate,
            Self::Fixed(gate) => gate,
            Self::Bucket(gate) => gate,
        }
    }

    fn reset(&self) {
        match self {
            Self::Slots(gate) => gate.reset(),
            Self::Log(gate) => gate.reset(),
            Self::Fixed(gate) => gate.reset(),
            Self::Bucket(gate) => gate.reset(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Take(u64),
    TakeOwned(u64),
    Reserve(u64),
    Use(usize),
    Cancel(usize),
    UndoReserved(usize),
    Split(usize, u64),
    Merge(usize, usize),
    Own(usize),
    GiveBack(usize),
    Finish(usize),
    Undo(usize),
    Forget(usize),
    Drop(usize),
    Advance(u64),
    Reset,
}

fn op() -> impl Strategy<Value = Op> {
    let which = any::<usize>;
    let spans = prop_oneof![
        Just(1),
        1..TOKEN * 3,
        Just(TOKEN),
        Just(WINDOW),
        1..WINDOW * 2
    ];
    prop_oneof![
        6 => (0u64..7).prop_map(Op::Take),
        2 => (0u64..7).prop_map(Op::TakeOwned),
        4 => (1u64..9).prop_map(Op::Reserve),
        2 => which().prop_map(Op::Use),
        1 => which().prop_map(Op::Cancel),
        2 => which().prop_map(Op::UndoReserved),
        2 => (which(), 0u64..6).prop_map(|(at, cost)| Op::Split(at, cost)),
        2 => (which(), which()).prop_map(|(to, from)| Op::Merge(to, from)),
        1 => which().prop_map(Op::Own),
        1 => which().prop_map(Op::GiveBack),
        1 => which().prop_map(Op::Finish),
        4 => which().prop_map(Op::Undo),
        1 => which().prop_map(Op::Forget),
        1 => which().prop_map(Op::Drop),
        4 => spans.prop_map(Op::Advance),
        1 => Just(Op::Reset),
    ]
}

fn pick<T>(out: &mut Vec<T>, which: usize) -> Option<T> {
    (!out.is_empty()).then(|| out.swap_remove(which % out.len()))
}

struct Reserved<'a> {
    reservation: Reservation<'a>,
    share: Share,
}

struct Run<'a> {
    subject: &'a Subject,
    time: &'a ManualClock,
    ledger: Ledger,
    permits: Vec<Kept<'a>>,
    reserved: Vec<Reserved<'a>>,
}

impl<'a> Run<'a> {
    fn took(&mut self, permit: Permit<'a>) {
        let units = permit.cost();
        let entry = self.ledger.write(permit.granted_at(), units);
        let shares = vec![Share { entry, units }];
        self.permits.push(Kept { permit, shares });
    }

    fn reserve(&mut self, cost: u64) {
        let Ok(reservation) = self.subject.get().reserve(Demand::of(cost)) else {
            return;
        };
        // A place in a queue would let others through later, at moments of its own.
        let waits = reservation.wait() != Some(Duration::ZERO);
        if waits && self.ledger.kind != Kind::Bucket {
            return reservation.undo();
        }
        let entry = self.ledger.write(self.time.now(), cost);
        let share = Share { entry, units: cost };
        self.reserved.push(Reserved { reservation, share });
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Take(cost) => {
                if let Ok(permit) = self.subject.get().try_acquire(Demand::of(cost)) {
                    self.took(permit);
                }
            }
            Op::TakeOwned(cost) => {
                if let Some(permit) = self.subject.get().attempt_owned(Demand::of(cost)) {
                    self.took(permit);
                }
            }
            Op::Reserve(cost) => self.reserve(cost),
            Op::Use(which) => {
                let Some(mut held) = pick(&mut self.reserved, which) else {
                    return;
                };
                match poll(&mut held.reservation) {
                    Poll::Ready(permit) => self.permits.push(Kept {
                        permit: permit.expect("nobody closes it"),
                        shares: vec![held.share],
                    }),
                    Poll::Pending => self.reserved.push(held),
                }
            }
            Op::Cancel(which) => {
                if let Some(held) = pick(&mut self.reserved, which) {
                    let late = held.reservation.ready_at() < Some(self.time.now());
                    drop(held.reservation);
                    if !late || self.ledger.kind == Kind::Slots {
                        self.ledger.strike(&[held.share]);
                    }
                }
            }
            Op::UndoReserved(which) => {
                if let Some(held) = pick(&mut self.reserved, which) {
                    held.reservation.undo();
                    self.ledger.strike(&[held.share]);
                }
            }
            Op::Split(which, cost) => {
                if let Some(mut whole) = pick(&mut self.permits, which) {
                    if let Some(permit) = whole.permit.split(cost) {
                        let shares = whole.part(cost);
                        self.permits.push(Kept { permit, shares });
                    }
                    self.permits.push(whole);
                }
            }
            Op::Merge(to, from) => {
                let Some(mut to) = pick(&mut self.permits, to) else {
                    return;
                };
                let Some(from) = pick(&mut self.permits, from) else {
                    return self.permits.push(to);
                };
                match to.permit.merge(from.permit) {
                    Ok(()) => to.shares.extend(from.shares),
                    Err(permit) => self.permits.push(Kept { permit, ..from }),
                }
                self.permits.push(to);
            }
            Op::Own(which) => {
                if let Some(Kept { permit, shares }) = pick(&mut self.permits, which) {
                    let permit = permit.into_owned();
                    self.permits.push(Kept { permit, shares });
                }
            }
            Op::GiveBack(which) => {
                if let Some(mut kept) = pick(&mut self.permits, which) {
                    kept.permit.give_back(Outcome::Success);
                    self.ledger.give_back(&std::mem::take(&mut kept.shares));
                    self.permits.push(kept);
                }
            }
            Op::Finish(which) => {
                if let Some(kept) = pick(&mut self.permits, which) {
                    kept.permit.finish(Outcome::Success);
                    self.ledger.give_back(&kept.shares);
                }
            }
            Op::Undo(which) => {
                if let Some(kept) = pick(&mut self.permits, which) {
                    self.ledger.mixed |= self.ledger.is_mixed(&kept);
                    self.subject.get().undo(kept.permit);
                    self.ledger.strike(&kept.shares);
                }
            }
            Op::Forget(which) => {
                if let Some(kept) = pick(&mut self.permits, which) {
                    kept.permit.forget();
                }
            }
            Op::Drop(which) => {
                if let Some(kept) = pick(&mut self.permits, which) {
                    drop(kept.permit);
                    self.ledger.give_back(&kept.shares);
                }
            }
            Op::Advance(nanos) => self.time.advance(Duration::from_nanos(nanos)),
            Op::Reset => {
                self.subject.reset();
                self.ledger.reset(self.time.now());
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for kept in &self.permits {
            prop_assert_eq!(kept.permit.cost(), kept.cost());
        }
        let (seen, now) = (self.subject.get().snapshot(), self.time.now());
        if self.ledger.kind != Kind::Bucket {
            let expected = self.ledger.in_use(now);
            prop_assert!(
                seen.in_use() >= expected,
                "{} < {}",
                seen.in_use(),
                expected
            );
            if !self.ledger.mixed {
                prop_assert_eq!(seen.in_use(), expected);
            }
            return Ok(());
        }
        let tokens = self.ledger.level(now).max(0).cast_unsigned() / TOKEN;
        prop_assert!(
            seen.available() <= tokens,
            "{} > {}",
            seen.available(),
            tokens
        );
        if !self.ledger.struck {
            prop_assert_eq!(seen.available(), tokens);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        cases: 400,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_in_use_is_what_the_ledger_says(
        kind in prop_oneof![Just(Kind::Slots), Just(Kind::Log), Just(Kind::Fixed), Just(Kind::Bucket)],
        ops in proptest::collection::vec(op(), 1..80),
    ) {
        let time = ManualClock::new();
        let subject = Subject::new(kind, &time);
        let mut run = Run {
            subject: &subject,
            time: &time,
            ledger: Ledger::new(kind),
            permits: Vec::new(),
            reserved: Vec::new(),
        };
        for op in ops {
            run.apply(op);
            run.check()?;
        }
    }
}
