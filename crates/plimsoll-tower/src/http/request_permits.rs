use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::{Extensions, HeaderMap, Request, Response};
use http_body::Body;
use plimsoll::{Denied, Outcome, Permit, Priority};

use super::all::{Admission, WaitForAll};
use super::answering::Refused;
use super::grpc_web::Reader;
use super::held_permits::HeldPermits;
use super::limits::{After, Limits, Note};
use super::outcome::{Grpc, grpc_of, outcome_of};
use super::settle::{Done, ResponseHead};
use super::shared::Shared;
use super::upgrade::{self, Upgrade};
use super::usage::Usage;
use crate::Head;

/// The permits of a request, from when it is asked for them until the head of its response is there.
pub(super) struct RequestPermits<L: Limits> {
    permits: HeldPermits<L>,
    priority: Priority,
    /// Whether anything is left to do when the head of the response is there.
    outlasts_head: bool,
    /// Whether anything is charged by what the response says.
    settles: bool,
    /// The upgrade that the request asks for, if it does and is to hold anything while that lasts.
    upgrade: Option<Upgrade<L>>,
}

impl<L: Limits> RequestPermits<L> {
    #[inline(always)]
    pub(super) fn new(shared: Arc<Shared<L>>, priority: Priority, held: L::Held) -> Self {
        Self {
            permits: HeldPermits {
                shared,
                held,
                usage: None,
                bytes: 0,
                ended: false,
            },
            priority,
            outlasts_head: false,
            settles: false,
            upgrade: None,
        }
    }

    pub(super) const fn shared(&self) -> &Arc<Shared<L>> {
        &self.permits.shared
    }

    /// What is held while the body of the response is sent.
    pub(super) fn into_held(self) -> HeldPermits<L> {
        self.permits
    }

    /// As if it had never been admitted.
    pub(super) fn undo(&mut self) {
        self.permits.undo();
    }

    /// Asks all limits in order, but those that have granted already.
    pub(super) fn ask(&mut self, head: &Head<'_>) -> Admission {
        self.permits
            .shared
            .ask(head, self.priority, &mut self.permits.held)
    }

    /// Polls a request that waits for all limits.
    pub(super) fn poll_all(
        &mut self,
        all: &mut WaitForAll,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), (usize, Denied)>> {
        all.poll(&self.permits.shared.limits, &mut self.permits.held, cx)
    }

    /// The time that a request has waited for all limits.
    pub(super) fn waited_for(&self, all: &WaitForAll) -> Duration {
        all.waited(&self.permits.shared.limits, &self.permits.held)
    }

    /// Gives up waiting for all limits.
    pub(super) fn cancel(&self, all: WaitForAll) {
        all.cancel(&self.permits.shared.limits, &self.permits.held);
    }

    /// Keeps what was granted after waiting, and asks the others again: they may have changed their minds meanwhile.
    pub(super) fn granted(
        &mut self,
        index: usize,
        permit: Permit<'static>,
        head: &Head<'_>,
    ) -> Admission {
        self.permits
            .shared
            .limits
            .granted(index, permit, &mut self.permits.held);
        self.ask(head)
    }

    /// Readies the request for where it is handled.
    pub(super) fn prepare<B>(&mut self, request: &mut Request<B>) {
        let limits = &self.permits.shared.limits;
        let after = limits.prepare(&self.permits.held, request.extensions_mut());
        self.prepare_for(after, request);
    }

    /// Readies the request for what its limits have said is left to do.
    #[inline]
    pub(super) fn prepare_for<B>(&mut self, after: After, request: &mut Request<B>) {
        if after.reads_usage {
            self.read_usage(request.extensions_mut());
        }
        (self.outlasts_head, self.settles) = (after.outlasts_head, after.settles);
        if after.outlasts_head {
            self.upgrade = Upgrade::of(request);
        }
    }

    #[inline(never)]
    fn read_usage(&mut self, extensions: &mut Extensions) {
        let usage = Usage::inside(extensions);
        extensions.insert(usage.clone());
        self.permits.usage = Some(usage);
    }

    /// One was refused after waiting.
    pub(super) fn refused(&mut self, denied: &Denied) {
        let note = Note::Refused(denied);
        self.permits
            .shared
            .limits
            .note(&note, &mut self.permits.held);
    }

    /// The head of the response is there. If anything is to be held until the body ends, returns what is known of the
    /// body; otherwise all is returned.
    #[inline(always)]
    pub(super) fn answered<R: Body>(&mut self, response: &mut Response<R>) -> Option<Ahead> {
        if response.extensions().get::<Refused>().is_some() {
            self.refused_inside(response);
            return None;
        }
        let Shared {
            limits,
            answering,
            settings,
        } = &*self.permits.shared;
        let head = ResponseHead::of(response);
        if self.settles {
            limits.settle(&Done::Answered(head), &mut self.permits.held);
        }
        let outcome = match &settings.classify {
            _ if !self.outlasts_head => None,
            Some(classify) => Some(classify(head)),
            None => outcome_of(head),
        };
        if self.permits.shared.describes() {
            answering.describe(limits, &self.permits.held, response.headers_mut());
        }
        if !self.outlasts_head {
            // A rate has nothing to learn, and nothing to return: whatever comes after changes nothing.
            self.permits.ended = true;
            return None;
        }
        let said = outcome.unwrap_or(Outcome::Ignore);
        if !settings.until_head {
            let upgraded = match &self.upgrade {
                Some(upgrade) => upgrade.is_done(response.status()),
                None => upgrade::comes_with(response.status(), response.extensions()),
            };
            if upgraded {
                return Some(Ahead::Connection);
            }
        }
        if response.body().is_end_stream() {
            self.permits.end(said, true);
            return None;
        }
        if settings.until_head && !limits.settle(&Done::UntilHead(said), &mut self.permits.held) {
            self.permits.ended = true;
            return None;
        }
        let web = match outcome {
            Some(_) => None,
            None => reader_of(response.headers()),
        };
        Some(Ahead::Body {
            outcome,
            length: length(response),
            web,
        })
    }

    /// Holds everything until the connection ends that this response leaves.
    #[cold]
    pub(super) fn upgraded<R>(mut self, response: &mut Response<R>) {
        match self.upgrade.take() {
            Some(upgrade) => upgrade.hold(self.permits),
            None => upgrade::hold_by_response(response.extensions_mut(), self.permits),
        }
    }

    /// A limit further in has refused. What is to be returned goes at once, not when the refusal has been sent, and
    /// nothing is learned from it: the work was not done.
    #[cold]
    fn refused_inside<R>(&mut self, response: &Response<R>) {
        self.permits.ended = true;
        let done = Done::RefusedInside {
            head: ResponseHead::of(response),
            usage: self.permits.usage.as_ref(),
        };
        self.permits
            .shared
            .limits
            .settle(&done, &mut self.permits.held);
    }
}

/// The part of a response after its head.
pub(super) enum Ahead {
    /// A connection that is no longer HTTP.
    Connection,
    Body {
        /// The outcome, if the head determines it.
        outcome: Option<Outcome>,
        /// The length of the body; `u64::MAX` if it is unknown.
        length: u64,
        /// Reads the body for what it says about the load, if it does.
        web: Option<Box<Reader>>,
    },
}

/// Reads a body that ends with what the head does not say.
#[cold]
fn reader_of(headers: &HeaderMap) -> Option<Box<Reader>> {
    match grpc_of(headers)? {
        Grpc::Web { is_text } => Some(Box::new(Reader::new(is_text))),
        Grpc::Plain => None,
    }
}

/// The length of the body; `u64::MAX` if it is unknown.
fn length<R: Body>(response: &Response<R>) -> u64 {
    let announced = || response.headers().get(CONTENT_LENGTH)?.to_str().ok();
    let exact = response.body().size_hint().exact();
    exact
        .or_else(|| announced()?.parse().ok())
        .unwrap_or(u64::MAX)
}
