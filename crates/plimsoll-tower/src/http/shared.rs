use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, Response};
use plimsoll::{Denied, Outcome, Priority};

use super::answering::{Answering, SendFields};
use super::body::LimitBody;
use super::limits::{Admission, Limits, ask_all};
use super::outcome::outcome_of;
use super::settle::ResponseHead;
use super::usage::Usage;
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
    #[inline]
    pub(super) fn priority(&self, head: &Head<'_>) -> Priority {
        let from = self.settings.priority.as_ref();
        from.map_or(Priority::Normal, |from| from.priority(head))
    }

    #[inline(always)]
    pub(super) fn ask(&self, head: &Head<'_>, priority: Priority, held: &mut L::Held) -> Admission {
        let admission = ask_all(&self.limits, head, priority, held);
        if let (Admission::Admitted, Some(hook)) = (&admission, &self.answering.on_admitted) {
            hook(head);
        }
        admission
    }

    /// What the request carries to where it is handled.
    #[inline]
    pub(super) fn prepare(&self, held: &L::Held, extensions: &mut Extensions) -> Option<Usage> {
        self.limits.prepare(held, extensions).then(|| {
            let usage = Usage::inside(extensions);
            extensions.insert(usage.clone());
            usage
        })
    }

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

    pub(super) fn tells_always(&self) -> bool {
        self.answering.send_fields == SendFields::Always
    }

    /// What a response says about the load; `None` if that is not known before its trailers.
    pub(super) fn classify(&self, head: ResponseHead<'_>) -> Option<Outcome> {
        match &self.settings.classify {
            Some(classify) => Some(classify(head)),
            None => outcome_of(head),
        }
    }
}
