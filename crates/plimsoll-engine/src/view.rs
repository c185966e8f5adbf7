//! Views of limits for operators: snapshots and top keys.

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

/// The state of a limit, summed over all keys. [`Limits::snapshot`] returns one for each limit.
///
/// ```
/// use plimsoll_engine::{Ask, Limits};
///
/// let limits = Limits::from_yaml("limits: { user: { rate: 1/h, burst: 1, key: header:x-user } }")?;
/// for key in ["anna", "anna", "bert"] {
///     let _ = limits.try_decide(&[Ask::new("user").key(key)]);
/// }
/// let view = &limits.snapshot()[0];
/// assert_eq!((view.name.as_str(), view.keys), ("user", Some(2)));
/// assert_eq!(view.refused, [(plimsoll::Reason::Exhausted, 1)]);
/// # Ok::<(), plimsoll_engine::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LimitView {
    /// The name of the limit.
    pub name: String,
    /// The kind of its limiter: a rate, a concurrency limit, or one that admits or refuses everything.
    pub kind: Option<LimiterKind>,
    /// Whether it is enforced or in shadow mode.
    pub mode: Mode,
    /// Whether each key has a state of its own. The snapshot is then the sum over all keys.
    pub is_keyed: bool,
    /// The number of keys in memory, without those of tiers. `None` if it has no keys or they are in a store.
    pub keys: Option<usize>,
    /// The snapshot of its limiter: usage, waiters, grants and refusals.
    pub snapshot: Snapshot,
    /// The snapshots of its tiers and overrides, by the name of the tier or the key of the override.
    pub tiers: Vec<(String, Snapshot)>,
    /// The state of the algorithm, if the limiter is adaptive and has no keys.
    pub insight: Option<Insight>,
    /// The number of decisions that it refused, by reason.
    pub refused: Vec<(Reason, u64)>,
    /// The number of decisions that it would have refused, if it were enforced.
    pub would_refuse: u64,
    /// Work in flight that it would have refused, if it were enforced.
    pub beyond: u64,
}

/// The top keys of a limit. [`Limits::top`] returns them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TopView {
    /// The keys with the largest usage, estimated from a sample.
    pub used: Vec<TopKey>,
    /// The keys with the most refusals, including those in shadow mode.
    pub refused: Vec<TopKey>,
}

impl Limits {
    /// Returns the state of every limit, in the order of the file.
    #[must_use]
    pub fn snapshot(&self) -> Vec<LimitView> {
        self.plan().limits.iter().map(view).collect()
    }

    /// Like [`snapshot`](Self::snapshot), with the usage of limits without keys read from their stores, over all
    /// processes.
    ///
    /// Up to 64 limits are read at the same time. If a store does not answer, no more are read. Those limits, and
    /// limits with keys, show the state of this process.
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
            // A store that does not answer costs one wait, not one for each limit.
            if some.is_empty() || !all_answer(&mut some).await {
                break;
            }
        }
        drop(asked);
        views
    }

    /// Returns the statistics of each store of the file, by its name: decisions, round trips and their duration,
    /// failures by cause, lost leases, and the state of its circuit.
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn stores(&self) -> Vec<(String, plimsoll_redis::StoreStats)> {
        self.limiters().current().stores()
    }

    /// Returns the top keys of a limit, at most `most` in each list. Keys are [masked](crate::mask) unless `show_keys`.
    /// `None` if the file has no such limit.
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
    pub fn top(&self, limit: &str, most: usize, show_keys: bool) -> Option<TopView> {
        let plan = self.plan();
        let limit = &plan.limits[plan.limit(limit)?];
        let top = limit.stats.lock();
        Some(TopView {
            used: top.used.most(most, show_keys),
            refused: top.refused.most(most, show_keys),
        })
    }
}

/// The number of limits that are read from stores at the same time. The client pipelines them.
#[cfg(feature = "redis")]
const AT_ONCE: usize = 64;

/// Waits for all futures, and returns whether each had an answer.
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
        refused: limit.stats.refusals().collect(),
        would_refuse: limit.stats.would_have_refused(),
        beyond: limit.stats.in_flight_beyond(),
    }
}
