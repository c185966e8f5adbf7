//! Who takes part: limiters that have a limit for each key.

use std::borrow::Borrow;
use std::hash::Hash;
use std::hint::black_box;
use std::time::Duration;

use compact_str::CompactString;
use plimsoll::{Clock, Keyed, TokenBucket};

use super::histogram::Histogram;
use super::keys::Key;
use super::{floors, peers};
use crate::contender::Role;
use crate::limiters::granted;

pub(crate) const OURS: &str = "plimsoll Keyed";
const PRECISE: &str = "plimsoll Keyed, precise clock";
const OF_STRINGS: &str = "plimsoll Keyed, of String";

/// The bucket each key has, and how many keys there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) burst: u32,
    /// How long it takes until a token is back.
    pub(crate) every: Duration,
    /// What those are told who keep a bounded number of keys.
    pub(crate) max_keys: usize,
    /// How many keys will come; only floors know.
    pub(crate) keys: usize,
}

impl Limit {
    /// Never used up, and not full again for an hour after [`LASTING`] was taken.
    pub(crate) fn generous(keys: usize) -> Self {
        Self {
            burst: 1_000_000_000,
            every: Duration::from_secs(1),
            max_keys: keys + keys / 4,
            keys,
        }
    }

    /// Two an hour: used up at once, and for the rest of the run.
    pub(crate) fn scarce(keys: usize) -> Self {
        Self {
            burst: 2,
            every: Duration::from_secs(3600),
            ..Self::generous(keys)
        }
    }
}

/// What is taken of a [generous](Limit::generous) bucket so that its key is not forgotten while it is measured.
pub(crate) const LASTING: u32 = 3600;

/// A limit for each key. The loops are part of it, so that they are compiled with it; a decision is compiled in line, as in a
/// caller that asks in one place.
pub(crate) trait Limiter<K>: Sync {
    /// Asks for one; whether it was granted.
    fn ask(&self, key: &K) -> bool;

    /// Asks for more than one.
    fn take(&self, key: &K, cost: u32) -> bool;

    /// Whether somebody has to [tidy](Self::tidy), because it never forgets a key by itself.
    fn needs_tidying(&self) -> bool {
        false
    }

    /// Forgets keys that make no difference.
    fn tidy(&self) {}

    /// Gives back the memory it does not need, if it can.
    fn shrink(&self) {}

    /// Takes for a new key, before others know the limiter.
    fn fill(&mut self, key: &K, cost: u32) {
        self.take(key, cost);
    }

    /// Asks for each key; how often it was granted.
    fn ask_all(&self, keys: &[K]) -> u64 {
        let granted = keys.iter().map(|key| u64::from(self.ask(black_box(key))));
        granted.sum()
    }

    /// Asks for each key and writes down how long each took.
    fn time_all(&self, keys: &[K], clock: &quanta::Clock, times: &mut Histogram) {
        for key in keys {
            let start = clock.raw();
            black_box(self.ask(black_box(key)));
            let end = clock.raw();
            times.add(clock.delta_as_nanos(start, end));
        }
    }
}

/// What the answers of a limiter are worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Worth {
    /// Never more than the burst and what has come since.
    Exact,
    /// The same by a clock that is late by a tick of a millisecond, and never early.
    ExactLate,
    /// More than that at times; the README says when.
    Loose,
    /// Not a limiter.
    Floor,
}

/// One who can take part.
pub(crate) struct Entrant<K> {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    pub(crate) worth: Worth,
    pub(crate) make: fn(&Limit) -> Box<dyn Limiter<K>>,
}

impl<K> Entrant<K> {
    pub(crate) fn new(
        role: Role,
        name: &'static str,
        worth: Worth,
        make: fn(&Limit) -> Box<dyn Limiter<K>>,
    ) -> Self {
        Self {
            name,
            role,
            worth,
            make,
        }
    }
}

/// Everybody who takes keys of this kind.
pub(crate) fn all<K: Key>() -> Vec<Entrant<K>> {
    let mut all = limiters();
    all.extend(floors::all());
    all
}

/// Those who are limiters, and learn new keys by themselves.
pub(crate) fn limiters<K: Key>() -> Vec<Entrant<K>> {
    let mut limiters = K::ours();
    limiters.extend(peers::of_any());
    limiters.extend(K::peers());
    limiters
}

/// Ours, with numbers as keys.
pub(super) fn of_numbers() -> Vec<Entrant<u64>> {
    vec![
        Entrant::new(Role::Ours, OURS, Worth::ExactLate, |limit| {
            Box::new(ours::<u64>(limit, Clock::system()))
        }),
        Entrant::new(Role::Ours, PRECISE, Worth::Exact, |limit| {
            Box::new(ours::<u64>(limit, Clock::precise()))
        }),
    ]
}

/// Ours, with texts as keys: kept as the limits of a file keep them, without memory of their own if they are short, and as strings.
pub(super) fn of_texts() -> Vec<Entrant<String>> {
    vec![
        Entrant::new(Role::Ours, OURS, Worth::ExactLate, |limit| {
            Box::new(ours::<CompactString>(limit, Clock::system()))
        }),
        Entrant::new(Role::Ours, PRECISE, Worth::Exact, |limit| {
            Box::new(ours::<CompactString>(limit, Clock::precise()))
        }),
        Entrant::new(Role::Ours, OF_STRINGS, Worth::ExactLate, |limit| {
            Box::new(ours::<String>(limit, Clock::system()))
        }),
    ]
}

fn ours<K: Hash + Eq>(limit: &Limit, clock: Clock) -> Keyed<K, TokenBucket> {
    let quota = plimsoll::Quota::new(1, limit.every);
    Keyed::builder(TokenBucket::greedy(quota).burst(limit.burst.into()))
        .max_keys(limit.max_keys)
        .clock(clock)
        .build()
}

impl Limiter<u64> for Keyed<u64, TokenBucket> {
    #[inline(always)]
    fn ask(&self, key: &u64) -> bool {
        granted(self.try_acquire(key, 1))
    }

    fn take(&self, key: &u64, cost: u32) -> bool {
        granted(self.try_acquire(key, u64::from(cost)))
    }
}

impl<T> Limiter<String> for Keyed<T, TokenBucket>
where
    T: Hash + Eq + Borrow<str> + From<String> + Send + Sync,
{
    #[inline(always)]
    fn ask(&self, key: &String) -> bool {
        granted(self.try_acquire(key.as_str(), 1))
    }

    fn take(&self, key: &String, cost: u32) -> bool {
        granted(self.try_acquire(key.as_str(), u64::from(cost)))
    }
}
