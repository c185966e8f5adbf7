//! One limit for one key, and the streams that have a part of it.

use std::collections::HashMap;
use std::time::Duration;

use plimsoll::{Moment, Quota};
use plimsoll_engine::{Allowance, Descriptors};
use plimsoll_quota::{Division, Member, Push, Timing, Usage};

use super::proto::{
    Action, Assignment, Blanket, BucketId, Count, Rule, Span, Strategy, TokenBucket, What,
};

/// One limit for one key, and the streams that have a part of it.
#[derive(Debug)]
pub(super) struct Bucket {
    /// By which the limit is found again when the file has changed.
    pub(super) entries: Descriptors,
    pub(super) allowance: Allowance,
    pub(super) cost: u64,
    /// What is divided, if there is something to divide.
    pub(super) division: Option<Division>,
    /// The owner of each member: a stream, and its name for the bucket.
    pub(super) members: HashMap<Member, (u64, BucketId)>,
    by_stream: HashMap<u64, Option<Member>>,
}

/// A message to a stream.
pub(super) type Outgoing = (u64, Action);

impl Bucket {
    /// `started` is when the server did, if members may have shares of a server before it.
    pub(super) fn new(
        entries: Descriptors,
        allowance: Allowance,
        cost: u64,
        started: Option<Moment>,
        now: Moment,
    ) -> Self {
        let division = terms(allowance, cost).map(|(quota, burst)| match started {
            Some(started) => Division::restarted(quota, burst, Timing::ENVOY, started),
            None => Division::new(quota, burst, Timing::ENVOY, now),
        });
        Self {
            entries,
            allowance,
            cost,
            division,
            members: HashMap::new(),
            by_stream: HashMap::new(),
        }
    }

    /// The file says something else. False if what there was cannot become that.
    pub(super) fn change(&mut self, allowance: Allowance, cost: u64, now: Moment) -> bool {
        if (self.allowance, self.cost) == (allowance, cost) {
            return true;
        }
        (self.allowance, self.cost) = (allowance, cost);
        match (&mut self.division, terms(allowance, cost)) {
            (Some(division), Some((quota, burst))) => {
                division.change(quota, burst, now);
                true
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// A stream says what it let through and refused.
    pub(super) fn report(&mut self, stream: u64, id: &BucketId, usage: Usage, now: Moment) {
        let division = &mut self.division;
        let member = self.by_stream.entry(stream).or_insert_with(|| {
            let member = division.as_mut()?.join(now);
            self.members.insert(member, (stream, id.clone()));
            Some(member)
        });
        if let (Some(division), Some(member)) = (division, *member) {
            division.report(member, usage, now);
        }
    }

    /// A stream has ended.
    pub(super) fn leave(&mut self, stream: u64) {
        if let Some(Some(member)) = self.by_stream.remove(&stream)
            && let Some(division) = &mut self.division
        {
            self.members.remove(&member);
            division.leave(member);
        }
    }

    /// How many streams have a part of it.
    pub(super) fn streams(&self) -> usize {
        self.by_stream.len()
    }

    /// Whether it can be forgotten: no member has a share of it, and a new one would be the same.
    pub(super) fn is_fresh(&self) -> bool {
        self.by_stream.is_empty() && self.division.as_ref().is_none_or(Division::is_fresh)
    }

    pub(super) fn is_due(&self, now: Moment) -> bool {
        let next = self.division.as_ref().and_then(Division::next);
        next.is_some_and(|next| next <= now)
    }

    /// What is to be sent now. `of` is the stream that reported, with what it calls the bucket.
    pub(super) fn outgoing(&mut self, of: Option<(u64, &BucketId)>, now: Moment) -> Vec<Outgoing> {
        let Some(division) = &mut self.division else {
            let blanket = match self.allowance {
                Allowance::Unlimited => Blanket::AllowAll,
                _ => Blanket::DenyAll,
            };
            let rule = Rule::Blanket(blanket.into());
            let message = |(stream, id): (u64, &BucketId)| {
                (stream, action(id.clone(), rule, Timing::ENVOY.ttl()))
            };
            return of.map(message).into_iter().collect();
        };
        let members = &self.members;
        let message = |push: Push| {
            let (stream, id) = members.get(&push.member)?;
            Some((*stream, action(id.clone(), rule(&push), push.ttl)))
        };
        division
            .pushes(now)
            .into_iter()
            .filter_map(message)
            .collect()
    }
}

/// The rate in requests, and how many at once.
fn terms(allowance: Allowance, cost: u64) -> Option<(Quota, u64)> {
    let Allowance::Rate(limit, window) = allowance else {
        return None;
    };
    let times = u32::try_from(cost).unwrap_or(u32::MAX);
    let quota = Quota::try_new(limit, window.saturating_mul(times)).ok()?;
    Some((quota, limit / cost.max(1)))
}

fn rule(push: &Push) -> Rule {
    let share = push.share;
    if share.is_none() {
        return Rule::Blanket(Blanket::DenyAll.into());
    }
    Rule::TokenBucket(TokenBucket {
        max_tokens: share.burst(),
        tokens_per_fill: Some(Count {
            value: share.tokens(),
        }),
        fill_interval: Some(Span::new(share.interval(), push.version)),
    })
}

fn action(bucket: BucketId, rule: Rule, ttl: Duration) -> Action {
    let assignment = Assignment {
        time_to_live: Some(Span::new(ttl, 0)),
        strategy: Some(Strategy { rule: Some(rule) }),
    };
    Action {
        bucket: Some(bucket),
        what: Some(What::Assign(assignment)),
    }
}
