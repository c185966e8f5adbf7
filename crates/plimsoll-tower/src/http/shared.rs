use std::sync::Arc;
use std::time::Duration;

use http::Response;
use plimsoll::{Denied, Outcome};

use super::answering::Answering;
use super::body::LimitBody;
use super::limits::Limits;
use super::settle::ResponseHead;
use crate::{Head, PriorityFrom};

/// What all services made by one layer share.
pub(super) struct Shared<L> {
    pub(super) limits: L,
    pub(super) answering: Answering,
    pub(super) settings: Settings,
}

pub(super) type OutcomeOf = Arc<dyn Fn(ResponseHead<'_>) -> Outcome + Send + Sync>;

/// What says how requests and responses are read.
#[derive(Clone, Default)]
pub(super) struct Settings {
    pub(super) priority: Option<Arc<dyn PriorityFrom>>,
    pub(super) classify: Option<OutcomeOf>,
    /// Whether permits go back with the head of the response.
    pub(super) until_head: bool,
    /// How long a body may go unread.
    pub(super) stall: Option<Duration>,
}

impl<L: Limits> Shared<L> {
    pub(super) fn refuse<B>(
        &self,
        index: usize,
        head: &Head<'_>,
        denied: Denied,
    ) -> Response<LimitBody<B, L>> {
        let answering = self.answering.for_request(head);
        let refusal = answering.refuse(&self.limits, index, head, denied);
        refusal.map(LimitBody::<B, L>::refusal)
    }
}
