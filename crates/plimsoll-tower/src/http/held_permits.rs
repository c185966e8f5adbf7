//! The permits that a request holds from its admission until its response has ended, failed or been dropped.

use std::sync::Arc;

use bytes::Buf;
use plimsoll::Outcome;

use super::copy::copy;
use super::limits::Limits;
use super::settle::Done;
use super::shared::Shared;
use super::usage::Usage;

/// The permits of a request, which are returned when it has ended or is dropped.
pub(super) struct HeldPermits<L: Limits> {
    pub(super) shared: Arc<Shared<L>>,
    pub(super) held: L::Held,
    pub(super) usage: Option<Usage>,
    /// The number of bytes of the body that were sent.
    pub(super) bytes: u64,
    pub(super) ended: bool,
}

impl<L: Limits> HeldPermits<L> {
    /// Passes a part of the body to limits that [read it](Limits::READS_BODIES).
    pub(super) fn see_body(&mut self, data: &impl Buf) {
        let copy = |into: &mut Vec<u8>| copy(data, into);
        let limits = &self.shared.limits;
        limits.see_body(&mut self.held, data.remaining(), &copy);
    }

    /// Undoes the grants, as if the request had never been admitted.
    pub(super) fn undo(&mut self) {
        self.ended = true;
        self.shared.limits.undo(&mut self.held);
    }

    /// Ends the response: returns everything, and charges costs that are known only now. If it is not `complete`, the
    /// caller has disconnected, or something has failed.
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

/// Dropped before its end: the caller has disconnected, or something panicked.
impl<L: Limits> Drop for HeldPermits<L> {
    #[inline]
    fn drop(&mut self) {
        self.end(Outcome::Ignore, false);
    }
}
