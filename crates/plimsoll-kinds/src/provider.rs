use std::fmt;
use std::sync::Arc;

use plimsoll::together::Group;
use plimsoll::{Denied, InvalidLimit, LimiterExt};

use crate::any::{AnyLimiter, LimiterKind};
use crate::basic::Basic;
use crate::rate::Rate;
use crate::resource::Resource;
use crate::weight::Weight;

/// A source of limiters by weight: a file, a registry, a service.
///
/// [`Provider::of`] asks it once, when the program starts. Apart from basic limiters, the limiters of one source are
/// all rates or all resources, because the code that uses them has to know whether it holds permits. [`Provider::all`]
/// combines sources of different kinds.
pub trait Provides {
    /// Returns the limiter of a weight; `None` if the weight is not limited.
    ///
    /// # Errors
    ///
    /// Returns an error if the limiter cannot be made. An error never means "not limited".
    fn limiter(&self, weight: Weight) -> Result<Option<AnyLimiter>, InvalidLimit>;

    /// Returns a basic limiter for all weights, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be made.
    fn basic(&self) -> Result<Option<Basic>, InvalidLimit> {
        Ok(None)
    }
}

/// The limiters of a program or of one of its parts, by weight. Clones share them.
///
/// ```
/// use plimsoll::{Concurrency, Gate, TokenBucket};
/// use plimsoll_kinds::{Provider, Weight};
///
/// let bytes = Gate::builder(TokenBucket::per_second(1000)).name("bytes").build();
/// let provider = Provider::builder()
///     .limit(Weight::REQUEST_COUNT, Gate::new(Concurrency::new(10)))
///     .limit(Weight::NETWORK_BYTES, bytes)
///     .build()?;
///
/// let costs = [(Weight::REQUEST_COUNT, 1), (Weight::NETWORK_BYTES, 600)];
/// let permits = provider.try_acquire(&costs)?;
/// let denied = provider.try_acquire(&costs).unwrap_err();
/// assert_eq!(denied.limiter(), Some("bytes")); // and no request is counted
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # How it decides
///
/// 1. It checks all its limiters for saturation, whether or not their weight is asked for.
/// 2. It acquires from the limiters of the weights, in [the order of weights](Weight#the-order), all or none: if one
///    refuses, the others are left as if they had not been asked, including rates and penalties.
///
/// A limiter that several weights share is asked for the sum. A weight without a limiter is not limited.
///
/// # Rates and resources
///
/// A provider may have rates for some weights and resources for others. Code that cannot hold a permit asks for
/// [`rate`](Self::rate) when the program starts, which is an error for a weight that a resource limits. A single
/// [source](Provides) has either rates or resources: [`Provider::of`] checks that.
#[derive(Clone)]
pub struct Provider {
    pub(crate) basics: Arc<[Basic]>,
    /// In the order of weights; of several with one weight, in the order of their providers.
    pub(crate) limits: Arc<[Limited]>,
    /// The same limiters, to be acquired together.
    pub(crate) group: Arc<Group<Weight>>,
}

#[derive(Clone)]
pub(crate) struct Limited {
    pub(crate) weight: Weight,
    pub(crate) limiter: AnyLimiter,
}

impl Provider {
    /// Returns a builder without limiters.
    pub fn builder() -> ProviderBuilder {
        ProviderBuilder::default()
    }

    /// Asks `source` once for each of `weights`.
    ///
    /// # Errors
    ///
    /// Returns the first error of `source`, if a weight occurs twice, or if `source` has a rate for one weight and a
    /// resource for another.
    pub fn of(source: &dyn Provides, weights: &[Weight]) -> Result<Self, InvalidLimit> {
        let mut builder = Self::builder();
        if let Some(basic) = source.basic()? {
            builder = builder.basic(basic);
        }
        let mut first = None;
        for weight in weights {
            if let Some(limiter) = source.limiter(*weight)? {
                let kind = limiter.kind();
                if kind != LimiterKind::Basic && *first.get_or_insert(kind) != kind {
                    let rule = "the kind of the other weights of its source";
                    let found = format!("{kind} ({weight})");
                    return Err(InvalidLimit::new("kind", found, rule));
                }
                builder = builder.limit(*weight, limiter);
            }
        }
        builder.build()
    }

    /// Combines several providers: a weight is acquired from all of them, in this order, all or none.
    ///
    /// A limiter that two of them share is asked once. An empty list of providers limits nothing.
    #[must_use]
    pub fn all(providers: impl IntoIterator<Item = Self>) -> Self {
        let mut basics: Vec<Basic> = Vec::new();
        let mut limits: Vec<Limited> = Vec::new();
        for provider in providers {
            for basic in &*provider.basics {
                if !basics.iter().any(|known| same(known, basic)) {
                    basics.push(basic.clone());
                }
            }
            for limited in &*provider.limits {
                let known = limits.iter().any(|known| {
                    known.weight == limited.weight
                        && Arc::ptr_eq(known.limiter.shared(), limited.limiter.shared())
                });
                if !known {
                    limits.push(limited.clone());
                }
            }
        }
        Self::new(basics, limits)
    }

    fn new(basics: Vec<Basic>, mut limits: Vec<Limited>) -> Self {
        limits.sort_by_key(|limited| limited.weight);
        let group = Group::new(limits.iter().map(|limited| {
            let name = Some(limited.weight.as_str());
            (limited.limiter.shared(), name, limited.weight)
        }));
        Self {
            basics: basics.into(),
            group: Arc::new(group),
            limits: limits.into(),
        }
    }

    /// Returns the weights that are limited, in their order.
    pub fn weights(&self) -> impl Iterator<Item = Weight> {
        let mut last = None;
        let weights = self.limits.iter().map(|limited| limited.weight);
        weights.filter(move |weight| last.replace(*weight) != Some(*weight))
    }

    /// Returns the limiters of a weight.
    pub fn limiters(&self, weight: Weight) -> impl Iterator<Item = &AnyLimiter> {
        let limits = self.limits.iter();
        let of_weight = limits.filter(move |limited| limited.weight == weight);
        of_weight.map(|limited| &limited.limiter)
    }

    /// Returns the limiter of `weight`, for code that cannot hold a permit; `None` if the weight is not limited.
    ///
    /// Basic limiters are part of it.
    ///
    /// # Errors
    ///
    /// Returns an error if the weight is limited by a [`Resource`].
    pub fn rate(&self, weight: Weight) -> Result<Option<Rate>, InvalidLimit> {
        let mut rates: Vec<Rate> = self.basics.iter().cloned().map(Rate::from).collect();
        for limiter in self.limiters(weight) {
            rates.push(limiter.clone().try_into()?);
        }
        if rates.len() > 1 {
            return Rate::all(rates).map(Some);
        }
        Ok(rates.pop())
    }

    /// Returns the limiter of `weight`, for code that can hold a permit; `None` if the weight is not limited.
    ///
    /// Basic limiters are part of it.
    #[must_use]
    pub fn resource(&self, weight: Weight) -> Option<Resource> {
        let basics = self.basics.iter().cloned().map(Resource::from);
        let limiters = self.limiters(weight).cloned().map(Resource::from);
        let mut all: Vec<_> = basics.chain(limiters).collect();
        if all.len() > 1 {
            return Resource::all(all).ok();
        }
        all.pop()
    }

    /// Checks whether new work may start, by all limiters of the provider.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the first limiter that is saturated.
    #[inline]
    pub fn check_saturation(&self) -> Result<(), Denied> {
        self.check_basics()?;
        for limited in &*self.limits {
            limited
                .limiter
                .check_saturation()
                .map_err(|denied| limited.name_refusal(denied))?;
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn check_basics(&self) -> Result<(), Denied> {
        self.basics.iter().try_for_each(Basic::check_saturation)
    }
}

impl Limited {
    /// A refusal by a limiter without a name has the name of its weight.
    pub(crate) fn name_refusal(&self, denied: Denied) -> Denied {
        if denied.limiter().is_some() {
            return denied;
        }
        denied.with_limiter(self.weight.as_str())
    }
}

fn same(one: &Basic, other: &Basic) -> bool {
    Arc::ptr_eq(&one.limiter, &other.limiter)
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self
            .limits
            .iter()
            .map(|limited| (limited.weight, &limited.limiter));
        f.debug_struct("Provider")
            .field("basics", &self.basics)
            .field("limits", &limits.collect::<Vec<_>>())
            .finish()
    }
}

/// The limiters of a [`Provider`]. Made by [`Provider::builder`].
#[derive(Default)]
#[must_use]
pub struct ProviderBuilder {
    basics: Vec<Basic>,
    limits: Vec<Limited>,
}

impl ProviderBuilder {
    /// Adds a basic limiter, which is asked before all others.
    pub fn basic(mut self, basic: impl Into<Basic>) -> Self {
        self.basics.push(basic.into());
        self
    }

    /// Limits a weight. Each weight has one limiter.
    pub fn limit(mut self, weight: Weight, limiter: impl Into<AnyLimiter>) -> Self {
        let limiter = limiter.into();
        self.limits.push(Limited { weight, limiter });
        self
    }

    /// Builds the provider.
    ///
    /// # Errors
    ///
    /// Returns an error if a weight has two limiters. Combine them by [`All`](plimsoll::All), or combine two providers
    /// by [`Provider::all`].
    pub fn build(self) -> Result<Provider, InvalidLimit> {
        let provider = Provider::new(self.basics, self.limits);
        let twice = provider
            .limits
            .windows(2)
            .find(|pair| pair[0].weight == pair[1].weight);
        match twice {
            Some(pair) => Err(InvalidLimit::new(
                "weight",
                pair[0].weight,
                "each weight to have one limiter",
            )),
            None => Ok(provider),
        }
    }
}

impl fmt::Debug for ProviderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderBuilder").finish_non_exhaustive()
    }
}
