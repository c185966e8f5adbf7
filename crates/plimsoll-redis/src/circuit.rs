//! The circuit breaker: stops calls to a store that does not answer, so that callers do not wait for its deadline.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::Moment;

use crate::{StoreError, StoreErrorKind};

/// Settings of the circuit breaker of a [`Store`](crate::Store).
///
/// The circuit opens after consecutive failures, 5 by default, over at least 100 ms. While it is open, every call fails at once with
/// [`CircuitOpen`](StoreErrorKind::CircuitOpen) and nothing is sent. After at most 100 ms, one call probes the store. If the
/// store answers, the circuit closes; if not, it stays open for twice the time, up to 500 ms. Each time is random,
/// between half of this value and the whole, so that the processes of a fleet do not probe at the same moment.
///
/// A failure is a call to a store that is unreachable or does not answer in time. An error reply is not a failure. A call that is
/// dropped before its deadline counts as neither, so the deadline of the store should be shorter than the timeouts of callers. At a
/// high load, one broken connection fails many calls at once, which is why failures must also last for a minimum time.
///
/// In a cluster there is a circuit for each 256 slots, so that a dead node does not stop calls to the others.
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
///
/// While the circuit is open, a [`Fleet`](crate::Fleet) answers as its [`Outage`](crate::Outage) setting says, without
/// waiting. [`Store::is_asked`](crate::Store::is_asked) reports the state, [`Store::outages`](crate::Store::outages)
/// counts the times that it opened, and [`StoreEvent::Opened`](crate::StoreEvent::Opened) and
/// [`Closed`](crate::StoreEvent::Closed) report each change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Circuit {
    failures: u32,
    min_outage: Duration,
    first: Duration,
    longest: Duration,
}

impl Circuit {
    /// Creates the default settings: the circuit opens after 5 consecutive failures over 100 ms, for 100 ms at first
    /// and 500 ms at most.
    ///
    /// ```
    /// assert_eq!(plimsoll_redis::Circuit::new(), plimsoll_redis::Circuit::default());
    /// ```
    pub const fn new() -> Self {
        Self {
            failures: 5,
            min_outage: Duration::from_millis(100),
            first: Duration::from_millis(100),
            longest: Duration::from_millis(500),
        }
    }

    /// Sets the minimum time from the first to the last of the consecutive failures. Default: 100 ms. A store with a
    /// [clock of its own](crate::StoreBuilder::clock) ignores it.
    ///
    /// A longer time ignores short interruptions such as a failover, during which callers wait for the deadline of each call.
    pub const fn min_outage(mut self, min_outage: Duration) -> Self {
        self.min_outage = min_outage;
        self
    }

    /// Sets the number of consecutive failures after which the circuit opens. Default: 5. 0 means 1.
    ///
    /// With a high load, failures are counted within milliseconds, and the [minimum time](Self::min_outage) decides.
    pub const fn failures(mut self, failures: u32) -> Self {
        self.failures = failures;
        self
    }

    /// Sets how long the circuit stays open at first, and at most. Default: 100 ms and 500 ms.
    ///
    /// The time doubles after each failed probe. A recovered store is noticed after at most `longest`.
    ///
    /// ```
    /// use plimsoll_redis::Circuit;
    /// use std::time::Duration;
    ///
    /// // Probes once in ten seconds at the least.
    /// let circuit = Circuit::new().backoff(Duration::from_secs(1), Duration::from_secs(10));
    /// assert_ne!(circuit, Circuit::default());
    /// ```
    pub const fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.first = first;
        self.longest = longest;
        self
    }

    /// The time for which the circuit stays open the `times`th time in a row. `draw` is a uniform random number.
    fn pause(&self, times: u32, draw: u64) -> Duration {
        let doubled = 1_u32.checked_shl(times.saturating_sub(1));
        let whole = doubled.and_then(|factor| self.first.checked_mul(factor));
        let whole = whole.map_or(self.longest, |whole| whole.min(self.longest));
        let half = whole / 2;
        let span = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
        // The upper half of the product is uniform below `span`.
        let part = (u128::from(span) * u128::from(draw)) >> 64;
        whole - half + Duration::from_nanos(u64::try_from(part).unwrap_or(0))
    }
}

impl Default for Circuit {
    fn default() -> Self {
        Self::new()
    }
}

/// The state machine of the circuit, without a clock.
#[derive(Default, Debug)]
struct FailureState {
    /// Consecutive failures while the circuit is closed.
    failures: u32,
    /// The moment of the first of them.
    since: Option<Moment>,
    /// The number of times in a row that the circuit opened.
    opened: u32,
    /// If the circuit is open: the moment from which the next probe may be sent.
    until: Option<Moment>,
    /// Whether a probe is in flight.
    probing: bool,
}

/// Whether a call may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Admission {
    Ask,
    /// The call is the probe; all others fail until it ends.
    Probe,
    Stay,
}

impl FailureState {
    fn admission(&self, now: Moment) -> Admission {
        match self.until {
            None => Admission::Ask,
            Some(until) if self.probing || now < until => Admission::Stay,
            Some(_) => Admission::Probe,
        }
    }

    /// Records a failure. Returns whether the circuit opened.
    fn failed(&mut self, circuit: &Circuit, now: Moment, probe: bool, draw: u64) -> bool {
        if probe && self.probing {
            self.probing = false;
        } else if self.until.is_some() {
            // Calls that were in flight when the circuit opened do not count.
            return false;
        } else {
            self.failures = self.failures.saturating_add(1);
            let since = *self.since.get_or_insert(now);
            if self.failures < circuit.failures || now.since(since) < circuit.min_outage {
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
    /// Whether there are failures. If not, callers do not take the lock.
    has_failures: AtomicBool,
    state: Mutex<FailureState>,
    opened: AtomicU64,
}

/// A call in flight.
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
            has_failures: AtomicBool::new(false),
            state: Mutex::default(),
            opened: AtomicU64::new(0),
        }
    }

    /// The number of times that the circuit opened.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Whether a call made now would be sent.
    pub(crate) fn would_ask(&self, now: impl FnOnce() -> Moment) -> bool {
        !self.has_failures.load(Ordering::Relaxed)
            || self.state().admission(now()) != Admission::Stay
    }

    /// Begins a call. Fails if the circuit is open.
    pub(crate) fn begin(&self, now: impl FnOnce() -> Moment) -> Result<Call<'_>, StoreError> {
        let mut probe = false;
        if self.has_failures.load(Ordering::Relaxed) {
            let mut state = self.state();
            match state.admission(now()) {
                Admission::Ask => {}
                Admission::Probe => {
                    state.probing = true;
                    probe = true;
                }
                Admission::Stay => return Err(StoreError::new(StoreErrorKind::CircuitOpen)),
            }
        }
        Ok(Call {
            breaker: self,
            probe,
        })
    }

    fn state(&self) -> MutexGuard<'_, FailureState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call<'_> {
    /// Records an answer. Returns whether it closed the circuit.
    pub(crate) fn answered(mut self) -> bool {
        self.probe = false;
        if !self.breaker.has_failures.load(Ordering::Relaxed) {
            return false;
        }
        let mut state = self.breaker.state();
        let before = std::mem::take(&mut *state);
        self.breaker.has_failures.store(false, Ordering::Relaxed);
        before.until.is_some()
    }

    /// Records a failure. Returns whether it opened the circuit, and whether the call was the probe.
    pub(crate) fn failed(mut self, now: Moment) -> (bool, bool) {
        let probe = std::mem::take(&mut self.probe);
        let draw = RandomState::new().hash_one(now.as_nanos());
        let mut state = self.breaker.state();
        self.breaker.has_failures.store(true, Ordering::Relaxed);
        let opened = state.failed(&self.breaker.circuit, now, probe, draw);
        if opened {
            self.breaker.opened.fetch_add(1, Ordering::Relaxed);
        }
        (opened, probe)
    }
}

/// A dropped probe lets the next call probe.
impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.probe {
            self.breaker.state().probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIRCUIT: Circuit = Circuit::new().min_outage(Duration::ZERO);

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn call(breaker: &Breaker, now: Moment) -> Call<'_> {
        breaker.begin(|| now).expect("a closed circuit")
    }

    fn is_open(breaker: &Breaker, now: Moment) -> bool {
        let refused = breaker.begin(|| now).err();
        refused.is_some_and(|error| error.kind() == StoreErrorKind::CircuitOpen)
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

    /// Regression test: under high load one broken connection opened it within a millisecond.
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
