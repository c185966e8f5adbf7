//! What is known of one key: what was borrowed for it, and what it was refused. Without a clock and without locks.

use std::time::Duration;

use plimsoll::{Denied, Moment, Reason, Standing};
use tokio::sync::watch;

use super::Settings;
use super::pace::Pace;
use crate::after::Batch;

/// Where something borrowed came from, so that it can go back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag {
    /// When it was taken, by the clock of the store.
    pub(super) taken: Moment,
    /// From when on it is not used any more, by the clock of this process.
    pub(super) use_by: Moment,
    /// From when on giving it back is of no use, by the same.
    pub(super) counts_until: Option<Moment>,
}

/// Some of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lot {
    pub(super) left: u32,
    pub(super) tag: Tag,
}

/// What has become of a batch that was on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Landed {
    NotYet,
    Here,
    Failed(crate::StoreErrorKind),
}

/// A refusal of the store, as it is remembered.
#[derive(Clone, Copy, Debug)]
struct Refused {
    /// Whatever costs as much or more is refused too.
    cost: u32,
    reason: Reason,
    remaining: u32,
    until: Moment,
    reset: Option<Moment>,
}

#[derive(Debug)]
pub(super) struct Stock {
    /// The oldest first; at most two.
    lots: Vec<Lot>,
    pub(super) pace: Pace,
    refused: Option<Refused>,
    /// What the store said of the key, and when.
    seen: Option<(Standing, Moment)>,
    /// The batch that is on its way.
    pub(super) flight: Option<watch::Receiver<Landed>>,
    /// What those cost who wait for it, and those who waited for the one before.
    pub(super) queued: u32,
    pub(super) hungry: u32,
}

impl Stock {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            lots: Vec::new(),
            pace: Pace::new(now),
            refused: None,
            seen: None,
            flight: None,
            queued: 0,
            hungry: 0,
        }
    }

    /// What can be used now.
    pub(super) fn held(&self, now: Moment) -> u32 {
        let good = self.lots.iter().filter(|lot| now < lot.tag.use_by);
        good.fold(0, |sum, lot| sum.saturating_add(lot.left))
    }

    /// Uses some of it.
    pub(super) fn spend(&mut self, now: Moment, cost: u32) -> Option<Tag> {
        if self.held(now) < cost.max(1) {
            return None;
        }
        self.pace.used(cost);
        let mut left = cost;
        let mut tag = None;
        for lot in self.lots.iter_mut().filter(|lot| now < lot.tag.use_by) {
            // All of it is said to be of the oldest: what is given back later is then never too much.
            tag = tag.or(Some(lot.tag));
            let part = left.min(lot.left);
            lot.left -= part;
            left -= part;
        }
        self.lots.retain(|lot| lot.left > 0);
        tag
    }

    /// Keeps a batch of which `used` is used at once; what is more than may be held is to go back.
    pub(super) fn stock_up(
        &mut self,
        asked: Moment,
        now: Moment,
        batch: &Batch,
        used: u32,
        settings: &Settings,
    ) -> (Tag, Option<Lot>) {
        let reset = batch.standing.reset().map(|reset| asked.plus(reset));
        let counts_until = reset.filter(|_| settings.kind.windowed);
        let kept = asked.plus(settings.keep);
        let tag = Tag {
            taken: batch.taken,
            use_by: counts_until.map_or(kept, |reset| reset.min(kept)),
            counts_until,
        };
        self.seen = Some((batch.standing, asked));
        self.refused = None;
        self.pace.used(used);
        let left = batch.amount.saturating_sub(used);
        (tag, self.put(now, Lot { left, tag }, settings.most))
    }

    /// Puts something into the stock; what is more than may be held is to go back.
    pub(super) fn put(&mut self, now: Moment, mut lot: Lot, most: u32) -> Option<Lot> {
        let room = most.saturating_sub(self.held(now));
        let kept = if now < lot.tag.use_by {
            lot.left.min(room)
        } else {
            0
        };
        let over = lot.left - kept;
        lot.left = kept;
        if kept > 0 {
            let place = self
                .lots
                .partition_point(|other| other.tag.taken <= lot.tag.taken);
            self.lots.insert(place, lot);
            self.merge();
        }
        (over > 0).then_some(Lot { left: over, ..lot })
    }

    /// Makes one of the two oldest lots if they are alike, or there are more than two.
    fn merge(&mut self) {
        let many = self.lots.len() > 2;
        if let [first, second, ..] = &mut self.lots[..]
            && (many || first.tag == second.tag)
        {
            first.left = first.left.saturating_add(second.left);
            first.tag.use_by = first.tag.use_by.min(second.tag.use_by);
            self.lots.remove(1);
        }
    }

    /// Takes out what is not used any more; with `all`, everything. Only what is worth giving back is handed out.
    pub(super) fn clear(&mut self, now: Moment, all: bool) -> Vec<Lot> {
        let old = |lot: &mut Lot| all || lot.tag.use_by <= now;
        let old: Vec<_> = self.lots.extract_if(.., old).collect();
        let counts = |lot: &Lot| lot.tag.counts_until.is_none_or(|until| now < until);
        old.into_iter().filter(counts).collect()
    }

    pub(super) fn remember(&mut self, asked: Moment, cost: u32, denied: &Denied) {
        let passing = matches!(denied.reason(), Reason::Exhausted | Reason::TooSoon);
        let Some(after) = denied.retry_after().filter(|_| passing) else {
            return;
        };
        // A refusal of less refuses more.
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

    /// The refusal that still holds, for a cost.
    pub(super) fn refusal(&self, now: Moment, cost: u32, limit: u32, name: &str) -> Option<Denied> {
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

    /// What is left, here and there, as far as it is known.
    pub(super) fn standing(&self, now: Moment) -> Option<Standing> {
        let (seen, at) = self.seen?;
        let passed = now.since(at);
        let remaining = seen.remaining().saturating_add(u64::from(self.held(now)));
        let left = |span: Option<Duration>| span.map(|span| span.saturating_sub(passed));
        Some(
            Standing::new(seen.limit(), remaining.min(seen.limit()))
                .with_more_after(left(seen.more_after()))
                .with_reset(left(seen.reset())),
        )
    }

    /// Whether nothing would be lost by forgetting it.
    pub(super) fn is_idle(&self, now: Moment, keep: Duration) -> bool {
        let refuses = self.refused.is_some_and(|refused| now < refused.until);
        let paced = now < self.pace.since().plus(keep);
        self.lots.is_empty() && self.flight.is_none() && !refuses && !paced
    }
}
