//! One limit, divided among members by demand.

use std::time::Duration;

use plimsoll::{Moment, Quota};

use crate::demand::Usage;
use crate::ledger::Ledger;
use crate::member::{Member, State};
use crate::share::{NANO, Share};
use crate::shares::Shares;
use crate::timing::Timing;
use crate::view::{DivisionView, MemberView};

/// The shortest time between two divisions, because many members report at about the same time.
const PACE: Duration = Duration::from_millis(250);

/// A message to a member, from [`Division::pushes`]: its share, and the lifetime of the share.
///
/// For Envoy it becomes a `RateLimitQuotaResponse.BucketAction` with a token bucket and a time to live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Push {
    /// The member.
    pub member: Member,
    /// The share of the member from now on.
    pub share: Share,
    /// A number below 10^9 that differs for every share of a member. Envoy distinguishes assignments by the nanoseconds of their
    /// interval, and ignores them otherwise: send the version there.
    pub version: u32,
    /// The time after which the share expires, unless it is sent again.
    pub ttl: Duration,
}

/// One limit, divided among members by demand.
///
/// Members [`join`](Self::join), [`report`](Self::report) the requests that they admitted and refused, and
/// [`leave`](Self::leave). After each of these calls, and at the moment that [`next`](Self::next) returns,
/// [`pushes`](Self::pushes) returns the messages to send. The division reads no clock and does no I/O. The documentation of
/// [the crate](crate) states the bound on what all members admit together.
///
/// ```
/// use plimsoll::{Moment, Quota};
/// use plimsoll_quota::{Division, Timing, Usage};
/// use std::time::Duration;
///
/// let at = |seconds| Moment::ORIGIN.plus(Duration::from_secs(seconds));
/// let mut division = Division::new(Quota::per_second(100), 50, Timing::ENVOY, at(0));
/// let busy = division.join(at(0));
/// // Half of the rate, since others may join at the same moment; the rest a second later.
/// assert_eq!(division.pushes(at(0))[0].share.tokens(), 50);
/// assert_eq!(division.pushes(at(1))[0].share.tokens(), 100);
///
/// // A second member gets nothing until the first has confirmed a smaller share.
/// let idle = division.join(at(2));
/// let pushes = division.pushes(at(2));
/// assert_eq!(pushes[0].member, busy);
/// assert!(pushes[0].share.rate() < 100_000_000_000 && pushes[1].share.is_none());
///
/// for second in [5, 10, 15, 20, 25, 30] {
///     division.report(busy, Usage::new(400, 50, Duration::from_secs(5)), at(second));
///     division.report(idle, Usage::new(10, 0, Duration::from_secs(5)), at(second));
///     division.pushes(at(second));
///     division.pushes(at(second + 1));
/// }
/// let has = |member| division.member(member).unwrap().share.rate() / 1_000_000_000;
/// assert!(has(busy) > 80 && has(idle) < 20);
/// ```
#[derive(Debug)]
pub struct Division {
    shares: Shares,
    joined: u64,
    /// The members that joined, and those that reported, since the last call of `pushes`.
    newcomers: Vec<u64>,
    reported: Vec<u64>,
    divided: Option<Moment>,
    /// The moment of the next division.
    wake: Option<Moment>,
    /// The moment until which no shares are pushed.
    learning: Option<Moment>,
}

impl Division {
    /// Creates a division of `quota`, with a burst of `burst` for all members together. A burst of 0 counts as 1.
    ///
    /// No member may already have a share; after a restart of the server use [`restarted`](Self::restarted).
    #[must_use]
    pub fn new(quota: Quota, burst: u64, timing: Timing, now: Moment) -> Self {
        let burst = burst.max(1);
        Self {
            shares: Shares::new(Ledger::new(rate(quota), burst, timing, burst, now)),
            joined: 0,
            newcomers: Vec::new(),
            reported: Vec::new(),
            divided: None,
            wake: None,
            learning: None,
        }
    }

    /// Creates a division after a restart of the server, while members may still spend the shares of the previous
    /// server.
    ///
    /// No shares are pushed until all members have had the time to report ([`Timing::report`] plus [`Timing::settle`]); their shares
    /// stay in force meanwhile. Then shares follow from the reports, without a burst, which is refilled with time.
    ///
    /// ```
    /// use plimsoll::{Moment, Quota};
    /// use plimsoll_quota::{Division, Timing};
    /// use std::time::Duration;
    ///
    /// let start = Moment::ORIGIN;
    /// let mut division = Division::restarted(Quota::per_second(100), 50, Timing::ENVOY, start);
    /// division.join(start);
    /// assert!(division.pushes(start).is_empty());
    /// assert_eq!(division.next(), Some(start.plus(Duration::from_secs(6))));
    /// ```
    #[must_use]
    pub fn restarted(quota: Quota, burst: u64, timing: Timing, now: Moment) -> Self {
        let learnt = now.plus(timing.report()).plus(timing.settle());
        Self {
            shares: Shares::new(Ledger::new(rate(quota), burst.max(1), timing, 0, now)),
            learning: Some(learnt),
            wake: Some(learnt),
            ..Self::new(quota, burst, timing, now)
        }
    }

    /// Changes the rate and the burst. Members that hold more than their part get a smaller share with the next
    /// [`pushes`](Self::pushes). Until they have confirmed it, or the old share has expired, they may spend the old
    /// one.
    pub fn change(&mut self, quota: Quota, burst: u64, now: Moment) {
        self.shares.ledger.advance(now);
        self.shares.ledger.terms(rate(quota), burst.max(1));
        self.wake = Some(now);
        self.divided = None;
    }

    /// Adds a member, without a share. Its first share is in the next [`pushes`](Self::pushes); it is empty if all of the rate is
    /// lent.
    pub fn join(&mut self, now: Moment) -> Member {
        let id = self.joined;
        self.joined += 1;
        self.shares.members.insert(id, State::new(now));
        self.newcomers.push(id);
        self.wake_at(Some(now));
        Member(id)
    }

    /// Sets the weight of a member: members with twice the weight get twice the rate if their demand is not met. Default: 1. A
    /// weight of 0 counts as 1. Unknown members are ignored.
    pub fn set_weight(&mut self, member: Member, weight: u32) {
        if let Some(state) = self.shares.members.get_mut(&member.0) {
            state.weight = weight.max(1);
        }
    }

    /// Adds a report of a member: its requests since its last report. The report also confirms that the member has received the
    /// shares that were pushed at least [`Timing::settle`] ago. Reports of unknown members are ignored.
    pub fn report(&mut self, member: Member, usage: Usage, now: Moment) {
        self.shares.ledger.advance(now);
        let fair = self.shares.ledger.rate / (self.shares.members.len() as u64).max(1);
        let Some(state) = self.shares.members.get_mut(&member.0) else {
            return;
        };
        self.shares.ledger.expire(&mut state.holding, now);
        self.shares.ledger.confirm(&mut state.holding, now);
        state.known_before |= !usage.elapsed.is_zero() && self.learning.is_some();
        state.report(usage, fair, now);
        self.reported.push(member.0);
        self.wake_at(Some(now));
    }

    /// Removes a member that has left or cannot be reached. It may spend its share until the share expires, so no other
    /// member gets it before that. Unknown members are ignored.
    pub fn leave(&mut self, member: Member) {
        if let Some(state) = self.shares.members.get_mut(&member.0) {
            state.left = true;
            let until = state.holding.until(self.shares.ledger.timing);
            self.wake_at(until);
        }
    }

    /// Returns the next moment at which [`pushes`](Self::pushes) may return messages without another call before.
    /// `None` if that needs a [`join`](Self::join), a [`report`](Self::report), a [`leave`](Self::leave) or a
    /// [`change`](Self::change).
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        let paced = self.divided.map(|at| at.plus(PACE));
        let wake = self
            .wake
            .map(|wake| paced.map_or(wake, |paced| wake.max(paced)));
        self.learning.or(wake)
    }

    /// Returns the messages to send now: changed shares, and the shares of members that have reported, to renew them.
    /// At most one message for each member. They count as sent: a lost message has the same effect as one that the
    /// member did not receive in time.
    pub fn pushes(&mut self, now: Moment) -> Vec<Push> {
        self.shares.ledger.advance(now);
        if self.learning.is_some_and(|until| now < until) {
            return Vec::new();
        }
        let newcomers = std::mem::take(&mut self.newcomers);
        let mut changed = match self.learning.take() {
            // Members have reported by now. Tokens that were refilled meanwhile were lent by the previous server.
            Some(_) => {
                self.shares.ledger.forget();
                Vec::new()
            }
            None => self.shares.start(&newcomers, now),
        };
        if self.next().is_some_and(|next| next <= now) {
            self.divided = Some(now);
            let (moved, short) = self.shares.divide(now);
            changed.extend(moved);
            self.wake = self.shares.first_gone();
            if short {
                self.wake_at(Some(now));
            }
        }
        for id in std::mem::take(&mut self.reported) {
            if self.shares.refresh(id, now) {
                changed.push(id);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        let ttl = self.shares.ledger.timing.ttl();
        let push = |id| {
            let state: &State = self.shares.members.get(&id)?;
            Some(Push {
                member: Member(id),
                share: state.holding.share(),
                version: state.holding.version(),
                ttl,
            })
        };
        changed.into_iter().filter_map(push).collect()
    }

    /// Returns the share and the demand of a member. `None` if the member is unknown, or has left and its share has
    /// expired.
    #[must_use]
    pub fn member(&self, member: Member) -> Option<MemberView> {
        let state = self.shares.members.get(&member.0)?;
        Some(MemberView::of(member, state, self.shares.ledger.timing))
    }

    /// Returns the state of the division and of all members, for operators and tests. Takes time proportional to the
    /// number of members.
    #[must_use]
    pub fn view(&self) -> DivisionView {
        let timing = self.shares.ledger.timing;
        let members = self.shares.members.iter();
        let (held_rate, held_burst) = self.shares.ledger.held();
        DivisionView {
            rate: self.shares.ledger.rate,
            burst: self.shares.ledger.burst,
            held_rate,
            held_burst,
            tokens: self.shares.ledger.free_burst(),
            learning: self.learning,
            members: members
                .map(|(&id, state)| MemberView::of(Member(id), state, timing))
                .collect(),
        }
    }

    /// Returns the rate that is divided, and the rate that may be in force at members, in nanotokens per second.
    #[must_use]
    pub fn lent(&self) -> (u64, u64) {
        (self.shares.ledger.rate, self.shares.ledger.held().0)
    }

    /// Returns whether it is in its initial state: no members, nothing lent, and the whole burst free. Only then can it
    /// be dropped and created again without exceeding the limit.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.shares.members.is_empty()
            && self.shares.ledger.free_burst() >= self.shares.ledger.burst
    }

    fn wake_at(&mut self, moment: Option<Moment>) {
        self.wake = match (self.wake, moment) {
            (Some(wake), Some(moment)) => Some(wake.min(moment)),
            (wake, moment) => wake.or(moment),
        };
    }
}

/// The rate of a quota in nanotokens per second, rounded up, so that one a minute stays at least one a minute.
fn rate(quota: Quota) -> u64 {
    let nanos = quota.period().as_nanos().max(1);
    let nano = u128::from(NANO);
    u64::try_from((u128::from(quota.units()) * nano * nano).div_ceil(nanos)).unwrap_or(u64::MAX)
}
