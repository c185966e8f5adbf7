//! Requests for domains of the reference server's configuration.
//!
//! All descriptors of a request are one decision. What differs from the reference server: a descriptor that passes is not
//! charged where another one refuses. What does not: a descriptor above its limit is charged itself, so that whoever asks
//! for more than is left finds nothing left, and a look without hits sees that the limit is exceeded.

use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll::{Demand, Reason};
use plimsoll_engine::{Answer, Ask, Hold, Refusal};
use smallvec::SmallVec;
use tonic::Status;

use super::proto::{RateLimitRequest, RateLimitResponse};
use super::stats::add;
use super::status::{Said, Style, response};
use super::targets::{Counted, Hits, Outcome, Target, replace};
use super::{Envoy, generate};

/// How many descriptors are decided without allocating.
const FEW: usize = 4;

impl Envoy {
    /// The answer to a request whose domain is one of the configuration.
    pub(super) async fn decide(
        &self,
        request: &RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        // A configuration that was just replaced is gone from the limits a moment before its tree is.
        for _ in 0..100 {
            let tree = self.tree();
            let mut targets = self.targets(&tree, request)?;
            replace(&mut targets);
            if let Some(response) = self.decide_targets(&targets).await? {
                return Ok(response);
            }
            tokio::task::yield_now().await;
        }
        Err(Status::unavailable(
            "the configuration is being replaced: ask again",
        ))
    }

    /// Decides. `None` if a limit is not there any more.
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
                Hits::Look => self.look(counted, outcome).await,
                Hits::Return(hits) => self.give_back(counted, hits, outcome).await,
            }
        }
        let looked = counted.iter().zip(&outcomes);
        let looked = looked.filter(|(counted, _)| counted.takes().is_none());
        let looks_over = |(counted, outcome): (&&Counted, &Outcome)| {
            outcome.over && !counted.is_shadow() && !counted.quota
        };
        let refused = if looked.clone().any(looks_over) {
            self.look_at_takers(&counted, &mut outcomes).await;
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
                self.note(counted, hits, outcome);
            }
        }
        let now = self.now();
        let mut outcomes = outcomes.iter();
        let said: Vec<Said<'_>> = targets
            .iter()
            .map(|target| match target {
                Target::Nothing => Said {
                    quota: self.settings.quota,
                    ..Said::default()
                },
                Target::Unlimited(rule) => Said {
                    remaining: u64::from(u32::MAX),
                    quota: rule.quota || self.settings.quota,
                    metadata: rule.metadata.as_ref(),
                    ..Said::default()
                },
                Target::Counted(counted) => {
                    let outcome = outcomes.next().copied().unwrap_or_default();
                    said(counted, outcome, now)
                }
            })
            .collect();
        let ordinary = |said: &Said<'_>| said.over && !said.shadow && !said.quota;
        let over = refused || said.iter().any(ordinary) || all_quotas_over(&said);
        if over && self.settings.shadow {
            self.stats
                .global_shadow_mode
                .fetch_add(1, Ordering::Relaxed);
        }
        let style = Style {
            compat: self.settings.compat,
            all_shadow: self.settings.shadow,
        };
        Ok(Some(response(over, &said, style)))
    }

    /// Looks at counters of which nothing is taken, because the request is refused anyway.
    async fn look_at_takers(&self, counted: &[&Counted], outcomes: &mut [Outcome]) {
        for (counted, outcome) in counted.iter().zip(outcomes) {
            if counted.takes().is_some() {
                self.look(counted, outcome).await;
            }
        }
    }

    /// Takes for all that take something, or for none: whether that was refused. Of quotas one is enough: those that
    /// are used up are left out, as long as one is left. `None` if a limit is not there any more.
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

    /// What a limit says. A store that does not answer is not a refusal: Envoy decides what to do then.
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

    /// Counts what was asked. What is above its limit is charged itself, as far as it fits, and marked.
    fn note(&self, counted: &Counted, hits: u64, outcome: &mut Outcome) {
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

    /// Whether a counter is above its limit. At its limit it is not, as the reference server has it.
    async fn look(&self, counted: &Counted, outcome: &mut Outcome) {
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

    async fn give_back(&self, counted: &Counted, hits: u64, outcome: &mut Outcome) {
        self.limits.refund(&[counted.ask(hits)]);
        if !counted.is_own() {
            let (mark, key) = counted.mark();
            self.limits.refund(&[Ask::new(&mark).key(&key)]);
        }
        self.look(counted, outcome).await;
        outcome.over = false;
    }

    /// What would be answered. A store has to be asked for it.
    async fn peek(&self, asks: &[Ask<'_>]) -> Result<Hold, Refusal> {
        match self.settings.store {
            None => self.limits.peek(asks),
            Some(_) => self.limits.decide(asks, Demand::ONE.at_once()).await,
        }
    }
}

/// The answers of a decision, however it ended.
fn answers(decided: &Result<Hold, Refusal>) -> SmallVec<[Answer<'_>; FEW]> {
    match decided {
        Ok(hold) => hold.answers().collect(),
        Err(refusal) => refusal.answers().collect(),
    }
}

fn said(counted: &Counted, outcome: Outcome, now: Duration) -> Said<'_> {
    // Windows begin at multiples of their length since 1970.
    let window = u128::from(counted.rate.window()) * 1_000_000_000;
    let left = window - now.as_nanos() % window;
    let reset = Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX));
    let limit = counted.limit();
    let would = counted.is_shadow().then_some((limit.name, outcome.over));
    Said {
        would: would.into_iter().collect(),
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

/// Whether there are quotas, and all of them are used up.
fn all_quotas_over(each: &[Said<'_>]) -> bool {
    let mut quotas = each.iter().filter(|said| said.quota).peekable();
    quotas.peek().is_some() && quotas.all(|said| said.over && !said.shadow)
}
