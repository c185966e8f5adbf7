use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};

use plimsoll::{Address, PenaltyBucket, TokenBucket};

use crate::active::{Active, SubjectLimits, Table};
use crate::decision::{Closed, Decision};
use crate::report::{Report, Row};
use crate::settings::Settings;
use crate::subject::{OpCode, Remote, Subject};
use crate::tiers::{Effective, Policy, Tier};

/// Decides on packets by the policies of their handlers.
///
/// Clones share all state, and are as cheap as an [`Arc`]. Every method can be called from any thread. The
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
    /// `None` once they are closed.
    open: RwLock<Option<Open>>,
    evaluations: AtomicU64,
    /// The number of evaluations at which the next sweep is due.
    next_sweep: AtomicU64,
}

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
        Self {
            shared: Arc::new(Shared {
                handlers,
                open: RwLock::new(Some(Open {
                    table: Table::new(),
                    fallback,
                })),
                evaluations: AtomicU64::new(0),
                next_sweep: AtomicU64::new(settings.cleanup_interval),
                settings,
            }),
        }
    }

    /// Decides on one packet for the operation `op` from `remote`: an address, with or without a port, or `None`.
    ///
    /// The decision counts: a granted packet takes a token, and a refused one counts towards a lockout.
    ///
    /// # Errors
    ///
    /// If the policies were [closed](Self::close).
    pub fn evaluate(
        &self,
        op: impl Into<OpCode>,
        remote: impl Into<Remote>,
    ) -> Result<Decision, Closed> {
        let decision = self.shared.decide(op.into(), remote.into())?;
        self.shared.count();
        Ok(decision)
    }

    /// Decides on one packet for the operation `op` by `policy`, whatever the builder declared for `op`.
    ///
    /// This serves programs whose handlers become known only when packets reach them. A handler must pass the same policy
    /// every time: another tier has other subjects, with full buckets. A policy with a NaN refuses everything.
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
    /// If the policies were [closed](Self::close).
    pub fn evaluate_by(
        &self,
        policy: Policy,
        op: impl Into<OpCode>,
        remote: impl Into<Remote>,
    ) -> Result<Decision, Closed> {
        let effective = policy.effective().unwrap_or(Effective::Refused);
        let decision = self.shared.decide_by(effective, op.into(), remote.into())?;
        self.shared.count();
        Ok(decision)
    }

    /// Drops all state. Every later evaluation returns [`Closed`].
    pub fn close(&self) {
        let open = &self.shared.open;
        let closed = open.write().unwrap_or_else(PoisonError::into_inner).take();
        // Dropped with the lock released: there may be much of it.
        drop(closed);
    }

    /// The active policies and counters at this moment.
    #[must_use]
    pub fn report(&self) -> Report {
        let shared = &*self.shared;
        let open = shared.open.read().unwrap_or_else(PoisonError::into_inner);
        let active = open.iter().flat_map(|open| open.table.iter().rev());
        Report {
            time: shared.settings.clock.precise_now(),
            max_policies: shared.settings.max_policies,
            evaluations: shared.evaluations.load(Ordering::Relaxed),
            rows: active
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

impl Shared {
    fn decide(&self, op: OpCode, remote: Remote) -> Result<Decision, Closed> {
        match self.handlers.get(&op) {
            Some(effective) => self.decide_by(*effective, op, remote),
            None => self.fall_back(remote.address(self.settings.ipv6_prefix)),
        }
    }

    /// Decides by the policy of a handler.
    fn decide_by(
        &self,
        effective: Effective,
        op: OpCode,
        remote: Remote,
    ) -> Result<Decision, Closed> {
        let tier = match effective {
            Effective::Unlimited => return self.read(|_| Decision::UNLIMITED),
            Effective::Refused => return self.read(|_| Decision::ALWAYS_REFUSED),
            Effective::Limited(tier) => tier,
        };
        let Some(address) = remote.address(self.settings.ipv6_prefix) else {
            return self.read(|_| Decision::THROTTLED);
        };
        let active = match self.read(|open| open.table.find(tier))? {
            Some(active) => active,
            None => self.activate(tier)?,
        };
        let subject = Subject { op, address };
        Ok(active.evaluate(&subject, &self.settings.clock))
    }

    /// Decides on an operation without a policy.
    fn fall_back(&self, address: Option<Address>) -> Result<Decision, Closed> {
        let limits = self.read(|open| open.fallback.clone())?;
        Ok(match (limits, address) {
            (None, _) => Decision::UNLIMITED,
            (Some(_), None) => Decision::THROTTLED,
            (Some(limits), Some(address)) => limits.evaluate(&address),
        })
    }

    /// Reads under the shared lock. `read` must be quick: callers that activate a policy wait for it.
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

    /// Counts an evaluation, and sweeps if a sweep is due and the lock is free.
    fn count(&self) {
        let evaluations = self.evaluations.fetch_add(1, Ordering::Relaxed) + 1;
        if evaluations >= self.next_sweep.load(Ordering::Relaxed) {
            self.sweep(evaluations);
        }
    }

    #[cold]
    fn sweep(&self, evaluations: u64) {
        let mut guard = match self.open.try_write() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let next = evaluations.saturating_add(self.settings.cleanup_interval);
        self.next_sweep.store(next, Ordering::Relaxed);
        let now = self.settings.clock.now();
        let idle = self.settings.policy_idle;
        let swept = guard.as_mut().map(|open| open.table.sweep(now, idle));
        drop(guard);
        drop(swept);
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
