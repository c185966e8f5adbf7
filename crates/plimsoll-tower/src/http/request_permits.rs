use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use http::header::CONTENT_LENGTH;
use http::{Extensions, HeaderMap, Request, Response};
use http_body::Body;
use plimsoll::{Denied, Outcome, Permit, Priority};

use super::all::{WaitForAll, refused_together};
use super::answering::{Refused, SendFields};
use super::copy::copy;
use super::grpc_web::Reader;
use super::limits::{Admission, Ask, How, Limits, Note, Pending};
use super::outcome::{Grpc, grpc_of, outcome_of};
use super::settle::{Done, ResponseHead};
use super::shared::Shared;
use super::upgrade::{self, Upgrade};
use super::usage::Usage;
use crate::Head;

/// What a request holds of its limits, from the moment it is admitted until its response has ended, whichever way.
pub(super) struct RequestPermits<L: Limits> {
    shared: Arc<Shared<L>>,
    held: L::Held,
    usage: Option<Usage>,
    /// How much of the body has been sent.
    pub(super) bytes: u64,
    priority: Priority,
    /// Whether anything is left to do when the head of the response is there.
    outlasts_head: bool,
    /// Whether anything is charged by what the response says.
    settles: bool,
    ended: bool,
    /// The upgrade that the request asks for, if it does and is to hold anything while that lasts.
    upgrade: Option<Upgrade<L>>,
}

impl<L: Limits> RequestPermits<L> {
    #[inline]
    pub(super) fn new(shared: Arc<Shared<L>>, head: &Head<'_>) -> Self {
        let from = shared.settings.priority.as_ref();
        let priority = from.map_or(Priority::Normal, |from| from.priority(head));
        Self {
            shared,
            held: L::Held::default(),
            usage: None,
            bytes: 0,
            priority,
            outlasts_head: false,
            settles: false,
            ended: false,
            upgrade: None,
        }
    }

    pub(super) const fn shared(&self) -> &Arc<Shared<L>> {
        &self.shared
    }

    /// Asks all limits in order, but those that have granted already.
    ///
    /// A request that is refused, or has to wait in a queue, holds nothing of the others. A store answers soon: meanwhile
    /// the others are held, or two stores would be asked again for each other for ever.
    #[inline(always)]
    pub(super) fn ask(&mut self, head: &Head<'_>) -> Admission {
        let (limits, held, priority) = (&self.shared.limits, &mut self.held, self.priority);
        let alone = L::COUNT == 1;
        let told = self.shared.answering.send_fields == SendFields::Always;
        let how = How::Take {
            priority,
            alone,
            told,
        };
        for index in 0..L::COUNT {
            let answer = match limits.ask(index, head, how, held) {
                Ask::Pass => continue,
                Ask::Store(acquire) => return Admission::Wait(Pending::One(index, acquire)),
                Ask::Refused(denied) => {
                    limits.undo(held);
                    return match alone {
                        true => Admission::Refused(index, denied),
                        false => refused_together(limits, head, priority, held, (index, denied)),
                    };
                }
                Ask::WaitAlone(acquire) => Admission::Wait(Pending::One(index, acquire)),
                Ask::FindKey(finding) => Admission::Wait(Pending::Key(index, finding)),
                Ask::Wait => {
                    limits.undo(held);
                    return WaitForAll::start(limits, head, priority, held);
                }
            };
            limits.undo(held);
            return answer;
        }
        if let Some(hook) = &self.shared.answering.on_admitted {
            hook(head);
        }
        Admission::Admitted
    }

    /// Polls a request that waits for all limits.
    pub(super) fn poll_all(
        &mut self,
        all: &mut WaitForAll,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), (usize, Denied)>> {
        all.poll(&self.shared.limits, &mut self.held, cx)
    }

    /// How long a request has waited for all limits.
    pub(super) fn waited_for(&self, all: &WaitForAll) -> Duration {
        all.waited(&self.shared.limits, &self.held)
    }

    /// Gives up waiting for all limits.
    pub(super) fn cancel(&self, all: WaitForAll) {
        all.cancel(&self.shared.limits, &self.held);
    }

    /// Keeps what was granted after waiting, and asks the others again: they may have changed their minds meanwhile.
    pub(super) fn granted(
        &mut self,
        index: usize,
        permit: Permit<'static>,
        head: &Head<'_>,
    ) -> Admission {
        self.shared.limits.granted(index, permit, &mut self.held);
        self.ask(head)
    }

    /// Readies the request for where it is handled.
    #[inline(always)]
    pub(super) fn prepare<B>(&mut self, request: &mut Request<B>) {
        let extensions = request.extensions_mut();
        let after = self.shared.limits.prepare(&self.held, extensions);
        if after.reads_usage {
            self.read_usage(extensions);
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
        self.usage = Some(usage);
    }

    /// One was refused after waiting.
    pub(super) fn refused(&mut self, denied: &Denied) {
        let note = Note::Refused(denied);
        self.shared.limits.note(&note, &mut self.held);
    }

    /// A part of the body passes, for limits that [look at it](Limits::READS_BODIES).
    pub(super) fn see_body(&mut self, data: &impl Buf) {
        let copy = |into: &mut Vec<u8>| copy(data, into);
        self.shared
            .limits
            .see_body(&mut self.held, data.remaining(), &copy);
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
        } = &*self.shared;
        let head = ResponseHead::of(response);
        if self.settles {
            limits.settle(&Done::Answered(head), &mut self.held);
        }
        let outcome = match &settings.classify {
            _ if !self.outlasts_head => None,
            Some(classify) => Some(classify(head)),
            None => outcome_of(head),
        };
        if answering.send_fields == SendFields::Always {
            answering.tell(limits, &self.held, response.headers_mut());
        }
        if !self.outlasts_head {
            // A rate has nothing to learn, and nothing to return: whatever comes after changes nothing.
            self.ended = true;
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
            self.end(said, true);
            return None;
        }
        if settings.until_head && !limits.settle(&Done::UntilHead(said), &mut self.held) {
            self.ended = true;
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
            Some(upgrade) => upgrade.hold(self),
            None => upgrade::hold_by_response(response.extensions_mut(), self),
        }
    }

    /// A limit further in has refused. What is to be returned goes at once, not when the refusal has been sent, and
    /// nothing is learned from it: the work was not done.
    #[cold]
    fn refused_inside<R>(&mut self, response: &Response<R>) {
        self.ended = true;
        let done = Done::RefusedInside {
            head: ResponseHead::of(response),
            usage: self.usage.as_ref(),
        };
        self.shared.limits.settle(&done, &mut self.held);
    }

    /// As if it had never been admitted.
    pub(super) fn undo(&mut self) {
        self.ended = true;
        self.shared.limits.undo(&mut self.held);
    }

    /// The response has ended: returns everything, and charges what is known only now. If it is not `complete` the caller
    /// has hung up, or something has failed.
    #[inline]
    pub(super) fn end(&mut self, outcome: Outcome, complete: bool) {
        if !std::mem::replace(&mut self.ended, true) {
            let done = Done::Sent {
                bytes: self.bytes,
                usage: self.usage.as_ref(),
                complete,
                outcome,
            };
            self.shared.limits.settle(&done, &mut self.held);
        }
    }
}

/// What is to come after the head of a response.
pub(super) enum Ahead {
    /// A connection that is no longer HTTP.
    Connection,
    Body {
        /// What the head says about the load, if it does.
        outcome: Option<Outcome>,
        /// How long the body is; endless if that is not known.
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

/// Nobody wants it any more: the caller has hung up, or something panicked.
impl<L: Limits> Drop for RequestPermits<L> {
    #[inline]
    fn drop(&mut self) {
        self.end(Outcome::Ignore, false);
    }
}

/// How long the body is; endless if that is not known.
fn length<R: Body>(response: &Response<R>) -> u64 {
    let announced = || response.headers().get(CONTENT_LENGTH)?.to_str().ok();
    let exact = response.body().size_hint().exact();
    exact
        .or_else(|| announced()?.parse().ok())
        .unwrap_or(u64::MAX)
}
