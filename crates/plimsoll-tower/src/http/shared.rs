use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use plimsoll::{Denied, Outcome, Priority};

use super::all::{Admission, Pending, WaitForAll, refused_together};
use super::answering::{Answering, SendFields};
use super::limits::{Ask, How, Limits};
use super::settle::ResponseHead;
use crate::{Head, PriorityFrom};

/// The state that all services made by one layer share.
pub(super) struct Shared<L> {
    pub(super) limits: L,
    pub(super) answering: Answering,
    pub(super) settings: Settings,
}

pub(super) type OutcomeOf = Arc<dyn Fn(ResponseHead<'_>) -> Outcome + Send + Sync>;

/// The settings for reading requests and responses.
#[derive(Clone, Default)]
pub(super) struct Settings {
    pub(super) priority: Option<Arc<dyn PriorityFrom>>,
    pub(super) classify: Option<OutcomeOf>,
    /// Whether permits are returned with the head of the response.
    pub(super) until_head: bool,
    /// The maximum time that a body may stay unread.
    pub(super) stall: Option<Duration>,
}

impl<L: Limits> Shared<L> {
    /// The priority of a request.
    #[inline]
    pub(super) fn priority(&self, head: &Head<'_>) -> Priority {
        let from = self.settings.priority.as_ref();
        from.map_or(Priority::Normal, |from| from.priority(head))
    }

    /// Whether responses to admitted requests describe the status of the limits.
    #[inline]
    pub(super) fn describes(&self) -> bool {
        self.answering.send_fields == SendFields::Always
    }

    /// Asks all limits in order, except those that have already granted.
    ///
    /// A request that is refused, or has to wait in a queue, holds no permits of the other limits. While a store is
    /// asked, which takes a short time, the others are held; otherwise two stores would be asked again and again
    /// because of each other.
    #[inline(always)]
    pub(super) fn ask(&self, head: &Head<'_>, priority: Priority, held: &mut L::Held) -> Admission {
        let limits = &self.limits;
        let alone = L::COUNT == 1;
        let how = How::Take {
            priority,
            alone,
            described: self.describes(),
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
        if let Some(hook) = &self.answering.on_admitted {
            hook(head);
        }
        Admission::Admitted
    }

    /// The response to a request that the limit with this index has refused.
    pub(super) fn refuse(&self, index: usize, head: &Head<'_>, denied: Denied) -> Response<Bytes> {
        let answering = self.answering.for_request(head);
        answering.refuse(&self.limits, index, head, denied)
    }
}
