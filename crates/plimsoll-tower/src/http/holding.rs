use std::sync::Arc;

use http::HeaderMap;
use plimsoll::Outcome;

use super::limits::Limits;
use super::settle::{Done, ResponseHead, Usage};
use super::shared::Shared;

/// What a request holds of its limits, from the moment it is admitted until its response has ended, whichever way.
pub(super) struct Holding<L: Limits> {
    shared: Arc<Shared<L>>,
    held: L::Held,
    usage: Option<Usage>,
    /// How much of the body has been sent.
    bytes: u64,
    ended: bool,
}

impl<L: Limits> Holding<L> {
    #[inline]
    pub(super) const fn new(shared: Arc<Shared<L>>, held: L::Held, usage: Option<Usage>) -> Self {
        Self {
            shared,
            held,
            usage,
            bytes: 0,
            ended: false,
        }
    }

    pub(super) const fn shared(&self) -> &Arc<Shared<L>> {
        &self.shared
    }

    /// So much more of the body is sent.
    pub(super) const fn sent(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The head of the response is there. Returns what it says about the load, if it does.
    #[inline]
    pub(super) fn answered(&mut self, head: ResponseHead<'_>) -> Option<Outcome> {
        self.shared
            .limits
            .settle(&Done::Answered(head), &mut self.held);
        self.shared.classify(head)
    }

    /// Tells the caller what is left.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        let Shared {
            limits, answering, ..
        } = &*self.shared;
        answering.tell(limits, &self.held, headers);
    }

    /// As if it had never been admitted.
    pub(super) fn undo(mut self) {
        self.ended = true;
        self.shared.limits.undo(&mut self.held);
    }

    /// Gives everything back, and charges what is known only now.
    #[inline]
    pub(super) fn end(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    #[inline]
    fn give_back(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let done = Done::Sent {
            bytes: self.bytes,
            usage: self.usage.as_ref(),
        };
        self.shared.limits.settle(&done, &mut self.held);
        self.shared.limits.finish(&mut self.held, outcome);
    }
}

/// Nobody wants it any more: the caller has hung up, or something panicked.
impl<L: Limits> Drop for Holding<L> {
    #[inline]
    fn drop(&mut self) {
        self.give_back(Outcome::Ignore);
    }
}
