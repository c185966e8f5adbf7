use std::sync::Arc;

use plimsoll::{Denied, InvalidLimit, Moment, Standing};

use crate::answer::{Answer, Verdict};
use crate::lease::Lease;
use crate::limiter::fence;
use crate::script::Script;
use crate::{Decision, RedisLimiter, RedisPermit, Store, StoreError};

/// Several limiters that must all grant, in one decision: all or none. Made by [`Store::all`].
///
/// They are asked in order, in one script. A refusal names the first that refuses, charges none of the others, and says
/// when all would grant.
///
/// All are asked about the *same key*: the keys of one subject lie together, also in a cluster, and there is no
/// decision at once on keys that do not. Limits on different subjects, such as a customer and everybody, are decided
/// one after the other.
#[derive(Clone, Debug)]
pub struct RedisAll {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    members: Vec<RedisLimiter>,
    script: Script,
}

impl Store {
    /// Several limiters that must all grant: see [`RedisAll`].
    ///
    /// # Errors
    ///
    /// If there are none, one is there twice, or one belongs to another store.
    pub fn all(
        &self,
        limiters: impl IntoIterator<Item = RedisLimiter>,
    ) -> Result<RedisAll, InvalidLimit> {
        RedisAll::new(self.clone(), limiters.into_iter().collect())
    }
}

impl RedisAll {
    fn new(store: Store, members: Vec<RedisLimiter>) -> Result<Self, InvalidLimit> {
        if members.is_empty() {
            return Err(InvalidLimit::new("of", "empty", "at least 1 limiter"));
        }
        for (index, member) in members.iter().enumerate() {
            if !member.store().is(&store) {
                let rule = "a limiter of the same store";
                return Err(InvalidLimit::new("of", member.name(), rule));
            }
            let same = |other: &RedisLimiter| other.key(b"") == member.key(b"");
            if members.iter().take(index).any(same) {
                return Err(InvalidLimit::new("of", member.name(), "each limiter once"));
            }
        }
        let inner = Inner {
            script: Script::deciding(members.iter().map(RedisLimiter::kind)),
            store,
            members,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Takes `cost` for `key` from all, or from none. See [`RedisLimiter::decide`].
    ///
    /// # Errors
    ///
    /// If the store cannot decide.
    pub async fn decide(&self, key: impl AsRef<[u8]>, cost: u32) -> Result<Decision, StoreError> {
        let key = key.as_ref();
        let asked = |member: &RedisLimiter| member.ask_lease(&member.key(key), cost);
        let (ids, leases): (_, Vec<_>) = self.members().iter().map(asked).unzip();
        let leases = leases.into_iter().flatten();
        Ok(match self.ask("take", key, cost, ids).await? {
            Ok((standing, taken)) => {
                let granted = |lease: Lease| lease.granted(fence(taken));
                let leases = leases.map(granted).collect();
                Decision::Granted(RedisPermit::new(cost, standing, leases))
            }
            Err(denied) => {
                leases.for_each(Lease::abandon);
                Decision::Denied(denied)
            }
        })
    }

    /// What [`decide`](Self::decide) would answer. Takes nothing.
    ///
    /// # Errors
    ///
    /// If the store cannot tell.
    pub async fn estimate(
        &self,
        key: impl AsRef<[u8]>,
        cost: u32,
    ) -> Result<Result<Standing, Denied>, StoreError> {
        let ids = vec![String::new(); self.members().len()];
        let answer = self.ask("peek", key.as_ref(), cost, ids).await?;
        Ok(answer.map(|(standing, _)| standing))
    }

    /// The limiters, in the order in which they are asked.
    #[must_use]
    pub fn members(&self) -> &[RedisLimiter] {
        &self.inner.members
    }

    async fn ask(
        &self,
        what: &str,
        subject: &[u8],
        cost: u32,
        ids: Vec<String>,
    ) -> Result<Result<(Standing, Moment), Denied>, StoreError> {
        let inner = &*self.inner;
        let keys: Vec<_> = inner.members.iter().map(|each| each.key(subject)).collect();
        let mut arguments = vec![what.to_owned(), inner.store.now(), cost.to_string()];
        for (member, id) in inner.members.iter().zip(ids) {
            arguments.extend(member.words(id));
        }
        let answer = inner.store.run(&inner.script, &keys, &arguments).await?;
        let mut answer = Answer::new(answer)?;
        let limits: Vec<_> = inner.members.iter().map(RedisLimiter::limit).collect();
        Ok(match answer.verdict(&limits)? {
            Verdict::Granted(standings) => {
                let least = standings
                    .into_iter()
                    .min_by_key(|standing| standing.remaining);
                Ok((least.unwrap_or_default(), answer.moment()?))
            }
            Verdict::Refused(refused) => {
                let member = &inner.members[refused.index];
                Err(refused.denied(member.limit(), member.name()))
            }
        })
    }
}
