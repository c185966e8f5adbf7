//! A store that does not answer is left alone for a while, so that nobody waits for it in vain.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::Moment;

use crate::{StoreError, StoreErrorKind};

/// When a store that does not answer is left alone, and when it is tried again.
///
/// When some calls in a row failed, 5 unless said otherwise, and that has lasted for 100 ms, the circuit opens: every call is
/// answered at once with [`NotAsked`](StoreErrorKind::NotAsked), and nothing is sent. After at most 100 ms one caller tries.
/// If the store answers, the circuit is closed again and all is as before; if not, it stays open twice as long as before, up
/// to 500 ms. The times are drawn, between a half and the whole of that, so that the processes of a fleet do not all come
/// back together.
///
/// A failure is a store that cannot be reached or does not answer in time. A store that answers with an error
/// works. Who drops a call before its deadline learns nothing, so the deadline of the store should be shorter than the
/// patience of those who ask. At a high load many calls are on their way at once, so a single connection that breaks is many
/// failures in a row: that is why they also have to last.
///
/// In a cluster there is a circuit for each 256 slots, so that a node that is dead is left alone while the others are asked.
///
/// ```
/// use plimsoll_redis::{Circuit, Store};
/// use std::time::Duration;
///
/// let circuit = Circuit::new().failures(3).backoff(Duration::from_millis(50), Duration::from_secs(1));
/// let store = Store::builder("redis://127.0.0.1").circuit(circuit).open()?;
/// assert!(store.is_asked());
/// # Ok::<(), plimsoll_redis::StoreError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Circuit {
    failures: u32,
    lasting: Duration,
    first: Duration,
    longest: Duration,
}

impl Circuit {
    /// Opens after 5 failures in a row that last for 100 ms, for 100 ms at first and 500 ms at most.
    pub const fn new() -> Self {
        Self {
            failures: 5,
            lasting: Duration::from_millis(100),
            first: Duration::from_millis(100),
            longest: Duration::from_millis(500),
        }
    }

    /// Opens only when the failures in a row have lasted so long, from the first to the last. Of a store with a
    /// [clock moved by hand](crate::StoreBuilder::clock) they need not last.
    pub const fn lasting(mut self, lasting: Duration) -> Self {
        self.lasting = lasting;
        self
    }

    /// Opens after so many failures in a row; 0 is as good as 1.
    pub const fn failures(mut self, failures: u32) -> Self {
        self.failures = failures;
        self
    }

    /// How long it stays open at first, and at most.
    pub const fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.first = first;
        self.longest = longest;
        self
    }

    /// How long it stays open the `times`th time in a row. Of `draw` every bit counts.
    fn pause(&self, times: u32, draw: u64) -> Duration {
        let doubled = 1_u32.checked_shl(times.saturating_sub(1));
        let whole = doubled.and_then(|factor| self.first.checked_mul(factor));
        let whole = whole.map_or(self.longest, |whole| whole.min(self.longest));
        let half = whole / 2;
        let span = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
        // The upper half of the product is a number below `span`, every one as likely as the others.
        let part = (u128::from(span) * u128::from(draw)) >> 64;
        whole - half + Duration::from_nanos(u64::try_from(part).unwrap_or(0))
    }
}

impl Default for Circuit {
    fn default() -> Self {
        Self::new()
    }
}

/// What is known of a store that failed: a state machine without a clock.
#[derive(Default, Debug)]
struct Trouble {
    /// In a row, while the circuit is closed.
    failures: u32,
    /// When the first of them was.
    since: Option<Moment>,
    /// How often it opened in a row.
    opened: u32,
    /// Open until somebody tries, which is from then on.
    until: Option<Moment>,
    /// Whether somebody tries.
    probing: bool,
}

/// What a caller may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leave {
    Ask,
    /// Ask, and everybody else waits for the answer to that.
    Probe,
    Stay,
}

impl Trouble {
    fn leave(&self, now: Moment) -> Leave {
        match self.until {
            None => Leave::Ask,
            Some(until) if self.probing || now < until => Leave::Stay,
            Some(_) => Leave::Probe,
        }
    }

    /// Says whether it opened.
    fn failed(&mut self, circuit: &Circuit, now: Moment, probe: bool, draw: u64) -> bool {
        if probe && self.probing {
            self.probing = false;
        } else if self.until.is_some() {
            // Of calls that were on their way when it opened nothing is learned.
            return false;
        } else {
            self.failures = self.failures.saturating_add(1);
            let since = *self.since.get_or_insert(now);
            if self.failures < circuit.failures || now.since(since) < circuit.lasting {
                return false;
            }
            self.opened = 0;
        }
        self.opened = self.opened.saturating_add(1);
        self.until = Some(now.plus(circuit.pause(self.opened, draw)));
        true
    }
}

/// The circuit of one store.
#[derive(Debug)]
pub(crate) struct Breaker {
    circuit: Circuit,
    /// Whether `trouble` says anything: while all is well nobody takes the lock.
    troubled: AtomicBool,
    trouble: Mutex<Trouble>,
    opened: AtomicU64,
}

/// A call that is under way.
#[derive(Debug)]
#[must_use]
pub(crate) struct Call<'a> {
    breaker: &'a Breaker,
    probe: bool,
}

impl Breaker {
    pub(crate) fn new(circuit: Circuit) -> Self {
        Self {
            circuit,
            troubled: AtomicBool::new(false),
            trouble: Mutex::default(),
            opened: AtomicU64::new(0),
        }
    }

    /// How often it opened.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Whether a call made now would be sent.
    pub(crate) fn would_ask(&self, now: impl FnOnce() -> Moment) -> bool {
        !self.troubled.load(Ordering::Relaxed) || self.trouble().leave(now()) != Leave::Stay
    }

    /// Begins a call, unless the circuit is open.
    pub(crate) fn begin(&self, now: impl FnOnce() -> Moment) -> Result<Call<'_>, StoreError> {
        let mut probe = false;
        if self.troubled.load(Ordering::Relaxed) {
            let mut trouble = self.trouble();
            match trouble.leave(now()) {
                Leave::Ask => {}
                Leave::Probe => {
                    trouble.probing = true;
                    probe = true;
                }
                Leave::Stay => return Err(StoreError::new(StoreErrorKind::NotAsked)),
            }
        }
        Ok(Call {
            breaker: self,
            probe,
        })
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call<'_> {
    /// The store answered. Says whether that closed the circuit.
    pub(crate) fn answered(mut self) -> bool {
        self.probe = false;
        if !self.breaker.troubled.load(Ordering::Relaxed) {
            return false;
        }
        let mut trouble = self.breaker.trouble();
        let before = std::mem::take(&mut *trouble);
        self.breaker.troubled.store(false, Ordering::Relaxed);
        before.until.is_some()
    }

    /// The store did not answer. Says whether that opened the circuit, and whether this call was the one that tried.
    pub(crate) fn failed(mut self, now: Moment) -> (bool, bool) {
        let probe = std::mem::take(&mut self.probe);
        let draw = RandomState::new().hash_one(now.as_nanos());
        let mut trouble = self.breaker.trouble();
        self.breaker.troubled.store(true, Ordering::Relaxed);
        let opened = trouble.failed(&self.breaker.circuit, now, probe, draw);
        if opened {
            self.breaker.opened.fetch_add(1, Ordering::Relaxed);
        }
        (opened, probe)
    }
}

/// Whoever tried and was not patient enough leaves it to the next.
impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.probe {
            self.breaker.trouble().probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIRCUIT: Circuit = Circuit::new().lasting(Duration::ZERO);

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn call(breaker: &Breaker, now: Moment) -> Call<'_> {
        breaker.begin(|| now).expect("a closed circuit")
    }

    fn is_open(breaker: &Breaker, now: Moment) -> bool {
        let refused = breaker.begin(|| now).err();
        refused.is_some_and(|error| error.kind() == StoreErrorKind::NotAsked)
    }

    fn opened_at(now: Moment) -> Breaker {
        let breaker = Breaker::new(CIRCUIT);
        for _ in 0..5 {
            assert!(!is_open(&breaker, now));
            assert!(!call(&breaker, now).failed(now).1);
        }
        breaker
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_at_least_half_is_kept() {
        let millis = |times, draw| CIRCUIT.pause(times, draw).as_millis();
        assert_eq!((millis(1, 0), millis(1, u64::MAX)), (50, 99));
        assert_eq!((millis(2, 0), millis(3, 0)), (100, 200));
        assert_eq!((millis(7, 0), millis(7, u64::MAX)), (250, 499));
        assert_eq!((millis(60, 0), millis(u32::MAX, u64::MAX)), (250, 499));
        let none = Circuit::new().backoff(Duration::ZERO, Duration::MAX);
        assert_eq!(none.pause(1, u64::MAX), Duration::ZERO);
        assert!(none.backoff(Duration::MAX, Duration::MAX).pause(2, 0) > Duration::from_secs(1));
    }

    #[test]
    fn it_opens_after_failures_in_a_row_only() {
        let breaker = Breaker::new(CIRCUIT);
        for _ in 0..20 {
            for _ in 0..4 {
                let _ = call(&breaker, at(0)).failed(at(0));
            }
            assert!(!call(&breaker, at(0)).answered());
        }
        assert!(!is_open(&breaker, at(0)));
        assert!(is_open(&opened_at(at(0)), at(0)));
    }

    /// At a high load one connection that broke opened it within a millisecond.
    #[test]
    fn many_failures_at_once_do_not_open_it() {
        let breaker = Breaker::new(Circuit::new());
        for _ in 0..1000 {
            call(&breaker, at(0)).failed(at(1));
        }
        assert!(!is_open(&breaker, at(1)));
        call(&breaker, at(50)).failed(at(100));
        assert!(!is_open(&breaker, at(100)));
        assert!(call(&breaker, at(100)).failed(at(101)).0);
        assert!(is_open(&breaker, at(101)));
    }

    #[test]
    fn one_caller_tries_and_an_answer_closes_it() {
        let breaker = opened_at(at(0));
        assert!(is_open(&breaker, at(49)) && !breaker.would_ask(|| at(49)));
        assert!(breaker.would_ask(|| at(100)));
        let probe = call(&breaker, at(100));
        assert!(is_open(&breaker, at(100)) && !breaker.would_ask(|| at(100)));
        assert!(probe.answered());
        assert!(!is_open(&breaker, at(100)));
        assert_eq!(breaker.opened(), 1);
    }

    #[test]
    fn one_who_tries_in_vain_makes_the_pause_longer() {
        let breaker = opened_at(at(0));
        assert_eq!(call(&breaker, at(100)).failed(at(150)), (true, true));
        assert!(is_open(&breaker, at(249)));
        assert_eq!(call(&breaker, at(350)).failed(at(400)), (true, true));
        assert!(is_open(&breaker, at(599)));
        assert!(call(&breaker, at(800)).answered());
        assert_eq!(breaker.opened(), 3);
    }

    #[test]
    fn one_who_gives_up_trying_leaves_it_to_the_next() {
        let breaker = opened_at(at(0));
        drop(call(&breaker, at(100)));
        assert!(!is_open(&breaker, at(100)));
    }

    #[test]
    fn calls_that_were_under_way_do_not_make_the_pause_longer() {
        let breaker = Breaker::new(CIRCUIT);
        let late: Vec<_> = (0..8).map(|_| call(&breaker, at(0))).collect();
        for each in late {
            each.failed(at(50));
        }
        assert_eq!(breaker.opened(), 1);
        assert!(!is_open(&breaker, at(150)));
    }

    #[test]
    fn a_late_answer_closes_it_even_while_somebody_tries() {
        let breaker = Breaker::new(CIRCUIT);
        let late = call(&breaker, at(0));
        for _ in 0..5 {
            call(&breaker, at(0)).failed(at(0));
        }
        let probe = call(&breaker, at(100));
        assert!(late.answered());
        probe.failed(at(150));
        assert!(!is_open(&breaker, at(150)));
    }
}
