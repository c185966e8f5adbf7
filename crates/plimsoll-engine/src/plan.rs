//! The plan of a configuration: limits with their keys and costs, and the routes that name them.

use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderName, Method};
use plimsoll_config::uses::{AnswerSpec, CostPart, CostSpec, PrioritySpec};
use plimsoll_config::{Config, HeaderMatch, HostPattern, LimitSet, RouteSpec};
use plimsoll_tower::Head;

use crate::costs::{cost_reads_body, counts_body, is_known_before, reads_answer};
use crate::keys::{Client, Source};
use crate::limit::Limit;
use crate::names::Names;
use crate::router::Router;
use crate::stats::LimitStats;

/// All limits and routes of one configuration. It never changes; the limiters behind it may.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) limits: Vec<Limit>,
    names: Names,
    pub(crate) routes: Vec<Route>,
    pub(crate) router: Router,
    /// The limiters that it was built from.
    #[cfg(feature = "redis")]
    pub(crate) set: Option<Arc<LimitSet>>,
    /// The response to a refusal, if neither the limit nor the route describes one.
    pub(crate) answer: Option<Arc<AnswerSpec>>,
    /// Whether any limit has tiers. If none has, decisions skip the lookup of last terms.
    pub(crate) has_tiers: bool,
    /// The subscribers to decisions.
    pub(crate) subscribers: Arc<crate::events::Subscribers>,
}

impl Plan {
    #[inline]
    pub(crate) fn limit(&self, name: &str) -> Option<usize> {
        self.names.get(name)
    }

    /// The limit and the terms of the tier whose limiter has this id.
    pub(crate) fn tier_by_id(&self, id: &str) -> Option<(usize, usize)> {
        let (limit, tier) = id.strip_suffix(']')?.split_once(".tiers[")?;
        let limit = self.limit(limit)?;
        Some((limit, self.limits[limit].terms_of_tier(tier)?))
    }
}

/// The largest number of limits of a route on the [fast path](crate::fast_path).
pub(crate) const MAX_FAST_LIMITS: usize = 8;

/// A route: the requests that it matches, and their limits.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: Arc<str>,
    /// Whether the path alone decides if a request matches.
    any: bool,
    methods: Vec<Method>,
    hosts: Vec<HostPattern>,
    headers: Vec<(HeaderName, HeaderMatch)>,
    pub(crate) uses: Vec<RouteUse>,
    /// The upstream pool, in a gateway.
    pub(crate) to: Option<Arc<str>>,
    pub(crate) priority: Option<PrioritySpec>,
    pub(crate) answer: Option<Arc<AnswerSpec>>,
    /// Whether its limits are [simple](Limit::is_simple), and if there are several, each can be undone exactly.
    pub(crate) simple: bool,
    /// Whether the layer decides its requests on the [fast path](crate::fast_path).
    pub(crate) fast: bool,
    /// Whether it or one of its limits sets the priority of requests.
    pub(crate) says_priority: bool,
    /// Whether the body has to be read before its limits can be asked.
    pub(crate) reads_body: bool,
    /// Whether the bytes of the body are counted as they arrive.
    pub(crate) counts_body: bool,
    /// Whether a cost depends on the body of the request or the response.
    pub(crate) watches_bodies: bool,
    /// Whether a cost is known only after the response.
    pub(crate) settles: bool,
    /// Whether one of its limits has metadata.
    pub(crate) has_metadata: bool,
}

/// A limit of a route, with its cost there.
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
        let limits = || uses.iter().map(|by| &plan.limits[by.limit]);
        let simple = limits().all(Limit::is_simple)
            && (uses.len() == 1 || limits().all(|it| it.is_undoable(0)));
        let says_priority = spec.priority.is_some() || limits().any(|it| it.priority.is_some());
        let reads_body = uses.iter().any(reads_body);
        let counts_body = uses.iter().any(|by| counts_body(&by.cost));
        let watches_bodies = counts_body || uses.iter().any(|by| reads_answer(&by.cost));
        let has_metadata = limits().any(|it| it.metadata.is_some());
        let settles = uses.iter().any(|by| !is_known_before(&by.cost));
        let fast = simple
            && !(reads_body || watches_bodies || has_metadata || says_priority || settles)
            && uses.len() <= MAX_FAST_LIMITS
            && limits().all(|it| it.key.len() <= 1)
            && uses.iter().all(|by| matches!(by.cost, CostSpec::Fixed(_)));
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
            simple,
            fast,
            says_priority,
            reads_body,
            counts_body,
            watches_bodies,
            has_metadata,
            settles,
            uses,
            to: spec.to.as_deref().map(Into::into),
            priority: spec.priority.clone(),
            answer: spec.answer.clone().map(Arc::new),
        }
    }

    /// Whether a request whose path matches its pattern also matches its methods, hosts and header fields.
    #[inline]
    pub(crate) fn fits(&self, head: &Head<'_>) -> bool {
        self.any || self.fits_all(head)
    }

    #[inline(never)]
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

/// The limits of a provider, each with the cost that its weight describes.
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
    /// The plan of `set`. The statistics of its limits are taken from, and stored in, `stats`, by name.
    pub(crate) fn build(set: &Arc<LimitSet>, stats: &mut HashMap<String, Arc<LimitStats>>) -> Self {
        let config = set.config();
        let client = Client::new(&config.client());
        let mut plan = Self {
            answer: config.answer().cloned().map(Arc::new),
            #[cfg(feature = "redis")]
            set: Some(Arc::clone(set)),
            ..Self::default()
        };
        for (name, by) in config.uses() {
            let stats = Arc::clone(stats.entry(name.to_owned()).or_default());
            if let Some(limit) = Limit::new(name, by, set, &client, stats) {
                plan.names.insert(&limit.name, plan.limits.len());
                plan.has_tiers |= limit.has_tiers();
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
        // Statistics of limits that no longer exist are dropped.
        stats.retain(|name, _| plan.names.contains(name));
        plan
    }
}
