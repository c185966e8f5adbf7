use std::fmt;
use std::sync::Arc;

use super::{AnyLimiter, Basic, Rate, Resource, Weight};
use crate::together::Group;
use crate::{Denied, InvalidLimit};

/// Whatever has limiters for weights: a file, a registry, a service.
///
/// It is asked when a program starts; a [`Provider`] then keeps the answers.
pub trait Provides {
    /// The limiter for a weight; `None` if the weight is not limited.
    ///
    /// # Errors
    ///
    /// If there should be one and cannot be. It is never taken for "not limited".
    fn limiter(&self, weight: Weight) -> Result<Option<AnyLimiter>, InvalidLimit>;

    /// What says yes or no for all weights, if anything does.
    ///
    /// # Errors
    ///
    /// If there should be one and cannot be.
    fn basic(&self) -> Result<Option<Basic>, InvalidLimit> {
        Ok(None)
    }
}

/// The limiters of a place, by weight.
///
/// ```
/// use plimsoll::kinds::{Provider, Weight};
/// use plimsoll::{Concurrency, Gate, TokenBucket};
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
/// # How it asks
///
/// First whether anything is saturated, of all its limiters, whether or not their weight is asked for. Then the
/// limiters of the weights, in [the order of weights](Weight#the-order), all or none: when one refuses, it is as if none
/// had been asked, rates and penalties too. A limiter that several weights share is asked for the sum. A weight without a
/// limiter is not limited.
///
/// A clone is the same provider.
#[derive(Clone)]
pub struct Provider {
    pub(super) basics: Arc<[Basic]>,
    /// In the order of weights; of several with one weight, in the order of their providers.
    pub(super) limits: Arc<[Limited]>,
    /// The same, to be asked together.
    pub(super) group: Arc<Group<Weight>>,
}

#[derive(Clone)]
pub(super) struct Limited {
    pub(super) weight: Weight,
    pub(super) limiter: AnyLimiter,
}

impl Provider {
    /// A provider with these limiters.
    pub fn builder() -> ProviderBuilder {
        ProviderBuilder::default()
    }

    /// Asks `source` once for each of `weights` and keeps its answers.
    ///
    /// # Errors
    ///
    /// The first error of `source`, or if a weight is there twice.
    pub fn of(source: &dyn Provides, weights: &[Weight]) -> Result<Self, InvalidLimit> {
        let mut builder = Self::builder();
        if let Some(basic) = source.basic()? {
            builder = builder.basic(basic);
        }
        for weight in weights {
            if let Some(limiter) = source.limiter(*weight)? {
                builder = builder.limit(*weight, limiter);
            }
        }
        builder.build()
    }

    /// Several as one: each weight is asked of all of them, in this order, all or none.
    ///
    /// A limiter that two of them share is asked once. No provider at all limits nothing.
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

    /// The weights that are limited, in their order.
    pub fn weights(&self) -> impl Iterator<Item = Weight> {
        let mut last = None;
        let weights = self.limits.iter().map(|limited| limited.weight);
        weights.filter(move |weight| last.replace(*weight) != Some(*weight))
    }

    /// The limiters of a weight, as they were given.
    pub fn limiters(&self, weight: Weight) -> impl Iterator<Item = &AnyLimiter> {
        let limits = self.limits.iter();
        let of_weight = limits.filter(move |limited| limited.weight == weight);
        of_weight.map(|limited| &limited.limiter)
    }

    /// What limits `weight`, for a place that cannot hold a permit; `None` if nothing does.
    ///
    /// What says yes or no for all weights is part of it, so it is asked for every demand.
    ///
    /// # Errors
    ///
    /// If it is limited by a [`Resource`].
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

    /// What limits `weight`, for a place that can hold a permit; `None` if nothing does.
    ///
    /// What says yes or no for all weights is part of it, so it is asked for every demand.
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

    /// Whether anything new may be started: asks everything it has.
    ///
    /// # Errors
    ///
    /// [`Denied`] says why not, and which limiter it was.
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
    pub(super) fn check_basics(&self) -> Result<(), Denied> {
        self.basics.iter().try_for_each(Basic::check_saturation)
    }
}

impl Limited {
    /// A refusal by a limiter without a name has the name of its weight.
    pub(super) fn name_refusal(&self, denied: Denied) -> Denied {
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

/// Builds a [`Provider`].
#[derive(Default)]
#[must_use]
pub struct ProviderBuilder {
    basics: Vec<Basic>,
    limits: Vec<Limited>,
}

impl ProviderBuilder {
    /// Asks this one, too, before anything else.
    pub fn basic(mut self, basic: impl Into<Basic>) -> Self {
        self.basics.push(basic.into());
        self
    }

    /// Limits a weight.
    pub fn limit(mut self, weight: Weight, limiter: impl Into<AnyLimiter>) -> Self {
        let limiter = limiter.into();
        self.limits.push(Limited { weight, limiter });
        self
    }

    /// The provider.
    ///
    /// # Errors
    ///
    /// If a weight has two limiters: make one of them with [`All`](crate::All), or one provider of two with
    /// [`Provider::all`].
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
