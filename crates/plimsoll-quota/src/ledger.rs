//! The ledger of lent rate and burst. All assignments go through it, so that the bound holds for every way of dividing.

use plimsoll::Moment;

use crate::share::Share;
use crate::timing::Timing;

/// The parts of a token in which the ledger counts: a nanotoken per second, for a nanosecond.
const ATTO: u128 = 1_000_000_000_000_000_000;

/// A token bucket whose refill and capacity are lent to members.
///
/// `held_rate` and `held_burst` are sums over members of the largest share that may be in force there; `tokens` are those
/// assigned to no member. While rate and burst do not change, `held_rate <= rate` and `held_burst + tokens <= burst`.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Nanotokens per second.
    pub(crate) rate: u64,
    pub(crate) burst: u64,
    pub(crate) timing: Timing,
    tokens: u128,
    held_rate: u128,
    held_burst: u128,
    at: Moment,
}

/// The assignment of one member.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    assigned: Option<Assigned>,
    /// The share that may still be in force, because the arrival of the assigned one is not confirmed.
    before: Option<Before>,
    version: u32,
}

#[derive(Clone, Copy, Debug)]
struct Assigned {
    share: Share,
    /// The moments at which it was sent first and last.
    pushed: Moment,
    sent: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Before {
    rate: u64,
    burst: u32,
    until: Moment,
}

impl Ledger {
    pub(crate) fn new(rate: u64, burst: u64, timing: Timing, tokens: u64, now: Moment) -> Self {
        Self {
            rate,
            burst,
            timing,
            tokens: u128::from(tokens) * ATTO,
            held_rate: 0,
            held_burst: 0,
            at: now,
        }
    }

    /// Refills by the rate that is assigned to no member.
    pub(crate) fn advance(&mut self, now: Moment) {
        let time = u128::from(now.nanos_since(self.at));
        self.at = self.at.max(now);
        self.tokens += u128::from(self.free_rate()) * time;
        self.fit();
    }

    /// Drops all unassigned tokens.
    pub(crate) const fn forget(&mut self) {
        self.tokens = 0;
    }

    /// Reduces the tokens so that they and those that members may hold never exceed the burst.
    fn fit(&mut self) {
        let room = u128::from(self.burst).saturating_sub(self.held_burst);
        self.tokens = self.tokens.min(room * ATTO);
    }

    pub(crate) fn terms(&mut self, rate: u64, burst: u64) {
        self.rate = rate;
        self.burst = burst;
        self.fit();
    }

    /// Nanotokens per second that no member holds.
    pub(crate) fn free_rate(&self) -> u64 {
        narrow(u128::from(self.rate).saturating_sub(self.held_rate))
    }

    /// Whole tokens that can be assigned.
    pub(crate) fn free_burst(&self) -> u64 {
        narrow(self.tokens / ATTO)
    }

    /// The rate and the burst that may be in force at all members together.
    pub(crate) fn held(&self) -> (u64, u64) {
        (narrow(self.held_rate), narrow(self.held_burst))
    }

    /// Assigns a member a share of at most this instead of its present one, or less if less is free. Returns whether a
    /// share was assigned. While it is uncertain whether the present share has expired at the member, nothing is
    /// assigned.
    pub(crate) fn give(
        &mut self,
        holding: &mut Holding,
        rate: u64,
        burst: u64,
        now: Moment,
    ) -> bool {
        let had = holding.share();
        if holding.in_doubt(self.timing, now) {
            return false;
        }
        let (mut most_rate, mut most_burst) = (had.rate(), u64::from(had.burst()));
        // A larger share follows a smaller one only after the smaller one has arrived: otherwise tokens that were refilled
        // meanwhile would be multiplied.
        if holding.before.is_none() {
            most_rate = most_rate.saturating_add(self.free_rate());
            most_burst = most_burst.saturating_add(self.free_burst());
        }
        let share = Share::at_most(rate.min(most_rate), burst.min(most_burst));
        if holding.assigned.is_some() && share == had {
            return false;
        }
        let paid = u128::from(share.burst().saturating_sub(had.burst()));
        self.tokens -= paid * ATTO;
        self.put(holding, share, now);
        true
    }

    /// Assigns a share with a burst of 1 to a member that has a share of a server whose ledger is lost. A bucket keeps its fill
    /// ratio when it is replaced, so this creates no token unless the member had no bucket.
    pub(crate) fn adopt(&mut self, holding: &mut Holding, rate: u64, now: Moment) {
        let room = u128::from(self.burst).saturating_sub(self.held_burst);
        let share = Share::at_most(rate.min(self.free_rate()), narrow(room.min(1)));
        self.put(holding, share, now);
        self.fit();
    }

    fn put(&mut self, holding: &mut Holding, share: Share, now: Moment) {
        let gone = self.gone_after();
        self.update(holding, |holding| {
            if let Some(Assigned {
                share: had, sent, ..
            }) = holding.assigned
                && (had.rate() > share.rate() || had.burst() > share.burst())
            {
                let before = holding.before.get_or_insert(Before {
                    rate: 0,
                    burst: 0,
                    until: sent,
                });
                before.rate = before.rate.max(had.rate());
                before.burst = before.burst.max(had.burst());
                before.until = before.until.max(sent.plus_nanos(gone));
            }
            holding.version = (holding.version + 1) % 1_000_000_000;
            holding.assigned = Some(Assigned {
                share,
                pushed: now,
                sent: now,
            });
        });
    }

    /// Handles a report: shares that were sent long enough before it have arrived.
    pub(crate) fn confirm(&mut self, holding: &mut Holding, now: Moment) {
        let settle = self.timing.settle();
        if let Some(assigned) = holding.assigned
            && assigned.pushed.plus(settle) <= now
        {
            self.update(holding, |holding| holding.before = None);
        }
    }

    /// Reclaims a share that has expired at the member.
    pub(crate) fn expire(&mut self, holding: &mut Holding, now: Moment) {
        let gone = self.gone_after();
        self.update(holding, |holding| {
            holding.before = holding.before.filter(|before| now <= before.until);
            holding.assigned = holding
                .assigned
                .filter(|assigned| now <= assigned.sent.plus_nanos(gone));
        });
    }

    /// Renews the share by sending it again. Returns whether there is one.
    pub(crate) fn refresh(&self, holding: &mut Holding, now: Moment) -> bool {
        let doubt = holding.in_doubt(self.timing, now);
        match &mut holding.assigned {
            Some(assigned) if !doubt => {
                assigned.sent = now;
                true
            }
            _ => false,
        }
    }

    fn update(&mut self, holding: &mut Holding, change: impl FnOnce(&mut Holding)) {
        let (rate, burst) = holding.held();
        self.held_rate -= u128::from(rate);
        self.held_burst -= u128::from(burst);
        change(holding);
        let (rate, burst) = holding.held();
        self.held_rate += u128::from(rate);
        self.held_burst += u128::from(burst);
    }

    /// The time after which no share that was sent is in force.
    fn gone_after(&self) -> u64 {
        narrow((self.timing.ttl() + self.timing.settle()).as_nanos())
    }
}

impl Holding {
    /// The share that was assigned last and has not expired.
    pub(crate) fn share(&self) -> Share {
        self.assigned.map_or(Share::NONE, |assigned| assigned.share)
    }

    pub(crate) const fn is_given(&self) -> bool {
        self.assigned.is_some()
    }

    /// Whether a smaller share was sent and not yet confirmed.
    pub(crate) const fn is_shrinking(&self) -> bool {
        self.before.is_some()
    }

    /// The largest rate and burst that may be in force.
    pub(crate) fn held(&self) -> (u64, u32) {
        let share = self.share();
        let before = self.before.map_or((0, 0), |it| (it.rate, it.burst));
        (share.rate().max(before.0), share.burst().max(before.1))
    }

    /// The moment at which the assigned share was first sent.
    pub(crate) fn pushed(&self) -> Option<Moment> {
        self.assigned.map(|assigned| assigned.pushed)
    }

    pub(crate) const fn version(&self) -> u32 {
        self.version
    }

    /// The moment after which it is not in force, unless it is sent again.
    pub(crate) fn until(&self, timing: Timing) -> Option<Moment> {
        let assigned = self
            .assigned
            .map(|it| it.sent.plus(timing.ttl()).plus(timing.settle()));
        assigned.max(self.before.map(|before| before.until))
    }

    /// Whether it is uncertain if the share has expired at the member: it was sent too long ago to be renewed in time.
    fn in_doubt(&self, timing: Timing, now: Moment) -> bool {
        let safe = timing.ttl() - timing.settle();
        self.assigned
            .is_some_and(|assigned| assigned.sent.plus(safe) < now)
    }
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::NANO;

    #[test]
    fn a_larger_share_waits_until_the_smaller_one_before_it_has_arrived() {
        let at = |seconds| Moment::from_nanos(seconds * NANO);
        let mut ledger = Ledger::new(100 * NANO, 100, Timing::ENVOY, 100, at(0));
        let mut holding = Holding::default();
        assert!(ledger.give(&mut holding, 20 * NANO, 20, at(0)));
        assert!(ledger.give(&mut holding, 10 * NANO, 10, at(1)));
        assert!(!ledger.give(&mut holding, 15 * NANO, 15, at(1)));
        assert_eq!(ledger.held(), (20 * NANO, 20));
        ledger.confirm(&mut holding, at(2));
        assert_eq!(ledger.held(), (10 * NANO, 10));
        assert!(ledger.give(&mut holding, 15 * NANO, 15, at(2)));
        // 20 for the first, 5 for the last; the smaller one returned nothing.
        assert_eq!(ledger.free_burst(), 75);
    }
}
