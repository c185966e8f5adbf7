//! Limiters that consist of others, and tables that are closed, while everything else goes on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll::{
    All, Batched, Carry, Concurrency, Demand, Gate, Keyed, Limiter, Partition, Partitions,
    Priority, Queue, Quota, Reason, SlidingLog, TokenBucket,
};

use crate::chance::Chance;
use crate::record::{Record, Stopwatch};
use crate::subjects::{ASKERS, Held, LATE, ask, block_on, use_up};

const THREE: [u64; 3] = [3, 4, 5];
const SHARED: u64 = 6;
const BATCH: u64 = 8;
const RATE: u64 = 1000;
const KEYS: u64 = 4;

pub(crate) struct More {
    three: [Gate<Concurrency>; 3],
    all: All,
    pairs: [All; 2],
    all_held: Held,
    shares: Vec<Partition<Concurrency>>,
    shares_held: Held,
    share_and_slots: All,
    batched: Batched<TokenBucket>,
    batched_record: Record,
    replaced: Gate<SlidingLog>,
    replaced_record: Record,
    closing: Mutex<Arc<Closing>>,
}

/// A table that will be closed.
struct Closing {
    slots: Keyed<u64, Concurrency>,
    held: Vec<Held>,
}

impl Closing {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            slots: Keyed::builder(Concurrency::new(2))
                .queue(Queue::fifo(100))
                .max_keys(16)
                .build(),
            held: (0..KEYS).map(|_| Held::default()).collect(),
        })
    }
}

fn members(gates: &[Gate<Concurrency>]) -> impl Iterator<Item = Arc<dyn Limiter>> {
    gates
        .iter()
        .map(|gate| Arc::new(gate.clone()) as Arc<dyn Limiter>)
}

fn log(limit: u64) -> SlidingLog {
    SlidingLog::new(Quota::new(limit, Duration::from_millis(100)))
}

impl More {
    pub(crate) fn new() -> Self {
        let gate = |limit| {
            let builder = Gate::builder(Concurrency::new(limit));
            builder.queue(Queue::fifo(1000)).build()
        };
        let three = THREE.map(gate);
        let shares = Partitions::try_new(gate(SHARED), [("one", 2), ("two", 1)]).expect("valid");
        let shares: Vec<_> = ["one", "two"]
            .map(|name| shares.get(name).expect("known"))
            .into();
        let one = Arc::new(shares[0].clone()) as Arc<dyn Limiter>;
        let bucket = Gate::new(TokenBucket::per_second(RATE).burst(20));
        Self {
            all: All::new(members(&three)),
            // In both orders.
            pairs: [
                All::new(members(&three[..2])),
                All::new(members(&three[1..]).collect::<Vec<_>>().into_iter().rev()),
            ],
            share_and_slots: All::new(members(&three[..1]).chain([one])),
            three,
            all_held: Held::default(),
            shares,
            shares_held: Held::default(),
            batched: Batched::new(bucket, BATCH),
            batched_record: Record::default(),
            replaced: Gate::builder(log(50)).queue(Queue::fifo(50)).build(),
            replaced_record: Record::default(),
            closing: Mutex::new(Closing::new()),
        }
    }

    pub(crate) fn step(&self, chance: &mut Chance, watch: &Stopwatch) {
        match chance.below(8) {
            0 | 1 => self.ask_all(chance),
            2 => self.ask_members(chance),
            3 => self.ask_shares(chance),
            4 => self.ask_batched(chance, watch),
            5 => self.ask_replaced(chance, watch),
            _ => self.ask_closing(chance),
        }
    }

    fn ask_all(&self, chance: &mut Chance) {
        let cost = chance.cost(2);
        if let Some(permit) = ask(&self.all, cost, chance) {
            use_up(permit, &self.all_held, THREE[0], chance);
        }
    }

    fn ask_members(&self, chance: &mut Chance) {
        let (pair, one) = (chance.index(2), chance.index(3));
        let cost = chance.cost(2);
        drop(ask(&self.pairs[pair], cost, chance));
        drop(ask(&self.three[one], 1, chance));
        if chance.one_in(16) {
            // Below what some ask for, and back.
            self.three[2].resize(1).expect("at least 1");
            self.three[2].resize(THREE[2]).expect("at least 1");
        }
        if chance.one_in(16) {
            drop(self.three[one].subscribe(4));
        }
    }

    fn ask_shares(&self, chance: &mut Chance) {
        let which = chance.index(2);
        let cost = chance.cost(3);
        if let Some(permit) = ask(&self.shares[which], cost, chance) {
            use_up(permit, &self.shares_held, SHARED, chance);
        }
        drop(ask(&self.share_and_slots, 1, chance));
    }

    fn ask_batched(&self, chance: &mut Chance, watch: &Stopwatch) {
        let (before, cost) = (watch.now(), chance.cost(4));
        if let Ok(permit) = self.batched.try_acquire(cost) {
            if chance.one_in(8) {
                permit.undo();
            } else {
                self.batched_record.add(before, watch.now(), cost);
            }
        }
        if chance.one_in(8) {
            self.batched.return_stock();
        }
    }

    fn ask_replaced(&self, chance: &mut Chance, watch: &Stopwatch) {
        let (before, cost) = (watch.now(), chance.cost(5));
        if let Some(permit) = ask(&self.replaced, cost, chance) {
            if chance.one_in(8) {
                permit.undo();
            } else {
                self.replaced_record.add(before, watch.now(), cost);
            }
        }
        if chance.one_in(8) {
            let limit = 20 + chance.cost(30);
            self.replaced.replace(log(limit), Carry::AsIs);
        }
    }

    fn ask_closing(&self, chance: &mut Chance) {
        let current = || self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let table = Arc::clone(&current());
        let key = chance.below(KEYS);
        let priority = Priority::ALL[chance.index(3)];
        // Nobody waits here for a time only: a place that is lost would be waited for without end.
        let permit = if chance.one_in(2) {
            block_on(table.slots.acquire(&key, Demand::ONE.priority(priority)))
        } else {
            table.slots.try_acquire(&key, 1).map(|it| it.into_owned())
        };
        match permit {
            Ok(permit) => use_up(
                permit,
                &table.held[usize::try_from(key).expect("few")],
                2,
                chance,
            ),
            Err(denied) => assert!(
                matches!(
                    denied.reason(),
                    Reason::Closed | Reason::Exhausted | Reason::QueueFull
                ),
                "{denied:?}"
            ),
        }
        if chance.one_in(50) {
            table.slots.close();
            *current() = Closing::new();
            assert!(table.slots.try_acquire(&key, 1).is_err());
            assert_eq!(table.slots.take_up_to(&(key + 100), 1).cost(), 0);
        }
    }

    pub(crate) fn check_in_the_end(&self) {
        for (gate, limit) in self.three.iter().zip(THREE) {
            let seen = gate.snapshot();
            assert_eq!((seen.in_use(), seen.waiters()), (0, 0), "of {limit}");
            let _all = gate.try_acquire(limit).expect("all of it is there");
            assert!(gate.try_acquire(1).is_err(), "more than {limit}");
        }
        for share in &self.shares {
            assert_eq!(
                (share.snapshot().in_use(), share.snapshot().waiters()),
                (0, 0)
            );
        }
        let closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = closing.slots.snapshot();
        assert_eq!((seen.in_use(), seen.waiters()), (0, 0));
        for span in [5, 50, 500].map(Duration::from_millis) {
            let within = u64::try_from((span + LATE).as_millis()).expect("short");
            let stranded = (ASKERS + 1) * (BATCH - 1);
            let allowed = 20 + within * RATE / 1000 + stranded;
            self.batched_record.check("batched", span, allowed);
        }
        let window = Duration::from_millis(100) - LATE;
        self.replaced_record.check("replaced", window, 50);
    }
}
