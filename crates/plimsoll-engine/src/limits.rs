//! Limits from a file, as one thing that decides.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use plimsoll::{Clock, Demand, Events, Gate, Listener, Pausable, Priority, TokenBucket};
use plimsoll_config::{Changes, Config, ConfigError, Limits as Limiters};
use plimsoll_kinds::LimiterKind;

use plimsoll_tower::Head;
use plimsoll_tower::partner::PartnerLayer;

use crate::ask::Ask;
use crate::decide::{self, Decide};
use crate::decision::{Hold, Refusal};
use crate::events::{Audience, LimitsEvent, LimitsEventKind};
use crate::members::Members;
use crate::partners::Partners;
use crate::plan::Plan;
use crate::resolve::{self, RequestAsk, find_asked, look, resolve};
use crate::seen::Seen;
use crate::tell::note_refused;

/// The limits of a file, running: one decision over as many of them as a request has.
///
/// A clone is the same limits.
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
    /// What is counted of limits, by name. It stays when the file changes. Locked while a file is put in place.
    seen: Mutex<HashMap<String, Arc<Seen>>>,
    audience: Arc<Audience>,
    partners: Mutex<Partners>,
}

impl Limits {
    /// Reads a file and builds its limits, on the system's clock.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the file, each with its place.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::new(&Config::from_file(path)?, &Clock::system())
    }

    /// Builds the limits of a text in YAML, on the system's clock.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, each with its place.
    pub fn from_yaml(text: &str) -> Result<Self, ConfigError> {
        let config = Config::from_str("limits.yaml", text, plimsoll_config::Format::Yaml)?;
        Self::new(&config, &Clock::system())
    }

    /// Builds the limits of a configuration, on `clock`.
    ///
    /// # Errors
    ///
    /// If one of them cannot be built.
    pub fn new(config: &Config, clock: &Clock) -> Result<Self, ConfigError> {
        config.build(clock).map(Self::of)
    }

    /// The limits of limiters that were built in another way, such as by
    /// [`Config::build_sampled`](plimsoll_config::Config::build_sampled).
    #[must_use]
    pub fn of(limiters: Limiters) -> Self {
        let mut seen = HashMap::new();
        let audience = Arc::new(Audience::new(limiters.sampler().clock()));
        let mut plan = Plan::build(&limiters.current(), &mut seen);
        plan.audience = Arc::clone(&audience);
        let mut partners = Partners::default();
        partners.replace(limiters.current().config(), limiters.sampler().clock());
        Self {
            shared: Arc::new(Shared {
                limiters: Arc::new(limiters),
                plan: ArcSwap::from_pointee(plan),
                seen: Mutex::new(seen),
                audience,
                partners: Mutex::new(partners),
            }),
        }
    }

    /// Puts another configuration in the place of the present one. What was used stays used, permits and waiters are kept.
    /// Returns what changed, limit by limit.
    ///
    /// # Errors
    ///
    /// If something of it cannot be built; then nothing has changed.
    pub fn replace(&self, config: &Config) -> Result<Changes, ConfigError> {
        let mut seen = self
            .shared
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let changes = self.shared.limiters.replace(config)?;
        let mut plan = Plan::build(&self.shared.limiters.current(), &mut seen);
        plan.audience = Arc::clone(&self.shared.audience);
        self.shared.plan.store(Arc::new(plan));
        let clock = self.shared.limiters.sampler().clock();
        self.partners().replace(config, clock);
        // Whoever is woken may replace them again.
        drop(seen);
        if self.shared.audience.is_there() {
            let changes = Arc::new(changes.clone());
            let kind = LimitsEventKind::Changed { changes };
            self.shared.audience.tell(kind);
        }
        Ok(changes)
    }

    /// Takes for all of `asks` now, or for none. Limits in stores answer what is known in this process: use
    /// [`decide`](Self::decide) where there are any.
    ///
    /// # Errors
    ///
    /// The refusal, with the answer of each limit.
    pub fn try_decide(&self, asks: &[Ask<'_>]) -> Result<Hold, Refusal> {
        let members = self.take(asks, Demand::ONE).inspect_err(note_refused)?;
        decide::try_decide(members)
    }

    /// Takes for all of `asks`, or for none. Waits in the queues of limits that have one, with the priority and until the
    /// deadline of `like`, and for stores.
    pub fn decide(&self, asks: &[Ask<'_>], like: impl Into<Demand>) -> Decide {
        match self.take(asks, like.into()).inspect_err(note_refused) {
            Ok(members) => Decide::start(members),
            Err(refusal) => Decide::ready(Err(refusal)),
        }
    }

    /// What [`try_decide`](Self::try_decide) would answer. Takes nothing, counts nothing and leaves no key behind.
    ///
    /// # Errors
    ///
    /// The refusal it would answer.
    pub fn peek(&self, asks: &[Ask<'_>]) -> Result<Hold, Refusal> {
        decide::peek(find_asked(
            self.shared.plan.load_full(),
            asks,
            Demand::ONE,
            false,
        )?)
    }

    /// Charges after the fact, in full: what does not fit is a debt. Limits that are not there are left out.
    pub fn charge(&self, asks: &[Ask<'_>]) {
        if let Ok(members) = self.members(asks, Demand::ONE) {
            for member in &members.list {
                members.subject(member).charge(member.cost);
            }
        }
    }

    /// Gives rates back what was charged for work that was not done, up to their limits; in stores in the background. What a
    /// log or a window took earlier than now is not found there, and stays.
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

    /// Decides by the routes of the file. `None` if no route is for this request.
    pub fn decide_request(&self, head: &Head<'_>, like: impl Into<Demand>) -> Option<Decide> {
        match resolve(&self.plan(), head, like.into(), true).inspect_err(note_refused) {
            Ok(members) => members.map(Decide::start),
            Err(refusal) => Some(Decide::ready(Err(refusal))),
        }
    }

    /// What a request asks of which limits, by the routes of the file, and with which priority; for a decision over several
    /// requests. `None` if no route is for it.
    ///
    /// # Errors
    ///
    /// The refusal, if a key is missing that a limit needs.
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
        resolve::asks(&self.plan(), head).inspect_err(note_refused)
    }

    /// What [`decide_request`](Self::decide_request) would answer now. Takes nothing, counts nothing and leaves no key behind.
    pub fn peek_request(&self, head: &Head<'_>) -> Option<Result<Hold, Refusal>> {
        match look(&self.plan(), head, Demand::ONE) {
            Ok(members) => members.map(decide::peek),
            Err(refusal) => Some(Err(refusal)),
        }
    }

    /// The pool of the [gateway](plimsoll_config::gateway) that the route of a request names, if it names one.
    #[must_use]
    pub fn upstream_of(&self, head: &Head<'_>) -> Option<Arc<str>> {
        let plan = self.plan();
        plan.routes[plan.route(head)?].to.clone()
    }

    /// The names of all limits, in the order of the file.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let plan = self.plan();
        plan.limits
            .iter()
            .map(|limit| limit.name.to_string())
            .collect()
    }

    /// What kind of limit has this name, if there is one.
    #[must_use]
    pub fn kind(&self, limit: &str) -> Option<LimiterKind> {
        let plan = self.plan();
        plan.limits[plan.limit(limit)?].terms(0).kind()
    }

    /// Whether a limit is counted by key, and a request without a key is refused rather than counted with all others that have
    /// none (`without_key` of the file). Of fronts that are given names and keys, an ask of such a limit without a key is a mistake.
    #[must_use]
    pub fn needs_key(&self, limit: &str) -> bool {
        let plan = self.plan();
        let limit = plan.limit(limit).map(|number| &plan.limits[number]);
        limit.is_some_and(|limit| limit.needs_key())
    }

    /// Whether a limit is kept in a store.
    #[must_use]
    pub fn is_remote(&self, limit: &str) -> bool {
        let plan = self.plan();
        let limit = plan.limit(limit).map(|number| &plan.limits[number]);
        limit.is_some_and(|limit| limit.terms(0).is_remote())
    }

    /// The layer for clients of a partner that the file names in `partners`: calls ask its limit first, and when the partner says
    /// to come back later, nobody asks before. Where the file says `learn`, the rate is found from what the partner refuses. See
    /// [`PartnerLayer`].
    ///
    /// Every call of this function returns the same limit. When the file changes, what was learned, who waits and pauses stay; a
    /// partner that is learned from now on and was not before, or the other way round, is so in layers that are asked for again.
    ///
    /// ```
    /// use plimsoll_engine::Limits;
    ///
    /// let limits = Limits::from_yaml("
    /// partners:
    ///   maps: { learn: 10/s, ceiling: 1000/s, queue: { bound: 100, timeout: 5s } }
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

    /// The plan, for a moment.
    #[inline]
    pub(crate) fn plan(&self) -> Guard<Arc<Plan>> {
        self.shared.plan.load()
    }

    /// Subscribes to decisions and to changes of the file from now on. At most `capacity` events are stored until they are read;
    /// more are lost and counted. Dropping what is returned ends the subscription. See [`Events`].
    ///
    /// Each decision is one event, when it is made: also one that waited, and one of a [layer](Self::layer). Those that are
    /// given up while they wait, and what [`peek`](Self::peek) answers, are not told. Limits have the names of the file, and
    /// keys are [masked](crate::EventKey) unless you ask for them. Without subscribers a decision costs one load more.
    ///
    /// ```
    /// use plimsoll_engine::{Ask, Limits, LimitsEventKind};
    ///
    /// let limits = Limits::from_yaml("limits: { user: { rate: 1/h, key: header:x-user } }")?;
    /// let mut events = limits.subscribe(1000);
    /// for _ in 0..2 {
    ///     let _ = limits.try_decide(&[Ask::new("user").key("anna@example.com")]);
    /// }
    /// assert_eq!(events.next().unwrap().kind.as_str(), "admitted");
    /// let LimitsEventKind::Refused { limit, reason, .. } = events.next().unwrap().kind else { unreachable!() };
    /// assert_eq!((limit.as_deref(), reason.as_str()), (Some("user"), "exhausted"));
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    pub fn subscribe(&self, capacity: usize) -> Events<LimitsEvent> {
        self.shared.audience.subscribe(capacity)
    }

    /// Calls a function with each event from now on, on a thread of its own: slow or panicking, it delays no decision. See
    /// [`Listener`].
    ///
    /// # Errors
    ///
    /// If the system has no room for another thread.
    pub fn subscribe_with(
        &self,
        callback: impl FnMut(LimitsEvent) + Send + 'static,
    ) -> io::Result<Listener> {
        self.subscribe(1024).listen(callback)
    }

    /// The limiters, by name, for code that asks one of them alone.
    #[must_use]
    pub fn limiters(&self) -> &Arc<Limiters> {
        &self.shared.limiters
    }

    /// What these ask for, to be decided: from now on their keys have the tiers that they say.
    pub(crate) fn members(&self, asks: &[Ask<'_>], like: Demand) -> Result<Members, Refusal> {
        let members = find_asked(self.shared.plan.load_full(), asks, like, false)?;
        members.note_terms();
        Ok(members)
    }

    /// The same; limits that need no more than to be asked are asked at once.
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
