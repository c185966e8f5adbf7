//! A tower layer that asks the limits of a file.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{Extensions, Response};
use plimsoll::{Clock, Demand, Denied, Moment, Permit, Priority, Reason, Standing};
use plimsoll_config::uses::{CostPart, CostSpec};
use plimsoll_tower::answer::{Class, LimitStatus, is_grpc};
use plimsoll_tower::internals::{
    After, Ask, Asked, Done, Finding, How, Note, OneLimit, Sealed, add_leases,
};
use plimsoll_tower::{GrantMetadata, Head, HttpLimitLayer};

use crate::admit::attempt;
use crate::caller::patience;
use crate::decide::Decide;
use crate::decision::{Hold, Refusal};
use crate::limit::Limit;
use crate::limits::Limits;
use crate::members::Members;
use crate::parts::Member;
use crate::resolve::{lacks_body, resolve};
use crate::respond::respond;
use crate::settle::{Passed, cost_after, late, reads_body};
use crate::tell::note_refused;

impl Limits {
    /// A layer that asks the limits of a request's route, for axum, tonic and every service that speaks HTTP.
    ///
    /// ```
    /// use plimsoll_engine::Limits;
    ///
    /// let limits = Limits::from_yaml("limits:
    ///   per_client: { kind: token_bucket, burst: 10, refill: 5, every: 1s, key: client }
    /// routes:
    ///   - { match: /**, limits: [per_client] }
    /// ")?;
    /// let layer = limits.layer();
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    ///
    /// A request that no route is for passes. Changes of the file count from the next request on. A request that says how long its
    /// caller waits (`grpc-timeout`, or `x-envoy-expected-rq-timeout-ms` of Envoy) is in no queue for longer.
    pub fn layer(&self) -> HttpLimitLayer<FileLimits> {
        HttpLimitLayer::new(FileLimits {
            limits: self.clone(),
        })
    }
}

/// The limits of a file, in an [`HttpLimitLayer`].
#[derive(Clone, Debug)]
pub struct FileLimits {
    limits: Limits,
}

/// What a request holds of them.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Held {
    hold: Option<Hold>,
    /// Whether anything is returned when the work is done.
    returns: bool,
    /// Whether what it costs is known only when it was answered.
    settles: bool,
    /// Whether a limit says something about itself.
    says: bool,
    /// Apart, because most requests have nothing of it.
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    /// What the decision came to, when it had to wait.
    waited: Option<Arc<OnceLock<Waited>>>,
    /// What passes with bodies, where limits count it.
    passed: Option<Passed>,
}

/// A decision that is taken out once.
type Waited = std::sync::Mutex<Option<Result<Hold, Refusal>>>;

impl Held {
    #[inline]
    fn keep(&mut self, hold: Hold, head: &Head<'_>) {
        let members = hold.members();
        let route = members.route.map(|route| &members.plan.routes[route]);
        if let Some(route) = route.filter(|it| it.settles || it.says || it.watches_bodies) {
            (self.settles, self.says) = (route.settles, route.says);
            if route.watches_bodies {
                self.rare.get_or_insert_default().passed = Some(Passed::of(head));
            }
        }
        self.returns = hold.gives_back() || !members.beyond.is_empty();
        self.hold = Some(hold);
    }

    /// Decides what could not be [attempted](attempt), or begins to wait.
    #[inline(never)]
    fn open(&mut self, mut members: Members, head: &Head<'_>) -> Ask {
        // A turn that comes when the caller has left is in vain.
        if let Some(longest) = patience(head) {
            members.like = members.like.within(longest);
        }
        let mut decide = Decide::open(members);
        match decide.now() {
            Some(decided) => self.decided(decided, head),
            None => Ask::FindKey(wait(decide, self)),
        }
    }

    #[cold]
    fn decided(&mut self, decided: Result<Hold, Refusal>, head: &Head<'_>) -> Ask {
        match decided {
            Ok(hold) => {
                self.keep(hold, head);
                Ask::Pass
            }
            Err(refusal) => Ask::Refused(refusal.denied().clone()),
        }
    }

    #[inline(never)]
    fn prepare(&self, extensions: &mut Extensions) -> After {
        let mut after = After {
            reads_usage: false,
            outlasts_head: self.returns,
            settles: self.settles,
        };
        let Some(hold) = &self.hold else {
            return after;
        };
        if self.returns {
            for permit in hold.permits() {
                add_leases(permit, extensions);
            }
        }
        if self.says {
            for (limit, metadata) in hold.metadata() {
                GrantMetadata::add(limit, metadata, extensions);
            }
        }
        if self.settles {
            for part in Self::each(hold).filter_map(|(_, cost)| late(cost)) {
                after.outlasts_head = true;
                after.reads_usage |= part == &CostPart::Usage;
            }
        }
        after
    }

    /// The decision, if what it costs is known only when it was answered.
    fn to_settle(&self) -> Option<&Hold> {
        self.hold.as_ref().filter(|_| self.settles)
    }

    /// The decision that was waited for, if it is there.
    fn take_waited(&mut self) -> Option<Result<Hold, Refusal>> {
        let waited = self.rare.as_ref()?.waited.as_ref()?.get()?;
        let mut waited = waited
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        waited.take()
    }

    /// Charges what is known now.
    fn settle(&mut self, done: &Done<'_>) {
        let Some(hold) = &mut self.hold else {
            return;
        };
        let mut passed = self.rare.as_mut().and_then(|rare| rare.passed.as_mut());
        if let Some(passed) = &mut passed {
            passed.note(done);
        }
        let passed = passed.as_deref();
        let settled: smallvec::SmallVec<[(usize, u64); 4]> = Self::each(hold)
            .filter_map(|(index, cost)| {
                let cost = cost_after(cost, done, passed, hold.cost_at(index))?;
                Some((index, cost))
            })
            .collect();
        for (index, cost) in settled {
            hold.settle_at(index, cost);
        }
    }

    /// The limits that were asked, each with its position and what it costs where the request went.
    fn each(hold: &Hold) -> impl Iterator<Item = (usize, &CostSpec)> {
        let members = hold.members();
        let route = members.route.map(|route| &members.plan.routes[route]);
        let cost = move |member: &Member| Some(&route?.uses.get(member.used)?.cost);
        let list = members.list.iter().enumerate();
        list.filter_map(move |(index, member)| Some((index, cost(member)?)))
    }
}

impl Sealed for FileLimits {}

impl plimsoll_tower::Limits for FileLimits {
    type Held = Held;
    const COUNT: usize = 1;
    const TELLS_SEVERAL: bool = true;

    fn ask(&self, _index: usize, head: &Head<'_>, how: How, held: &mut Held) -> Ask {
        let How::Take { priority, .. } = how else {
            return Ask::Pass;
        };
        if held.hold.is_some() {
            return Ask::Pass;
        }
        if held.rare.as_ref().is_some_and(|it| it.waited.is_some()) {
            return match held.take_waited() {
                Some(decided) => held.decided(decided, head),
                None => Ask::Pass,
            };
        }
        match resolve(&self.limits.plan(), head, Demand::ONE.priority(priority)) {
            Ok(None) => Ask::Pass,
            Ok(Some(members)) => match attempt(members) {
                Ok(hold) => {
                    held.keep(hold, head);
                    Ask::Pass
                }
                Err(members) => held.open(members, head),
            },
            Err(refusal) => {
                note_refused(&refusal);
                held.decided(Err(refusal), head)
            }
        }
    }

    fn at(&self, _index: usize) -> &dyn OneLimit {
        self
    }

    fn asked<'a>(&'a self, _held: &'a Held, see: &mut dyn FnMut(Asked<'a>)) {
        see(Asked::Nothing);
    }

    fn granted(&self, _index: usize, _permit: Permit<'static>, _held: &mut Held) {}

    fn undo(&self, held: &mut Held) {
        if let Some(hold) = held.hold.take() {
            hold.undo();
        }
        if let Some(Ok(hold)) = held.take_waited() {
            hold.undo();
        }
    }

    #[inline]
    fn settle(&self, done: &Done<'_>, held: &mut Held) -> bool {
        if held.settles {
            held.settle(done);
        }
        let reads_body = |(_, cost): (usize, &CostSpec)| late(cost).is_some_and(reads_body);
        let outcome = match done {
            Done::UntilHead(outcome) => {
                let held = held.to_settle();
                let late = held.is_some_and(|hold| Held::each(hold).any(reads_body));
                (!late).then_some(*outcome)
            }
            _ => done.outcome(),
        };
        if let (Some(outcome), Some(hold), true) = (outcome, &mut held.hold, held.returns) {
            hold.give_back(outcome);
        }
        outcome.is_none()
    }

    const READS_BODIES: bool = true;

    fn see_body(&self, held: &mut Held, length: usize, copy: &dyn Fn(&mut Vec<u8>)) {
        let passed = held.rare.as_mut().and_then(|rare| rare.passed.as_mut());
        if let Some(passed) = passed {
            passed.see(length, copy);
        }
    }

    fn tell<'a>(&'a self, held: &'a Held, see: &mut dyn FnMut(LimitStatus<'a>)) {
        let Some(hold) = &held.hold else {
            return;
        };
        for answer in hold.answers().filter(|answer| !answer.shadow) {
            if let Some(standing) = answer.standing
                && standing.remaining.is_some()
            {
                see(LimitStatus::new(answer.limit, standing));
            }
        }
    }

    fn refused_status<'a>(
        &'a self,
        _index: usize,
        denied: &'a Denied,
        standing: Standing,
    ) -> LimitStatus<'a> {
        let name = denied.limiter().unwrap_or(LimitStatus::UNNAMED);
        let promise = self.with_limit(denied, |limit| limit.promise()).flatten();
        let promise = promise.unwrap_or(standing);
        let told = Standing::of_limit(standing.limit)
            .window(promise.window)
            .returns(promise.returns)
            .remaining(denied.remaining())
            .more_after(denied.retry_after())
            .reset(denied.reset());
        LimitStatus::new(name, told)
    }

    fn respond(&self, head: &Head<'_>, denied: &Denied, class: Class) -> Option<Response<Bytes>> {
        let plan = self.limits.plan();
        let of_limit = denied.limiter().and_then(|name| plan.limit(name));
        let of_limit = of_limit.and_then(|limit| plan.limits[limit].answer.clone());
        let of_route = || plan.routes[plan.route(head)?].answer.clone();
        let answer = of_limit.or_else(of_route).or_else(|| plan.answer.clone())?;
        // A gRPC client expects a status of gRPC, not one of HTTP and a text.
        (!is_grpc(head)).then(|| respond(&answer, denied, class))
    }

    #[inline(always)]
    fn prepare(&self, held: &Held, extensions: &mut Extensions) -> After {
        match held.returns || held.says || held.settles {
            true => held.prepare(extensions),
            false => After::default(),
        }
    }

    fn note(&self, _note: &Note<'_>, _held: &mut Held) {}
}

/// What to do where limits read bodies, and the layer that does is missing.
const NO_BODY: &str = "limits of this route are read from the body: put `Limits::body_layer()` around `Limits::layer()`";

/// Waits for a decision. What it comes to is left in `held`.
fn wait(decide: Decide, held: &mut Held) -> Finding {
    let waited = Arc::new(OnceLock::new());
    held.rare.get_or_insert_default().waited = Some(Arc::clone(&waited));
    Box::pin(async move {
        let decided = decide.await;
        let _first = waited.set(std::sync::Mutex::new(Some(decided)));
    })
}

impl FileLimits {
    fn with_limit<T>(&self, denied: &Denied, with: impl FnOnce(&Limit) -> T) -> Option<T> {
        let plan = self.limits.plan();
        let limit = plan.limit(denied.limiter()?)?;
        Some(with(&plan.limits[limit]))
    }
}

impl OneLimit for FileLimits {
    fn demand(&self, _head: &Head<'_>, _priority: Priority) -> Option<Demand> {
        None
    }

    fn now(&self) -> Moment {
        static SYSTEM: std::sync::LazyLock<Clock> = std::sync::LazyLock::new(Clock::system);
        SYSTEM.precise_now()
    }

    fn status(&self, standing: Standing) -> LimitStatus<'_> {
        LimitStatus::new(LimitStatus::UNNAMED, standing)
    }

    fn class(&self, head: &Head<'_>, denied: &Denied) -> Class {
        if denied.reason() == Reason::NoKey && self.missing(head).is_some() {
            return Class::Misconfigured;
        }
        let of_caller = self.with_limit(denied, Limit::is_of_caller);
        match of_caller {
            Some(true) => Class::of_caller(denied),
            _ => Class::of(denied),
        }
    }

    fn missing(&self, head: &Head<'_>) -> Option<&'static str> {
        let plan = self.limits.plan();
        let route = &plan.routes[plan.route(head)?];
        if lacks_body(route, head) {
            return Some(NO_BODY);
        }
        let limits = route.uses.iter().map(|by| &plan.limits[by.limit]);
        let mut parts = limits.flat_map(|limit| &limit.key);
        parts.find_map(|part| part.missing(head))
    }
}
