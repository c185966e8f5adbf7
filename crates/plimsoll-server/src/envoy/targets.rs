//! What the descriptors of a request ask, by the tree of the configuration or by limits of their own.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::Reason;
use plimsoll_engine::Ask;
use tonic::Status;

use super::Envoy;
use super::generate;
use super::proto::{RateLimitDescriptor, RateLimitRequest, Unit};
use super::stats::LimitStats;
use super::status::Limit;
use super::tree::{Found, Rate, Rule, Tree, override_key, override_stat};

/// What a descriptor asks.
pub(super) enum Target {
    /// There is no limit for it.
    Nothing,
    Unlimited(Arc<Rule>),
    Counted(Box<Counted>),
}

/// A counter that is asked.
pub(super) struct Counted {
    pub(super) limit: String,
    pub(super) key: String,
    pub(super) rate: Rate,
    pub(super) rule: Option<Arc<Rule>>,
    pub(super) stats: Arc<LimitStats>,
    pub(super) stat: String,
    pub(super) hits: Hits,
    pub(super) quota: bool,
}

/// What is done to a counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hits {
    Take(u64),
    /// Nothing: it is looked at.
    Look,
    /// It is given back.
    Return(u64),
}

/// What came of it.
#[derive(Default, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) over: bool,
    /// Whether its hits were taken.
    pub(super) taken: bool,
    pub(super) remaining: u64,
    pub(super) reason: Option<Reason>,
}

impl Counted {
    pub(super) fn ask(&self, cost: u64) -> Ask<'_> {
        Ask::new(&self.limit).key(&self.key).cost(cost)
    }

    /// Whether the descriptor brings its limit itself.
    pub(super) const fn is_own(&self) -> bool {
        self.rule.is_none()
    }

    /// How much is left, of what is left of the counter; and whether the limit is exceeded.
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
        self.rule.as_ref().is_some_and(|rule| rule.shadow)
    }

    /// Which mark says that it is above its limit.
    pub(super) fn mark(&self) -> (String, String) {
        let key = format!("{} {}", self.limit, self.key);
        (generate::over(self.rate.window()), key)
    }

    pub(super) fn limit(&self) -> Limit {
        let own_name = self.rule.as_ref().map_or("", |rule| &rule.name);
        Limit {
            name: match own_name {
                "" => self.stat.clone(),
                name => name.to_owned(),
            },
            own_name: own_name.to_owned(),
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
    ) -> Result<Vec<Target>, Status> {
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
        let counted = |counted: Counted| Ok(Target::Counted(Box::new(counted)));
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
            self.know(rate.window())?;
            let stat = override_stat(domain, &descriptor.entries);
            return counted(Counted {
                limit: generate::own(rate.window()),
                key: override_key(domain, &descriptor.entries),
                rate,
                rule: None,
                stats: self.stats.limit(&stat),
                stat,
                hits,
                quota: false,
            });
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
        counted(Counted {
            limit: found.rule.id.clone(),
            key: found.key,
            rate: found.rule.rate,
            stats: self.stats.limit(&found.stat),
            stat: found.stat,
            hits,
            quota: found.rule.quota || self.settings.quota,
            rule: Some(found.rule),
        })
    }
}

/// How much a descriptor asks for.
fn hits(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> Hits {
    let of_request = u64::from(request.hits_addend.max(1));
    match descriptor.hits_addend.unwrap_or(of_request) {
        0 => Hits::Look,
        hits if descriptor.is_negative_hits => Hits::Return(hits),
        hits => Hits::Take(hits),
    }
}

/// Leaves out limits that others are in the place of.
pub(super) fn replace(targets: &mut [Target]) {
    let replaced: HashSet<String> = targets
        .iter()
        .filter_map(|target| match target {
            Target::Unlimited(rule) => Some(rule),
            Target::Counted(counted) => counted.rule.as_ref(),
            Target::Nothing => None,
        })
        .flat_map(|rule| rule.replaces.iter().cloned())
        .collect();
    if replaced.is_empty() {
        return;
    }
    for target in targets {
        let name = match target {
            Target::Counted(counted) => counted.rule.as_ref().map(|rule| rule.name.as_str()),
            Target::Unlimited(rule) => Some(rule.name.as_str()),
            Target::Nothing => None,
        };
        if name.is_some_and(|name| replaced.contains(name)) {
            *target = Target::Nothing;
        }
    }
}
