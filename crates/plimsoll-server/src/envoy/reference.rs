//! Decides requests for domains of the reference server's configuration.
//!
//! All descriptors of a request are one decision. Unlike in the reference server, a descriptor that is within its limit is not
//! charged if another one refuses. As in the reference server, a descriptor above its limit is charged itself: a request for more
//! than remains leaves nothing, and a request with 0 hits then reports that the limit is exceeded.

use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll::{Demand, Reason};
use plimsoll_engine::{Answer, Ask, Hold, Refusal};
use smallvec::SmallVec;
use tonic::Status;

use super::proto::{RateLimitRequest, RateLimitResponse};
use super::stats::add;
use super::status::{DescriptorResult, ResponseOptions, response};
use super::targets::{Counted, Hits, Outcome, Target, replace};
use super::{Envoy, generate};

/// Requests with up to this many descriptors are decided without allocating.
const FEW: usize = 4;

/// The longest time that a request waits for the tree of a configuration whose limits are in place.
const REPLACED_WITHIN: Duration = Duration::from_secs(5);

impl Envoy {
    /// Decides a request whose domain is in the configuration.
    pub(super) async fn decide(
        &self,
        request: &RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        if let Some(response) = self.decide_by_tree(request).await? {
            return Ok(response);
        }
        // During a reload, the limits are replaced a moment before the tree. The thread of the reload may be interrupted in between
        // for longer than any number of attempts takes, so the request waits for the new tree.
        let with_new_tree = async {
            loop {
                let replaced = self.tree_replaced.notified();
                if let Some(response) = self.decide_by_tree(request).await? {
                    return Ok(response);
                }
                replaced.await;
            }
        };
        let decided = tokio::time::timeout(REPLACED_WITHIN, with_new_tree).await;
        decided.unwrap_or_else(|_| {
            Err(Status::unavailable(
                "the configuration is being replaced: ask again",
            ))
        })
    }

    /// Decides by the present tree. `None` if a limit was removed by a reload.
    async fn decide_by_tree(
        &self,
        request: &RateLimitRequest,
    ) -> Result<Option<RateLimitResponse>, Status> {
        let tree = self.tree();
        let mut targets = self.targets(&tree, request)?;
        replace(&mut targets);
        self.decide_targets(&targets).await
    }

    /// Decides all targets. `None` if a limit was removed by a reload.
    async fn decide_targets(
        &self,
        targets: &[Target],
    ) -> Result<Option<RateLimitResponse>, Status> {
        let counted: SmallVec<[&Counted; FEW]> = targets
            .iter()
            .filter_map(|target| match target {
                Target::Counted(counted) => Some(counted),
                _ => None,
            })
            .collect();
        let mut outcomes: SmallVec<[Outcome; FEW]> =
            smallvec::smallvec![Outcome::default(); counted.len()];
        for (counted, outcome) in counted.iter().zip(&mut outcomes) {
            match counted.hits {
                Hits::Take(_) => {}
                Hits::Peek => self.peek_counter(counted, outcome).await,
                Hits::Return(hits) => self.refund(counted, hits, outcome).await,
            }
        }
        let looked = counted.iter().zip(&outcomes);
        let looked = looked.filter(|(counted, _)| counted.takes().is_none());
        let looks_over = |(counted, outcome): (&&Counted, &Outcome)| {
            outcome.over && !counted.is_shadow() && !counted.quota
        };
        let refused = if looked.clone().any(looks_over) {
            self.peek_charged(&counted, &mut outcomes).await;
            true
        } else {
            let free = |target: &Target| !matches!(target, Target::Counted(_));
            let quota_left = self.settings.quota && targets.iter().any(free)
                || looked
                    .clone()
                    .any(|(counted, outcome)| counted.quota && !outcome.over);
            match self.take(&counted, &mut outcomes, quota_left).await? {
                Some(refused) => refused,
                None => return Ok(None),
            }
        };
        for (counted, outcome) in counted.iter().zip(&mut outcomes) {
            if let Some(hits) = counted.takes() {
                self.record(counted, hits, outcome);
            }
        }
        let now = self.now();
        let mut outcomes = outcomes.iter();
        let results: Vec<DescriptorResult<'_>> = targets
            .iter()
            .map(|target| match target {
                Target::Nothing => DescriptorResult {
                    quota: self.settings.quota,
                    ..DescriptorResult::default()
                },
                Target::Unlimited(rule) => DescriptorResult {
                    remaining: u64::from(u32::MAX),
                    quota: rule.quota || self.settings.quota,
                    metadata: rule.metadata.as_ref(),
                    ..DescriptorResult::default()
                },
                Target::Counted(counted) => {
                    let outcome = outcomes.next().copied().unwrap_or_default();
                    descriptor_result(counted, outcome, now)
                }
            })
            .collect();
        let ordinary =
            |result: &DescriptorResult<'_>| result.over && !result.shadow && !result.quota;
        let over = refused || results.iter().any(ordinary) || all_quotas_over(&results);
        if over && self.settings.shadow {
            self.stats
                .global_shadow_mode
                .fetch_add(1, Ordering::Relaxed);
        }
        let options = ResponseOptions {
            compat: self.settings.compat,
            all_shadow: self.settings.shadow,
        };
        Ok(Some(response(over, &results, options)))
    }

    /// Peeks at the counters that would be charged, because the request is refused by another one.
    async fn peek_charged(&self, counted: &[&Counted], outcomes: &mut [Outcome]) {
        for (counted, outcome) in counted.iter().zip(outcomes) {
            if counted.takes().is_some() {
                self.peek_counter(counted, outcome).await;
            }
        }
    }

    /// Charges all targets that have hits, or none, and returns whether the decision was refused. One quota is enough: exhausted quotas
    /// are skipped as long as another one remains. `None` if a limit was removed by a reload.
    async fn take(
        &self,
        counted: &[&Counted],
        outcomes: &mut [Outcome],
        quota_left: bool,
    ) -> Result<Option<bool>, Status> {
        let takes = |at: &usize| counted[*at].takes().is_some();
        let mut asked: SmallVec<[usize; FEW]> = (0..counted.len()).filter(takes).collect();
        let quotas = |asked: &[usize]| asked.iter().any(|at| counted[*at].quota);
        let has_quotas = quotas(&asked);
        while !asked.is_empty() {
            let asks: SmallVec<[Ask<'_>; FEW]> = asked
                .iter()
                .map(|at| counted[*at].ask(counted[*at].takes().unwrap_or_default()))
                .collect();
            if let ([at], [ask]) = (&asked[..], &asks[..])
                && !counted[*at].is_own()
                && let Some(standing) = self.limits.take_now(*ask)
            {
                outcomes[*at] = Outcome {
                    taken: true,
                    remaining: standing.remaining.unwrap_or_default(),
                    ..Outcome::default()
                };
                return Ok(Some(false));
            }
            let decided = self.limits.decide(&asks, Demand::ONE.at_once()).await;
            if let Err(refusal) = &decided
                && refusal.binding().is_none()
            {
                return Ok(None);
            }
            for (at, answer) in asked.iter().zip(answers(&decided)) {
                let taken = decided.is_ok();
                outcomes[*at] = self.outcome(counted[*at], &answer, taken)?;
            }
            if let Ok(hold) = decided {
                let own_over = asked
                    .iter()
                    .any(|at| counted[*at].is_own() && outcomes[*at].over);
                if own_over && !self.settings.shadow {
                    hold.undo();
                    for at in asked {
                        let outcome = &mut outcomes[at];
                        if outcome.taken && !outcome.over {
                            let hits = counted[at].takes().unwrap_or_default();
                            outcome.remaining = outcome.remaining.saturating_add(hits);
                        }
                        outcome.taken = false;
                    }
                }
                return Ok(Some(own_over));
            }
            let over = |at: &usize| outcomes[*at].over && !counted[*at].is_shadow();
            let refusing = asked.iter().filter(|at| over(at));
            if refusing.clone().any(|at| !counted[*at].quota) || refusing.count() == 0 {
                return Ok(Some(true));
            }
            asked.retain(|at| !over(at));
            if has_quotas && !quota_left && !quotas(&asked) {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    /// Converts the answer of a limit. A store that does not answer is an error, not a refusal: Envoy decides whether to fail open.
    fn outcome(
        &self,
        counted: &Counted,
        answer: &Answer<'_>,
        taken: bool,
    ) -> Result<Outcome, Status> {
        let reason = answer.denied.map(plimsoll::Denied::reason);
        if reason == Some(Reason::Unavailable) {
            add(&self.stats.redis_error, 1);
            return Err(Status::unavailable("the store does not answer"));
        }
        let remaining = answer.standing.and_then(|standing| standing.remaining);
        let (remaining, own_over) = counted.left(remaining.unwrap_or_default());
        Ok(Outcome {
            over: reason.is_some() || own_over,
            taken: taken && reason.is_none(),
            remaining,
            reason: reason.or(own_over.then_some(Reason::Exhausted)),
        })
    }

    /// Updates the statistics. A counter above its limit is charged as far as possible, and marked.
    fn record(&self, counted: &Counted, hits: u64, outcome: &mut Outcome) {
        let limit = u64::from(counted.rate.limit);
        let left = outcome.remaining.min(limit);
        let before = match outcome.taken {
            true => (limit - left).saturating_sub(hits),
            false => limit - left,
        };
        let shadow = counted.is_shadow();
        counted
            .stats
            .count(limit, before, hits, (outcome.over, shadow));
        if !outcome.over {
            return;
        }
        outcome.remaining = 0;
        if !outcome.taken {
            self.limits.charge(&[counted.ask(hits)]);
        }
        if !counted.is_own() {
            let (mark, key) = counted.mark();
            self.limits.charge(&[Ask::new(&mark).key(&key)]);
        }
    }

    /// Peeks whether a counter is above its limit. As in the reference server, a counter at its limit is not.
    async fn peek_counter(&self, counted: &Counted, outcome: &mut Outcome) {
        let (mark, key) = counted.mark();
        let asks = [counted.ask(0), Ask::new(&mark).key(&key).cost(0)];
        let asks = &asks[..if counted.is_own() { 1 } else { 2 }];
        let decided = self.peek(asks).await;
        let mut each = answers(&decided).into_iter();
        let (own, mark) = (each.next(), each.next());
        let most = match counted.is_own() {
            true => generate::MOST,
            false => counted.rate.limit,
        };
        let remaining = own.and_then(|own| own.standing?.remaining);
        let (remaining, own_over) = counted.left(remaining.unwrap_or(most.into()));
        *outcome = Outcome {
            over: own_over || mark.is_some_and(|mark| !mark.is_granted()),
            taken: false,
            remaining,
            reason: None,
        };
        if outcome.over {
            (outcome.remaining, outcome.reason) = (0, Some(Reason::Exhausted));
        }
    }

    async fn refund(&self, counted: &Counted, hits: u64, outcome: &mut Outcome) {
        self.limits.refund(&[counted.ask(hits)]);
        if !counted.is_own() {
            let (mark, key) = counted.mark();
            self.limits.refund(&[Ask::new(&mark).key(&key)]);
        }
        self.peek_counter(counted, outcome).await;
        outcome.over = false;
    }

    /// Peeks at the asks. Limits in a store need a round trip.
    async fn peek(&self, asks: &[Ask<'_>]) -> Result<Hold, Refusal> {
        match self.settings.store {
            None => self.limits.peek(asks),
            Some(_) => self.limits.decide(asks, Demand::ONE.at_once()).await,
        }
    }
}

/// The answers of a decision, granted or refused.
fn answers(decided: &Result<Hold, Refusal>) -> SmallVec<[Answer<'_>; FEW]> {
    match decided {
        Ok(hold) => hold.answers().collect(),
        Err(refusal) => refusal.answers().collect(),
    }
}

fn descriptor_result(counted: &Counted, outcome: Outcome, now: Duration) -> DescriptorResult<'_> {
    // Windows are aligned to multiples of their length since 1970.
    let window = u128::from(counted.rate.window()) * 1_000_000_000;
    let left = window - now.as_nanos() % window;
    let reset = Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX));
    let limit = counted.limit();
    let would = counted.is_shadow().then_some((limit.name, outcome.over));
    DescriptorResult {
        shadow_verdicts: would.into_iter().collect(),
        limit: Some(limit),
        remaining: outcome.remaining,
        over: outcome.over,
        shadow: counted.is_shadow(),
        quota: counted.quota,
        reset: Some(reset),
        retry_after: outcome.over.then_some(reset),
        reason: outcome.reason.map(|reason| reason.as_str()),
        metadata: counted.rule().and_then(|rule| rule.metadata.as_ref()),
    }
}

/// Whether there are quotas, and all of them are exhausted.
fn all_quotas_over(each: &[DescriptorResult<'_>]) -> bool {
    let mut quotas = each.iter().filter(|result| result.quota).peekable();
    quotas.peek().is_some() && quotas.all(|result| result.over && !result.shadow)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use plimsoll::Clock;

    use super::super::proto::{Entry, RateLimitDescriptor, RateLimitRequest};
    use super::super::{Envoy, EnvoySettings, load};

    /// A request was answered as unavailable if the thread of a reload was interrupted for longer than a hundred attempts took.
    #[tokio::test]
    async fn a_request_waits_for_the_tree_of_a_reload() {
        let tree = |key: &str| {
            let text = format!(
                "{{ domain: d, descriptors: [{{ key: {key}, rate_limit: {{ unit: hour, requests_per_unit: 9 }} }}] }}"
            );
            load::load(&[(PathBuf::from("a.yaml"), text)], false).expect("a configuration")
        };
        let envoy = Envoy::new(EnvoySettings::default(), &Clock::precise());
        let envoy = Arc::new(envoy.expect("a service"));
        let put = |key: &str| {
            let tree = tree(key);
            let put = envoy.put(&tree, &envoy.windows());
            put.expect("limits in place");
            tree
        };
        envoy.set_tree(put("old"));
        let new = put("new");
        let request = RateLimitRequest {
            domain: "d".to_owned(),
            descriptors: vec![RateLimitDescriptor {
                entries: vec![Entry {
                    key: "old".to_owned(),
                    value: "v".to_owned(),
                }],
                ..RateLimitDescriptor::default()
            }],
            hits_addend: 0,
        };
        let asking = Arc::clone(&envoy);
        let decided = tokio::spawn(async move { asking.decide(&request).await });
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert!(!decided.is_finished());
        envoy.set_tree(new);
        let response = decided.await.expect("no panic").expect("an answer");
        assert!(response.statuses[0].current_limit.is_none());
    }
}
