//! The state of one key: its borrowed permits and its last refusal. Without a clock and without locks.

use std::time::Duration;

use plimsoll::{Denied, Moment, Reason, Standing};
use tokio::sync::watch;

use super::Settings;
use super::pace::Pace;
use super::portion::{Portion, Tag};
use crate::charge::Borrowed;

/// The state of a batch that is being fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fetched {
    NotYet,
    Here,
    Failed(crate::StoreErrorKind),
}

/// A remembered refusal of the store.
#[derive(Clone, Copy, Debug)]
struct Refused {
    /// Demands of this cost or more are refused too.
    cost: u64,
    reason: Reason,
    remaining: u64,
    until: Moment,
    reset: Option<Moment>,
}

#[derive(Debug)]
pub(super) struct Stock {
    /// The oldest first; at most two.
    portions: Vec<Portion>,
    pub(super) pace: Pace,
    refused: Option<Refused>,
    /// The last standing of the key in the store, and its time.
    seen: Option<(Standing, Moment)>,
    /// The batch that is being fetched.
    pub(super) fetch: Option<watch::Receiver<Fetched>>,
    /// The total cost of the callers that wait for this batch, and of those that waited for the one before.
    pub(super) queued: u64,
    pub(super) unmet: u64,
}

impl Stock {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            portions: Vec::new(),
            pace: Pace::new(now),
            refused: None,
            seen: None,
            fetch: None,
            queued: 0,
            unmet: 0,
        }
    }

    /// The amount that can be used now.
    pub(super) fn held(&self, now: Moment) -> u64 {
        let good = self
            .portions
            .iter()
            .filter(|portion| now < portion.tag.use_by);
        good.fold(0, |sum, portion| sum.saturating_add(portion.left))
    }

    /// Takes `cost` from the stock.
    pub(super) fn spend(&mut self, now: Moment, cost: u64) -> Option<Tag> {
        if self.held(now) < cost.max(1) {
            return None;
        }
        self.pace.used(cost);
        let mut left = cost;
        let mut tag = None;
        // A permit from one portion can be returned exactly.
        let whole = |portion: &&mut Portion| {
            portion.tag.exact && now < portion.tag.use_by && portion.left >= cost
        };
        if let Some(portion) = self.portions.iter_mut().find(whole) {
            portion.left -= cost;
            left = 0;
            tag = Some(portion.tag);
        }
        for portion in self
            .portions
            .iter_mut()
            .filter(|portion| now < portion.tag.use_by)
        {
            // A mixed permit gets the tag of the oldest portion, so that a later return is never too large.
            tag = tag.or(Some(portion.tag));
            let part = left.min(portion.left);
            portion.left -= part;
            left -= part;
        }
        self.portions.retain(|portion| portion.left > 0);
        tag
    }

    /// The maximum to fetch for a caller that needs `least`. After `least` is used, the stock never exceeds what may be held.
    pub(super) fn batch(&mut self, now: Moment, least: u64, settings: &Settings) -> u64 {
        let unmet = std::mem::take(&mut self.unmet);
        let batch = self.pace.next(now, settings.target, settings.most);
        let batch = batch.max(unmet.min(settings.most));
        let room = settings.most.saturating_sub(self.held(now));
        batch.min(least.saturating_add(room)).max(least)
    }

    /// Whether the next batch is fetched before this one is used up: if demand is steady.
    pub(super) fn is_low(&self, now: Moment, most: u64) -> bool {
        let (batch, held) = (self.pace.batch(), self.held(now));
        batch >= 4 && held <= batch / 2 && held < most && !self.is_refused(now)
    }

    /// Marks the fetch as ended.
    pub(super) fn ended(&mut self) {
        self.fetch = None;
        self.unmet = std::mem::take(&mut self.queued);
    }

    /// Stores a batch of which `used` is used at once. Returns what exceeds the maximum.
    pub(super) fn stock_up(
        &mut self,
        asked: Moment,
        now: Moment,
        batch: &Borrowed,
        used: u64,
        settings: &Settings,
    ) -> (Tag, Option<Portion>) {
        let reset = batch.standing.reset.map(|reset| asked.plus(reset));
        let counts_until = reset.filter(|_| settings.kind.windowed);
        let kept = asked.plus(settings.keep);
        let tag = Tag {
            taken: batch.taken,
            use_by: counts_until.map_or(kept, |reset| reset.min(kept)),
            counts_until,
            exact: settings.kind.exact,
        };
        self.seen = Some((batch.standing, asked));
        self.refused = None;
        self.pace.used(used);
        let left = batch.amount.saturating_sub(used);
        (tag, self.put(now, Portion { left, tag }, settings.most))
    }

    /// Adds a portion to the stock. Returns what exceeds the maximum.
    pub(super) fn put(&mut self, now: Moment, mut portion: Portion, most: u64) -> Option<Portion> {
        let room = most.saturating_sub(self.held(now));
        let kept = if now < portion.tag.use_by {
            portion.left.min(room)
        } else {
            0
        };
        let over = portion.left - kept;
        portion.left = kept;
        if kept > 0 {
            match self
                .portions
                .iter_mut()
                .find(|other| other.tag == portion.tag)
            {
                Some(other) => other.left = other.left.saturating_add(kept),
                None => {
                    let earlier = |other: &Portion| other.tag.taken <= portion.tag.taken;
                    let place = self.portions.partition_point(earlier);
                    self.portions.insert(place, portion);
                }
            }
            self.merge();
        }
        (over > 0).then_some(Portion {
            left: over,
            ..portion
        })
    }

    /// Merges the two oldest portions if there are more than two and returns need not be exact.
    fn merge(&mut self) {
        let many = self.portions.len() > 2;
        if let [first, second, ..] = &mut self.portions[..]
            && many
            && !first.tag.exact
        {
            first.left = first.left.saturating_add(second.left);
            first.tag.use_by = first.tag.use_by.min(second.tag.use_by);
            self.portions.remove(1);
        }
    }

    /// Removes expired portions; with `all`, every portion. Returns those whose return still has an effect.
    pub(super) fn clear(&mut self, now: Moment, all: bool) -> Vec<Portion> {
        let old = |portion: &mut Portion| all || portion.tag.use_by <= now;
        let old: Vec<_> = self.portions.extract_if(.., old).collect();
        let counts = |portion: &Portion| portion.tag.counts_until.is_none_or(|until| now < until);
        old.into_iter().filter(counts).collect()
    }

    pub(super) fn remember(&mut self, asked: Moment, cost: u64, denied: &Denied) {
        let passing = matches!(denied.reason(), Reason::Exhausted | Reason::TooSoon);
        let Some(after) = denied.retry_after().filter(|_| passing) else {
            return;
        };
        // A refusal of a smaller cost covers larger ones.
        let less = |known: &Refused| known.cost < cost && asked < known.until;
        if self.refused.as_ref().is_some_and(less) {
            return;
        }
        self.refused = Some(Refused {
            cost: cost.max(1),
            reason: denied.reason(),
            remaining: denied.remaining(),
            until: asked.plus(after),
            reset: denied.reset().map(|reset| asked.plus(reset)),
        });
    }

    pub(super) fn forget_refusal(&mut self) {
        self.refused = None;
    }

    /// The refusal that still holds for a cost.
    pub(super) fn refusal(&self, now: Moment, cost: u64, limit: u64, name: &str) -> Option<Denied> {
        let refused = self.refused.as_ref()?;
        if cost.max(1) < refused.cost || refused.until <= now {
            return None;
        }
        let denied = Denied::new(refused.reason)
            .with_limit(limit, refused.remaining)
            .with_ready_at(now, Some(refused.until))
            .with_reset_at(now, refused.reset);
        Some(denied.with_limiter(name))
    }

    /// Whether a refusal of any cost still holds.
    pub(super) fn is_refused(&self, now: Moment) -> bool {
        self.refused.is_some_and(|refused| now < refused.until)
    }

    /// The standing of the key: the stock and the last known rest in the store.
    pub(super) fn standing(&self, now: Moment) -> Option<Standing> {
        let (seen, at) = self.seen?;
        let passed = now.since(at);
        let remaining = seen.remaining.unwrap_or(0).saturating_add(self.held(now));
        let left = |span: Option<Duration>| span.map(|span| span.saturating_sub(passed));
        Some(
            Standing::new(seen.limit, remaining.min(seen.limit))
                .more_after(left(seen.more_after))
                .reset(left(seen.reset)),
        )
    }

    /// Whether the key can be evicted without losing anything.
    pub(super) fn is_idle(&self, now: Moment, keep: Duration) -> bool {
        let paced = now < self.pace.since().plus(keep);
        self.portions.is_empty() && self.fetch.is_none() && !self.is_refused(now) && !paced
    }
}

#[cfg(test)]
mod tests;
