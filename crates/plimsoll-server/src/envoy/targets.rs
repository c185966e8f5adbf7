//! Resolves the descriptors of a request to counters: by the tree of the configuration, or by an override.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::Reason;
use plimsoll_engine::Ask;
use smallvec::SmallVec;
use tonic::Status;

use super::Envoy;
use super::generate;
use super::proto::{RateLimitDescriptor, RateLimitRequest, Unit};
use super::stats::LimitStats;
use super::status::Limit;
use super::tree::{Found, Rate, Rule, Tree, override_key, override_stat};

/// The counter of a descriptor.
pub(super) enum Target {
    /// No limit matches.
    Nothing,
    Unlimited(Arc<Rule>),
    Counted(Counted),
}

impl Target {
    fn rule(&self) -> Option<&Rule> {
        match self {
            Self::Nothing => None,
            Self::Unlimited(rule) => Some(rule),
            Self::Counted(counted) => counted.rule(),
        }
    }
}

/// The targets of all descriptors of a request.
pub(super) type Targets = SmallVec<[Target; 1]>;

/// A counter and the hits that are applied to it.
pub(super) struct Counted {
    pub(super) key: String,
    pub(super) rate: Rate,
    pub(super) by: By,
    pub(super) stats: Arc<LimitStats>,
    /// The name in statistics, if it differs from the path of the rule.
    stat: Option<String>,
    pub(super) hits: Hits,
    pub(super) quota: bool,
}

/// The source of the limit.
pub(super) enum By {
    Rule(Arc<Rule>),
    /// An override: the name of the engine limit that counts it.
    Own(String),
}

/// The operation on a counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hits {
    Take(u64),
    /// 0 hits: the counter is only read.
    Peek,
    /// Negative hits: refunds the counter.
    Return(u64),
}

/// The result of the operation.
#[derive(Default, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) over: bool,
    /// Whether its hits were charged.
    pub(super) taken: bool,
    pub(super) remaining: u64,
    pub(super) reason: Option<Reason>,
}

impl Counted {
    pub(super) fn ask(&self, cost: u64) -> Ask<'_> {
        Ask::new(self.engine_limit()).key(&self.key).cost(cost)
    }

    fn engine_limit(&self) -> &str {
        match &self.by {
            By::Rule(rule) => &rule.id,
            By::Own(limit) => limit,
        }
    }

    pub(super) fn rule(&self) -> Option<&Rule> {
        match &self.by {
            By::Rule(rule) => Some(rule),
            By::Own(_) => None,
        }
    }

    /// Whether the limit is an override.
    pub(super) const fn is_own(&self) -> bool {
        matches!(self.by, By::Own(_))
    }

    /// Converts the remaining amount of the counter to that of the limit, and returns whether the limit is exceeded.
    pub(super) fn left(&self, remaining: u64) -> (u64, bool) {
        let limit = u64::from(self.rate.limit);
        if !self.is_own() {
            return (remaining, false);
        }
        let used = u64::from(generate::MOST).saturating_sub(remaining);
        (limit.saturating_sub(used), used > limit)
    }

    pub(super) fn takes(&self) -> Option<u64> {
        match self.hits {
            Hits::Take(hits) => Some(hits),
            _ => None,
        }
    }

    pub(super) fn is_shadow(&self) -> bool {
        self.rule().is_some_and(|rule| rule.shadow)
    }

    /// The limit and the key of the mark for counters above their limits.
    pub(super) fn mark(&self) -> (String, String) {
        let key = format!("{} {}", self.engine_limit(), self.key);
        (generate::over_limit_mark(self.rate.window()), key)
    }

    pub(super) fn limit(&self) -> Limit<'_> {
        let own_name = self.rule().map_or("", |rule| &rule.name);
        let path = || self.rule().map_or("", |rule| &rule.path);
        Limit {
            name: match own_name {
                "" => self.stat.as_deref().unwrap_or_else(path),
                name => name,
            },
            own_name,
            quota: self.rate.limit.into(),
            window: Some(Duration::from_secs(self.rate.window())),
        }
    }
}

impl Envoy {
    pub(super) fn targets(
        &self,
        tree: &Tree,
        request: &RateLimitRequest,
    ) -> Result<Targets, Status> {
        let each = request.descriptors.iter().enumerate();
        each.map(|(index, descriptor)| self.target(tree, request, index, descriptor))
            .collect()
    }

    fn target(
        &self,
        tree: &Tree,
        request: &RateLimitRequest,
        index: usize,
        descriptor: &RateLimitDescriptor,
    ) -> Result<Target, Status> {
        let domain = &request.domain;
        let hits = hits(request, descriptor);
        if let Some(own) = &descriptor.limit
            && tree.has(domain)
        {
            let unit = Unit::try_from(own.unit).unwrap_or(Unit::Unknown);
            let wrong = |why: String| {
                let why = format!("descriptors[{index}].limit: {why}");
                Status::invalid_argument(why)
            };
            if unit == Unit::Unknown {
                return Err(wrong(format!(
                    "expected a unit from SECOND to WEEK, found {}",
                    own.unit
                )));
            }
            let rate =
                Rate::new(own.requests_per_unit, unit, own.unit_multiplier).map_err(wrong)?;
            self.add_window(rate.window())?;
            let stat = override_stat(domain, &descriptor.entries);
            return Ok(Target::Counted(Counted {
                key: override_key(domain, &descriptor.entries),
                rate,
                by: By::Own(generate::override_limit(rate.window())),
                stats: self.stats.limit(&stat),
                stat: Some(stat),
                hits,
                quota: false,
            }));
        }
        let found = match tree.find(domain, &descriptor.entries) {
            Found::NoDomain => {
                self.stats.unknown_domain(domain);
                return Ok(Target::Nothing);
            }
            Found::Nothing => return Ok(Target::Nothing),
            Found::Limit(found) => found,
        };
        if found.rule.unlimited {
            return Ok(Target::Unlimited(found.rule));
        }
        let rule = found.rule;
        let stats = match &found.stat {
            Some(stat) => self.stats.limit(stat),
            None => Arc::clone(rule.stats.get_or_init(|| self.stats.limit(&rule.path))),
        };
        Ok(Target::Counted(Counted {
            key: found.key,
            rate: rule.rate,
            stats,
            stat: found.stat,
            hits,
            quota: rule.quota || self.settings.quota,
            by: By::Rule(rule),
        }))
    }
}

/// The hits of a descriptor.
fn hits(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> Hits {
    let of_request = u64::from(request.hits_addend.max(1));
    match descriptor.hits_addend.unwrap_or(of_request) {
        0 => Hits::Peek,
        hits if descriptor.is_negative_hits => Hits::Return(hits),
        hits => Hits::Take(hits),
    }
}

/// Removes the limits that other matched limits replace.
pub(super) fn replace(targets: &mut [Target]) {
    let rules = targets.iter().filter_map(Target::rule);
    let mut replaced = rules.flat_map(|rule| &rule.replaces).peekable();
    if replaced.peek().is_none() {
        return;
    }
    let replaced: HashSet<String> = replaced.cloned().collect();
    for target in targets {
        let name = target.rule().map(|rule| rule.name.as_str());
        if name.is_some_and(|name| replaced.contains(name)) {
            *target = Target::Nothing;
        }
    }
}
