//! Limits as an operator sees them.

#[cfg(feature = "redis")]
use std::future::Future;
#[cfg(feature = "redis")]
use std::pin::Pin;
#[cfg(feature = "redis")]
use std::task::Poll;

use plimsoll::adaptive::Insight;
use plimsoll::{Reason, Snapshot};
use plimsoll_config::uses::Mode;
use plimsoll_kinds::LimiterKind;

use crate::limit::Limit;
use crate::limits::Limits;
use crate::top::TopKey;

/// A limit as it stands, of all keys together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LimitView {
    /// Its name.
    pub name: String,
    /// Whether it is a rate, a limit on what is under way, or says yes or no.
    pub kind: Option<LimiterKind>,
    /// Whether it is enforced.
    pub mode: Mode,
    /// Whether each key has a limit of its own. The snapshot then sums up what all of them use.
    pub is_keyed: bool,
    /// How many keys are known, without those of its tiers; `None` if it has no keys or a store has them.
    pub keys: Option<usize>,
    /// Its limiter: what is in use, who waits, what was granted and refused.
    pub snapshot: Snapshot,
    /// The limiters of its tiers and of keys with limits of their own, by the tier or the key.
    pub tiers: Vec<(String, Snapshot)>,
    /// What it has learned, if it is adaptive and has no key.
    pub insight: Option<Insight>,
    /// Decisions that it refused, by reason.
    pub refused: Vec<(Reason, u64)>,
    /// Decisions that it would have refused in shadow mode.
    pub would_refuse: u64,
    /// What is in flight beyond the limit of a limit in shadow mode.
    pub beyond: u64,
}

/// The keys of a limit that come most often.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TopView {
    /// By what was taken for them: estimated from a sample.
    pub used: Vec<TopKey>,
    /// By how often they were refused, or would have been.
    pub refused: Vec<TopKey>,
}

impl Limits {
    /// Every limit as it stands, in the order of the file.
    #[must_use]
    pub fn snapshot(&self) -> Vec<LimitView> {
        self.plan().limits.iter().map(view).collect()
    }

    /// [`snapshot`](Self::snapshot), with what stores know of limits without keys: what is in use there, by all processes. Limits
    /// are asked at the same time, so many that what one store answers slowly costs one wait, not one for each. When a store does
    /// not answer, no more are asked; of their limits, and of those with keys, it says what this process knows.
    #[cfg(feature = "redis")]
    pub async fn snapshot_asking_stores(&self) -> Vec<LimitView> {
        let mut views = self.snapshot();
        let set = self.limiters().current();
        let unkeyed = views.iter_mut().filter(|view| !view.is_keyed);
        let mut asked = unkeyed.filter_map(|view| {
            let key = set.fleet_key(&view.name, "")?;
            Some(async move {
                let standing = key.ask_standing().await.ok()?;
                let here = view.snapshot;
                let left = standing.remaining.unwrap_or(standing.limit);
                view.snapshot = Snapshot::of(standing.limit, left)
                    .with_totals(here.granted_total(), here.denied_total())
                    .with_waiters(here.waiters(), here.queue_bound());
                Some(())
            })
        });
        loop {
            let mut some: Vec<_> = asked.by_ref().take(AT_ONCE).map(Box::pin).collect();
            // A store that does not answer is waited for once.
            if some.is_empty() || !all_answer(&mut some).await {
                break;
            }
        }
        drop(asked);
        views
    }

    /// What happened to each store of the file so far, by its name: decisions, round trips, how long they took, failures by cause,
    /// leases lost, and whether its circuit is closed.
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn stores(&self) -> Vec<(String, plimsoll_redis::StoreStats)> {
        self.limiters().current().stores()
    }

    /// The keys of a limit that come most often, at most `most` of each. They are [masked](crate::mask) unless `raw`.
    ///
    /// ```
    /// use plimsoll_engine::{Ask, Limits};
    ///
    /// let limits = Limits::from_yaml("limits: { user: { kind: fixed_window, limit: 1, window: 1h, key: header:x-user } }")?;
    /// for _ in 0..3 {
    ///     let _ = limits.try_decide(&[Ask::new("user").key("anna@example.com")]);
    /// }
    /// let top = limits.top("user", 10, false).unwrap();
    /// assert_eq!((top.refused[0].key.as_str(), top.refused[0].count), ("anna… (16)", 2));
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    #[must_use]
    pub fn top(&self, limit: &str, most: usize, raw: bool) -> Option<TopView> {
        let plan = self.plan();
        let limit = &plan.limits[plan.limit(limit)?];
        let top = limit.seen.lock();
        Some(TopView {
            used: top.used.most(most, !raw),
            refused: top.refused.most(most, !raw),
        })
    }
}

/// How many limits stores are asked for at the same time. Their client sends them together.
#[cfg(feature = "redis")]
const AT_ONCE: usize = 64;

/// Waits for all, and says whether each had an answer.
#[cfg(feature = "redis")]
async fn all_answer(asked: &mut Vec<Pin<Box<impl Future<Output = Option<()>>>>>) -> bool {
    let mut all = true;
    std::future::poll_fn(|cx| {
        asked.retain_mut(|it| match it.as_mut().poll(cx) {
            Poll::Ready(answer) => {
                all &= answer.is_some();
                false
            }
            Poll::Pending => true,
        });
        match asked.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    all
}

fn view(limit: &Limit) -> LimitView {
    let own = limit.terms(0).snapshot();
    let tiers = limit.others().iter();
    let tiers = tiers.filter_map(|tier| Some((tier.name.clone(), tier.handle.snapshot()?)));
    LimitView {
        name: limit.name.to_string(),
        kind: limit.terms(0).kind(),
        mode: match limit.shadow {
            true => Mode::Shadow,
            false => Mode::Enforce,
        },
        is_keyed: limit.terms(0).is_keyed(),
        keys: limit.terms(0).key_count(),
        snapshot: own.unwrap_or_else(|| Snapshot::of(0, 0)),
        tiers: tiers.collect(),
        insight: limit.terms(0).insight(),
        refused: limit.seen.refusals().collect(),
        would_refuse: limit.seen.would_have_refused(),
        beyond: limit.seen.in_flight_beyond(),
    }
}
