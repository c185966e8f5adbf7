//! Random operations on a keyed limit that forgets all it can, and on a gate for each key that forgets nothing.

use std::task::Poll;
use std::time::Duration;

use plimsoll::{
    Acquire, Bandwidths, Concurrency, Demand, Denied, FixedWindow, Full, Gate, Keyed, LimiterExt,
    ManualClock, PenaltyBucket, PerKey, Permit, Queue, Quota, Reason, Refresh, Rule,
    SlidingCounter, SlidingLog, SlidingWindow, Smooth, TokenBucket, WhenFull,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use crate::poll;

const KEYS: usize = 4;
/// A key of which nothing is compared: it asks for a place, so that whatever can be forgotten is.
const OTHER: u8 = 99;

#[derive(Clone, Debug)]
enum Op {
    Try { key: usize, cost: u64 },
    Attempt { key: usize, cost: u64 },
    TakeUpTo { key: usize, most: u64 },
    Wait { key: usize, cost: u64 },
    Charge { key: usize, cost: u64 },
    Undo(usize),
    Release(usize),
    Cancel(usize),
    Advance(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let span = prop_oneof![
        4 => 0u64..1_500,
        1 => Just(1_000_000),
        1 => Just(60_000_000_000)
    ];
    let op = prop_oneof![
        6 => (0..KEYS, 0u64..5).prop_map(|(key, cost)| Op::Try { key, cost }),
        1 => (0..KEYS, 0u64..5).prop_map(|(key, cost)| Op::Attempt { key, cost }),
        1 => (0..KEYS, 0u64..5).prop_map(|(key, most)| Op::TakeUpTo { key, most }),
        3 => (0..KEYS, 0u64..5).prop_map(|(key, cost)| Op::Wait { key, cost }),
        1 => (0..KEYS, 0u64..7).prop_map(|(key, cost)| Op::Charge { key, cost }),
        2 => any::<usize>().prop_map(Op::Undo),
        2 => any::<usize>().prop_map(Op::Release),
        1 => any::<usize>().prop_map(Op::Cancel),
        4 => span.prop_map(Op::Advance),
    ];
    proptest::collection::vec(op, 1..60)
}

type Told = Result<u64, Denied>;

/// The same demand on both sides.
struct Both<'a> {
    key: usize,
    real: Side<'static>,
    gate: Side<'a>,
}

enum Side<'a> {
    Waiting(Acquire<'a>),
    Granted(Permit<'a>),
    Refused(Denied),
}

impl<'a> Side<'a> {
    fn of(answer: Result<Permit<'a>, Denied>) -> Self {
        match answer {
            Ok(permit) => Self::Granted(permit),
            Err(denied) => Self::Refused(denied),
        }
    }

    fn look(&mut self) {
        if let Self::Waiting(future) = self
            && let Poll::Ready(answer) = poll::poll(future)
        {
            *self = Self::of(answer);
        }
    }

    fn told(&self) -> Option<Told> {
        match self {
            Self::Waiting(_) => None,
            Self::Granted(permit) => Some(Ok(permit.cost())),
            Self::Refused(denied) => Some(Err(denied.clone())),
        }
    }
}

/// A keyed limit with room for as many keys as are compared, and a gate for each.
fn compare<R: Rule + Clone>(rule: &R, when_full: WhenFull, ops: &[Op]) {
    let time = ManualClock::new();
    let queue = Queue::fifo(3).full(Full::Oldest);
    let builder = Keyed::builder(rule.clone())
        .clock(time.clock())
        .queue(queue);
    let keyed: Keyed<u8, R> = builder.max_keys(KEYS).when_full(when_full).build();
    let gate = |_| {
        let builder = Gate::builder(rule.clone()).clock(time.clock());
        builder.queue(queue).build()
    };
    let gates: Vec<Gate<R>> = (0..KEYS).map(gate).collect();
    // A key begins with its first use.
    for (key, gate) in gates.iter().enumerate() {
        let _ = keyed.try_acquire(&name(key), 0);
        let _ = gate.try_acquire(0);
    }
    let mut both: Vec<Both<'_>> = Vec::new();
    for (step, op) in ops.iter().enumerate() {
        if when_full == WhenFull::Refuse {
            drop(keyed.try_acquire(&OTHER, 1));
            keyed.forget(&OTHER);
        }
        let mut ask = |key, real: Result<Permit<'static>, Denied>, gate| {
            both.push(Both {
                key,
                real: Side::of(real),
                gate: Side::of(gate),
            });
        };
        match *op {
            Op::Try { key, cost } => {
                let estimate = keyed.estimate(&name(key), cost);
                let real = keyed.try_acquire(&name(key), cost);
                let came = real.as_ref().map(|_| ()).map_err(Denied::clone);
                assert_eq!(estimate, came, "step {step}: {op:?}");
                let gate = gates[key].try_acquire(cost);
                ask(key, real.map(Permit::into_owned), gate);
            }
            Op::Attempt { key, cost } => {
                let demand = Demand::of(cost);
                let real = PerKey::attempt(&keyed, &name(key), demand);
                let gate = LimiterExt::attempt(&gates[key], demand);
                ask(key, real.map(Permit::into_owned), gate);
            }
            Op::TakeUpTo { key, most } => {
                let real = keyed.take_up_to(&name(key), most).into_owned();
                ask(key, Ok(real), Ok(gates[key].take_up_to(most)));
            }
            Op::Wait { key, cost } => both.push(Both {
                key,
                real: Side::Waiting(keyed.acquire_owned(&name(key), Demand::of(cost))),
                gate: Side::Waiting(gates[key].acquire(cost)),
            }),
            Op::Charge { key, cost } => {
                keyed.charge(&name(key), cost);
                gates[key].charge(cost);
            }
            Op::Undo(which) | Op::Release(which) | Op::Cancel(which) => {
                let cancel = matches!(op, Op::Cancel(_));
                let fits = |one: &Both<'_>| matches!(one.gate, Side::Waiting(_)) == cancel;
                let some: Vec<usize> = (0..both.len()).filter(|&at| fits(&both[at])).collect();
                let Some(&at) = some.get(which % some.len().max(1)) else {
                    continue;
                };
                let Both { key, real, gate } = both.swap_remove(at);
                if let (Op::Undo(_), Side::Granted(real), Side::Granted(gate)) = (op, real, gate) {
                    keyed.undo(&name(key), real);
                    LimiterExt::undo(&gates[key], gate);
                }
            }
            Op::Advance(nanos) => time.advance(Duration::from_nanos(nanos)),
        }
        for one in &mut both {
            one.real.look();
            one.gate.look();
            let (real, gate) = (one.real.told(), one.gate.told());
            assert_eq!(real, gate, "key {} at step {step}: {op:?}", one.key);
        }
        check(&keyed, &gates, step, op);
    }
}

fn name(key: usize) -> u8 {
    u8::try_from(key).expect("there are few keys")
}

/// What is seen of each key, and of all together.
fn check<R: Rule + Clone>(keyed: &Keyed<u8, R>, gates: &[Gate<R>], step: usize, op: &Op) {
    for (key, gate) in gates.iter().enumerate() {
        let (real, expected) = (keyed.standing(&name(key)), gate.standing());
        assert_eq!(real, expected, "key {key} at step {step}: {op:?}");
        if let Some(seen) = keyed.snapshot_of(&name(key)) {
            let expected = gate.snapshot();
            assert_eq!(
                (seen.in_use(), seen.queued(), seen.waiters()),
                (expected.in_use(), expected.queued(), expected.waiters()),
                "key {key} at step {step}: {op:?}"
            );
        }
    }
    let sum = |part: fn(&plimsoll::Snapshot) -> u64| -> u64 {
        gates.iter().map(|gate| part(&gate.snapshot())).sum()
    };
    let seen = keyed.snapshot();
    assert_eq!(seen.evicted_total(), sum(|one| one.evicted_total()));
    assert_eq!(seen.cancelled_total(), sum(|one| one.cancelled_total()));
    assert_eq!(seen.waiters(), sum(|one| one.waiters()));
    assert!(keyed.len() <= KEYS);
}

fn compare_all(when_full: WhenFull, ops: &[Op]) {
    let quota = Quota::new(4, Duration::from_nanos(1000));
    compare(&TokenBucket::greedy(quota), when_full, ops);
    let deep = Quota::new(6_172_839, Duration::from_secs(500));
    compare(&TokenBucket::greedy(deep).burst(3), when_full, ops);
    compare(&TokenBucket::interval(quota).burst(3), when_full, ops);
    compare(&TokenBucket::greedy(quota).initial(1), when_full, ops);
    compare(&FixedWindow::new(quota), when_full, ops);
    compare(&SlidingWindow::new(quota, 3), when_full, ops);
    compare(&SlidingCounter::new(quota), when_full, ops);
    let log = SlidingLog::new(quota).min_gap(Duration::from_nanos(10));
    compare(&log, when_full, ops);
    compare(&log.counting_refusals(), when_full, ops);
    compare(&Refresh::new(quota), when_full, ops);
    let two = [TokenBucket::greedy(quota), TokenBucket::interval(quota)];
    compare(&Bandwidths::new(two), when_full, ops);
    let penalty = PenaltyBucket::new(TokenBucket::greedy(quota));
    let penalty = penalty.lockout(2, Duration::from_micros(1));
    compare(&penalty, when_full, ops);
    compare(&Smooth::bursty(4e6, Duration::from_secs(1)), when_full, ops);
    compare(&Concurrency::new(3), when_full, ops);
}

proptest! {
    #![proptest_config(ProptestConfig {
        // Each runs on every rule. More with PROPTEST_CASES.
        cases: ProptestConfig::default().cases / 4,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn keys_that_are_forgotten_answer_as_gates_that_are_not(ops in ops()) {
        compare_all(WhenFull::Refuse, &ops);
    }

    #[test]
    fn keys_that_may_be_evicted_answer_as_gates_while_there_is_room(ops in ops()) {
        compare_all(WhenFull::EvictLeastRecent, &ops);
    }
}

/// With fewer places than keys a key may be refused for want of a place, and for no other reason that a gate of
/// its own would not give; and a place is refused only while every place is in use.
#[derive(Clone, Debug)]
enum Crowd {
    Try { key: usize, cost: u64 },
    Release(usize),
    Advance(u64),
}

fn crowd() -> impl Strategy<Value = Vec<Crowd>> {
    let op = prop_oneof![
        6 => (0..12usize, 1u64..4).prop_map(|(key, cost)| Crowd::Try { key, cost }),
        2 => any::<usize>().prop_map(Crowd::Release),
        2 => (0u64..1_500).prop_map(Crowd::Advance),
    ];
    proptest::collection::vec(op, 1..120)
}

fn compare_crowd<R: Rule + Clone>(rule: &R, places: usize, ops: &[Crowd]) {
    let time = ManualClock::new();
    let builder = Keyed::builder(rule.clone()).clock(time.clock());
    let keyed: Keyed<u8, R> = builder.max_keys(places).build();
    let gate = |_| Gate::builder(rule.clone()).clock(time.clock()).build();
    let gates: Vec<Gate<R>> = (0..12).map(gate).collect();
    let mut held = Vec::new();
    for (step, op) in ops.iter().enumerate() {
        match *op {
            Crowd::Try { key, cost } => match keyed.try_acquire(&name(key), cost) {
                Err(denied) if denied.reason() == Reason::KeysFull => {
                    let used = |gate: &&Gate<R>| gate.snapshot().in_use() > 0;
                    let in_use = gates.iter().filter(used).count();
                    assert!(in_use >= places, "step {step}: {op:?}: {in_use} in use");
                }
                real => {
                    let expected = gates[key].try_acquire(cost);
                    assert_eq!(
                        real.as_ref().map(Permit::cost),
                        expected.as_ref().map(Permit::cost),
                        "step {step}: {op:?}"
                    );
                    if let (Ok(real), Ok(expected)) = (real, expected) {
                        held.push((real, expected));
                    }
                }
            },
            Crowd::Release(which) if !held.is_empty() => {
                drop(held.swap_remove(which % held.len()));
            }
            Crowd::Release(_) => {}
            Crowd::Advance(nanos) => time.advance(Duration::from_nanos(nanos)),
        }
        assert!(keyed.len() <= places);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        // Each runs on every rule. More with PROPTEST_CASES.
        cases: ProptestConfig::default().cases / 4,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn only_places_in_use_refuse_a_key(places in 1usize..6, ops in crowd()) {
        let quota = Quota::new(3, Duration::from_nanos(1000));
        compare_crowd(&TokenBucket::greedy(quota), places, &ops);
        compare_crowd(&TokenBucket::interval(quota), places, &ops);
        compare_crowd(&FixedWindow::new(quota), places, &ops);
        compare_crowd(&SlidingWindow::new(quota, 3), places, &ops);
        compare_crowd(&SlidingCounter::new(quota), places, &ops);
        compare_crowd(&SlidingLog::new(quota), places, &ops);
        compare_crowd(&Refresh::new(quota), places, &ops);
        compare_crowd(&Concurrency::new(3), places, &ops);
    }
}
