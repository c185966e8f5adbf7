//! Limits that handlers declare: how often one address may use one operation.
//!
//! A server of packets has handlers, each for an operation code. A handler declares a [`Policy`], so many
//! requests per second and so many at once; [`Policies`] holds all of them and decides upon each packet by its
//! operation and the address it came from.
//!
//! ```
//! use plimsoll::policy::OpCode;
//! use plimsoll::{ManualClock, Policies, Policy, Reason};
//! use std::net::SocketAddr;
//! use std::time::Duration;
//!
//! const LOGIN: OpCode = OpCode(1);
//! const MOVE: OpCode = OpCode(2);
//!
//! let time = ManualClock::new();
//! let policies = Policies::builder()
//!     .handler(LOGIN, Policy::per_second(1.0))
//!     .handler(MOVE, Policy::per_second(60.0).burst(10.0))
//!     .max_soft_violations(2)
//!     .lockout(Duration::from_secs(30))
//!     .clock(time.clock())
//!     .build()?;
//!
//! let peer: SocketAddr = "192.0.2.1:40000".parse()?;
//! assert!(policies.evaluate(LOGIN, peer)?.is_allowed());
//!
//! // Another port is no other subject, and who does not stop asking is locked out.
//! let peer: SocketAddr = "192.0.2.1:40001".parse()?;
//! let decision = policies.evaluate(LOGIN, peer)?;
//! assert_eq!(decision.reason(), Some(Reason::SoftThrottle));
//! assert_eq!(decision.retry_after_ms(), 1000);
//! let decision = policies.evaluate(LOGIN, peer)?;
//! assert_eq!(decision.reason(), Some(Reason::LockedOut));
//! assert_eq!(decision.retry_after_ms(), 30_000);
//! assert!(policies.evaluate(MOVE, peer)?.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Subjects
//!
//! Each pair of an operation and an address has a [`PenaltyBucket`] of its own; see
//! [`Remote`] for what counts as the same address. Packets for which no policy was declared, unknown operations
//! included, share one limit for each address, the [fallback](PoliciesBuilder::fallback).
//!
//! # Who keeps order
//!
//! Memory is bounded by the [settings](PoliciesBuilder): so many policies, each with so many subjects. No place is
//! ever taken from a subject that has something to gain from being forgotten, so nobody can wash off a debt, or a
//! lockout, by sending from many addresses.
//!
//! A packet finds its policy by an index into a table that all who decide may read at once, and holds the policy,
//! not the table, while it is decided upon. Every so many evaluations somebody, after its own decision is made,
//! looks for policies that nobody uses any more. If it cannot have the table for itself at once it leaves that to
//! the next one: nobody waits for a sweep to begin, and none takes longer than to look at 56 places. A policy that
//! somebody holds is not swept. Sweeping one changes no decision, because only such are swept whose every subject is
//! as good as new. What was swept is dropped after the table is free again.

mod active;
mod decision;
mod report;
mod settings;
mod subject;
mod tiers;
mod tracked;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};

use self::active::{Active, Limits, Table};
use self::settings::Settings;
use self::subject::Subject;
use self::tiers::{InForce, Tier};
use crate::{Address, PenaltyBucket, TokenBucket};

pub use self::decision::{Closed, Decision};
pub use self::report::{Report, Row};
pub use self::settings::PoliciesBuilder;
pub use self::subject::{OpCode, Remote};
pub use self::tiers::Policy;

/// Decides upon packets by the policies of their handlers. See the [module](self).
///
/// Cloning is cheap, and clones are the same policies.
#[derive(Clone)]
pub struct Policies {
    shared: Arc<Shared>,
}

struct Shared {
    handlers: HashMap<OpCode, InForce>,
    settings: Settings,
    /// `None` once they are closed.
    open: RwLock<Option<Open>>,
    evaluations: AtomicU64,
    /// The number of evaluations at which the next sweep is due.
    next_sweep: AtomicU64,
}

struct Open {
    table: Table,
    fallback: Option<Arc<Limits<Address>>>,
}

impl Policies {
    /// Policies with no handlers yet.
    pub fn builder() -> PoliciesBuilder {
        PoliciesBuilder::new()
    }

    fn new(
        handlers: HashMap<OpCode, InForce>,
        fallback: Option<TokenBucket>,
        settings: Settings,
    ) -> Self {
        let limits = |bucket| Arc::new(Limits::new(PenaltyBucket::new(bucket), &settings));
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

    /// Decides upon one packet for `op` from `remote`: an address, with or without a port, or none.
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

    /// Decides upon one packet for `op` by a policy that its handler brings along, whatever was declared for `op`:
    /// for servers that learn of their handlers only when packets reach them. What is not a number refuses everything.
    ///
    /// A handler must bring the same policy every time. Another one has other subjects, which know nothing of what
    /// was used before.
    ///
    /// ```
    /// use plimsoll::policy::OpCode;
    /// use plimsoll::{Policies, Policy};
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
        let in_force = policy.in_force().unwrap_or(InForce::Refused);
        let decision = self.shared.decide_by(in_force, op.into(), remote.into())?;
        self.shared.count();
        Ok(decision)
    }

    /// Forgets everything. Who asks from now on is told that the policies are closed.
    pub fn close(&self) {
        let open = &self.shared.open;
        let closed = open.write().unwrap_or_else(PoisonError::into_inner).take();
        // What there was to forget is dropped when the lock is free again.
        drop(closed);
    }

    /// What the policies look like now.
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
            Some(in_force) => self.decide_by(*in_force, op, remote),
            None => self.fall_back(remote.address(self.settings.ipv6_prefix)),
        }
    }

    /// Decides by the policy of a handler.
    fn decide_by(&self, in_force: InForce, op: OpCode, remote: Remote) -> Result<Decision, Closed> {
        let tier = match in_force {
            InForce::Unlimited => return self.look(|_| Decision::UNLIMITED),
            InForce::Refused => return self.look(|_| Decision::NEVER),
            InForce::Limited(tier) => tier,
        };
        let Some(address) = remote.address(self.settings.ipv6_prefix) else {
            return self.look(|_| Decision::NOT_NOW);
        };
        let active = match self.look(|open| open.table.find(tier))? {
            Some(active) => active,
            None => self.begin(tier)?,
        };
        let subject = Subject { op, address };
        Ok(active.evaluate(&subject, &self.settings.clock))
    }

    /// Decides upon what there is no policy for.
    fn fall_back(&self, address: Option<Address>) -> Result<Decision, Closed> {
        let limits = self.look(|open| open.fallback.clone())?;
        Ok(match (limits, address) {
            (None, _) => Decision::UNLIMITED,
            (Some(_), None) => Decision::NOT_NOW,
            (Some(limits), Some(address)) => limits.evaluate(&address),
        })
    }

    /// Takes something out, quickly: others wait if they want to add to it.
    fn look<T>(&self, see: impl FnOnce(&Open) -> T) -> Result<T, Closed> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(see).ok_or(Closed)
    }

    /// A policy that is not active yet.
    #[cold]
    fn begin(&self, tier: Tier) -> Result<Arc<Active>, Closed> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let open = open.as_mut().ok_or(Closed)?;
        Ok(open.table.find_or_begin(tier, &self.settings))
    }

    /// Counts an evaluation, and sweeps if it is time to and nobody is in the way.
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
