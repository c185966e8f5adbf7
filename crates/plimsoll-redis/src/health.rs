//! Statistics, events and logs of a store: failures by cause, latency, connections.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::{Clock, Moment};
use tokio::sync::broadcast::{self, error::RecvError, error::TryRecvError};

use crate::{StoreError, StoreErrorKind};

/// A failed call, and its cause.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoreFailure {
    /// The cause.
    pub kind: StoreErrorKind,
    /// The message of the server or the network, shortened.
    pub message: String,
    /// The moment of the failure, on the clock of the [builder](crate::StoreBuilder::clock) or of the system.
    pub at: Moment,
}

/// An event of a store. See [`Store::subscribe`](crate::Store::subscribe).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreEvent {
    /// A call failed. Calls that were not sent because the [circuit](crate::Circuit) is open are counted without an event.
    Failed(StoreFailure),
    /// The [circuit](crate::Circuit) opened, or a probe failed.
    Opened,
    /// The [circuit](crate::Circuit) closed: the store answers again.
    Closed,
    /// A connection was established.
    Connected,
    /// The server has a `maxmemory` and this `maxmemory-policy`, so it may evict the state of limits.
    Evicts(String),
    /// A state was written by a clock far ahead of the server's. See [`clock_steps`](crate::Store::clock_steps).
    ClockStepped,
}

/// The statistics of a store in this process. See [`Store::stats`](crate::Store::stats).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreStats {
    /// The number of times that the [circuit](crate::Circuit) opened.
    pub outages: u64,
    /// The number of states that were written by a clock far ahead. See [`Store::clock_steps`](crate::Store::clock_steps).
    pub clock_steps: u64,
    /// The number of connections that were established.
    pub connections: u64,
    /// The number of calls that were sent, answered or not.
    pub round_trips: u64,
    /// The number of demands that were decided. One call may decide many.
    pub decisions: u64,
    /// The number of leases that were lost: they could not be renewed in time, or the store has lost them.
    pub leases_lost: u64,
    /// The latency of calls.
    pub latency: Latency,
    /// Whether the [circuit](crate::Circuit) is closed, in a cluster all of them, so that calls are sent.
    pub is_asked: bool,
    /// The last failure.
    pub last_failure: Option<StoreFailure>,
    /// The `maxmemory-policy` of the server, if it may evict the state of limits.
    pub evicts: Option<String>,
    failures: [u64; StoreErrorKind::ALL.len()],
}

impl StoreStats {
    /// Returns the number of calls that failed with this cause.
    ///
    /// ```
    /// use plimsoll_redis::{Store, StoreErrorKind};
    ///
    /// let store = Store::open("redis://127.0.0.1")?;
    /// for kind in StoreErrorKind::ALL {
    ///     println!("store_failures{{cause=\"{}\"}} {}", kind.as_str(), store.stats().failures(kind));
    /// }
    /// # Ok::<(), plimsoll_redis::StoreError>(())
    /// ```
    #[must_use]
    pub fn failures(&self, kind: StoreErrorKind) -> u64 {
        self.failures[kind.index()]
    }
}

/// A histogram of the latency of calls.
///
/// ```
/// use plimsoll_redis::Store;
///
/// let latency = Store::open("redis://127.0.0.1")?.stats().latency;
/// for (at_most, count) in latency.buckets() {
///     println!("{count} calls took at most {at_most:?}");
/// }
/// # Ok::<(), plimsoll_redis::StoreError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Latency {
    counts: [u64; BUCKETS.len() + 1],
    sum: Duration,
}

/// The upper bounds of the buckets, in microseconds.
const BUCKETS: [u64; 12] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
];

impl Latency {
    /// Returns the upper bound of each bucket, and the number of calls that took at most that long.
    /// [`count`](Self::count) also includes calls above the largest bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counts = self.counts.iter().scan(0_u64, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let bounds = BUCKETS.into_iter().map(Duration::from_micros);
        bounds.zip(counts)
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all latencies.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        self.sum
    }
}

/// The atomic counters of [`Latency`].
#[derive(Debug, Default)]
struct Latencies {
    counts: [AtomicU64; BUCKETS.len() + 1],
    nanos: AtomicU64,
}

impl Latencies {
    fn add(&self, took: Duration) {
        let class = BUCKETS.partition_point(|most| Duration::from_micros(*most) < took);
        self.counts[class].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn read(&self) -> Latency {
        Latency {
            counts: std::array::from_fn(|class| self.counts[class].load(Ordering::Relaxed)),
            sum: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
        }
    }
}

/// A subscription to the events of a store. [`Store::subscribe`](crate::Store::subscribe) returns one.
///
/// ```no_run
/// use plimsoll_redis::{Store, StoreEvent};
///
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::open("redis://127.0.0.1")?;
/// let mut events = store.subscribe();
/// while let Some(event) = events.next().await {
///     match event {
///         StoreEvent::Failed(failure) => eprintln!("{}: {}", failure.kind.as_str(), failure.message),
///         StoreEvent::Opened => eprintln!("the store does not answer"),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StoreEvents {
    receiver: broadcast::Receiver<StoreEvent>,
    missed: u64,
}

impl StoreEvents {
    /// Waits for the next event. Returns `None` when the store is dropped. A slow subscriber loses the oldest events.
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<StoreEvent> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(missed)) => self.missed += missed,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Returns the next event, if one is buffered.
    pub fn try_next(&mut self) -> Option<StoreEvent> {
        loop {
            match self.receiver.try_recv() {
                Ok(event) => return Some(event),
                Err(TryRecvError::Lagged(missed)) => self.missed += missed,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }

    /// Returns the number of events that were lost.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

/// Capacity of the event channel.
const EVENTS: usize = 256;

/// Maximum length of a stored message.
const MESSAGE: usize = 200;

/// The statistics and subscribers of a store, shared with its connection.
#[derive(Debug)]
pub(crate) struct Health {
    clock: Option<Clock>,
    failures: [AtomicU64; StoreErrorKind::ALL.len()],
    last: Mutex<Option<StoreFailure>>,
    steps: AtomicU64,
    connections: AtomicU64,
    decisions: AtomicU64,
    leases_lost: AtomicU64,
    latencies: Latencies,
    evicts: Mutex<Option<String>>,
    events: broadcast::Sender<StoreEvent>,
    #[cfg(feature = "tracing")]
    lines: crate::log::Lines,
}

impl Health {
    pub(crate) fn new(clock: Option<Clock>) -> Self {
        Self {
            clock,
            failures: Default::default(),
            last: Mutex::default(),
            steps: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            decisions: AtomicU64::new(0),
            leases_lost: AtomicU64::new(0),
            latencies: Latencies::default(),
            evicts: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
            #[cfg(feature = "tracing")]
            lines: crate::log::Lines::default(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        let clock = self.clock.as_ref();
        clock.map_or_else(|| Clock::system().precise_now(), Clock::precise_now)
    }

    pub(crate) fn subscribe(&self) -> StoreEvents {
        StoreEvents {
            receiver: self.events.subscribe(),
            missed: 0,
        }
    }

    /// Counts a call that took `time`, answered or not.
    pub(crate) fn took(&self, time: Duration) {
        self.latencies.add(time);
    }

    /// Counts decided demands.
    pub(crate) fn decided(&self, demands: usize) {
        self.decisions.fetch_add(demands as u64, Ordering::Relaxed);
    }

    /// Counts lost leases.
    pub(crate) fn lost(&self, leases: usize) {
        self.leases_lost.fetch_add(leases as u64, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self, outages: u64, is_asked: bool) -> StoreStats {
        let latency = self.latencies.read();
        let failures = std::array::from_fn(|i| self.failures[i].load(Ordering::Relaxed));
        StoreStats {
            outages,
            clock_steps: self.steps(),
            connections: self.connections.load(Ordering::Relaxed),
            round_trips: latency.count(),
            decisions: self.decisions.load(Ordering::Relaxed),
            leases_lost: self.leases_lost.load(Ordering::Relaxed),
            latency,
            is_asked,
            last_failure: locked(&self.last).clone(),
            evicts: locked(&self.evicts).clone(),
            failures,
        }
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self, error: &StoreError) {
        let kind = error.kind();
        self.failures[kind.index()].fetch_add(1, Ordering::Relaxed);
        // A call that was not sent has no cause of its own: the call that opened the circuit reported it.
        if kind == StoreErrorKind::CircuitOpen {
            return;
        }
        let failure = StoreFailure {
            kind,
            message: error.cause(MESSAGE),
            at: self.now(),
        };
        #[cfg(feature = "tracing")]
        self.lines.failed(kind, &failure.message);
        *locked(&self.last) = Some(failure.clone());
        self.publish(StoreEvent::Failed(failure));
    }

    pub(crate) fn stepped(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.publish(StoreEvent::ClockStepped);
    }

    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.publish(StoreEvent::Connected);
    }

    /// Reads the eviction policy from `INFO memory` of one or several nodes.
    pub(crate) fn memory(&self, texts: &[String]) {
        let policy = texts.iter().find_map(|text| evicting(text));
        locked(&self.evicts).clone_from(&policy);
        if let Some(policy) = policy {
            #[cfg(feature = "tracing")]
            tracing::warn!(
                policy,
                "the store may forget limits when it runs out of memory: set maxmemory-policy to noeviction"
            );
            self.publish(StoreEvent::Evicts(policy));
        }
    }

    pub(crate) fn opened(&self) {
        #[cfg(feature = "tracing")]
        self.lines.opened();
        self.publish(StoreEvent::Opened);
    }

    pub(crate) fn closed(&self) {
        #[cfg(feature = "tracing")]
        tracing::info!("the store answers again");
        self.publish(StoreEvent::Closed);
    }

    fn publish(&self, event: StoreEvent) {
        // An error means that there are no subscribers.
        let _ = self.events.send(event);
    }
}

/// The eviction policy of a server with a memory bound. Every policy except `noeviction` may evict our keys, since all
/// of them expire.
fn evicting(info: &str) -> Option<String> {
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    let policy = field("maxmemory_policy:")?;
    let bounded = field("maxmemory:")? != "0";
    (bounded && policy != "noeviction").then(|| policy.to_owned())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_may_forget_is_reported() {
        let info = |bytes: &str, policy: &str| {
            let text = format!("# Memory\r\nmaxmemory:{bytes}\r\nmaxmemory_policy:{policy}\r\n");
            evicting(&text)
        };
        assert_eq!(info("0", "allkeys-lru"), None);
        assert_eq!(info("1000", "noeviction"), None);
        assert_eq!(
            info("1000", "volatile-ttl").as_deref(),
            Some("volatile-ttl")
        );
        assert_eq!(info("1000", "allkeys-lru").as_deref(), Some("allkeys-lru"));
        assert_eq!(evicting("nothing"), None);
    }
}
