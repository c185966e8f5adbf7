//! A bucket: one limit for one key, divided among the streams that report it.

use std::collections::HashMap;
use std::time::Duration;

use plimsoll::{Moment, Quota};
use plimsoll_engine::{Allowance, Descriptors};
use plimsoll_quota::{Division, Member, Push, Timing, Usage};

use super::proto::{
    Action, ActionKind, Assignment, Blanket, BucketId, Count, Rule, Span, Strategy, TokenBucket,
};

/// One limit for one key, divided among the streams that report it.
#[derive(Debug)]
pub(super) struct Bucket {
    /// The entries by which the limit is looked up again after a reload.
    pub(super) entries: Descriptors,
    pub(super) allowance: Allowance,
    pub(super) cost: u64,
    /// The division of the limit. `None` if the bucket allows or denies everything.
    pub(super) division: Option<Division>,
    /// The stream of each member, and the stream's id for the bucket.
    pub(super) members: HashMap<Member, (u64, BucketId)>,
    by_stream: HashMap<u64, Option<Member>>,
}

/// An action for a stream.
pub(super) type Outgoing = (u64, Action);

impl Bucket {
    /// Creates a bucket. `started` is the time at which the server started, if members may have shares of an earlier server.
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

    /// Changes the limit after a reload. Returns `false` if the bucket has to be created again.
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

    /// Records how many requests a stream admitted and refused.
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

    /// Removes the member of a stream that has ended.
    pub(super) fn leave(&mut self, stream: u64) {
        if let Some(Some(member)) = self.by_stream.remove(&stream)
            && let Some(division) = &mut self.division
        {
            self.members.remove(&member);
            division.leave(member);
        }
    }

    /// The number of streams that report the bucket.
    pub(super) fn streams(&self) -> usize {
        self.by_stream.len()
    }

    /// Whether the bucket can be evicted: no member has a share, and a new bucket would be equal.
    pub(super) fn is_fresh(&self) -> bool {
        self.by_stream.is_empty() && self.division.as_ref().is_none_or(Division::is_fresh)
    }

    pub(super) fn is_due(&self, now: Moment) -> bool {
        let next = self.division.as_ref().and_then(Division::next);
        next.is_some_and(|next| next <= now)
    }

    /// The actions to send now. `of` is the stream that reported, and its id for the bucket.
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

/// The rate and the burst, in requests.
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
        kind: Some(ActionKind::Assign(assignment)),
    }
}
