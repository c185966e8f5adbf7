//! A proxy that decides as Envoy does.

use std::time::Duration;

use plimsoll::Moment;

use crate::demand::Usage;
use crate::division::Push;
use crate::share::NANO;

/// The behaviour of a proxy without an assignment: before the first one arrives (Envoy's `no_assignment_behavior`), and after one
/// has expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Without {
    /// All requests pass. Envoy's default.
    #[default]
    Allow,
    /// All requests are refused.
    Deny,
}

/// The decision of a [`Proxy`] on one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ProxyDecision {
    /// The request took a token of the assignment.
    Allowed,
    /// The request passed because the proxy has no assignment and allows requests in that case.
    Unassigned,
    /// The request was refused: the bucket is empty, the share is empty, or the proxy has no assignment.
    Denied,
}

/// The quota bucket of one proxy, with Envoy's behaviour.
///
/// The bucket of the first assignment starts full. A different assignment keeps the fraction of tokens that is left, in whole
/// tokens, rounded down; the same assignment is only renewed; and one that is not renewed expires. Tokens are refilled
/// continuously. The arithmetic is exact.
///
/// ```
/// use plimsoll::{Moment, Quota};
/// use plimsoll_quota::simulation::{Proxy, ProxyDecision, Without};
/// use plimsoll_quota::{Division, Timing};
///
/// let now = Moment::ORIGIN;
/// let mut proxy = Proxy::new(Without::Deny);
/// assert_eq!(proxy.request(now), ProxyDecision::Denied);
///
/// let mut division = Division::new(Quota::per_second(2), 4, Timing::ENVOY, now);
/// division.join(now);
/// proxy.receive(&division.pushes(now)[0], now);
/// assert!(proxy.is_assigned(now));
/// assert_eq!(proxy.request(now), ProxyDecision::Allowed);
/// let usage = proxy.report(now);
/// assert_eq!((usage.allowed, usage.denied), (1, 1));
/// ```
#[derive(Debug)]
pub struct Proxy {
    without: Without,
    assigned: Option<Assigned>,
    usage: Usage,
    reported: Option<Moment>,
}

#[derive(Debug)]
struct Assigned {
    /// `None` refuses all requests.
    bucket: Option<Bucket>,
    until: Moment,
}

#[derive(Debug)]
struct Bucket {
    max: u32,
    tokens: u32,
    version: u32,
    /// Parts of a token: a nanosecond refills `tokens` of them.
    unit: u128,
    level: u128,
    at: Moment,
}

impl Proxy {
    /// Creates a proxy without an assignment, as after its start.
    #[must_use]
    pub fn new(without: Without) -> Self {
        Self {
            without,
            assigned: None,
            usage: Usage::default(),
            reported: None,
        }
    }

    /// Applies an assignment. It expires after its lifetime, in whole seconds, unless it arrives again.
    pub fn receive(&mut self, push: &Push, now: Moment) {
        self.expire(now);
        let old = self.assigned.take().and_then(|assigned| assigned.bucket);
        let bucket = (!push.share.is_none()).then(|| Bucket::after(old, push, now));
        let until = now.plus(Duration::from_secs(push.ttl.as_secs()));
        self.assigned = Some(Assigned { bucket, until });
    }

    /// Decides a request, and counts it for the next report.
    pub fn request(&mut self, now: Moment) -> ProxyDecision {
        self.expire(now);
        let bucket = self.assigned.as_mut().map(|it| it.bucket.as_mut());
        let decision = match bucket {
            None if self.without == Without::Allow => ProxyDecision::Unassigned,
            None | Some(None) => ProxyDecision::Denied,
            Some(Some(bucket)) => bucket.take(now),
        };
        match decision {
            ProxyDecision::Denied => self.usage.denied += 1,
            _ => self.usage.allowed += 1,
        }
        decision
    }

    /// Returns the usage since the last report, and resets it. The elapsed time is in whole seconds, as Envoy sends it.
    pub fn report(&mut self, now: Moment) -> Usage {
        let mut usage = std::mem::take(&mut self.usage);
        let elapsed = self.reported.map_or(0, |at| now.since(at).as_secs());
        usage.elapsed = Duration::from_secs(elapsed);
        self.reported = Some(now);
        usage
    }

    /// Returns whether the proxy has an assignment that has not expired.
    #[must_use]
    pub fn is_assigned(&self, now: Moment) -> bool {
        self.assigned.as_ref().is_some_and(|it| now < it.until)
    }

    fn expire(&mut self, now: Moment) {
        if !self.is_assigned(now) {
            self.assigned = None;
        }
    }
}

impl Bucket {
    fn after(old: Option<Self>, push: &Push, now: Moment) -> Self {
        let share = push.share;
        let unit = u128::from(share.interval().as_secs()) * u128::from(NANO);
        let full = u128::from(share.burst());
        let level = match old {
            None => full,
            // Only the version is compared, not the seconds of the interval.
            Some(old)
                if (old.max, old.tokens, old.version)
                    == (share.burst(), share.tokens(), push.version) =>
            {
                return old;
            }
            Some(mut old) => {
                old.refill(now);
                old.level * full / (u128::from(old.max) * old.unit)
            }
        };
        Self {
            max: share.burst(),
            tokens: share.tokens(),
            version: push.version,
            unit,
            level: level * unit,
            at: now,
        }
    }

    fn refill(&mut self, now: Moment) {
        let more = u128::from(now.nanos_since(self.at)) * u128::from(self.tokens);
        self.at = self.at.max(now);
        self.level = (self.level + more).min(u128::from(self.max) * self.unit);
    }

    fn take(&mut self, now: Moment) -> ProxyDecision {
        self.refill(now);
        if self.level < self.unit {
            return ProxyDecision::Denied;
        }
        self.level -= self.unit;
        ProxyDecision::Allowed
    }
}
