//! What went wrong with a store: counted by cause, remembered, sent to subscribers and logged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::{Clock, Moment};
use tokio::sync::broadcast::{self, error::RecvError, error::TryRecvError};

use crate::{StoreError, StoreErrorKind};

/// A call that the store did not decide, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoreFailure {
    /// The class of the cause.
    pub kind: StoreErrorKind,
    /// What the server or the network said, shortened.
    pub message: String,
    /// When, by the clock of the store's [builder](crate::StoreBuilder::clock), or of the system.
    pub at: Moment,
}

/// Something that happened to a store. See [`Store::subscribe`](crate::Store::subscribe).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreEvent {
    /// A call was not decided. Those that were not sent because the [circuit](crate::Circuit) is open are only counted.
    Failed(StoreFailure),
    /// The [circuit](crate::Circuit) has opened, or a probe of it failed.
    Opened,
    /// The store answers again.
    Closed,
    /// A connection was made.
    Connected,
    /// The server may forget limits when it runs out of memory: this is its `maxmemory-policy`, and there is a
    /// `maxmemory`.
    Evicts(String),
    /// Something was written by a clock far ahead of the server's. See
    /// [`clock_steps`](crate::Store::clock_steps).
    ClockStepped,
}

/// What happened to a store so far. See [`Store::stats`](crate::Store::stats).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreStats {
    /// How often the circuit opened.
    pub outages: u64,
    /// How often something was found that was written by a clock far ahead.
    pub clock_steps: u64,
    /// How many connections were made.
    pub connections: u64,
    /// How many calls the server answered, or failed to.
    pub round_trips: u64,
    /// How many demands were decided. One call may decide many.
    pub decisions: u64,
    /// How many leases were lost: they could not be renewed in time, or the store has forgotten them.
    pub leases_lost: u64,
    /// How long calls took.
    pub latency: Latency,
    /// Whether calls would be sent now: the [circuit](crate::Circuit) is closed, in a cluster of every node.
    pub is_asked: bool,
    /// The last call that was not decided, and why.
    pub last_failure: Option<StoreFailure>,
    /// The `maxmemory-policy` of the server, if it may forget limits by it.
    pub evicts: Option<String>,
    failures: [u64; StoreErrorKind::ALL.len()],
}

impl StoreStats {
    /// How many calls were not decided for a cause of this class.
    ///
    /// ```
    /// use plimsoll_redis::{Store, StoreErrorKind};
    ///
    /// let store = Store::connect("redis://127.0.0.1")?;
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

/// How long calls took, counted in classes of time.
///
/// ```
/// use plimsoll_redis::Store;
///
/// let latency = Store::connect("redis://127.0.0.1")?.stats().latency;
/// for (at_most, count) in latency.classes() {
///     println!("{count} calls took at most {at_most:?}");
/// }
/// # Ok::<(), plimsoll_redis::StoreError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Latency {
    counts: [u64; CLASSES.len() + 1],
    sum: Duration,
}

/// The upper bounds of the classes, in microseconds.
const CLASSES: [u64; 12] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
];

impl Latency {
    /// For each class its upper bound, and how many calls took at most that long. Those that took longer are in
    /// [`count`](Self::count) alone.
    pub fn classes(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counts = self.counts.iter().scan(0_u64, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let bounds = CLASSES.into_iter().map(Duration::from_micros);
        bounds.zip(counts)
    }

    /// How many calls there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How long they took together.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        self.sum
    }
}

/// [`Latency`], as it is counted.
#[derive(Debug, Default)]
struct Latencies {
    counts: [AtomicU64; CLASSES.len() + 1],
    nanos: AtomicU64,
}

impl Latencies {
    fn add(&self, took: Duration) {
        let class = CLASSES.partition_point(|most| Duration::from_micros(*most) < took);
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

/// What happens to a store from now on. Made by [`Store::subscribe`](crate::Store::subscribe).
#[derive(Debug)]
pub struct StoreEvents {
    receiver: broadcast::Receiver<StoreEvent>,
    missed: u64,
}

impl StoreEvents {
    /// The next event; `None` when the store is gone. Whoever is too slow misses the oldest.
    pub async fn next(&mut self) -> Option<StoreEvent> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(missed)) => self.missed += missed,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// The next event if there is one.
    pub fn try_next(&mut self) -> Option<StoreEvent> {
        loop {
            match self.receiver.try_recv() {
                Ok(event) => return Some(event),
                Err(TryRecvError::Lagged(missed)) => self.missed += missed,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }

    /// How many events were missed.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

/// How many events wait for somebody slow.
const EVENTS: usize = 256;

/// What is remembered of a message.
const MESSAGE: usize = 200;

/// All of it, shared by the store and its connection.
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

    /// A call was answered, or failed, after this time.
    pub(crate) fn took(&self, time: Duration) {
        self.latencies.add(time);
    }

    /// So many demands were decided.
    pub(crate) fn decided(&self, demands: usize) {
        self.decisions.fetch_add(demands as u64, Ordering::Relaxed);
    }

    /// So many leases were lost.
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
        // That the store is not asked says nothing about why; the call that opened the circuit did.
        if kind == StoreErrorKind::NotAsked {
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

    /// What the server says about its memory, in one or several texts of `INFO memory`.
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
        // Nobody listens, mostly.
        let _ = self.events.send(event);
    }
}

/// The policy by which a server forgets keys, all of ours, because they all expire, if its memory is bounded.
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
