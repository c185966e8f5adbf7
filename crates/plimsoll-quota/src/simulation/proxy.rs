//! A proxy that decides as Envoy does.

use std::time::Duration;

use plimsoll::Moment;

use crate::demand::Usage;
use crate::division::Push;
use crate::share::NANO;

/// What a proxy does without an assignment: `no_assignment_behavior` and what comes when an assignment has run out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Without {
    /// All requests pass, which is Envoy's default.
    #[default]
    Allow,
    /// None pass.
    Deny,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// It took a token of the assignment.
    Allowed,
    /// It passed because there was no assignment.
    Unassigned,
    /// It was refused.
    Denied,
}

/// The quota bucket of one proxy, as Envoy has it.
///
/// A first assignment starts full; another one keeps the part of tokens that is left, in whole tokens, rounded down; the same
/// one only lasts longer; and one that is not sent again runs out. Tokens are refilled continuously. The counting is exact.
#[derive(Debug)]
pub struct Proxy {
    without: Without,
    assigned: Option<Assigned>,
    usage: Usage,
    reported: Option<Moment>,
}

#[derive(Debug)]
struct Assigned {
    /// `None` refuses all.
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
    /// A proxy that has just started.
    #[must_use]
    pub fn new(without: Without) -> Self {
        Self {
            without,
            assigned: None,
            usage: Usage::default(),
            reported: None,
        }
    }

    /// An assignment arrives.
    pub fn receive(&mut self, push: &Push, now: Moment) {
        self.expire(now);
        let old = self.assigned.take().and_then(|assigned| assigned.bucket);
        let bucket = (!push.share.is_none()).then(|| Bucket::after(old, push, now));
        let until = now.plus(Duration::from_secs(push.ttl.as_secs()));
        self.assigned = Some(Assigned { bucket, until });
    }

    /// A request comes.
    pub fn request(&mut self, now: Moment) -> Verdict {
        self.expire(now);
        let bucket = self.assigned.as_mut().map(|it| it.bucket.as_mut());
        let verdict = match bucket {
            None if self.without == Without::Allow => Verdict::Unassigned,
            None | Some(None) => Verdict::Denied,
            Some(Some(bucket)) => bucket.take(now),
        };
        match verdict {
            Verdict::Denied => self.usage.denied += 1,
            _ => self.usage.allowed += 1,
        }
        verdict
    }

    /// Reports, and counts anew.
    pub fn report(&mut self, now: Moment) -> Usage {
        let mut usage = std::mem::take(&mut self.usage);
        let elapsed = self.reported.map_or(0, |at| now.since(at).as_secs());
        usage.elapsed = Duration::from_secs(elapsed);
        self.reported = Some(now);
        usage
    }

    /// Whether it has an assignment.
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
            // The seconds of an interval are not looked at: the version is what differs.
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

    fn take(&mut self, now: Moment) -> Verdict {
        self.refill(now);
        if self.level < self.unit {
            return Verdict::Denied;
        }
        self.level -= self.unit;
        Verdict::Allowed
    }
}
