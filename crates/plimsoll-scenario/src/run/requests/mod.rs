//! Runs requests through the layer of a configuration, in virtual time.
//!
//! The limits are those of the file, without its stores: a limit is the same in memory and in Redis. A request goes through the
//! layers that a server would put around its handler; the handler answers as the step says.

mod handler;
mod seen;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use plimsoll::{Demand, ManualClock, Moment, Outcome};
use plimsoll_config::Config;
use plimsoll_engine::{Answer, Ask, Decide, FileLimits, Hold, Limits};
use plimsoll_spec::scalar::nearest;
use plimsoll_spec::{Place, Problem, Read, quote};
use plimsoll_tower::{LimitBody, Refused};
use tower_layer::Layer;
use tower_service::Service;

use crate::report::{Failure, Mismatch, ScenarioStatus};
use crate::spec::{Act, Admission, Remaining, Reply, RequestSpec, RequestStep, Requests};
use handler::{Handler, Peek, drain, request};
use seen::Seen;

/// Runs one scenario of the file at `path`.
pub(crate) fn run(requests: &Requests, path: &Path) -> Read<ScenarioStatus> {
    let at = |place: Place, message: String| Problem::new(place, message);
    let config = path.with_file_name(&requests.config);
    let clock = ManualClock::starting_at(Moment::from_nanos(requests.start));
    let limits = Config::from_file(&config)
        .and_then(|config| Limits::new(&config.in_memory(), &clock.clock()))
        .map_err(|error| at(requests.config_place, error.to_string()).under_key("config"))?;
    let names = limits.names();
    for (index, step) in requests.steps.iter().enumerate() {
        if let Some((name, place)) = step.names().find(|(name, _)| !names.contains(name)) {
            let hint = nearest(name, names.iter().map(String::as_str));
            let file = quote(&requests.config);
            let message = format!("{file} has no limit {}{hint}", quote(name));
            return Err(at(place, message).under_index(index).under_key("steps"));
        }
    }
    let mut session = Session {
        clock,
        limits,
        held: BTreeMap::new(),
    };
    for (index, step) in requests.steps.iter().enumerate() {
        let mismatches = session.step(step).map_err(|message| {
            at(step.place, message)
                .under_index(index)
                .under_key("steps")
        })?;
        if !mismatches.is_empty() {
            return Ok(ScenarioStatus::Failed(Failure::new(
                index + 1,
                step.place.line,
                mismatches,
            )));
        }
    }
    Ok(ScenarioStatus::Passed)
}

impl RequestStep {
    /// The names of all limits in the step, with their places in the file.
    fn names(&self) -> impl Iterator<Item = (&String, Place)> {
        let asked = self.act.iter().filter_map(|act| match act {
            Act::Ask { limit, .. } => Some(limit),
            _ => None,
        });
        let settled = self.settled.iter().map(|(_, it)| it);
        let by = self.expect.iter().chain(settled);
        let by = by.filter_map(|it| it.refused_by.as_ref());
        let remaining = self.remaining.iter().map(|it| (&it.limit, it.place));
        let named = asked.chain(by).map(|(name, place)| (name, *place));
        named.chain(remaining)
    }
}

type Answering = Response<LimitBody<Full<Bytes>, FileLimits>>;
type Call = Pin<Box<dyn Future<Output = Answering>>>;

/// A request or an ask, running or ended.
enum RunningRequest {
    Waiting(Call),
    Asking(Decide),
    Answered(Box<Answering>, Seen),
    Admitted(Hold),
    Over(Seen),
}

impl RunningRequest {
    /// Polls the request.
    fn settle(self) -> Self {
        let mut cx = Context::from_waker(Waker::noop());
        match self {
            Self::Waiting(mut call) => match call.as_mut().poll(&mut cx) {
                Poll::Pending => Self::Waiting(call),
                Poll::Ready(response) => {
                    let status = Some(response.status().as_u16());
                    match response.extensions().get() {
                        Some(Refused(denied)) => Self::Over(Seen::refused(denied, status)),
                        None => {
                            let seen = Seen::plain(Admission::Allowed, status);
                            Self::Answered(Box::new(response), seen)
                        }
                    }
                }
            },
            Self::Asking(mut decide) => match Pin::new(&mut decide).poll(&mut cx) {
                Poll::Pending => Self::Asking(decide),
                Poll::Ready(Ok(hold)) => Self::Admitted(hold),
                Poll::Ready(Err(refusal)) => Self::Over(Seen::refused(refusal.denied(), None)),
            },
            other => other,
        }
    }

    fn seen(&self) -> Seen {
        match self {
            Self::Waiting(_) | Self::Asking(_) => Seen::plain(Admission::Pending, None),
            Self::Admitted(_) => Seen::plain(Admission::Allowed, None),
            Self::Answered(_, seen) | Self::Over(seen) => seen.clone(),
        }
    }

    /// Ends the request: sends the answer to its end, or cancels the wait.
    fn finish(self) -> Self {
        let seen = self.seen();
        match self {
            Self::Answered(response, _) => {
                let mut body = Box::pin(response.into_body());
                drain(body.as_mut());
            }
            Self::Admitted(hold) => hold.finish(Outcome::Success),
            Self::Waiting(_) | Self::Asking(_) | Self::Over(_) => {}
        }
        Self::Over(seen)
    }
}

struct Session {
    clock: ManualClock,
    limits: Limits,
    held: BTreeMap<String, RunningRequest>,
}

impl Session {
    /// Takes one step, and returns the differences from its expectations. The error is a mistake in the file.
    fn step(&mut self, step: &RequestStep) -> Result<Vec<Mismatch>, String> {
        self.clock.advance_to(Moment::from_nanos(step.at));
        self.settle();
        for _ in 0..step.times {
            let held = match &step.act {
                None => break,
                Some(Act::Finish(name)) => {
                    let held = self.held.remove(name);
                    self.held
                        .extend(held.map(|held| (name.clone(), held.finish())));
                    break;
                }
                Some(Act::Request(request)) => {
                    RunningRequest::Waiting(self.call(request, step.name.is_some())?)
                }
                Some(Act::Ask { .. }) => {
                    let asks: Vec<Ask<'_>> = step.ask().into_iter().collect();
                    RunningRequest::Asking(self.limits.decide(&asks, Demand::ONE))
                }
            };
            let held = held.settle();
            let found = step.expect.iter();
            let found: Vec<_> = found.flat_map(|it| held.seen().differs(it)).collect();
            match &step.name {
                Some(name) => drop(self.held.insert(name.clone(), held)),
                None => drop(held.finish()),
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
        self.settle();
        let mut found = self.remaining(step)?;
        for (name, wanted) in &step.settled {
            if let Some(held) = self.held.get(name) {
                found.extend(held.seen().differs(wanted));
            }
        }
        Ok(found)
    }

    fn settle(&mut self) {
        let held = std::mem::take(&mut self.held).into_iter();
        self.held = held.map(|(name, held)| (name, held.settle())).collect();
    }

    /// Calls the handler behind the limits. With `stays`, the answer has a body, so that the request stays in flight.
    fn call(&self, spec: &RequestSpec, stays: bool) -> Result<Call, String> {
        let mut request = request(spec)?;
        if let Some(reply) = request.extensions_mut().get_mut::<Reply>()
            && stays
            && reply.body.is_empty()
        {
            reply.body.push('\n');
        }
        let limited = self.limits.layer().layer(Handler);
        let mut service = self.limits.body_layer().layer(limited);
        let call = service.call(request);
        Ok(Box::pin(async move {
            match call.await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        }))
    }

    /// Compares the remaining amounts of limits, for the keys of the request, with the expected ones.
    fn remaining(&self, step: &RequestStep) -> Result<Vec<Mismatch>, String> {
        if step.remaining.is_empty() {
            return Ok(Vec::new());
        }
        let mut left = BTreeMap::new();
        let mut see = |answer: Answer<'_>| {
            let remaining = answer.standing.and_then(|standing| standing.remaining);
            left.insert(answer.limit.to_owned(), remaining);
        };
        let peeked = match &step.act {
            Some(Act::Request(spec)) => {
                let peek = Peek(self.limits.clone());
                let mut peek = self.limits.body_layer().layer(peek);
                let mut call = Box::pin(peek.call(request(spec)?));
                match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(Ok(peeked)) => peeked,
                    _ => None,
                }
            }
            _ => step.ask().map(|ask| self.limits.peek(&[ask])),
        };
        match &peeked {
            Some(Ok(hold)) => hold.answers().for_each(&mut see),
            Some(Err(refusal)) => refusal.answers().for_each(&mut see),
            None => {}
        }
        let differs = |it: &Remaining| {
            let got = match left.get(&it.limit) {
                None => "no such limit in the decision of this request".to_owned(),
                Some(None) => "none that is known".to_owned(),
                Some(Some(left)) if *left == it.amount => return None,
                Some(Some(left)) => left.to_string(),
            };
            let what = format!("{} of `{}` remaining", it.amount, it.limit);
            Some(Mismatch::new(what, got))
        };
        Ok(step.remaining.iter().filter_map(differs).collect())
    }
}

impl RequestStep {
    fn ask(&self) -> Option<Ask<'_>> {
        let Some(Act::Ask {
            limit: (limit, _),
            key,
            tier,
            cost,
        }) = &self.act
        else {
            return None;
        };
        let ask = Ask::new(limit).cost(*cost);
        let ask = key.iter().fold(ask, |ask, key| ask.key(key));
        Some(tier.iter().fold(ask, |ask, tier| ask.tier(tier)))
    }
}
