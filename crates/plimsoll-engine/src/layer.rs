//! The tower layer: decides each request by the limits of its route.

use bytes::Bytes;
use http::{Extensions, Response};
use plimsoll::{Clock, Demand, Denied, Moment, Permit, Priority, Reason, Standing};
use plimsoll_config::uses::CostSpec;
use plimsoll_tower::answer::{Class, LimitStatus, is_grpc};
use plimsoll_tower::internals::{After, Ask, Asked, Done, How, Note, OneLimit, Sealed};
use plimsoll_tower::{Head, HttpLimitLayer};

use crate::fast_path::{self, FastPath};
use crate::limit::Limit;
use crate::limits::Limits;
use crate::request_hold::RequestHold;
use crate::resolve::{by_route, lacks_body};
use crate::respond::respond;
use crate::settle::{late, reads_body};

impl Limits {
    /// Returns a layer that admits or refuses each request by the limits of its route, for axum, tonic and every HTTP service.
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
    /// A request that matches no route passes. A reload of the file applies from the next request on. The time-out of a caller
    /// (`grpc-timeout`, or `x-envoy-expected-rq-timeout-ms` of Envoy) bounds the time that its request waits in queues.
    ///
    /// The response to a refusal is that of the file (`answer`), or else that of the layer, which can be
    /// [changed](HttpLimitLayer::respond). If limits of a route read the body of requests, put [`Limits::body_layer`] around this
    /// layer; without it such requests are answered with 500.
    ///
    /// # In axum
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use plimsoll_engine::Limits;
    ///
    /// let limits = Limits::from_yaml("
    /// limits: { user: { rate: 10/s, key: json:/user } }
    /// routes: [{ match: /api/**, limits: [user] }]
    /// ")?;
    /// let app: Router = Router::new()
    ///     .route("/api/items", get(|| async { "items" }))
    ///     .layer(limits.layer())
    ///     // Outside of the layer that decides: it reads the bodies first.
    ///     .layer(limits.body_layer());
    /// # let _ = app;
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    pub fn layer(&self) -> HttpLimitLayer<FileLimits> {
        HttpLimitLayer::new(FileLimits {
            limits: self.clone(),
        })
    }
}

/// The limits of a file, as the limits of an [`HttpLimitLayer`]. Made by [`Limits::layer`]; the type is named to store the
/// layer:
///
/// ```
/// use plimsoll_engine::{FileLimits, Limits};
/// use plimsoll_tower::{HttpLimitLayer, SendFields};
///
/// struct Server {
///     layer: HttpLimitLayer<FileLimits>,
/// }
///
/// let limits = Limits::from_yaml("limits: { api: 10/s }\nroutes: [{ match: /**, limits: [api] }]")?;
/// let server = Server { layer: limits.layer().send_fields(SendFields::Always) };
/// # let _ = server.layer;
/// # Ok::<(), plimsoll_engine::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileLimits {
    limits: Limits,
}

impl Sealed for FileLimits {}

impl plimsoll_tower::Limits for FileLimits {
    type Held = RequestHold;
    const COUNT: usize = 1;
    const TELLS_SEVERAL: bool = true;

    fn ask(&self, _index: usize, head: &Head<'_>, how: How, held: &mut RequestHold) -> Ask {
        let How::Take {
            priority,
            alone,
            described,
        } = how
        else {
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
        let plan = self.limits.plan();
        let Some(route) = plan.route(head) else {
            return Ask::Pass;
        };
        let like = Demand::ONE.priority(priority);
        // Other limits of the layer that may refuse, and responses with standings, need a hold.
        let attempt = match alone && !described {
            true => fast_path::take(&plan, &plan.routes[route], head, like, &mut held.permit),
            false => FastPath::Undecided,
        };
        match attempt {
            FastPath::Granted => {
                held.returns = held.permit.as_ref().is_some_and(Permit::gives_back);
                Ask::Pass
            }
            FastPath::Denied(denied) => Ask::Refused(denied),
            FastPath::Refused => held.refused(by_route(&plan, route, head, like, false), head),
            FastPath::Undecided => held.take(by_route(&plan, route, head, like, true), head),
        }
    }

    fn at(&self, _index: usize) -> &dyn OneLimit {
        self
    }

    fn asked<'a>(&'a self, _held: &'a RequestHold, see: &mut dyn FnMut(Asked<'a>)) {
        see(Asked::Nothing);
    }

    fn granted(&self, _index: usize, _permit: Permit<'static>, _held: &mut RequestHold) {}

    fn undo(&self, held: &mut RequestHold) {
        if let Some(hold) = held.hold.take() {
            hold.undo();
        }
        // A permit that is returned knows its limiter.
        if let Some(permit) = held.permit.take() {
            permit.undo();
        }
        if let Some(Ok(hold)) = held.take_waited() {
            hold.undo();
        }
    }

    #[inline]
    fn settle(&self, done: &Done<'_>, held: &mut RequestHold) -> bool {
        if held.settles {
            held.settle(done);
        }
        let reads_body = |(_, cost): (usize, &CostSpec)| late(cost).is_some_and(reads_body);
        let outcome = match done {
            Done::UntilHead(outcome) => {
                let held = held.to_settle();
                let late = held.is_some_and(|hold| RequestHold::each(hold).any(reads_body));
                (!late).then_some(*outcome)
            }
            _ => done.outcome(),
        };
        if let (Some(outcome), true) = (outcome, held.returns) {
            held.give_back(outcome);
        }
        outcome.is_none()
    }

    const READS_BODIES: bool = true;

    fn see_body(&self, held: &mut RequestHold, length: usize, copy: &dyn Fn(&mut Vec<u8>)) {
        let passed = held.rare.as_mut().and_then(|rare| rare.passed.as_mut());
        if let Some(passed) = passed {
            passed.see(length, copy);
        }
    }

    fn describe<'a>(&'a self, held: &'a RequestHold, see: &mut dyn FnMut(LimitStatus<'a>)) {
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
        let status = Standing::of_limit(standing.limit)
            .window(promise.window)
            .returns(promise.returns)
            .remaining(denied.remaining())
            .more_after(denied.retry_after())
            .reset(denied.reset());
        LimitStatus::new(name, status)
    }

    fn respond(&self, head: &Head<'_>, denied: &Denied, class: Class) -> Option<Response<Bytes>> {
        let plan = self.limits.plan();
        let of_limit = denied.limiter().and_then(|name| plan.limit(name));
        let of_limit = of_limit.and_then(|limit| plan.limits[limit].answer.clone());
        let of_route = || plan.routes[plan.route(head)?].answer.clone();
        let answer = of_limit.or_else(of_route).or_else(|| plan.answer.clone())?;
        // A gRPC client expects a gRPC status, not an HTTP one with a body.
        (!is_grpc(head)).then(|| respond(&answer, denied, class))
    }

    #[inline(always)]
    fn prepare(&self, held: &RequestHold, extensions: &mut Extensions) -> After {
        match held.returns || held.has_metadata || held.settles {
            true => held.prepare(extensions),
            false => After::default(),
        }
    }

    fn note(&self, _note: &Note<'_>, _held: &mut RequestHold) {}
}

/// The remedy if limits read bodies, and the layer that reads them is missing.
const NO_BODY: &str = "limits of this route are read from the body: put `Limits::body_layer()` around `Limits::layer()`";

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
