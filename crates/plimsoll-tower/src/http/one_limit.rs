//! One limit as the limits of a layer.

use plimsoll::{Demand, Denied, Moment, Permit, Priority, Standing};

use super::granted::Granted;
use super::limit::RequestLimit;
use super::limits::{After, Ask, Asked, How, Limits, OneLimit, sealed};
use super::settle::{Done, Settle};
use super::subject::{Subject, Take};
use crate::answer::{Class, LimitStatus, Unit};
use crate::{GrantMetadata, Head, Leases};

impl<L, W> sealed::Sealed for RequestLimit<L, W> {}

impl<L, W> Limits for RequestLimit<L, W>
where
    L: Send + Sync + 'static,
    W: Subject<L>,
{
    type Held = Granted<W::Key>;
    const COUNT: usize = 1;

    // Always inlined: otherwise each nested layer would copy the result of the one inside.
    #[inline(always)]
    fn ask(&self, _index: usize, head: &Head<'_>, how: How, held: &mut Self::Held) -> Ask {
        let once = self.options.once.as_ref();
        if held.permit.is_some()
            || held.described
            || once.is_some_and(|once| once.has_charged(head.extensions()))
        {
            return Ask::Pass;
        }
        let take = match how {
            How::Take {
                priority,
                alone,
                described,
            } => {
                let demand = self.options.demand(head).priority(priority);
                // It is then never undone or settled.
                let is_final = alone
                    && self.options.are_final()
                    && self.subject.metadata(&self.limiter).is_none();
                Some(Take {
                    demand,
                    alone,
                    is_final,
                    described,
                })
            }
            How::Prepare => None,
        };
        self.subject.ask(&self.limiter, head, take, held)
    }

    fn at(&self, _index: usize) -> &dyn OneLimit {
        self
    }

    fn asked<'a>(&'a self, held: &'a Self::Held, see: &mut dyn FnMut(Asked<'a>)) {
        see(self.subject.asked(&self.limiter, held.key.as_ref()));
    }

    fn granted(&self, _index: usize, permit: Permit<'static>, held: &mut Self::Held) {
        held.permit = Some(permit);
    }

    fn undo(&self, held: &mut Self::Held) {
        // The key stays: the request may be waiting with it.
        if let Some(permit) = held.permit.take() {
            self.subject.undo(&self.limiter, held.key.as_ref(), permit);
        }
    }

    #[inline]
    fn settle(&self, done: &Done<'_>, held: &mut Self::Held) -> bool {
        let settle = &self.options.settle;
        if self.options.refunds_refused && matches!(done, Done::RefusedInside { .. }) {
            self.undo(held);
        }
        let Some(permit) = &mut held.permit else {
            return false;
        };
        if !matches!(settle, Settle::Never)
            && let Some(cost) = settle.cost(done, permit.cost())
        {
            let key = held.key.as_ref();
            self.subject.settle(&self.limiter, key, permit, cost);
        }
        let outcome = match done {
            Done::UntilHead(outcome) if !settle.reads_body() => Some(*outcome),
            _ => done.outcome(),
        };
        let Some(outcome) = outcome else {
            return true;
        };
        permit.give_back(outcome);
        false
    }

    fn describe<'a>(&'a self, held: &'a Self::Held, see: &mut dyn FnMut(LimitStatus<'a>)) {
        let permit = held.permit.as_ref();
        if permit.is_none() && !held.described {
            return;
        }
        if let Some(standing) = permit.and_then(Permit::standing) {
            see(self.status_with(standing));
        } else if let Some(standing) = self.subject.standing(&self.limiter, held.key.as_ref())
            && standing.remaining.is_some()
        {
            see(self.status_with(standing));
        }
    }

    #[inline(always)]
    fn prepare(&self, held: &Self::Held, extensions: &mut http::Extensions) -> After {
        // A limit that was skipped has charged nothing, and an inner layer may find a key.
        let skipped = |permit: &Permit<'_>| permit.is_spent() && permit.cost() == 0;
        if let Some(once) = &self.options.once
            && held.permit.as_ref().is_some_and(|permit| !skipped(permit))
        {
            once.mark(extensions);
        }
        if let Some(permit) = &held.permit {
            Leases::add(permit, extensions);
            if let Some(metadata) = self.subject.metadata(&self.limiter) {
                let name = self.subject.name(&self.limiter).unwrap_or_default();
                GrantMetadata::add(name, metadata, extensions);
            }
        }
        let gives_back = held.permit.as_ref().is_some_and(Permit::gives_back);
        let settles = !matches!(self.options.settle, Settle::Never);
        After {
            reads_usage: matches!(self.options.settle, Settle::ByUsage),
            outlasts_head: gives_back || settles,
            // A refusal by an inner limit is refunded when its response arrives.
            settles: settles || self.options.refunds_refused,
        }
    }
}

impl<L, W> OneLimit for RequestLimit<L, W>
where
    L: Send + Sync + 'static,
    W: Subject<L>,
{
    fn demand(&self, head: &Head<'_>, priority: Priority) -> Option<Demand> {
        let once = self.options.once.as_ref();
        let charged = once.is_some_and(|once| once.has_charged(head.extensions()));
        (!charged).then(|| self.options.demand(head).priority(priority))
    }

    fn status(&self, standing: Standing) -> LimitStatus<'_> {
        let promise = self.subject.promise(&self.limiter);
        self.status_with(
            promise
                .remaining(standing.remaining)
                .more_after(standing.more_after)
                .reset(standing.reset),
        )
    }

    fn class(&self, head: &Head<'_>, denied: &Denied) -> Class {
        self.subject.class(head, denied)
    }

    fn missing(&self, head: &Head<'_>) -> Option<&'static str> {
        self.subject.missing(head)
    }

    fn now(&self) -> Moment {
        self.subject.now(&self.limiter)
    }
}

impl<L, W: Subject<L>> RequestLimit<L, W> {
    fn status_with(&self, standing: Standing) -> LimitStatus<'_> {
        let name = self
            .subject
            .name(&self.limiter)
            .unwrap_or(LimitStatus::UNNAMED);
        let status = LimitStatus::new(name, standing);
        match self.options.settle {
            Settle::ByBytes(_) => status.unit(Unit::ContentBytes),
            _ => status,
        }
    }
}
