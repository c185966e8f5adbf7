//! [`Limits`]: the limits of a file, which make decisions.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use plimsoll::{Clock, Demand, Gate, Pausable, Priority, TokenBucket};
use plimsoll_config::{Changes, Config, ConfigError, Limits as Limiters};
use plimsoll_kinds::LimiterKind;

use plimsoll_tower::Head;
use plimsoll_tower::partner::PartnerLayer;

use crate::ask::Ask;
use crate::decide::{self, Decide};
use crate::decision::{Hold, Refusal};
use crate::events::{LimitsEventKind, Subscribers};
use crate::members::Members;
use crate::partners::Partners;
use crate::plan::Plan;
use crate::report::report_refused;
use crate::resolve::{self, RequestAsk, find_asked, look, resolve};
use crate::stats::LimitStats;

/// The limits of a file. A decision takes from several of them, all or none.
///
/// There are two ways to decide. [`decide_request`](Self::decide_request) and the [`layer`](Self::layer) find limits,
/// keys and costs by the routes of the file. [`decide`](Self::decide) and [`try_decide`](Self::try_decide) get them as
/// [`Ask`]s. Both yield a [`Hold`] or a [`Refusal`]. [`peek`](Self::peek) takes nothing; [`reserve`](Self::reserve)
/// takes now for later use; [`charge`](Self::charge) and [`refund`](Self::refund) correct usage after the fact.
///
/// [`replace`](Self::replace) applies another configuration and keeps usage, permits and waiters. Clones share the same limits.
///
/// ```
/// use plimsoll_engine::{Ask, Limits};
///
/// let limits = Limits::from_yaml("limits:
///   per_user: { kind: token_bucket, burst: 2, refill: 1, every: 1s, key: header:x-user }
///   slots: { kind: concurrency, limit: 1 }
/// ")?;
/// let asks = [Ask::new("per_user").key("anna"), Ask::new("slots")];
/// let hold = limits.try_decide(&asks).unwrap();
/// let refusal = limits.try_decide(&asks).unwrap_err();
/// assert_eq!(refusal.limit(), "slots");
/// // All or none: anna has not paid for what was refused.
/// let remaining: Vec<_> = refusal.answers().map(|answer| answer.standing.unwrap().remaining).collect();
/// assert_eq!(remaining, [Some(1), Some(0)]);
/// drop(hold);
/// # Ok::<(), plimsoll_engine::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Limits {
    shared: Arc<Shared>,
}

struct Shared {
    limiters: Arc<Limiters>,
    plan: ArcSwap<Plan>,
    /// The statistics of limits, by name. A reload keeps them, and holds this lock.
    stats: Mutex<HashMap<String, Arc<LimitStats>>>,
    subscribers: Arc<Subscribers>,
    partners: Mutex<Partners>,
}

impl Limits {
    /// Reads a file and builds its limits, on the system clock.
    ///
    /// # Errors
    ///
    /// Returns all mistakes in the file, each with its place.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::new(&Config::from_file(path)?, &Clock::system())
    }

    /// Builds the limits of a text in YAML, on the system clock.
    ///
    /// # Errors
    ///
    /// Returns all mistakes in the text, each with its place.
    pub fn from_yaml(text: &str) -> Result<Self, ConfigError> {
        let config = Config::from_str("limits.yaml", text, plimsoll_config::Format::Yaml)?;
        Self::new(&config, &Clock::system())
    }

    /// Builds the limits of a configuration, on `clock`.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them cannot be built.
    pub fn new(config: &Config, clock: &Clock) -> Result<Self, ConfigError> {
        config.build(clock).map(Self::of)
    }

    /// Creates limits from limiters that are already built, for example by
    /// [`Config::build_sampled`](plimsoll_config::Config::build_sampled).
    #[must_use]
    pub fn of(limiters: Limiters) -> Self {
        let mut stats = HashMap::new();
        let subscribers = Arc::new(Subscribers::new(limiters.sampler().clock()));
        let mut plan = Plan::build(&limiters.current(), &mut stats);
        plan.subscribers = Arc::clone(&subscribers);
        let mut partners = Partners::default();
        partners.replace(limiters.current().config(), limiters.sampler().clock());
        Self {
            shared: Arc::new(Shared {
                limiters: Arc::new(limiters),
                plan: ArcSwap::from_pointee(plan),
                stats: Mutex::new(stats),
                subscribers,
                partners: Mutex::new(partners),
            }),
        }
    }

    /// Replaces the configuration. Usage, permits and waiters are kept. Returns the changes of each limit.
    ///
    /// ```
    /// use plimsoll_engine::{Ask, Config, Limits};
    ///
    /// let limits = Limits::from_yaml("limits: { api: { rate: 2/h, burst: 2 } }")?;
    /// let _ = limits.try_decide(&[Ask::new("api").cost(2)]);
    /// let text = "limits: { api: { rate: 3/h, burst: 3 } }";
    /// let config = Config::from_str("limits.yaml", text, plimsoll_config::Format::Yaml)?;
    /// let changes = limits.replace(&config)?;
    /// assert!(!changes.is_empty());
    /// let hold = limits.try_decide(&[Ask::new("api")]).unwrap(); // 2 of 3 are used
    /// assert!(limits.try_decide(&[Ask::new("api")]).is_err());
    /// # drop(hold);
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a limit cannot be built. Nothing is then changed.
    pub fn replace(&self, config: &Config) -> Result<Changes, ConfigError> {
        let mut stats = self
            .shared
            .stats
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let changes = self.shared.limiters.replace(config)?;
        let mut plan = Plan::build(&self.shared.limiters.current(), &mut stats);
        plan.subscribers = Arc::clone(&self.shared.subscribers);
        self.shared.plan.store(Arc::new(plan));
        let clock = self.shared.limiters.sampler().clock();
        self.partners().replace(config, clock);
        // A subscriber that is woken may replace the configuration again.
        drop(stats);
        if self.shared.subscribers.any() {
            let changes = Arc::new(changes.clone());
            let kind = LimitsEventKind::Changed { changes };
            self.shared.subscribers.emit(kind);
        }
        Ok(changes)
    }

    /// Grants all of `asks` now, or none. Never waits. Limits in stores answer from the state of this process: use
    /// [`decide`](Self::decide) if there are any.
    ///
    /// # Errors
    ///
    /// Returns the refusal, with the answer of each limit.
    pub fn try_decide(&self, asks: &[Ask<'_>]) -> Result<Hold, Refusal> {
        let members = self.take(asks, Demand::ONE).inspect_err(report_refused)?;
        decide::try_decide(members)
    }

    /// Grants all of `asks`, or none. Waits in the queues of limits that have one, and for stores. `like` carries the priority and
    /// the deadline of the decision; its cost is ignored, because each ask has its own.
    ///
    /// ```
    /// use plimsoll::{Demand, Priority};
    /// use plimsoll_engine::{Ask, Limits};
    /// use std::time::Duration;
    ///
    /// let limits = Limits::from_yaml("limits: { slots: { concurrency: 1, queue: { bound: 10 } } }")?;
    /// let held = limits.try_decide(&[Ask::new("slots")]).unwrap();
    /// let like = Demand::ONE.priority(Priority::Critical).within(Duration::from_secs(5));
    /// let decide = limits.decide(&[Ask::new("slots")], like);
    /// drop(held); // the waiter is granted the slot
    /// let hold = plimsoll::together::block_on(decide).unwrap();
    /// # drop(hold);
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    pub fn decide(&self, asks: &[Ask<'_>], like: impl Into<Demand>) -> Decide {
        match self.take(asks, like.into()).inspect_err(report_refused) {
            Ok(members) => Decide::start(members),
            Err(refusal) => Decide::ready(Err(refusal)),
        }
    }

    /// Returns the result that [`try_decide`](Self::try_decide) would return. Takes nothing, counts nothing and creates
    /// no key.
    ///
    /// # Errors
    ///
    /// Returns the refusal, with the answer of each limit.
    pub fn peek(&self, asks: &[Ask<'_>]) -> Result<Hold, Refusal> {
        decide::peek(find_asked(
            self.shared.plan.load_full(),
            asks,
            Demand::ONE,
            false,
        )?)
    }

    /// Charges `asks` after the fact, in full: an excess over the remainder becomes a debt. Does nothing if the file
    /// lacks one of the limits.
    pub fn charge(&self, asks: &[Ask<'_>]) {
        if let Ok(members) = self.members(asks, Demand::ONE) {
            for member in &members.list {
                members.subject(member).charge(member.cost);
            }
        }
    }

    /// Refunds to rates the costs of work that was not done, up to their limits. Stores do so in the background. Logs
    /// and windows refund only usage of the present moment: earlier usage stays.
    pub fn refund(&self, asks: &[Ask<'_>]) {
        if let Ok(members) = self.members(asks, Demand::ONE) {
            for member in &members.list {
                #[cfg(feature = "redis")]
                if crate::stores::refund(&members, member) {
                    continue;
                }
                members.subject(member).refund(members.demand(member));
            }
        }
    }

    /// Like [`decide`](Self::decide), for the limits of a request's route. `None` if no route matches the request.
    ///
    /// ```
    /// use plimsoll_engine::Limits;
    /// use plimsoll_tower::Head;
    ///
    /// let limits = Limits::from_yaml("
    /// limits: { per_user: { rate: 5/s, key: header:x-user } }
    /// routes: [{ match: /v1/**, limits: [per_user] }]
    /// ")?;
    /// let request = http::Request::get("/v1/things").header("x-user", "anna").body(())?;
    /// let decide = limits.decide_request(&Head::of(&request), 1).unwrap();
    /// let hold = plimsoll::together::block_on(decide)?;
    /// assert_eq!(hold.answers().next().unwrap().limit, "per_user");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_request(&self, head: &Head<'_>, like: impl Into<Demand>) -> Option<Decide> {
        match resolve(&self.plan(), head, like.into(), true).inspect_err(report_refused) {
            Ok(members) => members.map(Decide::start),
            Err(refusal) => Some(Decide::ready(Err(refusal))),
        }
    }

    /// Returns the asks of a request by its route, and its priority, for one decision over several requests. `None` if
    /// no route matches the request.
    ///
    /// # Errors
    ///
    /// Returns the refusal, if the request lacks the key of a limit.
    ///
    /// ```
    /// use plimsoll_engine::{Ask, Limits};
    /// use plimsoll_tower::Head;
    ///
    /// let limits = Limits::from_yaml("
    /// limits: { per_user: { rate: 5/s, key: header:x-user } }
    /// routes: [{ match: /v1/**, limits: [per_user] }]
    /// ")?;
    /// let request = http::Request::get("/v1/things").header("x-user", "anna").body(())?;
    /// let (asks, _) = limits.asks_of(&Head::of(&request)).unwrap().unwrap();
    /// assert_eq!(asks[0].ask(), Ask::new("per_user").key("anna"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn asks_of(&self, head: &Head<'_>) -> Result<Option<(Vec<RequestAsk>, Priority)>, Refusal> {
        resolve::asks(&self.plan(), head).inspect_err(report_refused)
    }

    /// Returns the result that [`decide_request`](Self::decide_request) would return now. Takes nothing, counts nothing
    /// and creates no key.
    pub fn peek_request(&self, head: &Head<'_>) -> Option<Result<Hold, Refusal>> {
        match look(&self.plan(), head, Demand::ONE) {
            Ok(members) => members.map(decide::peek),
            Err(refusal) => Some(Err(refusal)),
        }
    }

    /// Returns the upstream pool of a request's route, in the file of a [gateway](plimsoll_config::gateway).
    #[must_use]
    pub fn upstream_of(&self, head: &Head<'_>) -> Option<Arc<str>> {
        let plan = self.plan();
        plan.routes[plan.route(head)?].to.clone()
    }

    /// Returns the names of all limits, in the order of the file.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let plan = self.plan();
        plan.limits
            .iter()
            .map(|limit| limit.name.to_string())
            .collect()
    }

    /// Returns the kind of a limit. `None` if the file has no limit of this name.
    #[must_use]
    pub fn kind(&self, limit: &str) -> Option<LimiterKind> {
        let plan = self.plan();
        plan.limits[plan.limit(limit)?].terms(0).kind()
    }

    /// Returns whether a limit has keys and refuses requests without one (`without_key: refuse` in the file). Protocols
    /// in which clients name limits and keys treat an ask of such a limit without a key as an error.
    #[must_use]
    pub fn needs_key(&self, limit: &str) -> bool {
        let plan = self.plan();
        let limit = plan.limit(limit).map(|number| &plan.limits[number]);
        limit.is_some_and(|limit| limit.needs_key())
    }

    /// Returns whether a limit is in a store.
    #[must_use]
    pub fn is_remote(&self, limit: &str) -> bool {
        let plan = self.plan();
        let limit = plan.limit(limit).map(|number| &plan.limits[number]);
        limit.is_some_and(|limit| limit.terms(0).is_remote())
    }

    /// Returns the layer for calls to a partner of the file (`partners`). `None` if the file has no such partner.
    ///
    /// Calls take from its limit first. When the partner answers with `Retry-After`, calls pause until then. With `learn` in the
    /// file, the rate is learned from the refusals of the partner. See [`PartnerLayer`].
    ///
    /// All layers of a partner share one limit. A reload keeps the learned rate, waiters and pauses. A reload that adds or removes
    /// `learn` applies to layers that are made after it.
    ///
    /// ```
    /// use plimsoll_engine::Limits;
    ///
    /// let limits = Limits::from_yaml("
    /// partners:
    ///   maps: { learn: 10/s, max: 1000/s, queue: { bound: 100, timeout: 5s } }
    /// ")?;
    /// let layer = limits.partner("maps").unwrap();
    /// assert_eq!(layer.learned_rate(), Some(10.0));
    /// assert!(limits.partner("nobody").is_none());
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    #[must_use = "a layer does nothing until it is put before a service"]
    pub fn partner(&self, name: &str) -> Option<PartnerLayer<Gate<Pausable<TokenBucket>>>> {
        self.partners().layer(name)
    }

    fn partners(&self) -> MutexGuard<'_, Partners> {
        let partners = self.shared.partners.lock();
        partners.unwrap_or_else(PoisonError::into_inner)
    }

    /// The present plan. The guard is for short use: a reload may replace the plan at any time.
    #[inline]
    pub(crate) fn plan(&self) -> Guard<Arc<Plan>> {
        self.shared.plan.load()
    }

    pub(crate) fn subscribers(&self) -> &Subscribers {
        &self.shared.subscribers
    }

    /// Returns the limiters by name, for code that uses one of them directly.
    #[must_use]
    pub fn limiters(&self) -> &Arc<Limiters> {
        &self.shared.limiters
    }

    /// The members of `asks`, for a decision. Their keys have the tiers of the asks from now on.
    pub(crate) fn members(&self, asks: &[Ask<'_>], like: Demand) -> Result<Members, Refusal> {
        let members = find_asked(self.shared.plan.load_full(), asks, like, false)?;
        members.note_terms();
        Ok(members)
    }

    /// Like [`members`](Self::members), with simple limits asked while they are resolved.
    fn take(&self, asks: &[Ask<'_>], like: Demand) -> Result<Members, Refusal> {
        let members = find_asked(self.shared.plan.load_full(), asks, like, true)?;
        members.note_terms();
        Ok(members)
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("limiters", &self.shared.limiters)
            .finish_non_exhaustive()
    }
}
