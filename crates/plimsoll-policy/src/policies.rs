use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};
use std::{fmt, io, thread};

use plimsoll::{
    Address, Event, EventKind, Events, KeyedEvent, Listener, Listeners, Moment, PenaltyBucket,
    Priority, Snapshot, TokenBucket,
};

use crate::active::{Active, SubjectLimits, Table};
use crate::decision::{Closed, Decision};
use crate::log;
use crate::report::{Report, Row};
use crate::settings::Settings;
use crate::subject::{OpCode, Packet, Remote, Subject};
use crate::tiers::{Effective, Policy, Tier};

/// Decides on packets, by the policies of their handlers.
///
/// Clones share all state, and cost as little as those of an [`Arc`]. Every method can be called from any thread. The
/// [crate page](crate) explains subjects, memory and locking.
///
/// ```
/// use plimsoll_policy::{OpCode, Policies, Policy};
///
/// const CHAT: OpCode = OpCode(3);
///
/// let policies = Policies::builder().handler(CHAT, Policy::per_second(2.0).burst(4.0)).build()?;
/// let peer = std::net::Ipv4Addr::LOCALHOST;
/// let decision = policies.evaluate(CHAT, peer)?;
/// assert!(decision.is_allowed());
/// assert_eq!(decision.credit(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Policies {
    shared: Arc<Shared>,
}

struct Shared {
    handlers: HashMap<OpCode, Effective>,
    settings: Settings,
    /// `None` after [`close`](Policies::close).
    open: RwLock<Option<Open>>,
    evaluations: AtomicU64,
    /// The number of evaluations at which the next sweep is due, and the moment.
    next_sweep: AtomicU64,
    next_sweep_at: AtomicU64,
    listeners: Listeners<KeyedEvent<Packet>>,
}

/// A sweep is due after this many evaluations, regardless of the time.
const SWEEP_EVERY: u64 = 1024;

/// Policies with more subjects than this are dropped on a thread of their own.
const DROPPED_AT_ONCE: usize = 64;

struct Open {
    table: Table,
    fallback: Option<Arc<SubjectLimits<Address>>>,
}

impl Policies {
    pub(crate) fn new(
        handlers: HashMap<OpCode, Effective>,
        fallback: Option<TokenBucket>,
        settings: Settings,
    ) -> Self {
        let limits = |bucket| Arc::new(SubjectLimits::new(PenaltyBucket::new(bucket), &settings));
        let fallback = fallback.map(limits);
        let now = settings.clock.now();
        Self {
            shared: Arc::new(Shared {
                handlers,
                open: RwLock::new(Some(Open {
                    table: Table::new(),
                    fallback,
                })),
                evaluations: AtomicU64::new(0),
                next_sweep: AtomicU64::new(SWEEP_EVERY),
                next_sweep_at: AtomicU64::new(now.plus(settings.cleanup_interval).as_nanos()),
                listeners: Listeners::new(),
                settings,
            }),
        }
    }

    /// Decides on one packet for the operation `op` from `remote`: an address, with or without a port, or `None`.
    ///
    /// The decision counts: a granted packet takes a token, and a refused one counts towards a lockout. A packet
    /// without an address is refused if its operation is limited.
    ///
    /// # Errors
    ///
    /// Returns an error if the policies were [closed](Self::close).
    pub fn evaluate(
        &self,
        op: impl Into<OpCode>,
        remote: impl Into<Remote>,
    ) -> Result<Decision, Closed> {
        let (op, remote) = (op.into(), remote.into());
        let decided = match self.shared.handlers.get(&op) {
            Some(effective) => self.shared.decide_by(*effective, op, remote)?,
            None => self.shared.fall_back(op, remote)?,
        };
        Ok(self.shared.finish(op, remote, decided))
    }

    /// Decides on one packet for the operation `op` by `policy`, regardless of the policy that the builder declared for
    /// `op`.
    ///
    /// Use it for handlers that are known only when packets arrive. A handler must pass the same policy every time:
    /// another tier has other subjects, with full buckets. A policy with a NaN refuses everything.
    ///
    /// ```
    /// use plimsoll_policy::{OpCode, Policies, Policy};
    /// use std::net::IpAddr;
    ///
    /// let policies = Policies::builder().build()?;
    /// let (policy, peer) = (Policy::per_second(1.0).burst(2.0), IpAddr::from([192, 0, 2, 1]));
    /// let admit = || policies.evaluate_by(policy, OpCode(7), peer).map(|it| it.is_allowed());
    /// assert_eq!([admit()?, admit()?, admit()?], [true, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the policies were [closed](Self::close).
    pub fn evaluate_by(
        &self,
        policy: Policy,
        op: impl Into<OpCode>,
        remote: impl Into<Remote>,
    ) -> Result<Decision, Closed> {
        let effective = policy.effective().unwrap_or(Effective::Refused);
        let (op, remote) = (op.into(), remote.into());
        let decided = self.shared.decide_by(effective, op, remote)?;
        Ok(self.shared.finish(op, remote, decided))
    }

    /// Drops all state. Every later evaluation returns [`Closed`].
    ///
    /// Use it to shut down, and to free the memory of all subjects. It cannot be undone: build new policies instead.
    /// With the feature `tracing` it logs a summary.
    pub fn close(&self) {
        let open = &self.shared.open;
        let closed = open.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(closed) = closed {
            let evaluations = self.shared.evaluations.load(Ordering::Relaxed);
            log::closed(closed.table.iter().count(), closed.subjects(), evaluations);
        }
    }

    /// Subscribes to decisions from now on, each with its [`Packet`]. At most `capacity` events are stored until they are read;
    /// further events are dropped and counted. See [`Events`].
    ///
    /// An admitted packet is [`Processing`](plimsoll::EventKind::Processing), a refused one
    /// [`Rejected`](plimsoll::EventKind::Rejected). `limit` is the burst of the subject, `in_use` its usage; both are 0 without a
    /// limit.
    ///
    /// ```
    /// use plimsoll_policy::{Policies, Policy};
    /// use std::net::SocketAddr;
    ///
    /// let policies = Policies::builder().handler(7_u32, Policy::per_second(1.0)).build()?;
    /// let mut events = policies.subscribe(1000);
    /// let peer: SocketAddr = "192.0.2.1:40000".parse()?;
    /// let _ = policies.evaluate(7_u32, peer);
    /// let event = events.next().ok_or("no event")?;
    /// assert_eq!((event.key.remote.port(), event.event.limit), (Some(40000), 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subscribe(&self, capacity: usize) -> Events<KeyedEvent<Packet>> {
        self.shared.listeners.subscribe(capacity)
    }

    /// Calls `callback` with each event from now on, on a thread of its own. See [`Listener`].
    ///
    /// A slow or panicking callback does not affect decisions. Events that do not fit its buffer are lost and counted.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot start a thread.
    pub fn subscribe_with(
        &self,
        callback: impl FnMut(KeyedEvent<Packet>) + Send + 'static,
    ) -> io::Result<Listener> {
        self.subscribe(1024).listen(callback)
    }

    /// Returns a copy of the active policies and counters at this moment.
    ///
    /// ```
    /// use plimsoll_policy::{Policies, Policy};
    ///
    /// let policies = Policies::builder().handler(1_u32, Policy::per_second(4.0)).build()?;
    /// assert_eq!(policies.report().active_policies(), 0, "a policy is active once it is used");
    /// let _ = policies.evaluate(1_u32, std::net::Ipv4Addr::LOCALHOST);
    /// assert_eq!(policies.report().active_policies(), 1);
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    #[must_use]
    pub fn report(&self) -> Report {
        let shared = &*self.shared;
        let open = shared.open.read().unwrap_or_else(PoisonError::into_inner);
        let active = || open.iter().flat_map(|open| open.table.iter().rev());
        Report {
            time: shared.settings.clock.precise_now(),
            active_policies: active().count(),
            max_policies: shared.settings.max_policies,
            evaluations: shared.evaluations.load(Ordering::Relaxed),
            rows: active()
                .take(Report::MAX_ROWS)
                .map(|active| Row {
                    rps: active.tier.rps(),
                    burst: active.tier.burst(),
                    subjects: active.subjects(),
                    last_used: active.last_used(),
                })
                .collect(),
        }
    }
}

/// A decision, and its limit; 0 without one.
type Decided = (Decision, u64);

impl Open {
    fn subjects(&self) -> usize {
        let fallback = self.fallback.as_ref().map_or(0, |limits| limits.len());
        let policies = self.table.iter().map(Active::subjects);
        fallback + policies.sum::<usize>()
    }
}

impl Shared {
    /// Decides by the policy of a handler.
    fn decide_by(
        &self,
        effective: Effective,
        op: OpCode,
        remote: Remote,
    ) -> Result<Decided, Closed> {
        let tier = match effective {
            Effective::Unlimited => return self.read(|_| (Decision::UNLIMITED, 0)),
            Effective::Refused => return self.read(|_| (Decision::ALWAYS_REFUSED, 0)),
            Effective::Limited(tier) => tier,
        };
        let Some(address) = remote.address(self.settings.ipv6_prefix) else {
            log::unknown_address(op);
            return self.read(|_| (Decision::THROTTLED, 0));
        };
        let active = match self.read(|open| open.table.find(tier))? {
            Some(active) => active,
            None => self.activate(tier)?,
        };
        let subject = Subject { op, address };
        let decision = active.evaluate(&subject, &self.settings.clock);
        Ok((decision, active.tier.burst()))
    }

    /// Decides on an operation without a policy.
    fn fall_back(&self, op: OpCode, remote: Remote) -> Result<Decided, Closed> {
        let limits = self.read(|open| open.fallback.clone())?;
        log::missing_policy(op, remote, limits.is_some());
        Ok(match (limits, remote.address(self.settings.ipv6_prefix)) {
            (None, _) => (Decision::UNLIMITED, 0),
            (Some(_), None) => {
                log::unknown_address(op);
                (Decision::THROTTLED, 0)
            }
            (Some(limits), Some(address)) => (limits.evaluate(&address), limits.limit()),
        })
    }

    /// Reports and counts a decision, and sweeps if a sweep is due.
    fn finish(&self, op: OpCode, remote: Remote, (decision, limit): Decided) -> Decision {
        if !decision.is_allowed() {
            log::refused(op, remote, decision, self.settings.lockout);
        }
        if self.listeners.has_subscribers() {
            self.tell(Packet { op, remote }, decision, limit);
        }
        let evaluations = self.evaluations.fetch_add(1, Ordering::Relaxed) + 1;
        let now = self.settings.clock.now();
        if evaluations >= self.next_sweep.load(Ordering::Relaxed)
            || now.as_nanos() >= self.next_sweep_at.load(Ordering::Relaxed)
        {
            self.sweep(evaluations, now);
        }
        decision
    }

    #[cold]
    fn tell(&self, packet: Packet, decision: Decision, limit: u64) {
        let priority = Priority::Normal;
        let kind = match decision.reason() {
            None => EventKind::Processing { priority },
            Some(reason) => EventKind::Rejected { priority, reason },
        };
        let left = decision.credit().into();
        let seen = Snapshot::of(limit, left);
        let event = Event::new(kind, self.settings.clock.now(), &seen);
        self.listeners.emit(KeyedEvent::new(packet, event));
    }

    /// Calls `read` under the shared lock. It must be fast: callers that activate a policy wait for it.
    fn read<T>(&self, read: impl FnOnce(&Open) -> T) -> Result<T, Closed> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(read).ok_or(Closed)
    }

    /// Activates a policy.
    #[cold]
    fn activate(&self, tier: Tier) -> Result<Arc<Active>, Closed> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let open = open.as_mut().ok_or(Closed)?;
        Ok(open.table.find_or_activate(tier, &self.settings))
    }

    /// Removes idle policies if the lock is free. It checks at most 56 of them; those with many subjects are dropped on a thread of
    /// their own.
    #[cold]
    fn sweep(&self, evaluations: u64, now: Moment) {
        let mut guard = match self.open.try_write() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let next = evaluations.saturating_add(SWEEP_EVERY);
        self.next_sweep.store(next, Ordering::Relaxed);
        let next_at = now.plus(self.settings.cleanup_interval);
        self.next_sweep_at
            .store(next_at.as_nanos(), Ordering::Relaxed);
        let idle = self.settings.policy_idle;
        let swept = guard.as_mut().map(|open| open.table.sweep(now, idle));
        drop(guard);
        let swept = swept.unwrap_or_default();
        let subjects: usize = swept.iter().map(|active| active.subjects()).sum();
        log::swept(swept.len(), subjects);
        if subjects > DROPPED_AT_ONCE {
            // If no thread can be started, it is dropped here.
            let _thread = thread::Builder::new()
                .name("plimsoll-policy-sweep".into())
                .spawn(move || drop(swept));
        }
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policies")
            .field("handlers", &self.shared.handlers.len())
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}
