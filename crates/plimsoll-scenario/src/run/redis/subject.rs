//! The limiter of a scenario, in Redis.

use std::time::Duration;

use plimsoll::Denied;
use plimsoll_redis::{
    Decision, RedisAll, RedisLimiter, RedisPermit, RedisRule, Seen, Store, StoreError,
};

use plimsoll_spec::{InvalidSpec, Kind, Limiter, Step};

use super::Unbuilt;
use crate::run::held::Refusal;
use crate::spec::members;

/// The lease of permits. It is longer than any scenario, so permits are held until a step releases them.
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
    /// The limiter's name in refusals.
    name: Option<String>,
}

impl Subject {
    pub(super) fn build(spec: &Limiter, store: &Store) -> Result<Self, Unbuilt> {
        if spec.common.queue.is_some() {
            return Err(Unbuilt::NotHeld("queue"));
        }
        if spec.common.max_keys.is_some() {
            return Err(Unbuilt::NotHeld("max_keys"));
        }
        let store = store.clone();
        if !matches!(spec.kind, Kind::All { .. }) {
            let member = Member::build(spec, &store, 0, None)?;
            return Ok(Self {
                store,
                members: vec![member],
                all: None,
                keyed: spec.common.keyed,
                books: matches!(spec.kind, Kind::TokenBucket(_) | Kind::Bandwidths(_)),
            });
        }
        let member = |(index, member)| {
            let built = Member::build(member, &store, index, spec.common.name.as_deref());
            built.map_err(|unbuilt| match unbuilt {
                Unbuilt::Invalid(invalid) => {
                    let invalid = invalid.under(Step::Index(index));
                    invalid.under(Step::Key("of")).into()
                }
                not_held => not_held,
            })
        };
        let built = members(spec).enumerate().map(member);
        let members = built.collect::<Result<Vec<_>, _>>()?;
        let limiters = members.iter().map(|member| member.limiter.clone());
        let all = store.all(limiters).map_err(InvalidSpec::from)?;
        Ok(Self {
            store,
            members,
            all: Some(all),
            keyed: spec.common.keyed,
            books: false,
        })
    }

    /// Writes the initial state of the limiter. A limiter without keys counts from the moment at which it is built.
    pub(super) async fn begin(&self, key: &str) -> Result<(), StoreError> {
        for member in &self.members {
            member.limiter.begin(key).await?;
        }
        Ok(())
    }

    pub(super) async fn decide(
        &self,
        key: &str,
        cost: u64,
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
        cost: u64,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let estimate = match &self.all {
            Some(all) => all.estimate(key, cost).await?,
            None => self.members[0].limiter.estimate(key, cost).await?,
        };
        Ok(estimate.map(drop).map_err(|denied| self.refusal(&denied)))
    }

    /// Whether the limiter supports reservations.
    pub(super) fn books(&self) -> bool {
        self.books
    }

    pub(super) async fn reserve(
        &self,
        key: &str,
        cost: u64,
        longest: Option<Duration>,
    ) -> Result<Result<Duration, Refusal>, StoreError> {
        let answer = self.members[0].limiter.reserve(key, cost, longest).await?;
        Ok(answer.map_err(|denied| self.refusal(&denied)))
    }

    pub(super) async fn take_up_to(&self, key: &str, most: u64) -> Result<RedisPermit, StoreError> {
        self.members[0].limiter.take_up_to(key, most).await
    }

    pub(super) async fn add(&self, key: &str, amount: u64) -> Result<(), StoreError> {
        self.members[0].limiter.add(key, amount).await
    }

    pub(super) async fn forget(&self, key: &str) -> Result<(), StoreError> {
        for member in &self.members {
            member.limiter.forget(key).await?;
        }
        Ok(())
    }

    /// Resets the limiter at this instant. Leases stay held.
    pub(super) async fn reset(&mut self, key: &str) -> Result<(), StoreError> {
        let member = &mut self.members[0];
        if member.limiter.holds_leases() {
            return Ok(());
        }
        member.limiter.forget(key).await?;
        // The same values were valid before.
        if let Ok(limiter) = self
            .store
            .limiter(member.limiter.name(), member.rule.clone())
        {
            member.limiter = limiter;
        }
        self.begin(key).await
    }

    /// The state of the limiter. Of several limiters, that of the one with the least left.
    pub(super) async fn look(&self, key: &str) -> Result<(Seen, u64), StoreError> {
        let mut least: Option<(Seen, u64)> = None;
        for member in &self.members {
            let seen = member.limiter.look(key).await?;
            if least.is_none_or(|(least, _)| seen.available < least.available) {
                least = Some((seen, member.limiter.limit()));
            }
        }
        let nothing = Seen::default();
        Ok(least.unwrap_or((nothing, 0)))
    }

    /// A refusal, with the name of the limiter in the file.
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
        spec: &Limiter,
        store: &Store,
        index: usize,
        outer: Option<&str>,
    ) -> Result<Self, Unbuilt> {
        if spec.common.queue.is_some() {
            return Err(Unbuilt::NotHeld("queue"));
        }
        let rule = rule(&spec.kind)?;
        // Two limiters of a scenario may have the same name.
        let limiter = store.limiter(&format!("limiter {index}"), rule.clone());
        Ok(Self {
            rule,
            limiter: limiter.map_err(|_| Unbuilt::NotHeld("so many segments"))?,
            name: spec
                .common
                .name
                .clone()
                .or_else(|| outer.map(str::to_owned)),
        })
    }
}

fn rule(kind: &Kind) -> Result<RedisRule, Unbuilt> {
    match RedisRule::described(kind) {
        Some(rule) => Ok(rule?.lease(LEASE)),
        None if matches!(kind, Kind::All { .. }) => Err(Unbuilt::NotHeld("all of all")),
        None => Err(Unbuilt::NotHeld(kind.word())),
    }
}

impl From<InvalidSpec> for Unbuilt {
    fn from(invalid: InvalidSpec) -> Self {
        Self::Invalid(invalid)
    }
}
