//! From a description to the limiter itself: the one place that knows which limiters exist.
//!
//! A kind becomes available by one more arm in [`build`]. Until then a scenario of it is reported as not supported
//! yet, and is neither passed nor failed.

use std::sync::Arc;

use plimsoll::adaptive::Adaptive;
use plimsoll::{
    Acquire, All, Bandwidths, Carry, Clock, Concurrency, Demand, Denied, Gate, InvalidLimit, Keyed,
    Limiter, PenaltyBucket, Permit, Quota, Refresh, Rule, Smooth, Snapshot,
};

use super::rules;
use crate::error::Problem;
use crate::spec::{Counts, Full, Kind, LimiterSpec, Order, QueueSpec};

/// A limiter under test, with the handles a `dyn Limiter` does not have.
pub(crate) struct Subject {
    pub(crate) limiter: Arc<dyn Limiter>,
    /// Not for `all`, which is no gate.
    pub(crate) controls: Option<Box<dyn Controls>>,
    /// One state for each key: then the limiter above is that of no key.
    pub(crate) keys: Option<Box<dyn Keys>>,
    pub(crate) change: Change,
}

/// The change that only this kind of limiter knows.
pub(crate) enum Change {
    None,
    Resize(Gate<Concurrency>),
    SetRate(Gate<Smooth>, Smooth),
    Replace(Gate<Bandwidths>),
}

/// What every gate can do, whatever its rule.
pub(crate) trait Controls {
    fn take_up_to(&self, cost: u32) -> Permit<'_>;
    fn add(&self, tokens: u32);
    fn reset(&self);
    fn set_queue_bound(&self, bound: u32);
}

impl<R: Rule> Controls for Gate<R> {
    fn take_up_to(&self, cost: u32) -> Permit<'_> {
        Self::take_up_to(self, cost)
    }

    fn add(&self, tokens: u32) {
        Self::add(self, tokens);
    }

    fn reset(&self) {
        Self::reset(self);
    }

    fn set_queue_bound(&self, bound: u32) {
        Self::set_queue_bound(self, bound);
    }
}

/// Why there is no limiter.
#[derive(Debug)]
pub(crate) enum Unbuilt {
    /// It does not exist yet: the word under which such scenarios are counted.
    NotYet(&'static str),
    /// The limiter refuses its numbers.
    Invalid(Problem),
}

/// Builds the limiter a scenario describes, on the clock of the scenario.
pub(crate) fn build(spec: &LimiterSpec, clock: &Clock) -> Result<Subject, Unbuilt> {
    let invalid = |error: InvalidLimit| invalid(spec, &error);
    match &spec.kind {
        Kind::FixedWindow {
            limit,
            window,
            align,
        } => {
            let rule = rules::fixed_window(*limit, *window, *align).map_err(invalid)?;
            subject(rule, spec, clock, |_| Change::None)
        }
        Kind::SlidingWindow {
            limit,
            window,
            segments,
        } => {
            let rule = rules::sliding_window(*limit, *window, *segments).map_err(invalid)?;
            subject(rule, spec, clock, |_| Change::None)
        }
        Kind::TokenBucket(bucket) => {
            let rule = rules::token_bucket(bucket).map_err(invalid)?;
            subject(rule, spec, clock, |_| Change::None)
        }
        Kind::Concurrency { limit } => {
            let rule = Concurrency::try_new(*limit).map_err(invalid)?;
            subject(rule, spec, clock, Change::Resize)
        }
        Kind::SlidingLog {
            limit,
            window,
            min_gap,
            count_denied,
        } => {
            let rule = rules::sliding_log(*limit, *window, *min_gap, *count_denied);
            subject(rule.map_err(invalid)?, spec, clock, |_| Change::None)
        }
        Kind::SlidingCounter { limit, window } => {
            let rule = rules::sliding_counter(*limit, *window).map_err(invalid)?;
            subject(rule, spec, clock, |_| Change::None)
        }
        Kind::Refresh {
            limit,
            period,
            max_wait,
        } => {
            let refresh = Refresh::new(Quota::try_new(*limit, *period).map_err(invalid)?);
            subject(refresh.with_max_wait(*max_wait), spec, clock, |_| {
                Change::None
            })
        }
        Kind::Bandwidths(limits) => {
            let rule = rules::bandwidths(limits).map_err(invalid)?;
            subject(rule, spec, clock, Change::Replace)
        }
        Kind::SmoothBursty { rate, max_burst } => smooth(
            Smooth::try_bursty(*rate, *max_burst).map_err(invalid)?,
            spec,
            clock,
        ),
        Kind::SmoothWarmup {
            rate,
            warmup,
            cold_factor,
        } => {
            let rule = Smooth::try_warm_up(*rate, *warmup, *cold_factor).map_err(invalid)?;
            smooth(rule, spec, clock)
        }
        Kind::PenaltyBucket {
            bucket,
            soft_limit,
            soft_window,
            lockout,
        } => {
            let rule = PenaltyBucket::new(rules::token_bucket(bucket).map_err(invalid)?)
                .try_with_lockout(*soft_limit, *lockout)
                .map_err(invalid)?
                .with_soft_window(*soft_window);
            subject(rule, spec, clock, |_| Change::None)
        }
        Kind::All(of) => all(of, spec, clock),
        Kind::Adaptive(algorithm) => {
            if spec.keyed {
                return Err(Unbuilt::NotYet("keyed"));
            }
            let rule = Adaptive::new(super::limits::build(algorithm)?);
            Ok(single(rule, spec, clock, |_| Change::None))
        }
    }
}

fn smooth(rule: Smooth, spec: &LimiterSpec, clock: &Clock) -> Result<Subject, Unbuilt> {
    subject(rule.clone(), spec, clock, |gate| {
        Change::SetRate(gate, rule)
    })
}

/// The word of the format for what becomes of what is there.
pub(crate) fn carry(carry: crate::spec::Carry) -> Carry {
    match carry {
        crate::spec::Carry::AsIs => Carry::AsIs,
        crate::spec::Carry::Proportional => Carry::Proportional,
        crate::spec::Carry::Reset => Carry::Reset,
    }
}

/// The limiter of a rule, with all that a description may add to it.
fn subject<R: Rule + Clone>(
    rule: R,
    spec: &LimiterSpec,
    clock: &Clock,
    change: impl FnOnce(Gate<R>) -> Change,
) -> Result<Subject, Unbuilt> {
    let keys = spec.keyed.then(|| keys(rule.clone(), spec, clock));
    Ok(Subject {
        keys,
        ..single(rule, spec, clock, change)
    })
}

/// The limiter of a rule, without keys.
fn single<R: Rule>(
    rule: R,
    spec: &LimiterSpec,
    clock: &Clock,
    change: impl FnOnce(Gate<R>) -> Change,
) -> Subject {
    let mut builder = Gate::builder(rule).clock(clock.clone());
    if let Some(spec) = &spec.queue {
        builder = builder.queue(queue(spec));
    }
    if let Some(name) = &spec.name {
        builder = builder.name(name.as_str());
    }
    let gate = builder.build();
    Subject {
        limiter: Arc::new(gate.clone()),
        controls: Some(Box::new(gate.clone())),
        keys: None,
        change: change(gate),
    }
}

fn keys<R: Rule + Clone>(rule: R, spec: &LimiterSpec, clock: &Clock) -> Box<dyn Keys> {
    let mut builder = Keyed::<String, R>::builder(rule).clock(clock.clone());
    if let Some(spec) = &spec.queue {
        builder = builder.queue(queue(spec));
    }
    if let Some(name) = &spec.name {
        builder = builder.name(name.as_str());
    }
    if let Some(max_keys) = spec.max_keys {
        builder = builder.max_keys(max_keys as usize);
    }
    Box::new(builder.build())
}

/// What a keyed limiter does for one key.
pub(crate) trait Keys {
    fn try_acquire(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied>;
    fn acquire<'a>(&'a self, key: &str, demand: Demand) -> Acquire<'a>;
    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied>;
    fn take_up_to(&self, key: &str, cost: u32) -> Permit<'_>;
    fn forget(&self, key: &str);
    /// A key that is not known is as good as new.
    fn snapshot(&self, key: Option<&str>) -> Snapshot;
}

impl<R: Rule + Clone> Keys for Keyed<String, R> {
    fn try_acquire(&self, key: &str, demand: Demand) -> Result<Permit<'_>, Denied> {
        Self::try_acquire(self, key, demand)
    }

    fn acquire<'a>(&'a self, key: &str, demand: Demand) -> Acquire<'a> {
        let key = key.to_owned();
        Acquire::from_future(async move { self.acquire(key.as_str(), demand).await })
    }

    fn estimate(&self, key: &str, demand: Demand) -> Result<(), Denied> {
        Self::estimate(self, key, demand)
    }

    fn take_up_to(&self, key: &str, cost: u32) -> Permit<'_> {
        Self::take_up_to(self, key, cost)
    }

    fn forget(&self, key: &str) {
        Self::forget(self, key);
    }

    fn snapshot(&self, key: Option<&str>) -> Snapshot {
        let Some(key) = key else {
            return Self::snapshot(self);
        };
        self.snapshot_of(key).unwrap_or_else(|| {
            let new = self.standing(key);
            Snapshot::of(new.limit(), new.remaining())
        })
    }
}

pub(crate) fn queue(spec: &QueueSpec) -> plimsoll::Queue {
    let queue = match spec.order {
        Order::Fifo => plimsoll::Queue::fifo(spec.bound),
        Order::Lifo => plimsoll::Queue::lifo(spec.bound),
    };
    let queue = match spec.full {
        None => queue,
        Some(Full::Incoming) => queue.full(plimsoll::Full::Incoming),
        Some(Full::Oldest) => queue.full(plimsoll::Full::Oldest),
        Some(Full::Newest) => queue.full(plimsoll::Full::Newest),
    };
    let queue = queue.counts(match spec.counts {
        Counts::Excess => plimsoll::Counts::Excess,
        Counts::Waiting => plimsoll::Counts::Waiting,
    });
    match spec.timeout {
        None => queue,
        Some(timeout) => queue.timeout(timeout),
    }
}

fn all(of: &[LimiterSpec], spec: &LimiterSpec, clock: &Clock) -> Result<Subject, Unbuilt> {
    let member = |(index, member)| match build(member, clock) {
        Ok(subject) => Ok(subject.limiter),
        Err(Unbuilt::Invalid(problem)) => {
            Err(Unbuilt::Invalid(problem.under_index(index).under_key("of")))
        }
        Err(not_yet) => Err(not_yet),
    };
    let members = of
        .iter()
        .enumerate()
        .map(member)
        .collect::<Result<Vec<_>, _>>()?;
    if spec.keyed {
        return Err(Unbuilt::NotYet("keyed"));
    }
    if spec.queue.is_some() {
        return Err(Unbuilt::NotYet("queue of all"));
    }
    let all = All::try_new(members).map_err(|error| invalid(spec, &error))?;
    let all = match &spec.name {
        None => all,
        Some(name) => all.named(name.as_str()),
    };
    Ok(Subject {
        limiter: Arc::new(all),
        controls: None,
        keys: None,
        change: Change::None,
    })
}

fn invalid(spec: &LimiterSpec, error: &InvalidLimit) -> Unbuilt {
    Unbuilt::Invalid(problem(spec, error))
}

/// A limiter that refuses its numbers, said in the words of the file.
pub(super) fn problem(spec: &LimiterSpec, error: &InvalidLimit) -> Problem {
    let field = match (&spec.kind, error.field()) {
        (Kind::TokenBucket(_), "limit") => "refill",
        (Kind::TokenBucket(_), "period") => "every",
        (_, "period") => "window",
        (_, field) => field,
    };
    let message = format!("expected {}, found {}", error.rule(), error.value());
    Problem::new(spec.place, message).under_key(field)
}
