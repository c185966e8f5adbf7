//! The limiter of a scenario, in Redis.

use std::time::Duration;

use plimsoll::{Concurrency, Denied, InvalidLimit};
use plimsoll_redis::{
    Decision, RedisAll, RedisLimiter, RedisPermit, RedisRule, Seen, Store, StoreError,
};

use super::Unbuilt;
use crate::run::held::Refusal;
use crate::run::{limiters, rules};
use crate::spec::{Kind, LimiterSpec};

/// Permits in scenarios are held as long as nobody lets go of them.
const LEASE: Duration = Duration::from_secs(100 * 365 * 86_400);

/// One limiter, or several as one.
pub(super) struct Subject {
    store: Store,
    members: Vec<Member>,
    all: Option<RedisAll>,
    pub(super) keyed: bool,
    books: bool,
}

struct Member {
    rule: RedisRule,
    limiter: RedisLimiter,
    /// What its refusals are called by.
    name: Option<String>,
}

impl Subject {
    pub(super) fn build(spec: &LimiterSpec, store: &Store) -> Result<Self, Unbuilt> {
        if spec.queue.is_some() {
            return Err(Unbuilt::NotHeld("queue"));
        }
        if spec.max_keys.is_some() {
            return Err(Unbuilt::NotHeld("max_keys"));
        }
        let store = store.clone();
        let Kind::All(of) = &spec.kind else {
            let member = Member::build(spec, &store, 0, None)?;
            return Ok(Self {
                store,
                members: vec![member],
                all: None,
                keyed: spec.keyed,
                books: matches!(spec.kind, Kind::TokenBucket(_) | Kind::Bandwidths(_)),
            });
        };
        let member = |(index, member)| {
            let built = Member::build(member, &store, index, spec.name.as_deref());
            built.map_err(|unbuilt| match unbuilt {
                Unbuilt::Invalid(problem) => {
                    Unbuilt::Invalid(problem.under_index(index).under_key("of"))
                }
                not_held => not_held,
            })
        };
        let members = of.iter().enumerate().map(member);
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let limiters = members.iter().map(|member| member.limiter.clone());
        let all = store.all(limiters);
        let all = all.map_err(|error| invalid(spec, &error))?;
        Ok(Self {
            store,
            members,
            all: Some(all),
            keyed: spec.keyed,
            books: false,
        })
    }

    /// Writes down a limiter that begins now: without keys, it counts from when it is built.
    pub(super) async fn begin(&self, key: &str) -> Result<(), StoreError> {
        for member in &self.members {
            member.limiter.begin(key).await?;
        }
        Ok(())
    }

    pub(super) async fn decide(
        &self,
        key: &str,
        cost: u32,
    ) -> Result<Result<RedisPermit, Refusal>, StoreError> {
        let decision = match &self.all {
            Some(all) => all.decide(key, cost).await?,
            None => self.members[0].limiter.decide(key, cost).await?,
        };
        Ok(match decision {
            Decision::Granted(permit) => Ok(permit),
            Decision::Denied(denied) => Err(self.refusal(&denied)),
        })
    }

    pub(super) async fn estimate(
        &self,
        key: &str,
        cost: u32,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let estimate = match &self.all {
            Some(all) => all.estimate(key, cost).await?,
            None => self.members[0].limiter.estimate(key, cost).await?,
        };
        Ok(estimate.map(drop).map_err(|denied| self.refusal(&denied)))
    }

    /// Whether it can be reserved from.
    pub(super) fn books(&self) -> bool {
        self.books
    }

    pub(super) async fn reserve(
        &self,
        key: &str,
        cost: u32,
        longest: Option<Duration>,
    ) -> Result<Result<Duration, Refusal>, StoreError> {
        let answer = self.members[0].limiter.reserve(key, cost, longest).await?;
        Ok(answer.map_err(|denied| self.refusal(&denied)))
    }

    pub(super) async fn take_up_to(&self, key: &str, most: u32) -> Result<RedisPermit, StoreError> {
        self.members[0].limiter.take_up_to(key, most).await
    }

    pub(super) async fn add(&self, key: &str, amount: u32) -> Result<(), StoreError> {
        self.members[0].limiter.add(key, amount).await
    }

    pub(super) async fn forget(&self, key: &str) -> Result<(), StoreError> {
        for member in &self.members {
            member.limiter.forget(key).await?;
        }
        Ok(())
    }

    /// Builds it anew, at this instant. What is held by leases stays held.
    pub(super) async fn reset(&mut self, key: &str) -> Result<(), StoreError> {
        let member = &mut self.members[0];
        if member.limiter.holds_leases() {
            return Ok(());
        }
        member.limiter.forget(key).await?;
        // It was built of the same before.
        if let Ok(limiter) = self
            .store
            .limiter(member.limiter.name(), member.rule.clone())
        {
            member.limiter = limiter;
        }
        self.begin(key).await
    }

    /// What it looks like; of several, the one of which least is left.
    pub(super) async fn look(&self, key: &str) -> Result<(Seen, u64), StoreError> {
        let mut least: Option<(Seen, u64)> = None;
        for member in &self.members {
            let seen = member.limiter.look(key).await?;
            if least.is_none_or(|(least, _)| seen.available < least.available) {
                least = Some((seen, u64::from(member.limiter.limit())));
            }
        }
        let nothing = Seen {
            available: 0,
            in_use: 0,
        };
        Ok(least.unwrap_or((nothing, 0)))
    }

    /// A refusal, by the name that the file gives the limiter.
    fn refusal(&self, denied: &Denied) -> Refusal {
        let refuser = denied.limiter();
        let known = self
            .members
            .iter()
            .find(|member| Some(member.limiter.name()) == refuser);
        Refusal {
            by: known.and_then(|member| member.name.clone()),
            ..Refusal::from(denied.clone())
        }
    }
}

impl Member {
    fn build(
        spec: &LimiterSpec,
        store: &Store,
        index: usize,
        outer: Option<&str>,
    ) -> Result<Self, Unbuilt> {
        if spec.queue.is_some() {
            return Err(Unbuilt::NotHeld("queue"));
        }
        let rule = rule(spec)?;
        // Two of a scenario may have one name.
        let limiter = store.limiter(&format!("limiter {index}"), rule.clone());
        Ok(Self {
            rule,
            limiter: limiter.map_err(|_| Unbuilt::NotHeld("so many segments"))?,
            name: spec.name.clone().or_else(|| outer.map(str::to_owned)),
        })
    }
}

fn rule(spec: &LimiterSpec) -> Result<RedisRule, Unbuilt> {
    let rule = match &spec.kind {
        Kind::FixedWindow {
            limit,
            window,
            align,
        } => rules::fixed_window(*limit, *window, *align).map(RedisRule::from),
        Kind::SlidingWindow {
            limit,
            window,
            segments,
        } => rules::sliding_window(*limit, *window, *segments).map(RedisRule::from),
        Kind::SlidingLog {
            limit,
            window,
            min_gap,
            count_denied,
        } => rules::sliding_log(*limit, *window, *min_gap, *count_denied).map(RedisRule::from),
        Kind::SlidingCounter { limit, window } => {
            rules::sliding_counter(*limit, *window).map(RedisRule::from)
        }
        Kind::TokenBucket(bucket) => rules::token_bucket(bucket).map(RedisRule::from),
        Kind::Bandwidths(limits) => rules::bandwidths(limits).map(RedisRule::from),
        Kind::Concurrency { limit } => {
            Concurrency::try_new(*limit).map(|rule| RedisRule::from(rule).with_lease(LEASE))
        }
        Kind::SmoothBursty { .. }
        | Kind::SmoothWarmup { .. }
        | Kind::Refresh { .. }
        | Kind::Adaptive(_)
        | Kind::PenaltyBucket { .. } => return Err(Unbuilt::NotHeld(spec.kind.word())),
        Kind::All(_) => return Err(Unbuilt::NotHeld("all of all")),
    };
    rule.map_err(|error| invalid(spec, &error))
}

fn invalid(spec: &LimiterSpec, error: &InvalidLimit) -> Unbuilt {
    Unbuilt::Invalid(limiters::problem(spec, error))
}
