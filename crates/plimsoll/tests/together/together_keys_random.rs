//! Random demands to several keys and limiters at once, against gates that are asked one by one: a refusal leaves no trace, a
//! grant is charged once, and whoever waits and gives up has not been there.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::together::{Ask, AskKey, Key, Permits, Refused, Waiting};
use plimsoll::{
    Bandwidths, Clock, Concurrency, Demand, Denied, FixedWindow, Gate, Keyed, Limiter, ManualClock,
    PenaltyBucket, Permit, Queue, Quota, Refresh, Rule, SlidingCounter, SlidingLog, SlidingWindow,
    Smooth, TokenBucket,
};
use proptest::prelude::*;

/// A keyed limit, whatever its rule.
trait Table {
    fn key<'a>(&'a self, key: &'a u8) -> Box<dyn AskKey + 'a>;
    fn estimate(&self, key: u8, cost: u64) -> Result<(), Denied>;
}

impl<R: Rule + Clone> Table for Keyed<u8, R> {
    fn key<'a>(&'a self, key: &'a u8) -> Box<dyn AskKey + 'a> {
        Box::new(Key::new(self, key))
    }

    fn estimate(&self, key: u8, cost: u64) -> Result<(), Denied> {
        Self::estimate(self, &key, cost)
    }
}

const KINDS: u8 = 11;

/// Whether a part of a grant can be undone as exactly as the whole.
fn is_exact(kind: u8) -> bool {
    !matches!(kind, 6..=8)
}

/// A keyed limit, and a gate for each of its keys that is asked by itself.
type Twins = (Box<dyn Table>, [Box<dyn Limiter>; 2]);

fn made(kind: u8, clock: &Clock) -> Twins {
    fn of<R: Rule + Clone>(rule: &R, clock: &Clock) -> Twins {
        let table = Keyed::<u8, _>::builder(rule.clone())
            .clock(clock.clone())
            .queue(Queue::fifo(10));
        let gate = |_| {
            let gate = Gate::builder(rule.clone()).clock(clock.clone());
            Box::new(gate.queue(Queue::fifo(10)).build()) as Box<dyn Limiter>
        };
        (Box::new(table.build()), [0, 1].map(gate))
    }
    let quota = Quota::per_second(4);
    let bucket = TokenBucket::greedy(quota);
    match kind {
        0 => of(&bucket, clock),
        1 => of(&FixedWindow::new(quota), clock),
        2 => of(&SlidingWindow::new(quota, 4), clock),
        3 => of(&SlidingLog::new(quota), clock),
        4 => of(&SlidingCounter::new(quota), clock),
        5 => of(&Refresh::new(quota), clock),
        6 => of(&Smooth::bursty(4.0, Duration::from_secs(1)), clock),
        7 => of(&Smooth::warm_up(4.0, Duration::from_secs(2), 3.0), clock),
        8 => of(
            &PenaltyBucket::new(bucket).lockout(2, Duration::from_secs(3)),
            clock,
        ),
        9 => {
            let minute = Quota::new(80, Duration::from_secs(60));
            of(
                &Bandwidths::new([bucket, TokenBucket::greedy(minute)]),
                clock,
            )
        }
        _ => of(&Concurrency::new(4), clock),
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Of these limits and keys, so much.
    Ask(Vec<(usize, u8, u64)>),
    /// The same by one who would wait, and gives up.
    Wait(Vec<(usize, u8, u64)>),
    GiveBack(usize),
    Undo(usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let asks = || prop::collection::vec((0..4_usize, 0..2_u8, 1..5_u64), 1..4);
    prop_oneof![
        5 => asks().prop_map(Step::Ask),
        2 => asks().prop_map(Step::Wait),
        2 => (0..8_usize).prop_map(Step::GiveBack),
        2 => (0..8_usize).prop_map(Step::Undo),
        3 => (0..1500_u64).prop_map(Step::Advance),
    ]
}

struct World {
    times: [ManualClock; 2],
    kinds: Vec<u8>,
    tables: Vec<Twins>,
}

type Asked = (usize, u8, u64);

/// What was granted: for each that asked, and by each twin.
type Held<'a> = (Vec<Asked>, Vec<Permit<'static>>, Vec<Permit<'a>>);

impl World {
    fn new(kinds: &[(u8, usize)]) -> Self {
        let times = [ManualClock::new(), ManualClock::new()];
        times[1].advance(Duration::from_secs(1_000_000));
        let tables = kinds.iter();
        let tables = tables.map(|&(kind, clock)| made(kind, &times[clock].clock()));
        let tables = tables.collect();
        let kinds = kinds.iter().map(|(kind, _)| *kind).collect();
        let world = Self {
            times,
            kinds,
            tables,
        };
        // A key begins when it is first asked for, a gate when it is made.
        for table in 0..world.tables.len() {
            drop([0, 1].map(|key| world.ask(vec![(table, key, 1)])));
        }
        world
    }

    /// Costs of one key add up, where it is first.
    fn sums(asks: &[Asked]) -> Vec<Asked> {
        let mut sums: Vec<Asked> = Vec::new();
        for &(table, key, cost) in asks {
            match sums.iter_mut().find(|it| (it.0, it.1) == (table, key)) {
                Some(sum) => sum.2 += cost,
                None => sums.push((table, key, cost)),
            }
        }
        sums
    }

    fn with_asks<T>(&self, asks: &[Asked], then: impl FnOnce(&[Ask<'_>]) -> T) -> T {
        let keys = asks
            .iter()
            .map(|(table, key, _)| self.tables[*table].0.key(key));
        let keys: Vec<_> = keys.collect();
        let demands = keys.iter().zip(asks);
        let asks: Vec<_> = demands
            .map(|(key, (_, _, cost))| Ask::key(&**key, *cost))
            .collect();
        then(&asks)
    }

    fn twin(&self, table: usize, key: u8) -> &dyn Limiter {
        &*self.tables[table].1[usize::from(key)]
    }

    fn ask(&self, asks: Vec<Asked>) -> Option<Held<'_>> {
        let answer: Result<Vec<_>, Refused> = self.with_asks(&asks, |asks| {
            let mut held = Permits::new();
            Ask::try_all(asks, &mut held)?;
            Ok(held.into_each().map(Permit::into_owned).collect())
        });
        let sums = Self::sums(&asks);
        let refuses = |it: &&Asked| self.twin(it.0, it.1).estimate(Demand::of(it.2)).is_err();
        let refuser = sums.iter().find(refuses);
        match (answer, refuser) {
            (Ok(permits), None) => {
                let grant = |it: &Asked| self.twin(it.0, it.1).try_acquire(Demand::of(it.2));
                let twins = sums.iter().map(grant).map(Result::unwrap).collect();
                Some((asks, permits, twins))
            }
            (Err(refused), Some(&(table, key, cost))) => {
                let asked = asks[refused.index];
                assert_eq!((asked.0, asked.1), (table, key));
                let twin = self.twin(table, key).try_acquire(Demand::of(cost));
                assert_eq!(refused.denied.reason(), twin.unwrap_err().reason());
                None
            }
            (answer, twin) => panic!("{answer:?}, but one by one {twin:?}"),
        }
    }

    /// One that is granted at once gives it back as if nothing had been; one that waits gives up.
    fn wait(&self, asks: &[Asked]) {
        let sums = Self::sums(asks);
        let fits = |it: &Asked| self.twin(it.0, it.1).estimate(Demand::of(it.2));
        let refusals: Vec<_> = sums.iter().filter_map(|it| fits(it).err()).collect();
        self.with_asks(asks, |asks| match Waiting::start(asks) {
            Err(refused) => {
                let passing = refusals.iter().all(|denied| denied.retry_after().is_some());
                assert!(!refusals.is_empty() && !passing, "{refused:?}");
            }
            Ok(mut waiting) => {
                let polled = waiting.poll(asks, &mut Context::from_waker(Waker::noop()));
                assert_eq!(polled.is_pending(), !refusals.is_empty(), "{polled:?}");
                if let Poll::Ready(Ok(permits)) = polled {
                    for (ask, permit) in asks.iter().zip(permits).rev() {
                        ask.undo(permit.unwrap());
                    }
                }
                waiting.cancel(asks);
            }
        });
    }

    fn check(&self) {
        let told = |denied: Denied| (denied.reason(), denied.retry_after(), denied.remaining());
        for (index, (table, twins)) in self.tables.iter().enumerate() {
            for (key, twin) in (0..2).zip(twins) {
                for cost in 0..=5 {
                    let asked = table.estimate(key, cost).map_err(told);
                    let twin = twin.estimate(Demand::of(cost)).map_err(told);
                    assert_eq!(asked, twin, "kind {} cost {cost}", self.kinds[index]);
                }
            }
        }
    }

    fn run(&self, steps: Vec<Step>) {
        let mut held: Vec<Held<'_>> = Vec::new();
        let valid = |asks: Vec<Asked>| -> Vec<Asked> {
            let count = self.tables.len();
            asks.into_iter()
                .map(|(at, key, cost)| (at % count, key, cost))
                .collect()
        };
        for step in steps {
            match step {
                Step::Ask(asks) => held.extend(self.ask(valid(asks))),
                Step::Wait(asks) => {
                    let asks = valid(asks);
                    // What is granted to others cannot be undone exactly.
                    let in_parts = Self::sums(&asks).len() < asks.len();
                    let exact = |(table, ..): &Asked| is_exact(self.kinds[*table]);
                    if !in_parts && asks.iter().all(exact) {
                        self.wait(&asks);
                    }
                }
                Step::GiveBack(which) if which < held.len() => drop(held.swap_remove(which)),
                Step::Undo(which) if which < held.len() => {
                    let (asks, permits, twins) = held.swap_remove(which);
                    // To undo parts of a grant may make less available than to undo the whole.
                    let in_parts = Self::sums(&asks).len() < asks.len();
                    let exact = |(table, ..): &Asked| is_exact(self.kinds[*table]);
                    if in_parts || !asks.iter().all(exact) {
                        continue;
                    }
                    self.with_asks(&asks, |asks| {
                        for (ask, permit) in asks.iter().zip(permits).rev() {
                            ask.undo(permit);
                        }
                    });
                    twins.into_iter().rev().for_each(Permit::undo);
                }
                Step::GiveBack(_) | Step::Undo(_) => {}
                Step::Advance(millis) => {
                    for time in &self.times {
                        time.advance(Duration::from_millis(millis));
                    }
                }
            }
            self.check();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_keys_take_all_or_none(
        kinds in prop::collection::vec((0..KINDS, 0..2_usize), 1..5),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        World::new(&kinds).run(steps);
    }
}
