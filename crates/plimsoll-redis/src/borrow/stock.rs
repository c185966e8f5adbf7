//! What is known of one key: what was borrowed for it, and what it was refused. Without a clock and without locks.

use std::time::Duration;

use plimsoll::{Denied, Moment, Reason, Standing};
use tokio::sync::watch;

use super::Settings;
use super::pace::Pace;
use super::portion::{Portion, Tag};
use crate::charge::Borrowed;

/// What has become of a batch that was on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fetched {
    NotYet,
    Here,
    Failed(crate::StoreErrorKind),
}

/// A refusal of the store, as it is remembered.
#[derive(Clone, Copy, Debug)]
struct Refused {
    /// Whatever costs as much or more is refused too.
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
    /// What the store said of the key, and when.
    seen: Option<(Standing, Moment)>,
    /// The batch that is on its way.
    pub(super) fetch: Option<watch::Receiver<Fetched>>,
    /// What those cost who wait for it, and those who waited for the one before.
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

    /// What can be used now.
    pub(super) fn held(&self, now: Moment) -> u64 {
        let good = self
            .portions
            .iter()
            .filter(|portion| now < portion.tag.use_by);
        good.fold(0, |sum, portion| sum.saturating_add(portion.left))
    }

    /// Uses some of it.
    pub(super) fn spend(&mut self, now: Moment, cost: u64) -> Option<Tag> {
        if self.held(now) < cost.max(1) {
            return None;
        }
        self.pace.used(cost);
        let mut left = cost;
        let mut tag = None;
        // What is of one moment can go back whole.
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
            // All of it is said to be of the oldest: what is returned later is then never too much.
            tag = tag.or(Some(portion.tag));
            let part = left.min(portion.left);
            portion.left -= part;
            left -= part;
        }
        self.portions.retain(|portion| portion.left > 0);
        tag
    }

    /// Keeps a batch of which `used` is used at once; what is more than may be held is to go back.
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

    /// Puts something into the stock; what is more than may be held is to go back.
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

    /// Makes one of the two oldest portions if there are more than two, and they need not go back to their own moments.
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

    /// Takes out what is not used any more; with `all`, everything. Only what is worth giving back is handed out.
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

    /// Whether a refusal still holds, of whatever cost.
    pub(super) fn is_refused(&self, now: Moment) -> bool {
        self.refused.is_some_and(|refused| now < refused.until)
    }

    /// What is left, here and there, as far as it is known.
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

    /// Whether nothing would be lost by forgetting it.
    pub(super) fn is_idle(&self, now: Moment, keep: Duration) -> bool {
        let paced = now < self.pace.since().plus(keep);
        self.portions.is_empty() && self.fetch.is_none() && !self.is_refused(now) && !paced
    }
}

#[cfg(test)]
mod tests {
    use super::super::Lent;
    use super::*;

    const SETTINGS: Settings = Settings {
        most: 10,
        target: Duration::from_millis(50),
        keep: Duration::from_millis(100),
        max_keys: 1,
        kind: Lent {
            windowed: true,
            refuses_quietly: true,
            exact: false,
        },
    };

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    /// A batch taken at a moment, of a limit that is full again after so long.
    fn batch(amount: u64, millis: u64, reset: u64) -> Borrowed {
        let reset = Some(Duration::from_millis(reset));
        Borrowed {
            amount,
            taken: at(millis + 1000),
            standing: Standing::new(100, 50).reset(reset),
        }
    }

    fn stocked(amount: u64, reset: u64) -> Stock {
        let mut stock = Stock::new(at(0));
        let (_, over) = stock.stock_up(at(0), at(0), &batch(amount, 0, reset), 0, &SETTINGS);
        assert_eq!(over, None);
        stock
    }

    #[test]
    fn the_oldest_is_used_first_and_what_spans_two_is_the_oldest() {
        let mut stock = stocked(3, 1000);
        stock.stock_up(at(10), at(10), &batch(4, 10, 1000), 1, &SETTINGS);
        assert_eq!(stock.held(at(10)), 6);
        let taken = |tag: Option<Tag>| tag.map(|tag| tag.taken);
        assert_eq!(taken(stock.spend(at(10), 2)), Some(at(1000)));
        assert_eq!(taken(stock.spend(at(10), 2)), Some(at(1000)));
        assert_eq!(taken(stock.spend(at(10), 2)), Some(at(1010)));
        assert_eq!(taken(stock.spend(at(10), 1)), None);
        assert_eq!(taken(stock.spend(at(10), 0)), None);
    }

    #[test]
    fn nothing_is_used_after_its_time_and_only_what_counts_goes_back() {
        let mut kept = stocked(3, 1000);
        assert!(kept.spend(at(99), 1).is_some());
        assert!(kept.spend(at(100), 1).is_none());
        assert_eq!(kept.clear(at(99), false), []);
        let back = kept.clear(at(100), false);
        assert_eq!(
            back.iter().map(|portion| portion.left).collect::<Vec<_>>(),
            [2]
        );

        let mut over = stocked(3, 20);
        assert!(over.spend(at(20), 1).is_none());
        assert_eq!(over.clear(at(20), false), []);
        assert!(over.is_idle(at(100), SETTINGS.keep));
        assert_eq!(stocked(3, 20).clear(at(0), true).len(), 1);
    }

    #[test]
    fn never_more_is_held_than_may_be() {
        let mut stock = stocked(8, 1000);
        let (tag, over) = stock.stock_up(at(1), at(1), &batch(8, 1, 1000), 2, &SETTINGS);
        assert_eq!(
            (stock.held(at(1)), over.map(|portion| portion.left)),
            (10, Some(4))
        );
        let over = stock.put(at(1), Portion { left: 2, tag }, 10);
        assert_eq!(over.map(|portion| portion.left), Some(2));
        // What is too old is not kept at all.
        stock.clear(at(1), true);
        let over = stock.put(at(101), Portion { left: 2, tag }, 10);
        assert_eq!(
            (stock.held(at(101)), over.map(|portion| portion.left)),
            (0, Some(2))
        );
    }

    #[test]
    fn many_lots_become_two_and_keep_the_earlier_times() {
        let mut stock = Stock::new(at(0));
        for millis in [0, 10, 20, 30] {
            let batch = batch(2, millis, 1000);
            stock.stock_up(at(millis), at(millis), &batch, 0, &SETTINGS);
        }
        assert_eq!((stock.portions.len(), stock.held(at(30))), (2, 8));
        assert_eq!(stock.portions[0].tag.taken, at(1000));
        assert_eq!(stock.portions[0].tag.use_by, at(100));
        assert_eq!(stock.held(at(100)), 2);
    }

    /// What a log recorded at one moment cannot go back to another.
    #[test]
    fn lots_of_a_log_stay_apart() {
        let kind = Lent {
            exact: true,
            ..SETTINGS.kind
        };
        let settings = Settings { kind, ..SETTINGS };
        let mut stock = Stock::new(at(0));
        for millis in [0, 10, 20, 30] {
            let batch = batch(2, millis, 1000);
            stock.stock_up(at(millis), at(millis), &batch, 0, &settings);
        }
        let one = stock.spend(at(30), 1).expect("some");
        let two = stock.spend(at(30), 2).expect("some");
        assert_eq!((one.taken, two.taken), (at(1000), at(1010)));
        let portion = |tag| Portion { left: 1, tag };
        assert_eq!(stock.put(at(30), portion(one), 10), None);
        let back = stock.clear(at(30), true);
        let left: Vec<_> = back
            .iter()
            .map(|portion| (portion.tag.taken, portion.left))
            .collect();
        assert_eq!(left, [(at(1000), 2), (at(1020), 2), (at(1030), 2)]);
    }

    #[test]
    fn a_refusal_holds_for_as_much_until_its_time() {
        let denied = |reason, after| {
            let ready = Some(Moment::ORIGIN.plus(Duration::from_millis(after)));
            Denied::new(reason).with_ready_at(Moment::ORIGIN, ready)
        };
        let mut stock = Stock::new(at(0));
        stock.remember(at(10), 3, &denied(Reason::Exhausted, 50));
        let known = |stock: &Stock, millis, cost| {
            let denied = stock.refusal(at(millis), cost, 100, "x");
            denied.and_then(|denied| denied.retry_after())
        };
        assert_eq!(known(&stock, 20, 3), Some(Duration::from_millis(40)));
        assert_eq!(known(&stock, 20, 4), Some(Duration::from_millis(40)));
        assert_eq!(known(&stock, 20, 2), None);
        assert_eq!(known(&stock, 60, 3), None);
        // One of more does not hide one of less; one of less replaces it.
        stock.remember(at(20), 5, &denied(Reason::Exhausted, 500));
        assert_eq!(known(&stock, 20, 3), Some(Duration::from_millis(40)));
        stock.remember(at(20), 1, &denied(Reason::Exhausted, 5));
        assert_eq!(known(&stock, 20, 1), Some(Duration::from_millis(5)));
        // What never passes is not for now.
        let mut stock = Stock::new(at(0));
        stock.remember(at(0), 101, &denied(Reason::TooLarge, 5));
        assert!(!stock.is_refused(at(0)));
    }
}
