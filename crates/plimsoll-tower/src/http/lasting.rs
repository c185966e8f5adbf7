//! The permits of a request while the body of its response is sent.

use std::pin::Pin;

use bytes::Buf;
use http_body::{Body, Frame};
use plimsoll::Outcome;

use super::grpc_web::Reader;
use super::held_permits::HeldPermits;
use super::limits::Limits;
use super::outcome::outcome_of_trailers;

/// The permits that are held until a body has ended, and the facts known about the body.
pub(super) struct Lasting<L: Limits> {
    pub(super) permits: HeldPermits<L>,
    /// The outcome, if the head of the response determined it.
    pub(super) outcome: Option<Outcome>,
    /// The length of the body; `u64::MAX` if it is unknown.
    pub(super) length: u64,
    /// Reads the outcome from the body, if it is gRPC-Web.
    pub(super) web: Option<Box<Reader>>,
}

impl<L: Limits> Lasting<L> {
    /// Whether this is the last part of the body. Servers drop a body after its trailers, or when its whole length has
    /// been sent, without polling it to the end.
    pub(super) fn sees<B: Body>(
        &mut self,
        frame: &Option<Result<Frame<B::Data>, B::Error>>,
        body: &Pin<&mut B>,
    ) -> bool {
        let Some(Ok(frame)) = frame else {
            return true;
        };
        if let Some(trailers) = frame.trailers_ref() {
            self.outcome = self.outcome.or(Some(outcome_of_trailers(trailers)));
            return true;
        }
        if L::READS_BODIES
            && let Some(data) = frame.data_ref()
        {
            self.permits.see_body(data);
        }
        let sent = frame.data_ref().map_or(0, |data| data.remaining() as u64);
        self.permits.bytes = self.permits.bytes.saturating_add(sent);
        let complete = self.permits.bytes >= self.length;
        if let (Some(web), Some(data)) = (&mut self.web, frame.data_ref()) {
            self.outcome = self.outcome.or(web.read(data));
        }
        // If the head says nothing about the load, the trailers do, unless they are in the body.
        (complete && (self.outcome.is_some() || self.web.is_some())) || body.is_end_stream()
    }
}
