//! What a configuration comes to: limits with their keys and costs, and routes that name them.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderName;
use plimsoll::Standing;
use plimsoll_config::uses::{
    AnswerSpec, CostSpec, KeyPart, Mode, PrioritySpec, Tier, Use, WithoutKey,
};
use plimsoll_config::{LimitSet, Part};

use crate::handle::Handle;
use crate::keys::{Client, Source};
use crate::router::Router;
use crate::seen::Seen;
use crate::terms::LastTerms;

/// All limits and routes of one configuration. It never changes; the limiters behind it may.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) limits: Vec<Limit>,
    by_name: HashMap<Arc<str>, usize>,
    pub(crate) routes: Vec<Route>,
    pub(crate) router: Router,
    /// What is answered where neither the limit nor the route says.
    pub(crate) answer: Option<Arc<AnswerSpec>>,
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
    /// The other terms: those of tiers, then those of single keys.
    others: Vec<(String, Handle)>,
    tiers: Option<Tiers>,
    overrides: HashMap<Box<str>, usize>,
    last: LastTerms,
    /// What its key is made of; nothing for a limit without keys.
    pub(crate) key: Vec<Source>,
    pub(crate) cost: CostSpec,
    pub(crate) shadow: bool,
    pub(crate) without_key: WithoutKey,
    pub(crate) answer: Option<Arc<AnswerSpec>>,
    pub(crate) priority: Option<PrioritySpec>,
    pub(crate) seen: Arc<Seen>,
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
        let mut limit = Self {
            name: name.into(),
            own: handle(set, name)?,
            others: Vec::new(),
            tiers: None,
            overrides: HashMap::new(),
            last: LastTerms::new(MOST_TERMS),
            key: sources(by.key.as_ref().map_or(&[], |key| &key.0), client),
            cost: by.cost.clone(),
            shadow: by.mode == Mode::Shadow,
            without_key: by.without_key,
            answer: by.answer.clone().map(Arc::new),
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
        let overrides = overrides.collect();
        limit.overrides = overrides;
        Some(limit)
    }

    /// Adds other terms, and says which they are.
    fn add(&mut self, set: &LimitSet, field: &str, name: &str, terms: &Tier) -> Option<usize> {
        let handle = match terms {
            Tier::Unlimited => Handle::Unlimited,
            Tier::Blocked => Handle::Blocked,
            _ => handle(set, &tier_id(&self.name, field, name))?,
        };
        self.others.push((name.to_owned(), handle));
        Some(self.others.len())
    }

    /// The terms of this number: 0 are its own.
    pub(crate) fn terms(&self, number: usize) -> &Handle {
        match number.checked_sub(1) {
            None => &self.own,
            Some(other) => self.others.get(other).map_or(&self.own, |(_, terms)| terms),
        }
    }

    /// The terms beside its own, by their names.
    pub(crate) fn others(&self) -> &[(String, Handle)] {
        &self.others
    }

    /// What says which tier a request has, if there are tiers.
    pub(crate) fn tier_source(&self) -> Option<&Source> {
        self.tiers.as_ref().map(|tiers| &tiers.by)
    }

    /// The terms of a key in this tier.
    pub(crate) fn terms_of(&self, key: &str, tier: Option<&str>) -> usize {
        if self.others.is_empty() {
            return 0;
        }
        if let Some(terms) = self.overrides.get(key) {
            return *terms;
        }
        let Some(tiers) = &self.tiers else {
            return 0;
        };
        let terms = tier.and_then(|tier| tiers.of.get(tier).copied());
        let terms = terms.unwrap_or(tiers.default);
        if let Some(before) = self.last.note(key, terms) {
            self.carry(key, before, terms);
        }
        terms
    }

    /// A key has changed its tier: what it has used stays used.
    #[cold]
    fn carry(&self, key: &str, from: usize, to: usize) {
        let (from, to) = (self.terms(from).of(key), self.terms(to).of(key));
        let used = |subject: &crate::handle::Subject<'_>| {
            let standing = subject.standing()?;
            let rate = !standing.returns;
            rate.then_some(standing.limit.saturating_sub(standing.remaining?))
        };
        if let (Some(before), Some(here)) = (used(&from), used(&to)) {
            to.charge(before.saturating_sub(here));
        }
    }

    /// What every key without other terms is promised.
    pub(crate) fn promise(&self) -> Option<Standing> {
        match &self.own {
            Handle::One(limiter) => Some(limiter.shared().standing()),
            Handle::Keyed(limiter) => Some(plimsoll::PerKey::<str>::promise(limiter)),
            Handle::Unlimited | Handle::Blocked => None,
        }
    }

    /// Whether its key says who asks.
    pub(crate) fn is_of_caller(&self) -> bool {
        self.key.iter().any(Source::is_of_caller)
    }
}

/// The fields of a limit that hold other terms.
const TIERS: &str = "tiers";
const OVERRIDES: &str = "overrides";

/// How many keys of a limit are known to have changed tiers.
const MOST_TERMS: usize = 1_000_000;

fn sources(parts: &[KeyPart], client: &Client) -> Vec<Source> {
    let sources = parts.iter().filter_map(|part| Source::new(part, client));
    sources.collect()
}

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
    methods: Vec<http::Method>,
    hosts: Vec<HostPattern>,
    headers: Vec<(HeaderName, Option<String>)>,
    pub(crate) uses: Vec<RouteUse>,
    pub(crate) priority: Option<PrioritySpec>,
    pub(crate) answer: Option<Arc<AnswerSpec>>,
    /// Whether a part of the body has to be read before its limits can be asked.
    pub(crate) reads_body: bool,
}

/// A limit of a route, with what it costs there.
#[derive(Debug)]
pub(crate) struct RouteUse {
    pub(crate) limit: usize,
    pub(crate) cost: CostSpec,
}

/// A host, or everything below one.
#[derive(Debug)]
pub(crate) enum HostPattern {
    Is(String),
    /// `*.example.com`.
    Below(String),
}

impl HostPattern {
    fn new(text: &str) -> Self {
        match text.strip_prefix('*') {
            Some(below) => Self::Below(below.to_ascii_lowercase()),
            None => Self::Is(text.to_ascii_lowercase()),
        }
    }

    fn matches(&self, host: &str) -> bool {
        match self {
            Self::Is(wanted) => host.eq_ignore_ascii_case(wanted),
            Self::Below(wanted) => {
                let at = host.len().checked_sub(wanted.len());
                let end = at.filter(|at| *at > 0).and_then(|at| host.get(at..));
                end.is_some_and(|end| end.eq_ignore_ascii_case(wanted))
            }
        }
    }
}

impl Route {
    /// Whether it is for a request whose path its pattern matches.
    pub(crate) fn fits(&self, head: &plimsoll_tower::Head<'_>) -> bool {
        let methods = self.methods.is_empty() || self.methods.contains(head.method());
        let hosts = || {
            self.hosts.is_empty()
                || crate::keys::host(head)
                    .is_some_and(|host| self.hosts.iter().any(|it| it.matches(host)))
        };
        let headers = || {
            self.headers.iter().all(|(name, wanted)| {
                let mut values = head.headers().get_all(name).iter();
                match wanted {
                    None => values.next().is_some(),
                    Some(wanted) => values.any(|value| value.as_bytes() == wanted.as_bytes()),
                }
            })
        };
        methods && hosts() && headers()
    }
}

impl Plan {
    /// What `set` comes to. What is counted of its limits is kept in `seen`, by name.
    pub(crate) fn build(set: &LimitSet, seen: &mut HashMap<String, Arc<Seen>>) -> Self {
        let config = set.config();
        let client = Client::new(Default::default(), None, 64);
        let mut plan = Self::default();
        for (name, by) in config.uses() {
            let seen = Arc::clone(seen.entry(name.to_owned()).or_default());
            if let Some(limit) = Limit::new(name, by, set, &client, seen) {
                plan.by_name
                    .insert(Arc::clone(&limit.name), plan.limits.len());
                plan.limits.push(limit);
            }
        }
        plan
    }
}
