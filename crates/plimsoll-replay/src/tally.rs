//! The counters of a running replay.

use std::collections::BTreeMap;

use plimsoll::Reason;
use plimsoll_engine::{AskRecord, Hold, Refusal};

use crate::distinct::{Distinct, hash};
use crate::flips::{Admission, Flips};
use crate::peaks::Peaks;
use crate::series::Series;
use crate::world::{Brief, Role, Sink};

/// All counters.
pub(crate) struct Tally {
    /// The names of the limits of the new configuration, and of the old one.
    pub(crate) names: Vec<String>,
    pub(crate) old_names: Vec<String>,
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    /// Refused requests that the log shows as refused too.
    pub(crate) refused_again: u64,
    pub(crate) waits: Waits,
    pub(crate) limits: Vec<LimitTally>,
    pub(crate) routes: Vec<RouteTally>,
    pub(crate) series: Series,
    pub(crate) flips: Option<Flips>,
    pub(crate) peaks: Option<Vec<Peaks>>,
}

/// The counters of one limit.
#[derive(Debug, Default)]
pub(crate) struct LimitTally {
    pub(crate) asked: u64,
    pub(crate) refused: u64,
    pub(crate) refused_again: u64,
    pub(crate) would_refuse: u64,
    pub(crate) reasons: BTreeMap<&'static str, u64>,
    /// The number of requests that the limit would have decided and refused alone.
    pub(crate) alone: (u64, u64),
    pub(crate) first: Option<First>,
    pub(crate) keys: Distinct,
    pub(crate) refused_keys: Distinct,
}

impl LimitTally {
    fn note_first(&mut self, of: &Brief, what: &dyn Fn() -> String, key: &str) {
        if self.first.is_none() {
            self.first = Some(First {
                of: *of,
                what: what(),
                key: key.to_owned(),
            });
        }
    }
}

/// The first request that a limit refused, or would have refused.
#[derive(Clone, Debug)]
pub(crate) struct First {
    pub(crate) of: Brief,
    pub(crate) what: String,
    pub(crate) key: String,
}

#[derive(Debug, Default)]
pub(crate) struct RouteTally {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    pub(crate) by: BTreeMap<usize, u64>,
}

/// A histogram of waits in queues, in nanoseconds, with buckets that are an eighth of their values wide.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    pub(crate) requests: u64,
    pub(crate) most: u64,
    counts: BTreeMap<u32, u64>,
}

impl Waits {
    fn add(&mut self, nanos: u64) {
        self.requests += 1;
        self.most = self.most.max(nanos);
        // A bucket has the three bits after the first one: an eighth of the value.
        let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(4);
        let bucket = shift * 16 + u32::try_from(nanos >> shift).unwrap_or(15);
        *self.counts.entry(bucket).or_default() += 1;
    }

    /// A percentile of the wait, in nanoseconds.
    pub(crate) fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.requests * percent).div_ceil(100);
        let mut sum = 0;
        for (bucket, count) in &self.counts {
            sum += count;
            if sum >= wanted {
                let top = (u64::from(bucket % 16) + 1) << (bucket / 16);
                return top.min(self.most);
            }
        }
        self.most
    }
}

impl Tally {
    fn admitted(&mut self, of: &Brief, what: &dyn Fn() -> String, hold: &Hold, waited: u64) {
        self.admitted += 1;
        self.series.admitted(of.at);
        if waited > 0 {
            self.waits.add(waited);
        }
        self.route(hold.route());
        for asked in hold.asked() {
            self.asked(&asked, of);
            if asked.denied.is_some() {
                let limit = &mut self.limits[asked.limit];
                limit.would_refuse += 1;
                limit.refused_keys.add(hash(asked.key));
                limit.note_first(of, what, asked.key);
            }
        }
    }

    fn refused(&mut self, of: &Brief, what: &dyn Fn() -> String, refusal: &Refusal, waited: u64) {
        self.refused += 1;
        let again = u64::from(of.was_refused());
        self.refused_again += again;
        if waited > 0 {
            self.waits.add(waited);
        }
        let binding = refusal.binding().and_then(|at| refusal.asked().nth(at));
        let number = binding.map(|asked| asked.limit);
        let number = number.or_else(|| self.names.iter().position(|name| name == refusal.limit()));
        self.series.refused(of.at, number);
        if let Some(route) = self.route(refusal.route()) {
            route.refused += 1;
            if let Some(number) = number {
                *route.by.entry(number).or_default() += 1;
            }
        }
        for asked in refusal.asked() {
            self.asked(&asked, of);
        }
        let Some(limit) = number.and_then(|number| self.limits.get_mut(number)) else {
            return;
        };
        let key = binding.map_or("", |asked| asked.key);
        limit.refused += 1;
        limit.refused_again += again;
        *limit
            .reasons
            .entry(reason(refusal.denied().reason()))
            .or_default() += 1;
        limit.refused_keys.add(hash(key));
        limit.note_first(of, what, key);
    }

    fn asked(&mut self, asked: &AskRecord<'_>, of: &Brief) {
        let limit = &mut self.limits[asked.limit];
        limit.asked += 1;
        let counts = self.peaks.is_some() && !of.waits;
        if asked.key.is_empty() && !counts {
            return;
        }
        let key = hash(asked.key);
        if !asked.key.is_empty() {
            limit.keys.add(key);
        }
        if counts {
            self.peak(asked, key, of.at);
        }
    }

    fn peak(&mut self, asked: &AskRecord<'_>, key: u64, at: i64) {
        if let Some(peaks) = &mut self.peaks {
            peaks[asked.limit].add(key, at, asked.cost);
        }
    }

    /// Counts the demand of a request whose decision waits: others may come before it, and peaks are counted in order of time.
    pub(crate) fn waits(&mut self, peeked: Option<Result<Hold, Refusal>>, of: Brief) -> Brief {
        let mut peak = |asked: AskRecord<'_>| self.peak(&asked, hash(asked.key), of.at);
        match peeked {
            Some(Ok(hold)) => hold.asked().for_each(&mut peak),
            Some(Err(refusal)) => refusal.asked().for_each(&mut peak),
            None => {}
        }
        Brief { waits: true, ..of }
    }

    fn route(&mut self, route: Option<usize>) -> Option<&mut RouteTally> {
        let route = self.routes.get_mut(route?)?;
        route.requests += 1;
        Some(route)
    }

    /// Counts a decision that a limit made alone.
    pub(crate) fn alone(&mut self, limit: usize, is_refused: bool) {
        let (asked, refused) = &mut self.limits[limit].alone;
        *asked += 1;
        *refused += u64::from(is_refused);
    }

    /// Adds a decision to the [`Flips`].
    fn flip(&mut self, of: &Brief, is_new: bool, decided: &Result<Hold, Refusal>) {
        let Some(flips) = &mut self.flips else {
            return;
        };
        let names = if is_new { &self.names } else { &self.old_names };
        let (route, admission) = match decided {
            Ok(hold) => (hold.route(), Admission::Admitted),
            Err(refusal) => {
                let binding = refusal.binding().and_then(|at| refusal.asked().nth(at));
                let named = binding.and_then(|asked| names.get(asked.limit).cloned());
                let admission = Admission::Refused {
                    limit: named.unwrap_or_else(|| refusal.limit().to_owned()),
                    key: binding.map_or_else(String::new, |asked| asked.key.to_owned()),
                };
                (refusal.route(), admission)
            }
        };
        flips.decided(of.number, is_new, route, admission);
    }

    /// Counts a request without a route in one of the configurations, which is admitted.
    pub(crate) fn no_route(&mut self, of: &Brief, is_new: bool) {
        if is_new {
            self.series.admitted(of.at);
        }
        if let Some(flips) = &mut self.flips {
            flips.decided(of.number, is_new, None, Admission::Admitted);
        }
    }
}

const fn reason(reason: Reason) -> &'static str {
    reason.as_str()
}

impl Sink for Tally {
    fn decided(
        &mut self,
        role: Role,
        of: &Brief,
        what: &dyn Fn() -> String,
        decided: &Result<Hold, Refusal>,
        waited: u64,
    ) {
        match (role, decided) {
            (Role::New, Ok(hold)) => self.admitted(of, what, hold, waited),
            (Role::New, Err(refusal)) => self.refused(of, what, refusal, waited),
            (Role::Alone(limit), decided) => self.alone(limit, is_refused(decided)),
            (Role::Old | Role::Candidate(_), _) => {}
        }
        match role {
            Role::New => self.flip(of, true, decided),
            Role::Old => self.flip(of, false, decided),
            Role::Alone(_) | Role::Candidate(_) => {}
        }
    }
}

/// Whether a limit that decided alone refused, or would have refused outside of shadow mode.
pub(crate) fn is_refused(decided: &Result<Hold, Refusal>) -> bool {
    match decided {
        Ok(hold) => hold.asked().any(|asked| asked.denied.is_some()),
        Err(_) => true,
    }
}
