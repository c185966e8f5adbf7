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

/// The permits of a request, from its arrival until the head of its response.
pub(super) struct RequestPermits<L: Limits> {
    permits: HeldPermits<L>,
    priority: Priority,
    /// Whether anything is left to do after the head of the response.
    outlasts_head: bool,
    /// Whether any charge depends on the response.
    settles: bool,
    /// The upgrade that the request asks for, if any, and if the request holds permits while it lasts.
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

    /// Converts it into the permits that are held while the body of the response is sent.
    pub(super) fn into_held(self) -> HeldPermits<L> {
        self.permits
    }

    /// Undoes the grants, as if the request had never been admitted.
    pub(super) fn undo(&mut self) {
        self.permits.undo();
    }

    /// Asks all limits in order, except those that have already granted.
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

    /// Cancels the wait for all limits.
    pub(super) fn cancel(&self, all: WaitForAll) {
        all.cancel(&self.permits.shared.limits, &self.permits.held);
    }

    /// Stores a permit that was granted after waiting, and asks the other limits again, because their state may have
    /// changed.
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

    /// Prepares the request for its handler.
    pub(super) fn prepare<B>(&mut self, request: &mut Request<B>) {
        let limits = &self.permits.shared.limits;
        let after = limits.prepare(&self.permits.held, request.extensions_mut());
        self.prepare_for(after, request);
    }

    /// Prepares the request for the steps that its limits have left.
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

    /// Records a refusal after waiting.
    pub(super) fn refused(&mut self, denied: &Denied) {
        let note = Note::Refused(denied);
        self.permits
            .shared
            .limits
            .note(&note, &mut self.permits.held);
    }

    /// Handles the head of the response. If anything is held until the body ends, returns what is known of the body;
    /// otherwise returns all permits.
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
            // A rate learns nothing and returns nothing, so nothing is left to do.
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

    /// Holds everything until the upgraded connection of this response ends.
    #[cold]
    pub(super) fn upgraded<R>(mut self, response: &mut Response<R>) {
        match self.upgrade.take() {
            Some(upgrade) => upgrade.hold(self.permits),
            None => upgrade::hold_by_response(response.extensions_mut(), self.permits),
        }
    }

    /// Handles a refusal by an inner limit. Permits are returned at once, not when the refusal has been sent, and
    /// adaptive limits learn nothing, because the work was not done.
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
        /// Reads the outcome from the body, if it is there.
        web: Option<Box<Reader>>,
    },
}

/// The reader of a body that contains the status which the head lacks.
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
