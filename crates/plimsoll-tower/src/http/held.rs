//! What is held of one limit, and what is done with it.

use plimsoll::{Outcome, Permit, Priority, Standing};

use super::limit::RequestLimit;
use super::limits::{Ask, Limits, sealed};
use super::settle::{Done, Settle};
use super::whose::{Found, Whose};
use crate::Head;
use crate::answer::{Notice, Unit};

/// What is held of a limit while a request is worked on.
#[doc(hidden)]
#[derive(Debug)]
pub struct Held<K> {
    permit: Option<Permit<'static>>,
    /// Whose limit it is.
    key: Option<K>,
}

impl<K> Default for Held<K> {
    fn default() -> Self {
        Self {
            permit: None,
            key: None,
        }
    }
}

impl<L, W> sealed::Sealed for RequestLimit<L, W> {}

impl<L, W> Limits for RequestLimit<L, W>
where
    L: Send + Sync + 'static,
    W: Whose<L>,
{
    type Held = Held<W::Kept>;
    const COUNT: usize = 1;

    #[inline]
    fn ask(
        &self,
        _index: usize,
        head: &Head<'_>,
        priority: Priority,
        held: &mut Self::Held,
    ) -> Ask {
        let once = self.options.once.as_ref();
        if once.is_some_and(|once| once.has_charged(head.extensions())) {
            return Ask::Pass;
        }
        let demand = self.options.demand(head).priority(priority);
        match self.whose.ask(&self.limiter, head, demand) {
            Found::Nobody => Ask::Pass,
            Found::Granted(permit, key) => {
                *held = Held {
                    permit: Some(permit),
                    key,
                };
                Ask::Pass
            }
            Found::Refused(denied) => Ask::Refused(denied),
            Found::Wait(acquire, key) => {
                held.key = key;
                Ask::Wait(acquire)
            }
        }
    }

    fn granted(&self, _index: usize, permit: Permit<'static>, held: &mut Self::Held) {
        held.permit = Some(permit);
    }

    fn undo(&self, held: &mut Self::Held) {
        // The key stays: it may be that of one who waits.
        if let Some(permit) = held.permit.take() {
            self.whose.undo(&self.limiter, held.key.as_ref(), permit);
        }
    }

    fn settle(&self, done: &Done<'_>, held: &mut Self::Held) {
        if matches!(self.options.settle, Settle::Never) {
            return;
        }
        let (Some(cost), Some(permit)) = (self.options.settle.cost(done), &mut held.permit) else {
            return;
        };
        let taken = permit.cost();
        let key = held.key.as_ref();
        if cost > taken {
            self.whose.charge(&self.limiter, key, cost - taken);
        } else if let Some(rest) = permit.split(taken - cost) {
            self.whose.undo(&self.limiter, key, rest);
        }
    }

    #[inline]
    fn finish(&self, held: &mut Self::Held, outcome: Outcome) {
        if let Some(permit) = held.permit.take() {
            permit.finish(outcome);
        }
    }

    fn tell<'a>(&'a self, held: &Self::Held, see: &mut dyn FnMut(Notice<'a>)) {
        let Some(permit) = &held.permit else {
            return;
        };
        let known = permit.standing();
        let standing = known.or_else(|| self.whose.standing(&self.limiter, held.key.as_ref()));
        if let Some(standing) = standing {
            see(self.notice(0, standing));
        }
    }

    fn notice(&self, _index: usize, standing: Standing) -> Notice<'_> {
        let name = self.whose.name(&self.limiter).unwrap_or(Notice::UNNAMED);
        let notice = Notice::new(name, self.whose.terms(&self.limiter), standing);
        match self.options.settle {
            Settle::ByBytes(_) => notice.unit(Unit::ContentBytes),
            _ => notice,
        }
    }

    fn mark(&self, extensions: &mut http::Extensions) {
        if let Some(once) = &self.options.once {
            once.mark(extensions);
        }
    }

    fn reads_usage(&self) -> bool {
        matches!(self.options.settle, Settle::ByUsage)
    }
}
