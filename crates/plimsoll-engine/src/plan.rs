//! What a configuration comes to: limits with their keys and costs, and routes that name them.

mod restored;

use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderName, Method};
use plimsoll::{KeyHash, Metadata, Standing};
use plimsoll_config::uses::{
    AnswerSpec, CostPart, CostSpec, Mode, PrioritySpec, Tier, Use, WithoutKey,
};
use plimsoll_config::{Config, HeaderMatch, HostPattern, LimitSet, Part, RouteSpec};
use plimsoll_tower::Head;

use crate::costs::{cost_reads_body, counts_body, is_known_before, reads_answer};
use crate::handle::Handle;
use crate::keys::{Client, Source, sources};
use crate::router::Router;
use crate::seen::Seen;
use crate::terms::carry;

/// All limits and routes of one configuration. It never changes; the limiters behind it may.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) limits: Vec<Limit>,
    by_name: HashMap<Arc<str>, usize, KeyHash>,
    pub(crate) routes: Vec<Route>,
    pub(crate) router: Router,
    /// What it was made of.
    #[cfg(feature = "redis")]
    pub(crate) set: Option<Arc<LimitSet>>,
    /// What is answered where neither the limit nor the route says.
    pub(crate) answer: Option<Arc<AnswerSpec>>,
    /// The subscribers to decisions.
    pub(crate) audience: Arc<crate::events::Audience>,
}

impl Plan {
    pub(crate) fn limit(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

/// One limit, and how requests use it.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) name: Arc<str>,
    own: Handle,
    /// Whether its own terms are [plain](Handle::is_plain).
    plain: bool,
    /// The other terms: those of tiers, then those of single keys.
    others: Vec<Other>,
    tiers: Option<Tiers>,
    overrides: HashMap<Box<str>, usize>,
    /// What its key is made of; nothing for a limit without keys.
    pub(crate) key: Vec<Source>,
    pub(crate) cost: CostSpec,
    pub(crate) shadow: bool,
    pub(crate) without_key: WithoutKey,
    pub(crate) answer: Option<Arc<AnswerSpec>>,
    /// What it says about itself.
    pub(crate) metadata: Option<Metadata>,
    pub(crate) priority: Option<PrioritySpec>,
    pub(crate) seen: Arc<Seen>,
}

/// Terms beside those of the limit itself.
#[derive(Debug)]
pub(crate) struct Other {
    /// The tier, or the key that has them.
    pub(crate) name: String,
    pub(crate) handle: Handle,
    plain: bool,
    /// Its number among those that keys were asked by last; see [`Limit::add`].
    number: Option<u64>,
    /// What its limiter is called in the configuration.
    #[cfg(feature = "redis")]
    id: String,
}

/// Which terms a tier has.
#[derive(Debug)]
struct Tiers {
    by: Source,
    of: HashMap<Box<str>, usize>,
    default: usize,
}

/// The id under which the limiter of a tier runs; `field` is that of the file which describes it.
fn tier_id(limit: &str, field: &str, tier: &str) -> String {
    format!("{limit}.{field}[{tier}]")
}

impl Limit {
    /// The limit of this name in `set`, used as `by` says.
    fn new(name: &str, by: &Use, set: &LimitSet, client: &Client, seen: Arc<Seen>) -> Option<Self> {
        let own = handle(set, name)?;
        let mut limit = Self {
            name: name.into(),
            plain: own.is_plain(),
            own,
            others: Vec::new(),
            tiers: None,
            overrides: HashMap::new(),
            key: sources(by.key.as_ref().map_or(&[], |key| &key.0), client),
            cost: by.cost.clone(),
            shadow: by.mode == Mode::Shadow,
            without_key: by.without_key,
            answer: by.answer.clone().map(Arc::new),
            metadata: set.config().metadata_of(name),
            priority: by.priority.clone(),
            seen,
        };
        if let Some(tiers) = &by.tiers {
            let of = tiers.of.iter();
            let of = of.filter_map(|(tier, terms)| {
                Some((tier.into(), limit.add(set, TIERS, tier, terms)?))
            });
            let of = of.collect();
            let default = tiers.default.as_ref();
            let default = default.and_then(|terms| limit.add(set, TIERS, "default", terms));
            limit.tiers = Source::new(&tiers.by, client).map(|by| Tiers {
                by,
                of,
                default: default.unwrap_or(0),
            });
        }
        let overrides = by.overrides.iter();
        let overrides = overrides
            .filter_map(|(key, terms)| Some((key.into(), limit.add(set, OVERRIDES, key, terms)?)));
        limit.overrides = overrides.collect();
        Some(limit)
    }

    /// Adds other terms, and says which they are.
    fn add(&mut self, set: &LimitSet, field: &str, name: &str, terms: &Tier) -> Option<usize> {
        let id = tier_id(&self.name, field, name);
        let handle = match terms {
            Tier::Unlimited => Handle::Unlimited,
            Tier::Blocked => Handle::Blocked,
            _ => handle(set, &id)?,
        };
        // Nothing is used where anything or nothing is granted: the tier before counts in the next one. Stores keep one state
        // for all tiers.
        let carries = !matches!(handle, Handle::Unlimited | Handle::Blocked) && !handle.is_remote();
        self.others.push(Other {
            name: name.to_owned(),
            plain: handle.is_plain(),
            number: carries.then(|| self.seen.last_terms().number(name)),
            handle,
            #[cfg(feature = "redis")]
            id,
        });
        Some(self.others.len())
    }

    /// The terms of this number: 0 are its own.
    #[inline]
    pub(crate) fn terms(&self, number: usize) -> &Handle {
        match number.checked_sub(1) {
            None => &self.own,
            Some(other) => self.others.get(other).map_or(&self.own, |it| &it.handle),
        }
    }

    /// Whether what these terms grant can be undone exactly, in memory. Where another limiter comes to stand there that is
    /// not so, the next plan says so.
    #[inline]
    pub(crate) fn is_plain(&self, number: usize) -> bool {
        match number.checked_sub(1) {
            None => self.plain,
            Some(other) => self.others.get(other).is_some_and(|it| it.plain),
        }
    }

    /// The terms beside its own, by their names.
    pub(crate) fn others(&self) -> &[Other] {
        &self.others
    }

    /// What the limiter of these terms is called in the configuration.
    #[cfg(feature = "redis")]
    pub(crate) fn id(&self, number: usize) -> &str {
        let other = number.checked_sub(1).and_then(|it| self.others.get(it));
        other.map_or(&*self.name, |other| &other.id)
    }

    /// What says which tier a request has, if there are tiers.
    pub(crate) fn tier_source(&self) -> Option<&Source> {
        self.tiers.as_ref().map(|tiers| &tiers.by)
    }

    /// The terms of a key in this tier.
    #[inline]
    pub(crate) fn terms_of(&self, key: &str, tier: Option<&str>) -> usize {
        if self.others.is_empty() {
            return 0;
        }
        self.other_terms_of(key, tier)
    }

    fn other_terms_of(&self, key: &str, tier: Option<&str>) -> usize {
        if let Some(terms) = self.overrides.get(key) {
            return *terms;
        }
        let Some(tiers) = &self.tiers else {
            return 0;
        };
        let terms = tier.and_then(|tier| tiers.of.get(tier).copied());
        let terms = terms.unwrap_or(tiers.default);
        let other = terms.checked_sub(1).and_then(|it| self.others.get(it));
        if let Some(number) = other.map_or(Some(0), |it| it.number)
            && let Some(before) = self.seen.last_terms().note(key, number)
        {
            let before = self.others.iter().position(|it| it.number == Some(before));
            // Where its tier is gone, what the key has used of the limit itself counts.
            let before = before.map_or(0, |index| index + 1);
            carry(self.terms(before), self.terms(terms), key);
        }
        terms
    }

    /// What every key without other terms is promised.
    pub(crate) fn promise(&self) -> Option<Standing> {
        self.own.promise()
    }

    /// Whether its key says who asks.
    pub(crate) fn is_of_caller(&self) -> bool {
        self.key.iter().any(Source::is_of_caller)
    }
}

/// The fields of a limit that hold other terms.
const TIERS: &str = "tiers";
const OVERRIDES: &str = "overrides";

fn handle(set: &LimitSet, id: &str) -> Option<Handle> {
    match set.get(id)? {
        Part::Limiter(limiter) => Some(Handle::One(limiter)),
        Part::Keyed(limiter) => Some(Handle::Keyed(limiter)),
        Part::Provider(_) => None,
    }
}

/// A route: for which requests it is, and which limits they are asked for.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: Arc<str>,
    /// Whether it is for every request with such a path.
    any: bool,
    methods: Vec<Method>,
    hosts: Vec<HostPattern>,
    headers: Vec<(HeaderName, HeaderMatch)>,
    pub(crate) uses: Vec<RouteUse>,
    /// The pool of a gateway.
    pub(crate) to: Option<Arc<str>>,
    pub(crate) priority: Option<PrioritySpec>,
    pub(crate) answer: Option<Arc<AnswerSpec>>,
    /// Whether the body has to be read before its limits can be asked.
    pub(crate) reads_body: bool,
    /// Whether the bytes of the body are counted as they arrive.
    pub(crate) counts_body: bool,
    /// Whether anything is charged by what passes with bodies.
    pub(crate) watches_bodies: bool,
    /// Whether what a request costs is known only when it was answered.
    pub(crate) settles: bool,
    /// Whether one of its limits says something about itself.
    pub(crate) says: bool,
}

/// A limit of a route, with what it costs there.
#[derive(Debug)]
pub(crate) struct RouteUse {
    pub(crate) limit: usize,
    pub(crate) cost: CostSpec,
}

impl Route {
    fn new(spec: &RouteSpec, plan: &Plan, config: &Config) -> Self {
        let mut uses = Vec::new();
        for name in &spec.limits {
            match plan.limit(name) {
                Some(limit) => uses.push(RouteUse {
                    limit,
                    cost: plan.limits[limit].cost.clone(),
                }),
                None => uses.extend(provided(name, plan, config)),
            }
        }
        if let Some(limit) = spec.bytes.as_ref().and_then(|name| plan.limit(name)) {
            let cost = CostSpec::Measured(CostPart::ResponseBytes);
            uses.push(RouteUse { limit, cost });
        }
        let reads_body = |by: &RouteUse| {
            let limit = &plan.limits[by.limit];
            let tier = limit.tier_source().is_some_and(Source::reads_body);
            tier || limit.key.iter().any(Source::reads_body) || cost_reads_body(&by.cost)
        };
        let headers = spec.headers.iter();
        let headers = headers.filter_map(|(name, is)| Some((name.parse().ok()?, is.clone())));
        let methods = spec.methods.iter();
        let methods = methods.filter_map(|method| Method::from_bytes(method.as_bytes()).ok());
        Self {
            name: spec.label().into(),
            any: spec.methods.is_empty() && spec.hosts.is_empty() && spec.headers.is_empty(),
            methods: methods.collect(),
            hosts: spec.hosts.clone(),
            headers: headers.collect(),
            reads_body: uses.iter().any(reads_body),
            counts_body: uses.iter().any(|by| counts_body(&by.cost)),
            watches_bodies: uses
                .iter()
                .any(|by| counts_body(&by.cost) || reads_answer(&by.cost)),
            says: (uses.iter()).any(|by| plan.limits[by.limit].metadata.is_some()),
            settles: uses.iter().any(|by| !is_known_before(&by.cost)),
            uses,
            to: spec.to.as_deref().map(Into::into),
            priority: spec.priority.clone(),
            answer: spec.answer.clone().map(Arc::new),
        }
    }

    /// Whether it is for a request whose path its pattern matches.
    #[inline]
    pub(crate) fn fits(&self, head: &Head<'_>) -> bool {
        self.any || self.fits_all(head)
    }

    fn fits_all(&self, head: &Head<'_>) -> bool {
        let methods = self.methods.is_empty() || self.methods.contains(head.method());
        let hosts = || {
            let is = |host| self.hosts.iter().any(|it| it.matches(host));
            self.hosts.is_empty() || crate::keys::host(head).is_some_and(is)
        };
        let headers = || {
            self.headers.iter().all(|(name, is)| {
                let values = head.headers().get_all(name).iter();
                is.matches(values.map(http::HeaderValue::as_bytes))
            })
        };
        methods && hosts() && headers()
    }
}

/// The limits of a provider, each with what its weight counts.
fn provided(name: &str, plan: &Plan, config: &Config) -> Vec<RouteUse> {
    let by = |(weight, limiter): (&str, &str)| {
        let cost = match weight {
            "network_bytes" | "memory_size" => CostSpec::Measured(CostPart::RequestBytes),
            _ => CostSpec::Fixed(1),
        };
        let limit = plan.limit(limiter)?;
        Some(RouteUse { limit, cost })
    };
    config.provided(name).filter_map(by).collect()
}

impl Plan {
    /// What `set` comes to. What is counted of its limits is kept in `seen`, by name.
    pub(crate) fn build(set: &Arc<LimitSet>, seen: &mut HashMap<String, Arc<Seen>>) -> Self {
        let config = set.config();
        let client = Client::new(&config.client());
        let mut plan = Self {
            answer: config.answer().cloned().map(Arc::new),
            #[cfg(feature = "redis")]
            set: Some(Arc::clone(set)),
            ..Self::default()
        };
        for (name, by) in config.uses() {
            let seen = Arc::clone(seen.entry(name.to_owned()).or_default());
            if let Some(limit) = Limit::new(name, by, set, &client, seen) {
                plan.by_name
                    .insert(Arc::clone(&limit.name), plan.limits.len());
                plan.limits.push(limit);
            }
        }
        for (number, spec) in config.route_specs().iter().enumerate() {
            let route = Route::new(spec, &plan, config);
            plan.routes.push(route);
            for pattern in &spec.patterns {
                plan.router.add(pattern, number);
            }
        }
        // What is counted of limits that are gone goes with them.
        seen.retain(|name, _| plan.by_name.contains_key(name.as_str()));
        plan
    }
}
