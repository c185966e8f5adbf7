//! The decisions that each limit would make alone.
//!
//! Most limits have only a number and keys. They decide directly, with the key and the cost that the decision of all limits has
//! already resolved, because resolving the request again would take longer than the decision. The others decide through the
//! engine.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll::{Demand, Limiter, Permit};
use plimsoll_config::uses::CostSpec;
use plimsoll_config::{Config, KeyedLimiter};
use plimsoll_engine::{AskRecord, Hold, Limits, Refusal};

use crate::described::{document, is_bare};

/// The limits that decide alone.
pub(crate) struct Solos {
    limits: Limits,
    /// The way in which each limit decides alone, by position in the file.
    of: Vec<Solo>,
    /// Whether none of them needs the engine.
    direct: bool,
}

enum Solo {
    /// Not at all, because no route has other limits beside this one.
    Not,
    /// Through the engine.
    Engine,
    One(Arc<dyn Limiter>),
    Keyed(KeyedLimiter),
}

impl Solos {
    /// Selects the limits that have others beside them. `limits` must not be used for anything else.
    pub(crate) fn new(config: &Config, limits: Limits, beside: &[bool]) -> Self {
        let document = document(config);
        // A route may set the priority of its requests, or charge the bytes of answers.
        let plain = config.route_specs().iter();
        let plain = plain.clone().all(|route| route.priority.is_none());
        let charged = |name: &str| {
            let mut routes = config.route_specs().iter();
            routes.any(|route| {
                let mut provided = route.limits.iter().flat_map(|it| config.provided(it));
                route.bytes.as_deref() == Some(name) || provided.any(|(_, limit)| limit == name)
            })
        };
        let simple = |name: &str| {
            let bare = document.get("limits").and_then(|it| it.get(name));
            let fixed = config.use_of(name).is_some_and(|it| {
                matches!(it.cost, CostSpec::Fixed(_))
                    && it.tiers.is_none()
                    && it.overrides.is_empty()
                    && it.priority.is_none()
            });
            plain && fixed && bare.is_some_and(is_bare) && !charged(name)
        };
        let solo = |(name, beside): (String, &bool)| {
            let limiters = limits.limiters();
            if !beside {
                return Solo::Not;
            }
            if !simple(&name) {
                return Solo::Engine;
            }
            match (limiters.keyed(&name), limiters.limiter(&name)) {
                (Some(keyed), _) => Solo::Keyed(keyed),
                (None, Some(one)) => Solo::One(Arc::clone(one.shared())),
                (None, None) => Solo::Engine,
            }
        };
        let of: Vec<Solo> = limits.names().into_iter().zip(beside).map(solo).collect();
        Self {
            direct: of.iter().all(|solo| !matches!(solo, Solo::Engine)),
            limits,
            of,
        }
    }

    /// The limits that decide through the engine.
    pub(crate) const fn engine(&self) -> &Limits {
        &self.limits
    }

    /// Whether this limit has to decide through the engine. `all`: the decision of all limits waits, so its keys and costs are
    /// unknown.
    pub(crate) fn is_left(&self, limit: usize, all: bool) -> bool {
        match self.of[limit] {
            Solo::Not => false,
            Solo::Engine => true,
            Solo::One(_) | Solo::Keyed(_) => all,
        }
    }

    /// Whether any limit has to decide through the engine.
    pub(crate) const fn are_left(&self, all: bool) -> bool {
        all || !self.direct
    }

    /// Lets each limit decide directly with the keys and costs of a decision. Calls back with the limit and its permit, or `None`
    /// if it refuses. Returns false if the decision does not have its keys and costs.
    pub(crate) fn ask(
        &self,
        decided: &Result<Hold, Refusal>,
        like: Demand,
        mut told: impl FnMut(usize, Option<Permit<'_>>),
    ) -> bool {
        let mut each = |asked: AskRecord<'_>| {
            let demand = like.cost(asked.cost).at_once();
            let permit = match &self.of[asked.limit] {
                Solo::Not | Solo::Engine => return,
                Solo::One(limiter) => limiter.try_acquire(demand),
                Solo::Keyed(limiter) => limiter.try_acquire(asked.key, demand),
            };
            told(asked.limit, permit.ok());
        };
        match decided {
            Ok(hold) => hold.asked().for_each(each),
            // The request was refused before any limit decided.
            Err(refusal) if refusal.binding().is_none() => return false,
            Err(refusal) => refusal.asked().for_each(&mut each),
        }
        true
    }
}

/// For each limit, whether any route has other limits beside it.
pub(crate) fn beside(config: &Config, limits: &Limits) -> Vec<bool> {
    let numbers: HashMap<String, usize> = limits
        .names()
        .into_iter()
        .enumerate()
        .map(|(at, name)| (name, at))
        .collect();
    let mut beside = vec![false; numbers.len()];
    for route in config.route_specs() {
        let named = route.limits.iter().chain(&route.bytes);
        let named: Vec<&String> = named.collect();
        let several = named.len() > 1;
        let provided = named
            .iter()
            .flat_map(|name| config.provided(name).map(|(_, limit)| limit));
        for name in named
            .iter()
            .map(|name| name.as_str())
            .filter(|_| several)
            .chain(provided)
        {
            if let Some(number) = numbers.get(name) {
                beside[*number] = true;
            }
        }
    }
    beside
}
