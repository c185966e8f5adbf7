//! Random demands to several limiters at once, against twins that are asked one by one: a refusal leaves no trace, a grant
//! is charged once, and a hint is exact.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::sync::Arc;
use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Limit, Sample};
use plimsoll::{
    All, Bandwidths, Clock, Concurrency, Demand, Denied, FixedWindow, Gate, Limiter, ManualClock,
    Outcome, PenaltyBucket, Permit, Quota, Reason, Refresh, Rule, SlidingCounter, SlidingLog,
    SlidingWindow, Smooth, TokenBucket,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Ask(u64),
    /// Asks one member alone.
    Single(usize, u64),
    Reserve(u64, u64),
    /// Comes back exactly when it was told to.
    ComeBack(u64),
    GiveBack(usize),
    Undo(usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..5_u64).prop_map(Step::Ask),
        2 => (0..6_usize, 1..4_u64).prop_map(|(which, cost)| Step::Single(which, cost)),
        1 => (1..5_u64, 0..2000_u64).prop_map(|(cost, millis)| Step::Reserve(cost, millis)),
        1 => (1..5_u64).prop_map(Step::ComeBack),
        2 => (0..8_usize).prop_map(Step::GiveBack),
        2 => (0..8_usize).prop_map(Step::Undo),
        3 => (0..1500_u64).prop_map(Step::Advance),
    ]
}

/// An adaptive limit that stays.
#[derive(Debug)]
struct Fixed(u64);

impl Limit for Fixed {
    fn limit(&self) -> u64 {
        self.0
    }

    fn sample(&mut self, _sample: &Sample) {}
}

const KINDS: u64 = 13;

/// Whether a reservation of it can be cancelled without a trace.
fn cancels_exactly(kind: u64) -> bool {
    !matches!(kind % KINDS, 7..=9)
}

fn gate(kind: u64, clock: &Clock) -> Arc<dyn Limiter> {
    fn of<R: Rule>(rule: R, clock: &Clock) -> Arc<dyn Limiter> {
        Arc::new(Gate::builder(rule).clock(clock.clone()).build())
    }
    let units = 3 + kind / KINDS;
    let quota = Quota::per_second(units);
    let bucket = TokenBucket::greedy(quota);
    match kind % KINDS {
        0 => of(bucket, clock),
        1 => of(TokenBucket::interval(quota), clock),
        2 => of(FixedWindow::new(quota), clock),
        3 => of(SlidingWindow::new(quota, 4), clock),
        4 => of(SlidingLog::new(quota), clock),
        5 => of(SlidingCounter::new(quota), clock),
        6 => of(Refresh::new(quota), clock),
        7 => of(Smooth::bursty(units as f64, Duration::from_secs(1)), clock),
        8 => of(
            Smooth::warm_up(units as f64, Duration::from_secs(2), 3.0),
            clock,
        ),
        9 => of(
            PenaltyBucket::new(bucket).lockout(2, Duration::from_secs(3)),
            clock,
        ),
        10 => {
            let minute = Quota::new(20 * units, Duration::from_secs(60));
            of(
                Bandwidths::new([bucket, TokenBucket::greedy(minute)]),
                clock,
            )
        }
        11 => of(Adaptive::new(Fixed(units)), clock),
        _ => of(Concurrency::new(units), clock),
    }
}

/// A limiter, its twin, and how many times it is a member.
struct Member {
    kind: u64,
    asked: Arc<dyn Limiter>,
    twin: Arc<dyn Limiter>,
    times: u64,
}

impl Member {
    fn demand(&self, cost: u64) -> Demand {
        Demand::of(cost * self.times)
    }

    /// Whatever has been done to the one has been done to the other.
    fn check(&self, counted: bool) {
        let told = |denied: Denied| (denied.reason(), denied.retry_after(), denied.remaining());
        let answers = |limiter: &dyn Limiter| -> Vec<_> {
            let answers = (0..=5).map(|cost| limiter.estimate(Demand::of(cost)));
            answers.map(|answer| answer.map_err(told)).collect()
        };
        assert_eq!(
            answers(&*self.asked),
            answers(&*self.twin),
            "kind {}",
            self.kind % KINDS
        );
        let (asked, twin) = (self.asked.snapshot(), self.twin.snapshot());
        let state = |seen: &plimsoll::Snapshot| (seen.available(), seen.in_use());
        assert_eq!(state(&asked), state(&twin));
        if counted {
            let totals = |seen: &plimsoll::Snapshot| (seen.granted_total(), seen.denied_total());
            assert_eq!(totals(&asked), totals(&twin), "kind {}", self.kind % KINDS);
        }
    }
}

struct World {
    times: [ManualClock; 2],
    /// In the order in which they are asked.
    members: Vec<Member>,
    all: All,
    counted: bool,
}

impl World {
    /// The groups are members of members, those with one member are that member.
    fn new(kinds: &[(u64, usize)], groups: &[Vec<usize>]) -> Self {
        let times = [ManualClock::new(), ManualClock::new()];
        times[1].advance(Duration::from_secs(1_000_000));
        let made = |&(kind, clock): &(u64, usize)| (kind, gate(kind, &times[clock].clock()));
        let asked: Vec<_> = kinds.iter().map(made).collect();
        let twins: Vec<_> = kinds.iter().map(made).collect();
        let mut members: Vec<Member> = Vec::new();
        let mut top: Vec<Arc<dyn Limiter>> = Vec::new();
        for group in groups {
            let mut inner = Vec::new();
            for &index in group {
                let index = index % kinds.len();
                let (kind, limiter) = &asked[index];
                inner.push(Arc::clone(limiter));
                match members
                    .iter_mut()
                    .find(|known| Arc::ptr_eq(&known.asked, limiter))
                {
                    Some(known) => known.times += 1,
                    None => members.push(Member {
                        kind: *kind,
                        asked: Arc::clone(limiter),
                        twin: Arc::clone(&twins[index].1),
                        times: 1,
                    }),
                }
            }
            match <[_; 1]>::try_from(inner) {
                Ok([one]) => top.push(one),
                Err(inner) => top.push(Arc::new(All::new(inner))),
            }
        }
        Self {
            times,
            members,
            all: All::new(top),
            counted: true,
        }
    }

    fn advance(&self, span: Duration) {
        for time in &self.times {
            time.advance(span);
        }
    }

    /// Asks the twins one by one; the index of the first that refuses.
    fn ask_twins(&self, cost: u64) -> Result<Vec<Permit<'_>>, (usize, Denied)> {
        let ask = |member: &Member| member.twin.estimate(member.demand(cost));
        match self.members.iter().position(|member| ask(member).is_err()) {
            Some(first) => {
                let member = &self.members[first];
                let demand = member.demand(cost);
                Err((first, member.twin.try_acquire(demand).unwrap_err()))
            }
            None => {
                let granted = self.members.iter();
                let granted = granted.map(|member| member.twin.try_acquire(member.demand(cost)));
                Ok(granted.map(Result::unwrap).collect())
            }
        }
    }

    fn ask(&self, cost: u64) -> Option<(Permit<'_>, Vec<Permit<'_>>)> {
        let estimated = self
            .all
            .estimate(Demand::of(cost))
            .map_err(|denied| denied.retry_after());
        let answer = self.all.try_acquire(cost);
        let answered = answer.as_ref().map(|_| ()).map_err(Denied::retry_after);
        assert_eq!(estimated, answered);
        match (answer, self.ask_twins(cost)) {
            (Ok(permit), Ok(twins)) => Some((permit, twins)),
            (Err(denied), Err((first, refused))) => {
                self.check_hint(cost, &denied, first, &refused);
                None
            }
            (answer, twins) => panic!("{answer:?}, but one by one {twins:?}"),
        }
    }

    /// It takes as long as the longest, and nobody but the first was asked.
    fn check_hint(&self, cost: u64, denied: &Denied, first: usize, refused: &Denied) {
        let mut latest = refused.retry_after();
        for (index, member) in self.members.iter().enumerate() {
            if let Err(other) = member.twin.estimate(member.demand(cost))
                && index != first
            {
                if other.reason() == Reason::LockedOut {
                    return;
                }
                latest = latest.zip(other.retry_after()).map(|(a, b)| a.max(b));
            }
        }
        if refused.reason() != Reason::TooLarge {
            assert_eq!(denied.retry_after(), latest);
        }
    }

    /// Who comes back when it was told to is granted, and one nanosecond earlier is not.
    fn come_back(&self, cost: u64) {
        // What says the same now need not be told apart from what was said before.
        let Err(denied) = self.all.estimate(Demand::of(cost)) else {
            return;
        };
        let remembers = self.members.iter().any(|member| member.kind % KINDS == 9);
        let Some(after) = denied.retry_after().filter(|_| !remembers) else {
            return;
        };
        if let Some(before) = after.checked_sub(Duration::from_nanos(1)) {
            self.advance(before);
            assert!(self.all.estimate(Demand::of(cost)).is_err());
            self.advance(Duration::from_nanos(1));
        }
        assert_eq!(self.all.estimate(Demand::of(cost)), Ok(()));
    }

    fn run(&self, steps: Vec<Step>) {
        let mut counted = self.counted;
        let mut held: Vec<(Permit<'_>, Vec<Permit<'_>>)> = Vec::new();
        for step in steps {
            match step {
                Step::Ask(cost) => held.extend(self.ask(cost)),
                Step::Single(which, cost) => {
                    let member = &self.members[which % self.members.len()];
                    let asked = member.asked.try_acquire(Demand::of(cost));
                    let twin = member.twin.try_acquire(Demand::of(cost));
                    assert_eq!(asked.is_ok(), twin.is_ok());
                    if let (Ok(asked), Ok(twin)) = (asked, twin) {
                        held.push((asked, vec![twin]));
                    }
                }
                Step::Reserve(cost, millis) => {
                    if self
                        .members
                        .iter()
                        .all(|member| cancels_exactly(member.kind))
                    {
                        counted = false;
                        let demand = Demand::of(cost).within(Duration::from_millis(millis));
                        drop(self.all.reserve(demand));
                    }
                }
                Step::ComeBack(cost) => self.come_back(cost),
                Step::GiveBack(which) if which < held.len() => {
                    let (asked, twins) = held.swap_remove(which);
                    asked.finish(Outcome::Success);
                    for twin in twins.into_iter().rev() {
                        twin.finish(Outcome::Success);
                    }
                }
                Step::Undo(which) if which < held.len() => {
                    let (asked, twins) = held.swap_remove(which);
                    asked.undo();
                    for twin in twins.into_iter().rev() {
                        twin.undo();
                    }
                }
                Step::GiveBack(_) | Step::Undo(_) => {}
                Step::Advance(millis) => self.advance(Duration::from_millis(millis)),
            }
            for member in &self.members {
                member.check(counted);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_take_all_or_none_and_say_when(
        kinds in prop::collection::vec((0..3 * KINDS, 0..2_usize), 1..5),
        groups in prop::collection::vec(prop::collection::vec(0..5_usize, 1..3), 1..4),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        World::new(&kinds, &groups).run(steps);
    }
}
